"""Snapshots and histories as files: safetensors for tensors, JSON for everything else."""
