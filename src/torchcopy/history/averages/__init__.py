"""Means of weights: of several states, and a moving one."""
