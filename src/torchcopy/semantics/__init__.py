"""KNOW: what every way to copy does, and how two live tensors are related."""
