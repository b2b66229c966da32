"""Into what exists: how two structures match, and how their tensors are written."""
