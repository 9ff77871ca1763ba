"""Row patterns from their text to the values of their matches, without Spark: random clauses against the judge.

Spark's part is played by Python here: it makes the values of neighbours and the symbol bits, and sorts, unless the
worker does.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from effort import tries
from sqlglot import exp

from sase.compiler.compile_sql import compile_statement
from sase.compiler.plan.rows import RowPlan
from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.sort import SortKey
from sase.runtime.operator.rows import Task, run
from sase.runtime.row_pattern import MatchNumber, Measure, Over
from tests.random_rows import ONE, random_clause, random_rows
from tests.row_judge import (
    Aggregate,
    At,
    Classifier,
    Clause,
    Literal,
    Operation,
    Permute,
    Repeat,
    Row,
    SkipError,
    Variable,
    answer,
    text_of,
)
from tests.row_judge import MatchNumber as MatchNumber_

KINDS = {"t": pa.int64(), "x": pa.int64(), "y": pa.int32(), "row": pa.int64(), "g": pa.int64()}


def written(clause: Clause) -> str:
    return text_of(clause, "t", ["g"], ["t", "row"])


def compiled(text: str, sort: str = "auto") -> tuple[RowPlan, ModuleType]:
    found = compile_statement(text, "q.sql", "spark", version="0", sort=sort)
    module = ModuleType("job")
    exec(compile(found.job, "job", "exec"), module.__dict__)
    return found.statement.views[0].plan, module


def in_sqlite(rows: list[dict[str, Any]], expressions: dict[str, str]) -> list[dict[str, Any]]:
    """Values of single rows. SQLite has 0 and 1 for truth values."""
    names = list(rows[0])
    truths = truths_of(expressions)
    with sqlite3.connect(":memory:") as base:
        base.execute(f"CREATE TABLE t ({', '.join(names)})")
        marks = ", ".join("?" * len(names))
        base.executemany(f"INSERT INTO t VALUES ({marks})", [tuple(row.values()) for row in rows])
        listed = ", ".join(f"({sql}) AS {name}" for name, sql in expressions.items())
        found = base.execute(f"SELECT {listed or 1} FROM t ORDER BY rowid").fetchall()
    answers = [dict(zip(expressions, values, strict=False)) for values in found]
    return [
        {name: bool(value) if name in truths and value is not None else value for name, value in row.items()}
        for row in answers
    ]


def truths_of(expressions: dict[str, str]) -> set[str]:
    return {
        name for name, sql in expressions.items() if isinstance(sqlglot.parse_one(sql, read="spark"), exp.Predicate)
    }


def partition(plan: RowPlan, group: int, rows: list[Row]) -> list[dict[str, Any]]:
    """Rows with what Spark adds to them."""
    found: list[dict[str, Any]] = []
    for at, row in enumerate(rows):
        steps = {
            name: rows[at + each.step][each.sql] if 0 <= at + each.step < len(rows) else None
            for name, each in plan.neighbours.items()
        }
        found.append({**row, **steps, "g": group, "row": at})
    return with_terms(plan, found)


def with_terms(plan: RowPlan, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with what Spark computes of each alone."""
    terms = in_sqlite(found, plan.terms)
    fills = in_sqlite(found, {f"fill_{at}": sql for at, sql in enumerate(plan.fills.values())})
    bits = [sum(1 << at for at, truth in enumerate(row.values()) if truth) for row in fills]
    return [{**row, **term, "bits": each} for row, term, each in zip(found, terms, bits, strict=True)]


def kind_of(measure: Measure) -> pa.DataType:
    match measure:
        case Over(function="count") | Over(function="sum") | MatchNumber():
            return pa.int64()
        case Over(function="avg"):
            return pa.float64()
        case Over(function="array_agg"):
            return pa.list_(KINDS.get(str(measure.column), pa.int64()))
        case _:
            return pa.string() if not hasattr(measure, "column") else KINDS.get(measure.column, pa.int64())


