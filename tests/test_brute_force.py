"""The judge judged: an example by hand for every line of the semantics, and the papers' own."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from ansi import ansi_mode
from brute_force import Overflow, evaluate
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession

from sase.compiler.core.catalog import Catalog

NAN = float("nan")
Row = dict[str, Any]


def letters(text: str, **columns: list[Any]) -> list[Row]:
    """`letters("a1 b3", id=[7, 8])`: events of types A and B at times 1 and 3, with those values of `id`."""
    events: list[Row] = []
    for place, word in enumerate(text.split()):
        letter, time = word[0], int(word[1:])
        events.append({"type": letter.upper(), "ts": time, **{name: values[place] for name, values in columns.items()}})
    return events


def catalog(order: str | None = None, parameters: dict[str, object] | None = None, **attributes: str) -> Catalog:
    """Types A to D that all declare the same."""
    return Catalog(order=order, types={name: attributes for name in "ABCD"}, parameters=parameters or {})


def words(results: list[Row]) -> list[str]:
    """`["a1 b3"]` for the match of those two events; in order, so that equal lists are equal bags."""
    found = []
    for row in results:
        structs = [value for value in row.values() if isinstance(value, dict)]
        found.append(" ".join(f"{struct['type'].lower()}{struct['ts']}" for struct in structs))
    return sorted(found)


def matches(query: str, events: list[Row], schema: Catalog | None = None) -> list[str]:
    return words(evaluate(query, schema or catalog(), events))


# ---- events -------------------------------------------------------------------------------------


def test_order_is_by_time_and_not_by_arrival() -> None:
    assert matches("EVENT SEQ(A a, B b)", letters("b3 a1 a4 b2")) == ["a1 b2", "a1 b3"]


def test_simultaneous_events_are_not_in_a_row() -> None:
    assert matches("EVENT SEQ(A a, B b)", letters("a1 b1")) == []
    assert matches("EVENT SEQ(A a, A b)", letters("a1 a1 a2")) == ["a1 a2", "a1 a2"]


def test_the_tie_breaker_orders_what_happens_at_one_time() -> None:
    schema = catalog(order="n")
    assert matches("EVENT SEQ(A a, B b)", letters("a1 b1", n=[1, 2]), schema) == ["a1 b1"]
    assert matches("EVENT SEQ(A a, B b)", letters("a1 b1", n=[2, 1]), schema) == []
    assert matches("EVENT SEQ(A a, B b)", letters("a1 b1", n=[1, 1]), schema) == []
    assert matches("EVENT SEQ(A a, B b)", letters("a1 b2", n=[9, 1]), schema) == ["a1 b2"], "time comes first"


def test_events_without_a_time_a_type_or_a_place_take_no_part() -> None:
    query = "EVENT SEQ(A a, !C c, B b)"
    nobody: list[Row] = [{"type": "A", "ts": None}, {"type": None, "ts": 2}, {"type": "C", "ts": None}]
    assert matches(query, letters("a1 b3") + nobody) == ["a1 b3"]
    assert matches(query, letters("a1 c2 b3", n=[1, None, 1]), catalog(order="n")) == ["a1 b3"]
    assert matches(query, letters("a1 a2 b3", n=[1, None, 1]), catalog(order="n")) == ["a1 b3"]


def test_types_that_the_query_does_not_name_are_ignored() -> None:
    unknown = [{"type": "Z", "ts": 2}]
    assert matches("EVENT SEQ(A a, B b)", letters("a1 c2 b3") + unknown) == ["a1 b3"]


def test_equal_events_are_events_of_their_own() -> None:
    assert matches("EVENT SEQ(A a, B b)", letters("a1 a1 b2")) == ["a1 b2", "a1 b2"]


def test_null_compares_to_nothing() -> None:
    schema, events = catalog(k="bigint"), letters("a1", k=[None])
    for condition in (
        "a.k = 1",
        "a.k <> 1",
        "a.k = a.k",
        "NOT a.k = 1",
        "a.k IN (1)",
        "a.k NOT IN (1)",
        "a.k < 1 OR FALSE",
    ):
        assert matches(f"EVENT A a WHERE {condition}", events, schema) == [], condition
    for condition in ("a.k IS NULL", "NOT a.k IS NOT NULL", "a.k = 1 OR TRUE", "NOT (a.k = 1 AND FALSE)"):
        assert matches(f"EVENT A a WHERE {condition}", events, schema) == ["a1"], condition


def test_missing_is_not_null() -> None:
    """B declares no k, whatever its row says: one comparison on it is true, and NOT of that is false."""
    schema = Catalog(types={"A": {"k": "bigint", "ok": "boolean"}, "B": {"n": "bigint"}})
    events = letters("b1", n=[3], k=[1])
    true = (
        "x.k = 2",
        "x.k <> 1",
        "x.k NOT IN (1)",
        "x.k IS NULL",
        "x.k IS NOT NULL",
        "x.k NOT BETWEEN 1 AND 2",
        "x.ok",
    )
    for condition in (*true, "x.k + x.n = 0", "abs(x.k) < 0", "x.k = NULL", "FALSE OR x.k = 5", "coalesce(x.k, 1) = 2"):
        assert matches(f"EVENT ANY(A, B) x WHERE {condition}", events, schema) == ["b1"], condition
    false = (
        "NOT x.k = 2",
        "NOT x.k IN (1)",
        "NOT x.k IS NULL",
        "NOT x.ok",
        "NOT (x.k = 2 OR x.n = 4)",
        "x.k = 1 AND x.n = 4",
    )
    for condition in false:
        assert matches(f"EVENT ANY(A, B) x WHERE {condition}", events, schema) == [], condition


def test_names_of_variables_and_attributes_are_found_in_any_case() -> None:
    assert matches("EVENT A Xx WHERE xX.KEY = 1", letters("a1 a2", Key=[1, 2]), catalog(Key="bigint")) == ["a1"]


# ---- SEQ and ANY --------------------------------------------------------------------------------


def test_every_combination_is_a_match() -> None:
    events = letters("a1 b2 a3 b4 c5")
    assert matches("EVENT SEQ(A a, B b, C c)", events) == ["a1 b2 c5", "a1 b4 c5", "a3 b4 c5"]


def test_the_window_is_strict() -> None:
    events = letters("a1 b5 b6 b7")
    assert matches("EVENT SEQ(A a, B b) WITHIN 5", events) == ["a1 b5"]
    assert matches("EVENT SEQ(A a, B b) WITHIN 6", events) == ["a1 b5", "a1 b6"]


def test_windows_of_timestamps_and_dates() -> None:
    noon = datetime(2024, 1, 1, 12)
    late: list[Row] = [
        {"type": "A", "ts": noon},
        {"type": "B", "ts": noon + timedelta(hours=12)},
        {"type": "B", "ts": noon + timedelta(hours=12, microseconds=-1)},
    ]
    assert len(evaluate("EVENT SEQ(A a, B b) WITHIN 12 hours", catalog(), late)) == 1
    assert len(evaluate("EVENT SEQ(A a, B b) WITHIN INTERVAL '13' HOUR", catalog(), late)) == 2
    days: list[Row] = [{"type": "A", "ts": date(2024, 1, 1)}, {"type": "B", "ts": date(2024, 1, 3)}]
    assert evaluate("EVENT SEQ(A a, B b) WITHIN 2 days", catalog(), days) == []
    assert len(evaluate("EVENT SEQ(A a, B b) WITHIN 2 days 1 hour", catalog(), days)) == 1


def test_any_alone_in_a_sequence_and_under_negation() -> None:
    events = letters("a1 b2 c3 a4")
    assert matches("EVENT ANY(A, B) x", events) == ["a1", "a4", "b2"]
    assert matches("EVENT SEQ(ANY(A, B) x, C c)", events) == ["a1 c3", "b2 c3"]
    assert matches("EVENT SEQ(ANY(A, B) x, !ANY(B, C) y, A a)", events) == []
    assert matches("EVENT SEQ(ANY(A, B) x, !ANY(B, D) y, A a)", events) == ["b2 a4"]


def test_a_component_without_a_variable_is_called_by_its_type() -> None:
    schema = Catalog(types={"D-E": {"k": "bigint"}})
    events = [{"type": "D-E", "ts": time, "k": 0} for time in (1, 2)]
    (row,) = evaluate("EVENT SEQ(D-E, D-E) WHERE d_e.k = d_e_2.k", schema, events)
    assert list(row) == ["d_e", "d_e_2", "started_at", "detected_at"]


def test_a_bare_attribute_is_the_only_components_or_the_only_positive_one_that_declares_it() -> None:
    schema = Catalog(types={"A": {"k": "bigint"}, "B": {"n": "bigint"}, "C": {"n": "bigint"}})
    events = letters("a1 a2 c3 b4", k=[1, 2, None, None], n=[None, None, 6, 5])
    assert matches("EVENT A WHERE k = 2", events, schema) == ["a2"]
    assert matches("EVENT SEQ(A a, !C c, B b) WHERE k = 2 AND n = 5 AND c.n = 7", events, schema) == ["a2 b4"]


# ---- WHERE --------------------------------------------------------------------------------------


def test_the_papers_signs() -> None:
    schema, events = catalog(k="bigint"), letters("a1 a2 a3", k=[1, 2, 3])
    assert matches("EVENT A a WHERE a.k ≠ 2 ∧ ¬(a.k ≥ 3)", events, schema) == ["a1"]
    assert matches("EVENT A a WHERE a.k ≤ 1 ∨ a.k == 3", events, schema) == ["a1", "a3"]
    assert matches("EVENT A a WHERE a.k <> 1 && (a.k != 2 || FALSE)", events, schema) == ["a3"]


def test_a_chain_compares_neighbours() -> None:
    schema = catalog(k="bigint")
    query = "EVENT SEQ(A a, B b, C c) WHERE a.k = b.k = c.k"
    assert matches(query, letters("a1 b2 c3", k=[7, 7, 7]), schema) == ["a1 b2 c3"]
    assert matches(query, letters("a1 b2 c3", k=[7, 7, 8]), schema) == []
    assert matches(query, letters("a1 b2 c3", k=[6, 7, 7]), schema) == []


def test_an_equivalence_test_skips_who_lacks_the_attribute() -> None:
    """a and c must agree although b stands between them and has no id."""
    schema = Catalog(types={"A": {"id": "bigint"}, "B": {}, "C": {"id": "bigint"}})
    query = "EVENT SEQ(A a, B b, C c) WHERE [id]"
    assert matches(query, letters("a1 b2 c3", id=[1, None, 1]), schema) == ["a1 b2 c3"]
    assert matches(query, letters("a1 b2 c3", id=[1, None, 2]), schema) == []
    either = "EVENT SEQ(A a, ANY(B, C) x, C c) WHERE [id]"
    assert matches(either, letters("a1 b2 c2 c3", id=[1, 9, 2, 1]), schema) == ["a1 b2 c3"]


def test_null_agrees_with_nothing() -> None:
    query, schema = "EVENT SEQ(A a, B b) WHERE [id]", catalog(id="bigint")
    assert matches(query, letters("a1 b2", id=[None, None]), schema) == []
    assert matches(query, letters("a1 b2", id=[None, 1]), schema) == []
    alone = Catalog(types={"A": {"id": "bigint"}, "B": {}})
    assert matches(query, letters("a1 b2", id=[None, None]), alone) == ["a1 b2"], "there is nothing to agree with"


def test_equivalence_tests_with_several_attributes_and_with_a_value() -> None:
    schema = catalog(id="bigint", site="string")
    events = letters("a1 b2 b3 a4 b5", id=[1, 1, 1, 2, 2], site=["x", "x", "y", "x", "x"])
    assert matches("EVENT SEQ(A a, B b) WHERE [id, site]", events, schema) == ["a1 b2", "a4 b5"]
    assert matches("EVENT SEQ(A a, B b) WHERE [id='1', site]", events, schema) == ["a1 b2"]
    assert matches("EVENT SEQ(A a, B b) WHERE [id=2]", events, schema) == ["a4 b5"]
    assert matches("EVENT SEQ(A a, B b) WHERE [id=3]", events, schema) == []


def test_an_equivalence_test_binds_the_negated_component() -> None:
    query, schema = "EVENT SEQ(A a, !C c, B b) WHERE [id]", catalog(id="bigint")
    assert matches(query, letters("a1 c2 b3", id=[1, 1, 1]), schema) == []
    assert matches(query, letters("a1 c2 b3", id=[1, 2, 1]), schema) == ["a1 b3"]
    assert matches(query, letters("a1 c2 b3", id=[1, None, 1]), schema) == ["a1 b3"]
    lacking = Catalog(types={"A": {"id": "bigint"}, "B": {"id": "bigint"}, "C": {}})
    assert matches(query, letters("a1 c2 b3", id=[1, None, 1]), lacking) == [], "any C is in the way"
    valued = "EVENT SEQ(A a, !C c, B b) WHERE [id=1]"
    only_c = Catalog(types={"A": {}, "B": {}, "C": {"id": "bigint"}})
    assert matches(valued, letters("a1 c2 b3", id=[None, 1, None]), only_c) == []
    assert matches(valued, letters("a1 c2 b3", id=[None, 2, None]), only_c) == ["a1 b3"]


def test_parameters() -> None:
    schema = catalog(k="bigint", parameters={"least": 2, "T": 5, "name": "x' OR TRUE --"})
    events = letters("a1 a2 b6", k=[1, 2, 3])
    assert matches("EVENT SEQ(A a, B b) WHERE a.k >= {least} WITHIN T", events, schema) == ["a2 b6"]
    assert matches("EVENT A a WHERE 'x' = {name}", events, schema) == []
    hours = catalog(parameters={"T": "2 hours"})
    two: list[Row] = [{"type": name, "ts": datetime(2024, 1, 1, hour)} for name, hour in (("A", 0), ("B", 1), ("B", 2))]
    assert len(evaluate("EVENT SEQ(A a, B b) WITHIN {T}", hours, two)) == 1


CONDITIONS: list[tuple[str, bool | None]] = [
    ("NOT 1 = 2 AND 2 BETWEEN 1 AND 2 AND 3 NOT BETWEEN 1 AND 2", True),
    ("1 IN (2, NULL)", None),
    ("1 IN (1, NULL)", True),
    ("1 NOT IN (2, NULL)", None),
    ("2 BETWEEN NULL AND 1", False),
    ("'abc' LIKE 'a%' AND 'abc' LIKE '_b_' AND 'abc' NOT LIKE '%b'", True),
    (r"'a%c' LIKE 'a\%c' AND NOT 'abc' LIKE 'a\%c'", True),
    ("'a\nb' LIKE 'a_b' AND 'a.b' LIKE 'a.b' AND NOT 'axb' LIKE 'a.b'", True),
    ("7 % 3 = 1 AND -7 % 3 = -1 AND 7 DIV 2 = 3 AND -7 DIV 2 = -3", True),
    ("7 / 2 = 3.5 AND 1 + 2 * 3 = 7 AND -(2 - 5) = 3", True),
    ("abs(-2) = 2 AND upper('a') = 'A' AND lower('A') = 'a' AND length('ab') = 2", True),
    ("coalesce(NULL, 3) = 3 AND abs(NULL) IS NULL", True),
    ("CASE WHEN 1 = 2 THEN 'x' WHEN NULL = 1 THEN 'y' ELSE 'z' END = 'z'", True),
    ("CASE 2 WHEN 1 THEN 'x' WHEN 2 THEN 'y' END = 'y' AND CASE WHEN FALSE THEN 1 END IS NULL", True),
    ("CAST('3' AS bigint) = 3 AND CAST(2.9 AS int) = 2 AND CAST(1 AS string) = '1'", True),
    ("a.f = a.f AND a.f > 1e300 AND NOT a.f < 1", True),
    ("a.zero = 0 AND a.zero = 0.0 AND NOT a.zero < 0", True),
    ("a.price = 1.5 AND a.price > 1 AND a.price < 1.6e0", True),
    ("a.day = '2024-01-02' AND a.day < TIMESTAMP '2024-01-02 01:00:00' AND a.day = DATE '2024-01-02'", True),
    ("a.day + INTERVAL '1' DAY = DATE '2024-01-03'", True),
    ("a.ok AND a.ok = 'true' AND NOT (NOT a.ok)", True),
]
SCALAR_TYPES = {"f": "double", "zero": "double", "price": "decimal(10,2)", "day": "date", "ok": "boolean"}
SCALARS = {"type": "A", "ts": 1, "f": NAN, "zero": -0.0, "price": Decimal("1.50"), "day": date(2024, 1, 2), "ok": True}


@pytest.mark.parametrize(("condition", "holds"), CONDITIONS)
def test_scalars(condition: str, holds: bool | None) -> None:
    schema = catalog(**SCALAR_TYPES)
    assert bool(evaluate(f"EVENT A a WHERE {condition}", schema, [SCALARS])) is (holds is True)
    assert bool(evaluate(f"EVENT A a WHERE NOT ({condition})", schema, [SCALARS])) is (holds is False)


def test_scalars_are_those_of_spark(spark: SparkSession) -> None:
    row = [SCALARS[name] for name in SCALAR_TYPES]
    frame = spark.createDataFrame([row], ", ".join(f"{name} {kind}" for name, kind in SCALAR_TYPES.items())).alias("a")
    assert tuple(frame.selectExpr(*(condition for condition, _ in CONDITIONS)).head()) == tuple(
        holds for _, holds in CONDITIONS
    )


# What does not fit: with ANSI and without. `Overflow` is that of Spark, which then fails.
NUMBERS: list[tuple[str, bool | type[Overflow], bool]] = [
    ("a.t + a.t = 254", Overflow, False),
    ("a.t + a.t = -2", Overflow, True),
    ("a.t + 1 = 128", True, True),
    ("a.t + a.s = 255", True, True),
    ("a.i + a.i + a.l > 0", Overflow, True),
    ("a.i - -2147483648 < 0", Overflow, True),
    ("a.i - -2147483649 < 0", False, False),
    ("a.l + 1 < 0", Overflow, True),
    ("-a.lo = a.lo", Overflow, True),
    ("abs(a.lo) < 0", Overflow, True),
    ("a.i * 2 = -2", Overflow, True),
    ("a.lo DIV -1 = a.lo", Overflow, True),
    ("CASE WHEN a.l > 0 THEN a.i ELSE a.l END + 1 = 2147483648", True, True),
    ("CAST(a.i AS bigint) + a.i = 4294967294", True, True),
    ("a.l > 0 OR a.l + a.s > 0", True, True),
    ("a.l < 0 AND a.l + a.t > 0", False, False),
    # 2**53 + 1 is no double and 2**24 + 1 no float.
    ("a.odd = a.d", True, True),
    ("a.odd IN (a.even, a.d)", True, True),
    ("a.odd IN (a.even, CAST(NULL AS double))", True, True),
    ("a.odd BETWEEN a.d AND a.even", False, False),
    ("a.odd BETWEEN a.even AND a.d", True, True),
    ("a.n = a.f", False, True),
    ("a.n + a.f = 33554432", False, True),
    ("a.n + a.f = a.f + 16777216", False, True),
]
NUMBER_TYPES = {
    **{"t": "tinyint", "s": "smallint", "i": "int", "l": "bigint", "lo": "bigint"},
    **{"odd": "bigint", "even": "bigint", "d": "double", "n": "int", "f": "float"},
}
NUMBER_VALUES = (2**7 - 1, 2**7, 2**31 - 1, 2**63 - 1, -(2**63), 2**53 + 1, 2**53, 2.0**53, 2**24 + 1, 2.0**24)


@pytest.mark.parametrize("ansi", [True, False])
def test_numbers_are_those_of_spark(spark: SparkSession, ansi: bool) -> None:
    frame = spark.createDataFrame([NUMBER_VALUES], ", ".join(f"{name} {kind}" for name, kind in NUMBER_TYPES.items()))
    event = {"type": "A", "ts": 1, **dict(zip(NUMBER_TYPES, NUMBER_VALUES, strict=True))}
    expected = {condition: with_ansi if ansi else without for condition, with_ansi, without in NUMBERS}
    judged: dict[str, bool | type[Overflow]] = {}
    for condition in expected:
        try:
            judged[condition] = bool(evaluate(f"EVENT A a WHERE {condition}", catalog(**NUMBER_TYPES), [event], ansi))
        except Overflow:
            judged[condition] = Overflow
    assert judged == expected
    # The rest in one query: nothing else can be seen of what fails.
    fine = [condition for condition, holds in expected.items() if holds is not Overflow]
    failing = [condition for condition, holds in expected.items() if holds is Overflow]
    with ansi_mode(spark, ansi):
        found = frame.alias("a").selectExpr(*fine).head()
        for condition in failing:
            with pytest.raises(ArithmeticException, match=r"(?i)overflow"):
                frame.alias("a").selectExpr(condition).head()
    assert dict(zip(fine, found, strict=True)) == {condition: expected[condition] for condition in fine}


# ---- negation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("time", range(0, 8))
def test_negation_in_the_middle(time: int) -> None:
    """Strictly between its neighbours, and only between them."""
    found = matches("EVENT SEQ(A a, !B b, C c, D d) WITHIN 9", letters(f"a1 c5 d7 b{time}"))
    assert found == ([] if 1 < time < 5 else ["a1 c5 d7"])


@pytest.mark.parametrize("time", range(-3, 8))
def test_negation_first(time: int) -> None:
    """From d.time - T, exclusive, to c: -1 to 4 for a window of 9."""
    assert matches("EVENT SEQ(!B b, C c, D d) WITHIN 9", [*letters("c5 d7"), {"type": "B", "ts": time}]) == (
        [] if -2 < time < 5 else ["c5 d7"]
    )


@pytest.mark.parametrize("time", range(3, 13))
def test_negation_last(time: int) -> None:
    """From d to c.time + T, exclusive: 8 to 10 for a window of 6."""
    assert matches("EVENT SEQ(C c, D d, !B b) WITHIN 6", letters(f"c5 d7 b{time}")) == (
        [] if 7 < time < 11 else ["c5 d7"]
    )


@pytest.mark.parametrize(
    ("query", "event", "forbidden"),
    [
        ("EVENT SEQ(A a, !C c, B b)", "c1", [6]),
        ("EVENT SEQ(A a, !C c, B b)", "c3", [4]),
        ("EVENT SEQ(!C c, A a, B b) WITHIN 5", "c1", [4]),
        ("EVENT SEQ(A a, B b, !C c) WITHIN 5", "c3", [6]),
    ],
)
def test_negation_and_the_tie_breaker(query: str, event: str, forbidden: list[int]) -> None:
    """At the time of its neighbour, whose tie-breaker is 5; without one the two are simultaneous."""
    for n in (4, 5, 6):
        found = matches(query, letters(f"a1 b3 {event}", n=[5, 5, n]), catalog(order="n"))
        assert found == ([] if n in forbidden else ["a1 b3"]), n
    assert matches(query, letters(f"a1 b3 {event}")) == ["a1 b3"]


def test_the_window_bounds_a_negation_by_time_alone() -> None:
    schema = catalog(order="n")
    first = "EVENT SEQ(!C c, A a, B b) WITHIN 5"
    assert matches(first, letters("c-2 a1 b3", n=[9, 1, 1]), schema) == ["a1 b3"]
    assert matches(first, letters("c-1 a1 b3", n=[0, 1, 1]), schema) == []
    last = "EVENT SEQ(A a, B b, !C c) WITHIN 5"
    assert matches(last, letters("a1 b3 c6", n=[9, 9, 0]), schema) == ["a1 b3"]
    assert matches(last, letters("a1 b3 c5", n=[1, 1, 99]), schema) == []


def test_several_negations_and_side_by_side() -> None:
    query = "EVENT SEQ(!D d, A a, !C c, !D e, B b, !C f) WITHIN 5"
    assert matches(query, letters("a1 b3")) == ["a1 b3"]
    for event in ("d0", "c2", "d2", "c4", "c5"):
        assert matches(query, letters(f"a1 b3 {event}")) == [], event
    for event in ("d-2", "c0", "d4", "c6"):
        assert matches(query, letters("a1 b3") + letters(event)) == ["a1 b3"], event


def test_a_negated_event_counts_only_where_its_predicates_hold() -> None:
    schema = catalog(k="bigint")
    query = "EVENT SEQ(A a, !C c, B b) WHERE c.k > a.k AND (c.k < b.k OR c.k = 9) AND a.k > 0"
    for k, forbidden in ((1, False), (2, True), (3, True), (4, False), (9, True), (None, False)):
        assert matches(query, letters("a1 c2 b3", k=[1, k, 4]), schema) == ([] if forbidden else ["a1 b3"]), k
    assert matches(query, letters("a1 b3", k=[0, 4]), schema) == []


def test_two_negated_components_have_predicates_of_their_own() -> None:
    query, schema = "EVENT SEQ(A a, !C c, !D d, B b) WHERE c.k = 1 AND d.k = 2", catalog(k="bigint")
    assert matches(query, letters("a1 c2 d2 b3", k=[0, 2, 1, 0]), schema) == ["a1 b3"]
    assert matches(query, letters("a1 c2 d2 b3", k=[0, 1, 1, 0]), schema) == []
    assert matches(query, letters("a1 c2 d2 b3", k=[0, 2, 2, 0]), schema) == []


def test_not_of_or_splits_into_parts() -> None:
    query, schema = "EVENT SEQ(A a, !C c, !D d, B b) WHERE NOT (a.k = 1 OR c.k = 2 OR d.k = 3)", catalog(k="bigint")
    assert matches(query, letters("a1 b3", k=[1, 0]), schema) == []
    assert matches(query, letters("a1 c2 d2 b3", k=[0, 2, 3, 0]), schema) == ["a1 b3"]
    assert matches(query, letters("a1 c2 d2 b3", k=[0, 2, 4, 0]), schema) == []


def test_without_within_a_negation_in_the_middle_has_no_other_bound() -> None:
    assert matches("EVENT SEQ(A a, !C c, B b)", letters("a1 c500 b1000")) == []


# ---- results ------------------------------------------------------------------------------------


def test_a_result_holds_the_attributes_of_the_positive_components_and_the_times() -> None:
    schema = Catalog(order="n", types={"A": {"k": "bigint"}, "B": {"s": "string"}, "C": {}})
    events = letters("a1 b3", n=[1, 1], k=[7, 8], s=["no", "yes"])
    assert evaluate("EVENT SEQ(A x, !C c, ANY(A, B) y) WITHIN 9", schema, events) == [
        {
            "x": {"ts": 1, "type": "A", "n": 1, "k": 7},
            "y": {"ts": 3, "type": "B", "n": 1, "k": None, "s": "yes"},
            "started_at": 1,
            "detected_at": 3,
        }
    ]


def test_a_trailing_negation_is_detected_when_its_window_closes() -> None:
    (row,) = evaluate("EVENT SEQ(A a, B b, !C c) WITHIN 10", catalog(), letters("a1 b3"))
    assert (row["started_at"], row["detected_at"]) == (1, 11)
    (row,) = evaluate("EVENT SEQ(!C c, A a, B b) WITHIN 10", catalog(), letters("a1 b3"))
    assert (row["started_at"], row["detected_at"]) == (1, 3)
    noon = datetime(2024, 1, 1, 12)
    (row,) = evaluate("EVENT SEQ(A a, !C c) WITHIN 90 minutes", catalog(), [{"type": "A", "ts": noon}])
    assert row["detected_at"] == datetime(2024, 1, 1, 13, 30)


def test_return_names_columns_and_the_composite_event() -> None:
    schema = Catalog(types={"A": {"k": "bigint"}, "B": {}})
    events = letters("a1 b3", k=[7, None])
    assert evaluate("EVENT SEQ(A a, B b) RETURN a.k, b.ts AS left_at, b.ts - a.ts AS took", schema, events) == [
        {"k": 7, "left_at": 3, "took": 2}
    ]
    assert evaluate("EVENT SEQ(A a, B b) RETURN Alert(a.k, b.ts AS left_at)", schema, events) == [
        {"type": "Alert", "k": 7, "left_at": 3}
    ]
    assert evaluate("EVENT SEQ(A a, ANY(A, B) b) RETURN b.k + 1 AS next", schema, events) == [{"next": None}]


# ---- the papers ---------------------------------------------------------------------------------

READING = {"id": "bigint", "category": "string", "manufacturer_id": "bigint"}
RETAIL = Catalog(
    types={
        "SHELF-READING": {**READING, "shelf_id": "bigint"},
        "COUNTER-READING": READING,
        "EXIT-READING": READING,
    }
)


def reading(place: str, hour: float, item: int, shelf: int | None = None, category: str = "food") -> Row:
    time = datetime(2024, 1, 1) + timedelta(hours=hour)
    row: Row = {"type": f"{place}-READING", "ts": time, "id": item, "category": category, "manufacturer_id": 1}
    return row if place != "SHELF" else {**row, "shelf_id": shelf}


def test_q1_food_of_one_manufacturer() -> None:
    query = "EVENT SHELF-READING\nWHERE category = ‘food’ ∧ manufacturer_id = ‘1’"
    other = {**reading("SHELF", 1, 3), "manufacturer_id": 2}
    events = [reading("SHELF", 0, 1), reading("SHELF", 0, 2, category="toy"), other, reading("EXIT", 2, 4)]
    assert [row["shelf_reading"]["id"] for row in evaluate(query, RETAIL, events)] == [1]


@pytest.mark.parametrize("where", ["x.id = y.id ∧ x.id = z.id", "[id]"])
def test_q2_shoplifting(where: str) -> None:
    query = f"""EVENT SEQ(SHELF-READING x, ! (COUNTER-READING y),
EXIT-READING z)
WHERE {where}
/* or equivalently, [id] */
WITHIN 12 hours"""
    events = [
        *(reading("SHELF", 0, 1), reading("COUNTER", 1, 1), reading("EXIT", 2, 1)),  # paid for
        *(reading("SHELF", 0, 2), reading("COUNTER", 1, 9), reading("EXIT", 2, 2)),  # another item paid for
        *(reading("SHELF", 0, 3), reading("EXIT", 12, 3)),  # out of the window
        *(reading("SHELF", 0, 4), reading("EXIT", 2, 4), reading("COUNTER", 3, 4)),  # too late
        *(reading("COUNTER", 0, 5), reading("SHELF", 1, 5), reading("EXIT", 2, 5)),  # too early
    ]
    assert [row["x"]["id"] for row in evaluate(query, RETAIL, events)] == [2, 4, 5]


# Figure 1 is lost, but the text gives it away. Seven sequences of (A, B, D), three of them at d9 (3.1 and 3.2): a1 b3
# a4 b6 and three d, at 5, 7 and 9. Partition '2' of attr1 holds a4, b6, d9 alone (4.2.1). Of the three that pass the
# selection, the second spans 6 and more, and the third loses to a 'c' between its 'b' and its 'd'.
FIGURE_1 = letters(
    "a1 c2 b3 a4 d5 b6 d7 c8 d9",
    attr1=[1, 1, 1, 2, 1, 2, 1, 2, 2],
    attr2=[3, 3, 3, 3, 3, 3, 3, 3, 3],
    attr3=["1", "1", "1", "1", "1", "1", "1", "1", "1"],
    attr4=[1, 1, 1, 1, 2, 1, 2, 1, 2],
)
FIGURE_1_TYPES = {"attr1": "bigint", "attr2": "bigint", "attr3": "string", "attr4": "bigint"}


def test_q3_operator_by_operator() -> None:
    """Figure 1: sequences, selection, window, negation."""
    schema = catalog(parameters={"T": 6}, **FIGURE_1_TYPES)
    where = "[attr1, attr2] ∧ x1.attr3 = ‘1’ ∧ x1.attr4 < x4.attr4"
    sequences = matches("EVENT SEQ(A x1, B x2, D x4)", FIGURE_1, schema)
    assert len(sequences) == 7
    assert [found for found in sequences if found.endswith("d9")] == ["a1 b3 d9", "a1 b6 d9", "a4 b6 d9"]
    selected = matches(f"EVENT SEQ(A x1, B x2, D x4) WHERE {where}", FIGURE_1, schema)
    assert selected == ["a1 b3 d5", "a1 b3 d7", "a4 b6 d9"]
    in_window = matches(f"EVENT SEQ(A x1, B x2, D x4) WHERE {where} WITHIN T", FIGURE_1, schema)
    assert in_window == ["a1 b3 d5", "a4 b6 d9"]
    q3 = f"EVENT SEQ(A x1, B x2, ! (C x3), D x4)\nWHERE {where}\nWITHIN T"
    assert matches(q3, FIGURE_1, schema) == ["a1 b3 d5"]


def test_misplaced_inventory() -> None:
    query = """EVENT SEQ(SHELF-READING x, SHELF-READING y,
! (ANY(COUNTER- READING, SHELF-READING) z) )
WHERE [id] ∧ x.shelf_id ≠ y.shelf_id ∧ x.shelf_id = z.shelf_id
WITHIN 1 hour"""
    moved = [reading("SHELF", 0, 1, shelf=1), reading("SHELF", 0.2, 1, shelf=2)]
    (row,) = evaluate(query, RETAIL, moved)
    assert row["detected_at"] == datetime(2024, 1, 1, 1)
    assert evaluate(query, RETAIL, [*moved, reading("COUNTER", 0.5, 1)]) == [], "the counter has no shelf_id: bought"
    assert len(evaluate(query, RETAIL, [*moved, reading("COUNTER", 0.5, 2)])) == 1, "another item"
    assert len(evaluate(query, RETAIL, [*moved, reading("COUNTER", 1, 1)])) == 1, "after the window"
    assert len(evaluate(query, RETAIL, [*moved, reading("SHELF", 0.5, 1, shelf=2)])) == 2, "still misplaced, twice"
    back = evaluate(query, RETAIL, [*moved, reading("SHELF", 0.5, 1, shelf=1)])
    assert [row["x"]["shelf_id"] for row in back] == [2], "put back: only the way back is a move of its own"


def test_overdose() -> None:
    query = """EVENT
