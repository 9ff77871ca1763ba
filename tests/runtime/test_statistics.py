"""Statistics of events, measured by Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

import sase
from sase.analysis.statistics import describe

CATALOG = sase.Catalog(
    types={
        "A": {"ts": "bigint", "id": "bigint", "v": "double"},
        "B": {"ts": "bigint", "id": "bigint", "name's": "string"},
    }
)


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    """600 events of A, of which 400 have the id 0 and 60 no v; 300 of B; 100 of a type that nobody declares."""
    return spark.range(1000).selectExpr(
        "id AS ts",
        "CASE WHEN id < 600 THEN 'A' WHEN id < 900 THEN 'B' ELSE 'C' END AS type",
        "CASE WHEN id < 400 THEN 0 ELSE id % 50 END AS id",
        "CASE WHEN id % 10 > 0 THEN CAST(id % 100 AS double) END AS v",
        "CAST(id % 3 AS string) AS `name's`",
        "array(id) AS list",
    )


def test_rates_distinct_values_skew_and_nulls(events: DataFrame) -> None:
    found = sase.statistics(events, catalog=CATALOG)
    assert (found.events, found.span) == (1000, 1000)
    assert {name: known.events for name, known in found.types.items()} == {"A": 600, "B": 300, "C": 100}
    assert set(found.types["A"].columns) == {"id", "v"} and set(found.types["C"].columns) == set()
    ids = found.column("A", "id")
    assert ids.distinct == pytest.approx(50, abs=4) and ids.nulls == 0
    assert ids.top == pytest.approx((404 / 600,), abs=1e-4)
    assert found.column("A", "v").nulls == pytest.approx(0.1)
    assert found.column("B", "name's").top == ()  # three values in equal shares are no skew
    assert found.cores >= 1


def test_selectivity_of_predicates(events: DataFrame) -> None:
    query = """EVENT SEQ(A x, B `y z`)
               WHERE x.v > 49 AND x.ts < `y z`.ts AND x.v + `y z`.id >= 1000 AND `y z`.`name's` IN ('0', 'it''s')"""
    found = sase.statistics(events, [query], CATALOG).predicates
    assert found == {
        "`A#1`.v > 49": pytest.approx(0.45),
        "`A#1`.ts < `B#2`.ts": 1.0,
        "`A#1`.v + `B#2`.id >= 1000": 0.0,
        "`B#1`.`name's` IN ('0', 'it\\'s')": pytest.approx(1 / 3),
    }


def test_tables_by_type(events: DataFrame) -> None:
    tables = {"A": events.where("type = 'A'").drop("type"), "B": events.where("type = 'B'").select("ts", "id")}
    found = sase.statistics(tables)
    assert {name: known.events for name, known in found.types.items()} == {"A": 600, "B": 300}
    assert found.column("B", "id").distinct == pytest.approx(50, abs=4)
    assert "v" not in found.types["B"].columns


def test_a_column_that_is_not_there_is_named(events: DataFrame) -> None:
    with pytest.raises(sase.SaseRunError, match='the events have no column "at": there are ts, type, id, v'):
        sase.statistics(events, catalog=sase.Catalog(time="at"))


def test_statistics_as_a_table(events: DataFrame) -> None:
    lines = describe(sase.statistics(events, ["EVENT SEQ(A x, B y) WHERE x.v > 49"], CATALOG)).splitlines()
    assert lines[0].split() == ["type", "events", "share", "attribute", "distinct", "most", "frequent", "NULL"]
    assert lines[2].split() == ["A", "600", "60.0%"]
    assert lines[3].split()[0] == "id" and lines[3].split()[-2:] == ["67.3%", "0.0%"]
    assert lines[-1] == "  45.00%  `A#1`.v > 49"


def test_choices_go_by_what_was_measured(events: DataFrame) -> None:
    query = "EVENT SEQ(A x, A y) WHERE [id] WITHIN 10"
    hot = sase.statistics(events, catalog=CATALOG)
    assert sase.compile(query, CATALOG).compiled.plan.scan.slice is None
    measured = sase.compile(query, CATALOG, statistics=hot)
    assert measured.compiled.choices.statistics == hot and measured.compiled.choices.measured
    assert measured.run(events).count() == sase.compile(query, CATALOG).run(events).count() > 0
