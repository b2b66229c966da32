"""MAKE: one copy for everything in PyTorch, at the speed of memory."""
