"""Jupyter notebooks: where the text of their cells is in the file, what of it is Python, and fixes written back."""
