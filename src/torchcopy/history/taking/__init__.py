"""How the bytes of a snapshot are taken: at once, at the first write, or in the background."""
