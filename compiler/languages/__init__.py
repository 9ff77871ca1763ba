"""One folder for each language: from its text to a bound query, and nothing else."""
