"""The files here are programs, run by `test_audit_clean_programs.py`: nothing is collected from them."""

collect_ignore_glob = ["*.py"]
