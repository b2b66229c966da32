"""Many tensors at once: what of their memory is copied, to where, and how."""
