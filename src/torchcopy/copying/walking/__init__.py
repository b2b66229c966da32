"""The walk through an object: what `copy.deepcopy` does, with the tensors left to be copied together."""
