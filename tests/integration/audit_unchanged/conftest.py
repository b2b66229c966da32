"""The files here are programs, run by `test_audit_changes_nothing.py`: nothing is collected from them."""

collect_ignore_glob = ["*.py"]
