"""Compiled code that finds sequences. A kernel knows rows, state bits and 64-bit integers, and nothing else."""
