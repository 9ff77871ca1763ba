"""The texts that generated jobs are made from. Templates get finished strings and loops, no logic."""
