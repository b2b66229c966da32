"""What stands between a program and PyTorch while an audit runs: a mode and patches that see, and hide well."""
