"""`torchcopy bench`."""
