"""Measures sase against its peers, the paper's experiments and the project's targets: `python -m benchmarks --help`."""
