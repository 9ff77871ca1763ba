"""Python imports this before all else. Spark's workers find pyspark in an archive first, which has no compiled modules,
and every process compiles them anew: that takes longer than a small query. The installed ones are the same."""

import sys
from importlib.util import find_spec

archived = [entry for entry in sys.path if entry.endswith(".zip") and "/python/lib/py" in entry]
if archived:
    sys.path = [entry for entry in sys.path if entry not in archived]
    if find_spec("pyspark") is None:  # a Python without one
        sys.path = [*archived, *sys.path]
