"""`torchcopy advise`."""
