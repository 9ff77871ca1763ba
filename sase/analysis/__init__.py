"""What a run or its events tell on the driver: statistics for the optimiser, and the stages of a run."""
