"""Where weights go: what trains them, and where their states are kept, loaded and saved."""
