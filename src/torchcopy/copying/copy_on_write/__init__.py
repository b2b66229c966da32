"""Copy-on-write: lazy clones, and what makes them safe across threads."""
