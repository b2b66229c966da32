"""CHECK: a running program. Copies that are missing, and copies that were never needed, by source line."""
