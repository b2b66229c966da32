"""What still leads from a copy to its source, and the paths to it."""
