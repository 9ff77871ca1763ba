"""Columns become integers that compare as Spark compares the values."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sase.runtime.kernels.encode import Domain, changes, encode_pattern, encode_terms, ordered_bits
from sase.runtime.kernels.sequences import NULL
from sase.runtime.pattern import Clause, Compare, Holds, Negated, Operator, Pattern


def comparing(*pairs: tuple[str, Operator, str]) -> Pattern:
    clauses: list[Clause] = [(Compare("a", left, op, "b", right),) for left, op, right in pairs]
    return Pattern(("a", "b"), where=tuple(clauses))


def terms_of(table: pa.Table, *pairs: tuple[str, Operator, str]) -> dict[str, list[int]]:
    encoding = encode_pattern(comparing(*pairs))
    return dict(zip(encoding.columns, encode_terms(encoding, table).tolist(), strict=True))


def assert_order(left: list[Any], right: list[Any]) -> None:
    """The integers on the right are in the order of the values on the left, which may hold None."""
    for (v, i), (w, j) in itertools.product(zip(left, right, strict=True), repeat=2):
        assert (v is None) == (i == NULL)
        if v is not None and w is not None:
            assert (v < w, v == w) == (i < j, i == j)


# --- values ----------------------------------------------------------------------------------------------------------

UTF8 = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def spark_float(value: float) -> tuple[bool, float]:
    """A key in Spark's order: NaN above everything, zeros alike."""
    return (True, 0.0) if value != value else (False, value)


@given(st.lists(st.floats()))
def test_floats(values: list[float]) -> None:
    bits = ordered_bits(np.array(values, np.float64)).tolist()
    assert NULL not in bits
    assert_order([spark_float(value) for value in values], bits)


def test_all_nans_are_one_and_above_infinity() -> None:
    nans = np.array([0x7FF8 << 48, 0xFFF8 << 48, (0xFFF0 << 48) + 1], np.uint64).view(np.float64)
    bits = ordered_bits(np.concatenate([nans, [np.inf, -0.0, 0.0, -np.inf]])).tolist()
    assert bits[0] == bits[1] == bits[2] > bits[3] > bits[4] == bits[5] > bits[6]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([3, None, -1, 2**63 - 1], pa.int64()),
        ([3, None, -(2**63), -(2**63) + 1], pa.int64()),
        ([-(2**63), -(2**63), 5], pa.int64()),
        ([3, None, -128], pa.int8()),
        ([True, None, False], pa.bool_()),
        ([1.5, None, -2.0, 0.0], pa.float64()),
        ([1.5, None, -2.0, 0.0], pa.float32()),
        ([date(1969, 12, 31), None, date(2024, 1, 1)], pa.date32()),
        ([datetime(1969, 1, 1, tzinfo=UTC), None, datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        ([timedelta(days=-1), None, timedelta(seconds=3)], pa.duration("us")),
        ([Decimal("-1.50"), None, Decimal("10.00"), Decimal("9.99")], pa.decimal128(10, 2)),
        (["b", None, "", "a", "ab", "b"], pa.string()),
        (["b", None, "", "a", "ab", "b"], pa.large_string()),
        ([b"\xff", None, b"", b"\x00"], pa.binary()),
        ([None, None], pa.string()),
    ],
)
@pytest.mark.parametrize("op", ["=", "<"])
def test_values_of_a_type(values: list[Any], type_: pa.DataType, op: Operator) -> None:
    whole = pa.array([None, *values], type_)
    chunked = pa.chunked_array([whole.slice(1, 1), whole.slice(2)])
    terms = terms_of(pa.table({"x": chunked}), ("x", op, "x"))["x"]
    if op == "<":
        assert_order(values, terms)
    else:
        assert [term == NULL for term in terms] == [value is None for value in values]
        assert len({t for t in terms if t != NULL}) == len({v for v in values if v is not None})


@given(st.lists(st.none() | UTF8, min_size=1))
def test_strings_are_ordered_by_their_bytes(values: list[str | None]) -> None:
    terms = terms_of(pa.table({"x": pa.array(values, pa.string())}), ("x", "<", "x"))["x"]
    assert_order([value if value is None else value.encode() for value in values], terms)


def test_utf_8_order_is_not_utf_16_order() -> None:
    terms = terms_of(pa.table({"x": ["\U00010000", "\uffff"]}), ("x", "<", "x"))["x"]
    assert terms[0] > terms[1]


def test_a_column_of_nulls_compares_to_nothing() -> None:
    table = pa.table({"x": pa.nulls(2), "y": ["a", "b"], "z": [1, 2]})
    assert terms_of(table, ("x", "<", "y"))["x"] == [NULL, NULL]
    assert terms_of(table, ("x", "<", "z")) == {"x": [NULL, NULL], "z": [1, 2]}
    assert terms_of(table, ("x", "<", "x")) == {"x": [NULL, NULL]}


# --- domains ---------------------------------------------------------------------------------------------------------


def test_columns_that_are_compared_share_a_domain() -> None:
    encoding = encode_pattern(comparing(("u", "=", "v"), ("x", "=", "y"), ("v", "!=", "w"), ("y", "<", "y")))
    assert encoding.columns == ("u", "v", "x", "y", "w")
    assert set(encoding.domains) == {Domain((0, 1, 4), ordered=False), Domain((2, 3), ordered=True)}


def test_ranks_are_joint() -> None:
    table = pa.table({"x": ["b", "d", None], "y": pa.array(["a", "d", "c"], pa.large_string())})
    assert terms_of(table, ("x", "<", "y")) == {"x": [1, 3, NULL], "y": [0, 3, 2]}


