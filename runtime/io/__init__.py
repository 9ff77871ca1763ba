"""Events on the way in, matches on the way out, and what is said about both."""
