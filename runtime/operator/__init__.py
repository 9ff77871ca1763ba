"""In a worker: rows of Arrow in, matches in Arrow out. Nothing here knows of Spark."""
