"""`torchcopy claims`."""
