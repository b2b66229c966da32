"""Which line of the program did it, and what the program calls a tensor there."""