SEQ(MEDICINE-TAKEN x, MEDICINE-TAKEN y)
WHERE
[name=‘John’] ∧ [medicine=‘Antibiotics’] ∧
(x.amount + y.amount) > 1000
WITHIN 4 hours"""
    schema = Catalog(types={"MEDICINE-TAKEN": {"name": "string", "medicine": "string", "amount": "double"}})

    def taken(hour: int, amount: float, name: str = "John", medicine: str = "Antibiotics") -> Row:
        time = datetime(2024, 1, 1, hour)
        return {"type": "MEDICINE-TAKEN", "ts": time, "name": name, "medicine": medicine, "amount": amount}

    events = [taken(0, 600), taken(1, 400), taken(2, 401), taken(3, 900, "Jane"), taken(3, 900, medicine="Aspirin")]
    (row,) = evaluate(query, schema, [*events, taken(4, 590)])
    assert (row["x"]["ts"].hour, row["y"]["ts"].hour) == (0, 2)


def test_the_arrivals_of_the_vehicle_paper() -> None:
    """Its Q3 and Q4; `[a1, c4, d6]` in its text is c5, as its own figure says."""
    q3 = letters("a1 d2 c3 a4 c5 d6")
    assert matches("EVENT SEQ(A a, C c, D d)", q3) == ["a1 c3 d6", "a1 c5 d6", "a4 c5 d6"]
    q4 = letters("a1 c2 b3 a4 c5 d6", attr=[0, 0, 3, 0, 0, 0])
    query = "EVENT SEQ(A a, !(B b), C c, D d)"
    schema = catalog(attr="bigint")
    assert matches(query, q4, schema) == ["a1 c2 d6", "a4 c5 d6"], "b3 lies between a1 and c5"
    assert matches(f"{query} WHERE b.attr = 3", q4, schema) == ["a1 c2 d6", "a4 c5 d6"]
    assert matches(f"{query} WHERE b.attr = 4", q4, schema) == ["a1 c2 d6", "a1 c5 d6", "a4 c5 d6"]
