"""The parts of a run: how the state of each kind of object is read, compared and written back."""