def found_by_operator(
    text: str, groups: list[list[Row]], random: Random, jit: bool, sort: str = "auto"
) -> list[dict[str, Any]]:
    plan, module = compiled(text, sort)
    rows = [row for group, part in enumerate(groups) for row in partition(plan, group, part)]
    if plan.worker is not None:
        random.shuffle(rows)
    names = ("g", "row", "t", "x", "y", *plan.neighbours, *plan.terms, "bits")
    columns = {name: [row[name] for row in rows] for name in names}
    kinds = {**KINDS, **dict.fromkeys(truths_of(plan.terms), pa.bool_())}
    table = pa.table({name: pa.array(columns[name], kinds.get(name, pa.int64())) for name in names})
    values: dict[str, Measure] = module.MATCHES_VALUES
    one = plan.shown == "one row"
    task = Task(
        pattern=module.MATCHES_PATTERN,
        names=names,
        by=("g",),
        keys=(SortKey("t"), SortKey("row")),
        symbols="bits",
        shown=plan.shown,
        kept=("g",) if one else ("g", "row"),
        measures=tuple((name, value, kind_of(value)) for name, value in values.items()),
        batch_rows=random.randint(1, 5),
        chunk_rows=random.choice([1, 2, 5, 100]),
        jit=jit,
        steps_per_row=100_000,
        code="g" if plan.worker is not None else None,
        shifts=tuple(getattr(module, "MATCHES_BEFORE", {}).items()),
        meets=tuple(getattr(module, "MATCHES_MEETS", {}).items()),
    )
    batches = table.to_batches(max_chunksize=random.randint(1, 4))
    out: list[dict[str, Any]] = []
    for batch in run(task, iter(batches)):
        for row in batch.to_pylist():
            looked_up = dict(zip((*task.kept, *values), row.values(), strict=False))
            measures = {each.name: evaluated(each.sql, looked_up) for each in plan.measures}
            out.append({**{name: looked_up[name] for name in task.kept}, **measures})
    return out


def evaluated(sql: str, values: dict[str, Any]) -> Any:
    """A measure that is nothing but a value, which no unmatched row has."""
    guarded = re.fullmatch(r"IF\((\w+) IS NULL, NULL, (\w+)\)", sql)
    if guarded is None:
        return values[sql]
    return None if values[guarded[1]] is None else values[guarded[2]]


def expected(clause: Clause, groups: list[list[Row]]) -> list[dict[str, Any]]:
    return [{"g": group, **row} for group, rows in enumerate(groups) for row in answer(clause, rows)]


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def agree(seed: int, jit: bool, running: bool = False, overlapping: bool = False) -> None:
    random = Random(seed)
    clause = random_clause(random, running=running)
    if overlapping:
        variables = [None, *clause.subsets, *clause.define]
        ends = {f"m{at}": At(*random.choice(PLACES), first=random.random() < 0.5) for at in range(2)}
        measures = {
            **{name: replace(end, variable=random.choice(variables)) for name, end in ends.items()},
            "kind": Classifier(random.choice(variables), random.random() < 0.5),
            "rows": Aggregate("count", None, random.choice(variables)),
            "number": MatchNumber_(),
        }
        clause = replace(clause, rows=ONE, skip="TO NEXT ROW", within=None, measures=measures)
    groups = [random_rows(random) for _ in range(random.randint(1, 3))]
    try:
        wanted: Any = ordered(expected(clause, groups))
    except SkipError:
        wanted = "error"
    for sort in ("auto", "spark"):
        try:
            found: Any = ordered(found_by_operator(written(clause), groups, random, jit, sort))
        except SaseRunError:
            found = "error"
        assert found == wanted, f"seed {seed}, sort {sort}\n{text_of(clause, 't', ['g'], ['t'])}\n{groups}"


@pytest.mark.parametrize("block", range(4))
def test_random_running_conditions_give_what_the_judge_says(block: int) -> None:
    for seed in range(20_000 + block, 20_000 + block + 4 * tries(40), 4):
        agree(seed, jit=False, running=True)


PLACES = [("x",), ("y",)]


@pytest.mark.parametrize("jit", [False, True])
def test_matches_that_overlap_are_summed_up_as_the_judge_says(jit: bool) -> None:
    for seed in range(30_000, 30_000 + tries(50)):
        agree(seed, jit, overlapping=True)


@pytest.mark.parametrize("block", range(4))
def test_random_clauses_give_what_the_judge_says(block: int) -> None:
    for seed in range(block, block + 4 * tries(40), 4):
        agree(seed, jit=False)


def test_compiled_to_machine_code_it_is_the_same() -> None:
    for seed in range(10_000, 10_000 + tries(40)):
        agree(seed, jit=True)
        agree(seed, jit=True, running=True)


def test_all_ways_of_an_order_come_before_the_next_order_of_permute() -> None:
    """B A B, of the first order, is preferred to B A of the second, although its B*? has to take a row for that."""
    x = At("x")
    define = {"A": Operation(x, "=", Literal(0)), "B": Operation(x, ">", Literal(0))}
    clause = Clause(
        Permute((Repeat(Variable("B"), 0, None, False), Variable("A"), Variable("B"))),
        define,
        {"n": Aggregate("count", None)},
    )
    rows: list[Row] = [{"t": at, "x": value, "y": 0} for at, value in enumerate([1, 0, 1])]
    assert (
        found_by_operator(written(clause), [rows], Random(0), jit=False)
        == expected(clause, [rows])
        == [{"g": 0, "n": 3}]
    )


