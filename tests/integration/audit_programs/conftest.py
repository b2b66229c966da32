"""The programs of this directory are data, which `test_audit_programs.py` runs; none of them is a test."""

collect_ignore_glob = ["*"]
