"""What an object leads to, and the paths through it."""
