"""What is remembered of storages, tensors, streams and other objects, without keeping them alive."""
