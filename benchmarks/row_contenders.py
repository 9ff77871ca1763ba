"""The same questions of rows, as different people ask them: MATCH_RECOGNIZE, window functions of Spark SQL, and Python.

Rows have a key `k`, a time `ts` in milliseconds, a `price`, a `page` and a time `until`. Where one has no words for
a question, it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

GAP = 2_300_000
"""Rows of a session are less than this apart: nine of ten, with a thousand keys and a row a second."""

CLAUSES = {
    "V shape": """MEASURES first(ts) AS since, last(DOWN.price) AS bottom, last(ts) AS ended
        AFTER MATCH SKIP TO LAST UP PATTERN (A DOWN+ UP+)
        DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)""",
    "streaks": """MEASURES first(ts) AS since, last(ts) AS ended, count(*) AS n
        PATTERN (A UP{3,}) DEFINE UP AS price > PREV(price)""",
    "sessions": f"""MEASURES first(ts) AS since, last(ts) AS ended, count(*) AS n
        PATTERN (A NEAR*) DEFINE NEAR AS ts - PREV(ts) < {GAP}""",
    "funnel": """MEASURES VIEWED.ts AS since, BOUGHT.ts AS ended
        PATTERN (VIEWED X*? FILLED Y*? BOUGHT)
        DEFINE VIEWED AS page < 5, FILLED AS page = 5, BOUGHT AS page = 6""",
    "merged ranges": """MEASURES first(ts) AS since, max(until) AS ended
        PATTERN (A* B) DEFINE A AS max(A.until) >= NEXT(ts)""",
}
READS = {
    "V shape": ("price",),
    "streaks": ("price",),
    "sessions": (),
    "funnel": ("page",),
    "merged ranges": ("until",),
}
"""Columns beside the key and the time."""


def clause(name: str) -> str:
    return f"SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts {CLAUSES[name]})"


# ---- floor --------------------------------------------------------------------------------------


def floor(spark: SparkSession, name: str) -> DataFrame:
    """What any evaluation on Spark pays: scan, shuffle and sort, and a worker that hands every batch back."""
    rows = spark.table("ticks").select("k", "ts", *READS[name]).repartition("k").sortWithinPartitions("k", "ts")
    return rows.mapInArrow(_identity, rows.schema)


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


# ---- window functions: gaps and islands ---------------------------------------------------------

_W = "WINDOW w AS (PARTITION BY k ORDER BY ts)"
_STEPS = f"""
    steps AS (SELECT k, ts, price, sign(price - lag(price) OVER w) AS s, lag(ts) OVER w AS before FROM ticks {_W}),
    edges AS (SELECT *, CASE WHEN s = lag(s) OVER w THEN 0 ELSE 1 END AS e FROM steps {_W}),
    islands AS (SELECT *, sum(e) OVER w AS island FROM edges {_W})"""

WINDOWS = {
    "V shape": f"""WITH {_STEPS},
        runs AS (SELECT k, island, max(s) AS s, min(before) AS since, max(ts) AS ended, max_by(price, ts) AS bottom
                 FROM islands GROUP BY k, island),
        pairs AS (SELECT *, lead(s) OVER w AS next_s, lead(ended) OVER w AS risen FROM runs
                  WINDOW w AS (PARTITION BY k ORDER BY island))
        SELECT k, since, bottom, risen AS ended FROM pairs WHERE s = -1 AND next_s = 1""",
    "streaks": f"""WITH {_STEPS}
        SELECT k, min(before) AS since, max(ts) AS ended, count(*) + 1 AS n FROM islands WHERE s = 1
        GROUP BY k, island HAVING count(*) >= 3""",
    "sessions": f"""WITH
        edges AS (SELECT k, ts, CASE WHEN ts - lag(ts) OVER w < {GAP} THEN 0 ELSE 1 END AS e FROM ticks {_W}),
        islands AS (SELECT *, sum(e) OVER w AS island FROM edges {_W})
        SELECT k, min(ts) AS since, max(ts) AS ended, count(*) AS n FROM islands GROUP BY k, island""",
    "merged ranges": f"""WITH
        reached AS (SELECT k, ts, until, max(until) OVER (PARTITION BY k ORDER BY ts
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS m FROM ticks),
        edges AS (SELECT *, CASE WHEN m >= ts THEN 0 ELSE 1 END AS e FROM reached),
        islands AS (SELECT *, sum(e) OVER w AS island FROM edges {_W})
        SELECT k, min(ts) AS since, max(until) AS ended FROM islands GROUP BY k, island""",
}
"""A funnel goes on behind the last row of a match, and window functions have no words for that."""


# ---- Python, a key at a time --------------------------------------------------------------------

Spans = list[tuple[int, int]]
"""First and last row of each match."""


def by_key(spark: SparkSession, name: str) -> DataFrame:
    """`applyInPandas` with the regular expressions of Python, over a letter for each row."""
    matcher = MATCHERS[name]

    def matched(group: pd.DataFrame) -> pd.DataFrame:
        group = group.sort_values("ts")
        spans = np.array(matcher(group), np.int64).reshape(-1, 2)
        time = group["ts"].to_numpy()
        # Ranges lie one behind the other, and the latest end of those of a match is its end.
        ended = np.maximum.reduceat(group["until"].to_numpy(), spans[:, 0]) if "until" in group else time[spans[:, 1]]
        return pd.DataFrame({"k": group["k"].iloc[0], "since": time[spans[:, 0]], "ended": ended})

    rows = spark.table("ticks").select("k", "ts", *READS[name])
    return rows.groupBy("k").applyInPandas(matched, "k bigint, since bigint, ended bigint")


def _spelled(conditions: list[NDArray[np.bool]], letters: str) -> bytes:
    codes = np.frombuffer(letters.encode(), np.uint8)
    return bytes(np.select(conditions, list(codes[:-1]), codes[-1]).astype(np.uint8))


def _changes(group: pd.DataFrame) -> bytes:
    change = np.diff(group["price"].to_numpy(), prepend=group["price"].iloc[0])
    return _spelled([change < 0, change > 0], "DU-")


def _found(pattern: bytes, text: bytes, before: int = 0) -> Spans:
    return [(match.start() - before, match.end() - 1) for match in re.finditer(pattern, text, re.DOTALL)]


def _sessions(group: pd.DataFrame) -> Spans:
    time = group["ts"].to_numpy()
    begins = np.flatnonzero(np.concatenate([[True], np.diff(time) >= GAP]))
    return list(zip(begins, [*(begins[1:] - 1), len(time) - 1], strict=True))


def _funnel(group: pd.DataFrame) -> Spans:
    page = group["page"].to_numpy()
    return _found(b"V.*?C.*?B", _spelled([page < 5, page == 5, page == 6], "VCB-"))


def _merged(group: pd.DataFrame) -> Spans:
    spans: Spans = []
    begin, reached = 0, None
    for at, (time, until) in enumerate(zip(group["ts"].tolist(), group["until"].tolist(), strict=True)):
        if reached is not None and reached < time:
            spans.append((begin, at - 1))
            begin, reached = at, None
        reached = until if reached is None else max(reached, until)
    return [*spans, (begin, len(group) - 1)]


MATCHERS: dict[str, Callable[[pd.DataFrame], Spans]] = {
    "V shape": lambda group: _found(b"D+U+", _changes(group), 1),
    "streaks": lambda group: _found(b"U{3,}", _changes(group), 1),
    "sessions": _sessions,
    "funnel": _funnel,
    "merged ranges": _merged,
}


# ---- Flink SQL ----------------------------------------------------------------------------------

FLINK = {
    "V shape": """MEASURES A.ts AS since, LAST(UP.ts) AS ended AFTER MATCH SKIP TO LAST UP PATTERN (A DOWN+ UP+ Z)
        DEFINE DOWN AS DOWN.price < COALESCE(LAST(DOWN.price, 1), A.price),
               UP AS UP.price > COALESCE(LAST(UP.price, 1), LAST(DOWN.price)), Z AS Z.price <= LAST(UP.price)""",
    "streaks": """MEASURES A.ts AS since, LAST(UP.ts) AS ended AFTER MATCH SKIP TO LAST UP PATTERN (A UP{3,} Z)
        DEFINE UP AS UP.price > COALESCE(LAST(UP.price, 1), A.price), Z AS Z.price <= LAST(UP.price)""",
    "sessions": f"""MEASURES A.ts AS since, COALESCE(LAST(NEAR.ts), A.ts) AS ended
        AFTER MATCH SKIP TO LAST Z PATTERN (A NEAR* Z)
        DEFINE NEAR AS NEAR.ts - COALESCE(LAST(NEAR.ts, 1), A.ts) < {GAP},
               Z AS Z.ts - COALESCE(LAST(NEAR.ts), A.ts) >= {GAP}""",
    "funnel": """MEASURES VIEWED.ts AS since, BOUGHT.ts AS ended AFTER MATCH SKIP PAST LAST ROW
        PATTERN (VIEWED X*? FILLED Y*? BOUGHT)
        DEFINE VIEWED AS VIEWED.page < 5, FILLED AS FILLED.page = 5, BOUGHT AS BOUGHT.page = 6""",
}
"""It has no PREV, and no greedy loop at the end of a pattern, so there the row behind it is asked for: the last match
of a key is not found."""


def flink(name: str) -> str:
    return f"SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY k ORDER BY rowtime {FLINK[name]})"
