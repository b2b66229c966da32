"""CHECK: source code, without running it. Nothing here imports torch: a check starts in an instant."""