def test_decimals_of_different_scales() -> None:
    table = pa.table(
        {
            "x": pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(38, 2)),
            "y": pa.array([Decimal("1.5000"), Decimal("1.9999")], pa.decimal128(10, 4)),
        }
    )
    assert terms_of(table, ("x", ">", "y")) == {"x": [0, 2], "y": [0, 1]}


def test_a_value_that_looks_like_null_moves_its_whole_domain_to_ranks() -> None:
    table = pa.table({"x": [NULL, None, 7], "y": pa.array([7, 9, None], pa.int32())})
    assert terms_of(table, ("x", "<", "y")) == {"x": [0, NULL, 1], "y": [1, 2, NULL]}


def test_widths_may_differ() -> None:
    table = pa.table({"x": pa.array([1, 2], pa.int8()), "y": [1, 2], "f": pa.array([1.5], pa.float32()).take([0, 0])})
    assert terms_of(table, ("x", "=", "y")) == {"x": [1, 2], "y": [1, 2]}
    table = table.append_column("g", pa.array([1.5, 1.6]))
    terms = terms_of(table, ("f", "=", "g"))
    assert [f == g for f, g in zip(terms["f"], terms["g"], strict=True)] == [True, False]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"x": [1], "y": [1.0]},
            "columns of different types are compared: 'x' (integer), 'y' (floating); cast them to one type",
        ),
        (
            {"x": pa.array([1], pa.timestamp("us")), "y": pa.array([1], pa.date32())},
            "columns of different types are compared: 'x' (timestamp[us]), 'y' (date32[day]); cast them to one type",
        ),
        ({"x": [[1]], "y": [[1]]}, "column 'x': values of type list<item: int64> cannot be compared"),
    ],
)
def test_types_that_cannot_be_compared(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as error:
        terms_of(pa.table(columns), ("x", "<", "y"))
    assert str(error.value) == message


def test_only_a_boolean_holds() -> None:
    encoding = encode_pattern(Pattern(("a",), where=((Holds("a", "p"),),)))
    assert encode_terms(encoding, pa.table({"p": [True, None, False]})).tolist() == [[1, NULL, 0]]
    with pytest.raises(TypeError, match="column 'p' must be boolean, not int64"):
        encode_terms(encoding, pa.table({"p": [1]}))


# --- patterns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (Pattern(()), "a pattern needs a positive component"),
        (Pattern(tuple(f"v{i}" for i in range(64))), "a pattern has at most 63 components, this one has 64"),
        (Pattern(("a",), within=0), "the window must be positive, not 0"),
        (Pattern(("a",), where=((Holds("z", "p"),),)), "WHERE speaks of ['z'], which are no positive components"),
        (Pattern(("a",), (Negated("x", None, "a"),)), "'x' stands first or last, which needs a window"),
        (Pattern(("a", "b", "c"), (Negated("x", "a", "c"),)), "'x' does not stand between neighbours"),
        (
            Pattern(("a", "b"), (Negated("x", "a", "b", ((Holds("y", "p"),),)), Negated("y", "a", "b"))),
            "the predicates of 'x' speak of ['y']",
        ),
    ],
)
def test_patterns_that_the_kernel_cannot_run(pattern: Pattern, message: str) -> None:
    with pytest.raises(ValueError) as error:
        encode_pattern(pattern)
    assert str(error.value) == message


def test_clauses_are_decided_as_early_as_possible() -> None:
    def about(*variables: str) -> Clause:
        return tuple(Holds(variable, "p") for variable in variables)

    pattern = Pattern(("a", "b", "c"), where=(about("c"), about("a", "c"), about("b", "c"), about("a")))
    query = encode_pattern(pattern).query
    assert [query.numbers[query.checks[d] : query.checks[d + 1]].tolist() for d in range(3)] == [[1, 3], [2], [0]]


# --- changes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 1, None, None, 0, 2]),
        pa.array([0, 0, None, None, 1, 2], pa.int8()),
        pa.array(["", "", None, None, "a", "b"]),
        pa.array([b"", b"", None, None, b"a", b"b"]),
        pa.array([False, False, None, None, True, False]),
        pa.array([np.nan, -np.nan, None, None, 1.0, 2.0], from_pandas=False),
        pa.array([0.0, -0.0, None, None, 0.0, 2.0]),
        pa.array([Decimal(1), Decimal(1), None, None, Decimal(2), Decimal(3)]),
        pa.array([0, 0, None, None, 1, 2], pa.timestamp("us", "UTC")),
        pa.array([0, 0, None, None, 1, 2], pa.date32()),
        pa.array([[np.nan], [np.nan], None, None, [], [None]], pa.list_(pa.float64())),
        pa.array([{"x": 1}, {"x": 1}, None, None, {"x": None}, {"x": 2}]),
        pa.array([[{"x": 1}], [{"x": 1}], None, None, [{"x": None}], [{"x": 2}]]),
    ],
    ids=lambda array: str(array.type),
)
def test_changes(array: pa.Array) -> None:
    padded = pa.concat_arrays([array.take([5]), array])
    column = pa.chunked_array([padded.slice(1, 1), padded.slice(2, 3), padded.slice(5)])
    assert changes(column).tolist() == [False, True, False, True, True]


def test_a_column_of_nulls_never_changes() -> None:
    assert changes(pa.chunked_array([pa.nulls(3)])).tolist() == [False, False]
    assert changes(pa.chunked_array([pa.array([1])])).tolist() == []
