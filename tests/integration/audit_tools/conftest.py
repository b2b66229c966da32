"""What the programs of the audit tests import, in processes of their own: nothing is collected from it."""

collect_ignore_glob = ["*.py"]