def test_equal_rows_take_linear_time() -> None:
    """A+ B+ on a million rows that both may take: backtracking would not end."""
    from sase.runtime.kernels.rows import Walk, encode, in_one_piece
    from sase.runtime.row_pattern import RowPattern

    pattern = RowPattern(("A", "B"), start=(0,), follow=((0, 1), (1, -1)), ends=(1,))
    rows = 1_000_000
    symbols = np.full(rows, 3, np.int64)
    chunk = in_one_piece(symbols, np.array([0, rows]), symbols[:0], False, 0, False)
    walk = Walk(encode(pattern), chunk, np.zeros(rows, np.uint8))
    (found,) = walk.found()
    assert found.start.tolist() == [0]
    assert np.count_nonzero(found.label == 0) == rows - 1


def test_a_label_is_a_byte() -> None:
    from sase.runtime.kernels.rows import encode
    from sase.runtime.row_pattern import RowPattern

    def chain(length: int) -> RowPattern:
        follow = (*((at + 1,) for at in range(length - 1)), (-1,))
        return RowPattern(("A",) * length, start=(0,), follow=follow, ends=(length - 1,))

    assert encode(chain(256)).words == 4
    with pytest.raises(ValueError, match="256 positions at most, and not 257"):
        encode(chain(257))


def test_a_numba_without_the_option_counts_references(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    from sase.runtime.kernels import compiled

    monkeypatch.setattr(compiled, "_UNCOUNTED", {"_no_such_option": False})
    increment = compiled.in_machine_code(lambda number: number + 1, numba.int64(numba.int64), allocates=False)
    assert increment(1) == 2


def test_matches_that_overlap_take_linear_time() -> None:
    """A+ at each of 200,000 rows, SKIP TO NEXT ROW: twenty thousand million rows in all matches together."""
    clause = Clause(
        Repeat(Variable("A"), 1, None),
        measures={"n": Aggregate("count", None), "last": At("y"), "kind": Classifier(first=True), "at": MatchNumber_()},
        skip="TO NEXT ROW",
    )
    _, module = compiled(written(clause))
    rows = 200_000
    names = ("g", "row", "t", "y", "bits")
    table = pa.table({name: np.arange(rows) if name in ("row", "y") else np.ones(rows, np.int64) for name in names})
    values = tuple((name, value, kind_of(value)) for name, value in module.MATCHES_VALUES.items())
    by, keys = ("g",), (SortKey("row"),)
    task = Task(module.MATCHES_PATTERN, names, by, keys, "bits", "one row", by, values, 65_536, 50_000, True, 1)
    found = pa.Table.from_batches(list(run(task, iter(table.to_batches(max_chunksize=10_000)))))
    assert found.num_rows == rows
    assert found.slice(rows - 2).to_pydict() == {
        "0": [1, 1],
        "1": [2, 1],
        "2": [rows - 1, rows - 1],
        "3": ["A", "A"],
        "4": [rows - 1, rows],
        "5": [True, True],
    }


def matched(text: str, columns: dict[str, pa.Array], steps_per_row: int = 1000) -> list[int]:
    """How many rows the matches of PATTERN (A B*) have, with this condition for B, over one partition."""
    clause = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES count(*) AS c PATTERN (A B*) DEFINE B AS {text})"
    module = ModuleType("job")
    exec(compile_statement(clause, "q.sql", "spark", version="0").job, module.__dict__)
    rows = len(next(iter(columns.values())))
    table = pa.table({**columns, "n": np.arange(rows), "bits": np.full(rows, 3)})
    value = (("c", Over("count"), pa.int64()),)
    keys = (), (SortKey("n"),), "bits", "one row", ()
    task = Task(module.MATCHES_PATTERN, tuple(table.column_names), *keys, value, 100, 100, False, steps_per_row)
    return [row["0"] for batch in run(task, iter(table.to_batches())) for row in batch.to_pylist()]


def decimals(*values: str) -> pa.Array:
    return pa.array([Decimal(value) for value in values], pa.decimal128(6, 2))


