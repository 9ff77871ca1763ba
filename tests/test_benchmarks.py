"""The benchmark harness: its events, its peers, its files. Its times are not tested."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from benchmarks.__main__ import plan
from benchmarks.bench import Bench
from benchmarks.data import COLUMNS, Stream, parquet
from benchmarks.experiments import experiments
from benchmarks.measure import Contender, Disagreement, Race, Scale, _agree
from benchmarks.peers import OverLimit, Taken, Task, Unavailable, peers
from benchmarks.results import Results
from benchmarks.shape import Shape
from benchmarks.targets import quotient, targets

STREAM = Stream(2_000, v1=10, v2=3)
SHAPES = {
    "negations": Shape(window=500, negations=(1, 2)),
    "predicates": Shape(window=500, where=("e1.attr3 < e2.attr3", "e3.attr4 < 500"), negations=(2,)),
    "two tests": Shape(length=2, window=300, equivalence=("attr1", "attr2")),
}


@pytest.fixture(scope="module")
def bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(cache=tmp_path_factory.mktemp("benchmarks"), cores=2)
    bench.__dict__["spark"] = spark  # the session that all tests share
    return bench


def matches(bench: Bench, peer: str, shape: Shape) -> int | None:
    return peers()[peer].prepare(bench, Task(STREAM, shape, {}))(60.0, count=True).rows


def test_events_are_uniform_and_numbered(tmp_path: Path) -> None:
    stream = Stream(100_000, v1=100, v2=5)
    table = pq.read_table(parquet(stream, tmp_path))
    assert tuple(table.column_names) == COLUMNS
    assert table["ts"].to_pylist() == list(range(stream.events))
    types, counts = np.unique(table["type"].to_numpy(), return_counts=True)
    assert set(types) == {f"E{number}" for number in range(1, 21)}
    assert counts.min() > 4_500 and counts.max() < 5_500
    for name, domain in zip(COLUMNS[2:], stream.domains, strict=True):
        values, counts = np.unique(table[name].to_numpy(), return_counts=True)
        assert list(values) == list(range(domain))
        assert abs(counts - stream.events / domain).max() < 6 * (stream.events / domain) ** 0.5


def test_skew_is_zipf(tmp_path: Path) -> None:
    table = pq.read_table(parquet(Stream(100_000, v1=100, skew=1.0), tmp_path))
    counts = np.bincount(table["attr1"].to_numpy(), minlength=100)
    expected = 100_000 / np.arange(1, 101) / (1 / np.arange(1, 101)).sum()
    assert abs(counts - expected).max() < 6 * expected.max() ** 0.5


def test_same_parameters_same_events(tmp_path: Path) -> None:
    first, second = parquet(STREAM, tmp_path / "a"), parquet(STREAM, tmp_path / "b")
    assert pq.read_table(first).equals(pq.read_table(second))
    assert parquet(Stream(2_000, v1=11, v2=3), tmp_path / "a") != first


def test_matches_are_as_many_as_expected(bench: Bench) -> None:
    stream, shape = Stream(20_000, v1=10), Shape(length=2, window=1_000)
    found = peers()["sase"].prepare(bench, Task(stream, shape, {}))(60.0, count=True).rows
    assert found == pytest.approx(stream.events * shape.selectivity(stream.types, stream.v1), rel=0.05)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_peers_agree(bench: Bench, shape: Shape) -> None:
    expected = matches(bench, "sase", shape)
    assert expected
    others = ["engine", "spark_join_naive", "spark_join_bucketed", "apply_in_pandas"]
    if find_spec("duckdb"):
        others += ["duckdb", "duckdb_bucketed"]
    assert {peer: matches(bench, peer, shape) for peer in others} == dict.fromkeys(others, expected)


@pytest.mark.skipif(find_spec("duckdb") is None, reason="duckdb is not installed: pip install -e '.[bench]'")
def test_duckdb_agrees_without_a_key(bench: Bench) -> None:
    shape = Shape(length=2, window=100, equivalence=())
    assert matches(bench, "duckdb", shape) == matches(bench, "sase", shape) != 0


def test_the_floor_keeps_the_relevant_events(bench: Bench) -> None:
    shape = SHAPES["negations"]
    relevant = bench.events(STREAM).where("type IN ('E1', 'E2', 'E3', 'E4', 'E5')").count()
    assert matches(bench, "floor", shape) == matches(bench, "identity", shape) == relevant


def test_an_unknown_option_is_unavailable(bench: Bench) -> None:
    with pytest.raises(Unavailable, match="there is no option 'colour'"):
        peers()["sase"].prepare(bench, Task(STREAM, SHAPES["two tests"], {"colour": "red"}))
    with pytest.raises(Unavailable, match="there is no rule 'sprint'"):
        peers()["sase"].prepare(bench, Task(STREAM, SHAPES["two tests"], {"disable": ("sprint",)}))


def test_a_race_records_what_happened(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "benchmarks.measure.peers", lambda: {**peers(), "slow": _Fake(OverLimit()), "broken": _Fake(OSError("no"))}
    )
    shape = SHAPES["two tests"]
    contenders = tuple(Contender(peer, peer, STREAM, shape) for peer in ("sase", "floor", "slow", "broken"))
    said: list[str] = []
    result = Race("race", contenders, rounds=2, limit=60.0).run(bench, said.append)
    entries = result["contenders"]
    assert [entry["status"] for entry in entries.values()] == ["done", "done", "over limit", "failed"]
    assert [len(entry["seconds"]) for entry in entries.values()] == [2, 2, 0, 0]
    assert entries["broken"]["reason"] == "no"
    value = quotient(result, "slow", "sase")
    assert value is not None and value.least and value.number > 1
    assert quotient(result, "broken", "sase") is None
    assert len(said) == 4


class _Fake:
    rows = "matches"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def prepare(self, bench: Bench, task: Task) -> object:
        def run(limit: float, *, count: bool) -> Taken:
            raise self.error

        return run


def test_disagreement_is_an_error() -> None:
    contenders = tuple(Contender(peer, peer, STREAM, Shape()) for peer in ("sase", "duckdb", "floor"))
    entry = {"status": "done", "rows_are": "matches"}
    agreeing = {
        "sase": {**entry, "rows": 7},
        "duckdb": {**entry, "rows": 7},
        "floor": {"status": "done", "rows_are": "events"},
    }
    _agree(contenders, agreeing)
    with pytest.raises(Disagreement, match="sase found 7, duckdb found 8"):
        _agree(contenders, {**agreeing, "duckdb": {**entry, "rows": 8}})


def test_results_resume(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert not results.is_complete("race")
    for status, complete in (("done", True), ("over limit", True), ("unavailable", False), ("failed", False)):
        results.save("race", {"contenders": {"sase": {"status": status}}})
        assert results.is_complete("race") is complete


@pytest.mark.parametrize("scale", (Scale(), Scale(quick=True)))
def test_the_plan_covers_all_targets_and_experiments(scale: Scale) -> None:
    names = [measurement.name for measurement in plan(scale)]
    assert len(set(names)) == len(names)
    assert {target.measurement for target in targets()} <= set(names)
    for experiment in experiments(scale):
        for _, race in experiment.points:
            assert set(experiment.compare) <= {contender.label for contender in race.contenders}


def test_reports_say_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install -e '.[bench]'")
    from benchmarks.report import write

    text = write(Results(tmp_path / "none"), Scale(), tmp_path).read_text()
    assert text.count("not measured") == len(targets()) + len(experiments(Scale()))


def test_the_contenders_of_the_papers_agree_with_the_kernel() -> None:
    """A disagreement is an exception; results per event are what the formulas expect, of a few events."""
    from benchmarks.papers import Follows, negation

    assert negation(2_000, 1, print)["matches"] > 0
    for case in (Follows(9, 100, "a1", 2), Follows(9, 300, "a1", 3), Follows(9, 300, "a1", 3, nested=True)):
        found = case.run(40_000, 1, print)
        assert found["per event"] == pytest.approx(found["expected"], rel=0.15)
