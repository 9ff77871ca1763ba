"""The session that all tests share, with ANSI or without it for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def ansi_mode(spark: SparkSession, ansi: bool) -> Iterator[None]:
    """Expressions take the mode in which they are made."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