DAYS = pa.array([date(2026, 3, day) for day in (1, 2, 9, 10)])
TIMES = pa.array([datetime(2026, 3, 1, hour) for hour in (1, 2, 9, 10)], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("condition", "columns", "expected"),
    [
        ("sum(x) <= 0.3", {"x": decimals("0.1", "0.2", "0.01", "0.3")}, [2, 1, 1]),
        ("x + A.x <= 0.3", {"x": decimals("0.1", "0.2", "0.21", "0.09")}, [2, 2]),
        ("x - A.x < 0.5", {"x": pa.array([1.0, 1.25, 1.5, float("nan")])}, [2, 1, 1]),
        ("avg(x) >= 2", {"x": pa.array([2, 2, 1, 2], pa.int16())}, [2, 1, 1]),
        ("x - A.x <= INTERVAL '1' DAY", {"x": DAYS}, [2, 2]),
        ("x - A.x < INTERVAL '90' MINUTE", {"x": TIMES}, [2, 2]),
        ("x > max(A.x)", {"x": pa.array(["b", "c", "a", "ä"])}, [2, 2]),
        ("x BETWEEN A.x AND A.y", {"x": pa.array([1, 3, 5, 2]), "y": pa.array([4, 4, 9, 9])}, [2, 1, 1]),
        ("A.x IN (x, y)", {"x": pa.array([3, 2, 3, 1]), "y": pa.array([4, 3, 4, 2])}, [3, 1]),
        ("x / A.x > 1", {"x": pa.array([0, 5, 6, 7])}, [1, 3]),
        ("NOT A.x", {"x": pa.array([True, True, False, None])}, [1, 1, 2]),
        ("first(x, 1) IS NULL OR count(x) < 3", {"x": pa.array([1, 2, 3, 4])}, [2, 2]),
        ("abs(x - A.x) < 3", {"x": pa.array([5, 3, 8, 6])}, [2, 2]),
        ("abs(x - A.x) <= 0.5", {"x": pa.array([1.0, 1.5, 3.0, 2.5])}, [2, 2]),
        ("coalesce(A.y, 2.5) > x", {"x": pa.array([1, 2, 3, 1]), "y": pa.array([None, 5, 1, 1])}, [2, 1, 1]),
        ("greatest(A.x, y) = y", {"x": pa.array([2, 1, 4, 1]), "y": pa.array([0, 2, 1, None])}, [2, 1, 1]),
        ("least(A.x, x) = A.x", {"x": pa.array(["b", "c", "a", "a"])}, [2, 2]),
        (
            "CASE WHEN A.x > x THEN y ELSE A.y END > x",
            {"x": pa.array([3, 1, 4, 5]), "y": pa.array([0, 2, 9, 0])},
            [2, 2],
        ),
        (
            "CASE A.x WHEN x THEN y ELSE A.y END > x",
            {"x": pa.array([1, 1, 4, 3]), "y": pa.array([0, 2, 5, 1])},
            [2, 2],
        ),
        ("x IS NOT DISTINCT FROM A.x", {"x": pa.array([None, None, 1, 1])}, [2, 2]),
        ("count(DISTINCT x) <= 2", {"x": pa.array(["a", "b", "a", "c"])}, [3, 1]),
        ("sum(DISTINCT x) <= 3", {"x": pa.array([0.0, -0.0, 3.0, 1.0])}, [3, 1]),
        ("PREV(CLASSIFIER()) = 'A'", {"x": pa.array([1, 1, 1, 1])}, [2, 2]),
    ],
)
def test_types_in_conditions(condition: str, columns: dict[str, pa.Array], expected: list[int]) -> None:
    """Exact numbers stay exact, times are compared with intervals, and texts with each other."""
    assert matched(condition, columns) == expected


@pytest.mark.parametrize(
    ("condition", "columns", "message"),
    [
        (
            "x > A.y",
            {"x": pa.array([1, 2]), "y": pa.array(["a", "b"])},
            "> does not go with a number and a y: cast one",
        ),
        (
            "coalesce(A.x, y) = 1",
            {"x": pa.array([1, 2]), "y": pa.array(["a", "b"])},
            "a y and a number are no values of one kind",
        ),
        ("sum(x) > 1", {"x": pa.array(["a", "b"])}, r"sum\(x\) adds up numbers, and these are string"),
        ("x + A.x", {"x": pa.array([1, 2])}, "the condition of B is no truth value"),
        ("x + A.x > 0", {"x": pa.array([2**62, 2**62])}, "a number in DEFINE is beyond a bigint at n=0"),
        ("A.x = x", {"x": pa.array([[1], [2]])}, "x is list.* which a condition on several rows does not compare"),
    ],
)
def test_types_that_do_not_go_together(condition: str, columns: dict[str, pa.Array], message: str) -> None:
    with pytest.raises(SaseRunError, match=message):
        matched(condition, columns)


def test_a_search_that_does_not_end_names_the_variable() -> None:
    """Each of 60 rows may be B or C, and no way to map them meets the condition of the last one."""
    clause = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES count(*) AS c PATTERN ((B | C)* D)
                DEFINE D AS count(B.*) = 1000)"""
    module = ModuleType("job")
    exec(compile_statement(clause, "q.sql", "spark", version="0").job, module.__dict__)
    table = pa.table({"n": np.arange(60), "bits": np.full(60, 7)})
    keys = (), (SortKey("n"),), "bits", "one row", ()
    task = Task(module.MATCHES_PATTERN, ("n", "bits"), *keys, (("c", Over("count"), pa.int64()),), 100, 100, True, 1000)
    with pytest.raises(
        SaseRunError, match=r"the search for a match at n=0 takes too many steps, most of them for [BCD]"
    ):
        list(run(task, iter(table.to_batches())))
