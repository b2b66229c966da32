"""Where losses go: what `backward()` is called on, and what keeps them with their graphs."""
