"""Plans: equal queries have equal plans, rules do what they say and refuse what they must."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import sase
from sase.compiler.core.scalars import sql
from sase.compiler.plan.logical import Plan
from sase.compiler.plan.reach import Reach
from sase.compiler.plan.rules import NAMES
from sase.compiler.plan.separate import Clause, Comparison, Condition, is_exact, separate
from sase.compiler.plan.strategy import parse_strategy

CATALOG = sase.Catalog(
    types={
        name: {
            "ts": "bigint",
            "id": "bigint",
            "site": "string",
            "t": "tinyint",
            "a": "int",
            "b": "int",
            "f": "float",
            "v": "double",
        }
        for name in "ABCD"
    }
    | {"E": {"ts": "bigint", "a": "int"}},
)


def plan(query: str, **options: object) -> Plan:
    return sase.compile(query, CATALOG, **options).compiled.plan  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spellings",
    [
        ("[id]", "x.id = y.id AND x.id = n.id AND y.id = z.id", "x.id = y.id = z.id AND n.id = z.id"),
        ("[id, site]", "[id] AND [site]", "[id] ∧ x.site = y.site ∧ y.site = z.site ∧ z.site = n.site"),
        ("[id] AND x.a < 3", "x.A < 3 && [ID]", "([id]) ∧ (x.a < 3)", "[id] AND x.a < '3'"),
    ],
    ids=["one key", "two keys", "signs, case and parentheses"],
)  # fmt: skip
def test_two_spellings_of_a_query_explain_alike(spellings: tuple[str, ...]) -> None:
    explained = {
        sase.compile(f"EVENT SEQ(A x, !(B n), C y, D z) WHERE {where} WITHIN 10", CATALOG).explain()
        for where in spellings
    }
    assert len(explained) == 1


def test_equality_through_a_negated_event_does_not_bind_the_positive_ones() -> None:
    found = plan("EVENT SEQ(A x, !(B n), C z) WHERE x.id = n.id AND n.id = z.id WITHIN 10")
    assert found.scan.partition == ()
    assert found.selection.equivalences == ()


def test_the_basic_plan_pushes_nothing_down() -> None:
    found = plan("EVENT SEQ(A x, !(B n), C z) WHERE [id] AND x.a = 1 AND x.v < z.v WITHIN 10", disable=NAMES)
    assert found.scan.simple == {} and found.scan.partition == () and found.scan.slice is None and not found.scan.window
    assert found.construction.predicates == () and found.construction.negations == ()
    assert [str(part) for part in found.selection.predicates] == ["x.a = 1", "x.v < z.v"]
    assert [str(test) for test in found.selection.equivalences] == ["[id]"]
    assert found.window and [negation.variable for negation in found.negations] == ["n"]


@pytest.mark.parametrize("rule", NAMES)
def test_every_rule_can_be_switched_off_and_changes_this_plan(rule: str) -> None:
    query = "EVENT SEQ(A x, !(B n), C z) WHERE [id] AND x.a = 1 AND x.v < z.v WITHIN 10 RETURN x.id"
    if rule == "slice_by_time":  # a key that spreads well needs no slices
        query = "EVENT SEQ(A x, B y) WITHIN 10"
    assert sase.compile(query, CATALOG, disable=[rule]).job != sase.compile(query, CATALOG).job


def test_a_test_that_leaves_a_positive_component_out_does_not_partition() -> None:
    found = plan("EVENT SEQ(A x, E y, C z) WHERE [id] WITHIN 10")
    assert found.scan.partition == ()
    assert [str(test) for test in found.construction.equivalences] == ["[id]"]


def test_an_event_with_two_keys_does_not_partition() -> None:
    assert plan("EVENT SEQ(A x, A y) WHERE x.a = y.b").scan.partition == ()
    assert [str(test) for test in plan("EVENT SEQ(A x, B y) WHERE x.a = y.b").scan.partition] == ["[x.a = y.b]"]


def test_negation_without_the_key_or_that_does_not_come_apart_is_an_anti_join() -> None:
    assert [part.variable for part in plan("EVENT SEQ(A x, !(E n), C z) WHERE [id] WITHIN 10").negations] == ["n"]
    apart = "EVENT SEQ(A x, !(B n), C z) WHERE [id] AND abs(x.a - n.a) < 2 WITHIN 10"
    assert [part.variable for part in plan(apart).negations] == ["n"]
    with pytest.raises(sase.OptionError, match=r"not possible for n: abs\(x.a - n.a\) < 2 does not come apart"):
        plan(apart, negation="stack")


def test_slices_need_a_window() -> None:
    assert plan("EVENT SEQ(A x, B y)").scan.slice is None
    assert plan("EVENT SEQ(A x, B y) WITHIN 10").scan.slice is not None
    assert plan("EVENT SEQ(A x, B y) WHERE [id] WITHIN 10").scan.slice is None
    assert plan("EVENT SEQ(A x, B y) WITHIN 10", slice=25).scan.slice == 25
    assert plan("EVENT SEQ(A x, B y) WITHIN 10", slice="off").scan.slice is None
    with pytest.raises(sase.OptionError, match="time slices need WITHIN"):
        plan("EVENT SEQ(A x, B y)", slice=25)


def test_events_stay_only_where_a_window_and_a_key_say_what_is_near() -> None:
    assert plan("EVENT SEQ(A x, B y) WHERE [id] WITHIN 10").scan.stays == Reach(10, 0)
    assert plan("EVENT SEQ(A x, B y, !(C n)) WHERE [id] WITHIN 10").scan.stays == Reach(10, 10)
    assert plan("EVENT SEQ(A x, B y) WHERE [id]").scan.stays is None
    assert plan("EVENT SEQ(A x, B y) WITHIN 10").scan.stays is None
    assert plan("EVENT SEQ(A x, B y) WHERE [id] WITHIN 10", parallel="both").scan.stays is None
    for query in ("EVENT SEQ(A x, B y) WHERE [id]", "EVENT SEQ(A x, B y) WITHIN 10"):
        with pytest.raises(sase.OptionError, match="parallel=files needs a partition key, WITHIN"):
            plan(query, parallel="files")


TWO_TESTS = "EVENT SEQ(A x, !(B n), C z) WHERE [id] AND [site] WITHIN 10"


@pytest.mark.parametrize(
    ("equivalence", "partition", "cross", "construction", "selection"),
    [
        ("auto", ["[id]", "[site]"], [], [], []),
        ("composite", ["[id]", "[site]"], [], [], []),
        ("pais", ["[id]"], [], ["[site]"], []),
        ("pais:site", ["[site]"], [], ["[id]"], []),
        ("multi-pais", ["[id]"], ["[site]"], [], ["[site]"]),
        ("multi-pais:site", ["[site]"], ["[id]"], [], ["[id]"]),
        ("selection", [], [], [], ["[id]", "[site]"]),
    ],
)
def test_where_equivalence_tests_are_evaluated(
    equivalence: str, partition: list[str], cross: list[str], construction: list[str], selection: list[str]
) -> None:
    found = plan(TWO_TESTS, equivalence=equivalence)
    tests = found.scan.partition, found.scan.cross, found.construction.equivalences, found.selection.equivalences
    assert [[str(test) for test in each] for each in tests] == [partition, cross, construction, selection]


def test_what_the_shuffle_goes_by() -> None:
    def shuffle(**strategy: object) -> str:
        job = sase.compile(TWO_TESTS, CATALOG, **strategy).job
        assert ("in_place(" in job) == (strategy.get("parallel", "files") == "files")
        return next((line.strip() for line in job.splitlines() if "by_key(" in line), "")

    assert shuffle() == shuffle(parallel="files") == ""
    assert shuffle(parallel="key") == 'by_key(events, "id", "site")'
    for keyless in ("EVENT SEQ(A x, B y)", "EVENT SEQ(A x, B+ y) SKIP TILL NEXT MATCH"):
        assert "events.repartition(1)" in sase.compile(keyless, CATALOG, partitions=5).job
    assert shuffle(parallel="time") == 'by_key(events, "_slice")'
    assert shuffle(parallel="both", partitions=8) == 'by_key(events, "id", "site", "_slice", partitions=8)'


def test_one_scan_does_for_several_anti_joins(spark: SparkSession) -> None:
    """Beside that of the sequences; one more where components agree with a match on other attributes."""

    def scans(query: str) -> int:
        compiled = sase.compile(f"{query} RETURN x.id", CATALOG, negation="anti-join")
        events = spark.range(9).selectExpr("'A' AS type", "id AS ts", "id", "double(id) AS v")
        plan = compiled.run(events)._jdf.queryExecution().executedPlan().toString()
        return str(plan).count("Range (")

    assert scans("EVENT SEQ(A x, !(B n), C y) WHERE [id] WITHIN 9") == 2
    assert scans("EVENT SEQ(!(A m), A x, !(B n), C y, !(D o)) WHERE [id] AND abs(n.v - x.v) < 2 WITHIN 9") == 2
    assert scans("EVENT SEQ(A x, !(B n), C y, !(D o)) WHERE x.id = y.id = n.id AND o.v > x.v WITHIN 9") == 3


def test_an_anti_join_can_stand_before_the_selection() -> None:
    query = "EVENT SEQ(A x, !(B n), C z) WHERE [id] AND abs(x.a - z.a) < 2 WITHIN 10"
    steps = [
        [line for line in sase.compile(query, CATALOG, negation="anti-join", negation_place=place).job.splitlines()
         if line.strip() in ("matches = select(matches)", "matches = without_n(matches, events)")]
        for place in ("after", "before")
    ]  # fmt: skip
    assert len(steps[0]) == 2 and steps[0] == steps[1][::-1]


def test_a_strategy_in_one_text() -> None:
    assert parse_strategy("equivalence=pais:id, construction=basic") == {
        "equivalence": "pais:id",
        "construction": "basic",
    }
    with pytest.raises(sase.OptionError, match="there is no strategy 'equivalance': did you mean equivalence"):
        parse_strategy("equivalance=pais")
    with pytest.raises(sase.OptionError, match="a strategy is written NAME=VALUE, and 'pais' is not"):
        parse_strategy("pais")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"equivalence": "pias"}, "equivalence is one of auto, composite, pais, multi-pais, selection, not 'pias'"),
        ({"equivalence": "composite:id"}, "equivalence=composite takes no attribute: pais and multi-pais do"),
        ({"equivalence": "pais:a"}, "a is not an equivalence test that can partition this query; there is none"),
        ({"construction": "magic"}, "construction is one of ais, basic, not 'magic'"),
        ({"parallel": "key"}, "parallel=key needs a partition key, and this plan has none"),
        ({"parallel": "time", "slice": "off"}, "parallel=time needs time slices, and this plan has none"),
        ({"sliced": 3}, "there is no option 'sliced': did you mean slice?"),
        ({"disable": ["window_in_scam"]}, "there is no rule 'window_in_scam': did you mean window_in_scan?"),
        ({"negation": "maybe"}, "negation is one of auto, stack, anti-join, not 'maybe'"),
        ({"partitions": 0}, "the number of partitions is a whole number, at least 1"),
        ({"slice": "2 hours"}, "slice is auto, off or a length such as 10000, not '2 hours'"),
        ({"slice": 0}, "a time slice is at least one tick long"),
        ({"bucket": "2 hours"}, "bucket is auto or a length such as 10000, not '2 hours'"),
    ],
)
def test_options_that_cannot_be_honoured(option: dict[str, object], message: str) -> None:
    with pytest.raises(sase.OptionError) as caught:
        plan("EVENT SEQ(A x, B y) WITHIN 10", **option)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x.a + 2 < y.b", "x.a + 2 < y.b"),
        ("x.a BETWEEN y.a AND y.b", "x.a >= y.a & x.a <= y.b"),
        ("x.a IN (y.a, y.b)", "x.a = y.a | x.a = y.b"),
        ("NOT x.a IN (y.a, y.b)", "x.a != y.a & x.a != y.b"),
        ("x.a > 3 OR x.a = y.a", "x.a > 3 | x.a = y.a"),
        ("NOT (x.a > 3 AND x.a = y.a)", "NOT (x.a > 3) | x.a != y.a"),
        ("x.a IN (y.a, y.v)", None),  # IN compares in one type, here all of them as doubles
        ("x.a = y.v", "CAST(x.a AS DOUBLE) = y.v"),
        ("x.a = y.f", None),  # as doubles or as floats: ANSI decides
        ("x.a + x.f = y.v", None),
        ("x.f = y.v", "CAST(x.f AS DOUBLE) = y.v"),
        ("upper(x.site) = y.site", "upper(x.site) = y.site"),
        ("x.v + y.v > 1.0", None),  # the sum of floats is not exact, so nothing may move across >
        ("abs(x.a - y.a) < 2", None),
        ("x.a * y.a = 4", None),
    ],
)
def test_separation_into_terms(condition: str, expected: str | None) -> None:
    clauses = separated(condition)
    assert clauses is None or is_exact(clauses)
    assert shown(clauses) == expected


def unless_far(value: str, small: int, end: int, otherwise: str) -> str:
    """A term that is an end of all integers where the value is not small."""
    return f"CASE WHEN NOT {value} BETWEEN -{small} AND {small} THEN {end} ELSE {otherwise} END"


END = 2**63 - 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        # What is added up is narrower than the sum, so it fits.
        ("CAST(x.a AS bigint) + y.a > 10", ["CAST(x.a AS BIGINT)", ">", "10 - CAST(y.a AS BIGINT)"]),
        ("y.a - CAST(x.a AS bigint) > 10", ["CAST(x.a AS BIGINT)", "<", "CAST(y.a AS BIGINT) - 10"]),
        ("10 - x.a < y.b - CAST(x.b AS bigint)", ["CAST((10 - x.a) AS BIGINT) + CAST(x.b AS BIGINT)", "<", "y.b"]),
        # Else it does only if it is small.
        (
            "x.a + y.a > 10",
            [
                unless_far("x.a", 10**9, END, "x.a"),
                ">",
                unless_far("y.a", 10**9, -END, "10 - CAST(y.a AS BIGINT)"),
            ],
        ),
        (
            "y.id - x.id > 10",
            [unless_far("x.id", 4 * 10**18, -END, "x.id"), "<", unless_far("y.id", 4 * 10**18, END, "y.id - 10")],
        ),
        (
            "x.t + y.t != 100",
            [unless_far("x.t", 60, END, "x.t"), "!=", unless_far("y.t", 60, -END, "100 - CAST(y.t AS BIGINT)")],
        ),
        ("x.id + y.t > 9", [unless_far("x.id", 9 * 10**18, END, "x.id"), ">", "9 - CAST(y.t AS BIGINT)"]),
        # Nothing is equal to an end.
        (
            "x.id + y.t = 9",
            [
                *(unless_far("x.id", 9 * 10**18, -END, "x.id"), "<=", "9 - CAST(y.t AS BIGINT) &"),
                *(unless_far("x.id", 9 * 10**18, END, "x.id"), ">=", "9 - CAST(y.t AS BIGINT)"),
            ],
        ),
        ("x.id + y.id > 9223372036854775807", None),
    ],
)
def test_sums_are_moved_where_they_do_not_overflow(condition: str, expected: list[str] | None) -> None:
    clauses = separated(condition)
    assert shown(clauses) == (None if expected is None else " ".join(expected))
    assert clauses is None or is_exact(clauses) == ("CASE" not in str(expected))


def test_a_sum_that_may_overflow_is_left_to_spark_in_the_end() -> None:
    query = "EVENT SEQ(A x, !(B n), C z) WHERE [id] AND z.a - x.a > 2 AND z.a > x.b + 2 AND n.a - x.a > 2 WITHIN 10"
    found = plan(query)
    assert [str(part) for part in found.construction.predicates] == ["z.a - x.a > 2", "z.a > x.b + 2"]
    assert [str(part) for part in found.selection.predicates] == ["z.a - x.a > 2"]
    assert [negation.variable for negation in found.negations] == ["n"]
    with pytest.raises(sase.OptionError, match=r"not possible for n: n.a - x.a > 2 may overflow, and is left to Spark"):
        plan(query, negation="stack")


def separated(condition: str) -> tuple[Clause, ...] | None:
    query = sase.compile(f"EVENT SEQ(A x, B y) WHERE {condition}", CATALOG).compiled.query
    return separate(query.predicates[0]) if query.predicates else None


def shown(clauses: tuple[Clause, ...] | None) -> str | None:
    if clauses is None:
        return None
    return " & ".join(" | ".join(map(_atom, clause)) for clause in clauses)


def _atom(atom: object) -> str:
    match atom:
        case Comparison():
            return f"{sql(atom.left.value)} {atom.op} {sql(atom.right.value)}"
        case Condition():
            return sql(atom.term.value)
    raise AssertionError(atom)


def test_a_tie_breaker_travels_that_no_type_declares() -> None:
    catalog = sase.Catalog(types={name: {"ts": "bigint", "v": "bigint"} for name in "AB"}, order="n")
    assert sase.compile("EVENT SEQ(A x, B y) RETURN x.v", catalog).compiled.physical.selected == ("ts", "v", "n")
