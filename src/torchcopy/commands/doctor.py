"""`torchcopy doctor`."""
