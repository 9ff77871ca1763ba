"""From the text of a query to the text of a PySpark job; needs neither Spark nor a JVM."""
