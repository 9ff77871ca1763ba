"""`%%sase`: queries in a notebook's cells, on the session's own SparkSession."""
