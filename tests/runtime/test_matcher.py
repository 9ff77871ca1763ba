"""From row numbers to the columns of matches: a variable may have one event, none, or many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sase.runtime.operator.construction import Columns, Rows

IDS, NOTES = pa.array([10, 11, 12, 13]), pa.array(["a", None, "c", "d"])
WHOLE: Columns = {"id": IDS, "note": NOTES}
IN_CHUNKS: Columns = {name: pa.chunked_array([values.slice(0, 3), values.slice(3)]) for name, values in WHOLE.items()}


def event(row: int) -> dict[str, object]:
    return {"id": IDS[row].as_py(), "note": NOTES[row].as_py()}


def rows(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize("columns", [WHOLE, IN_CHUNKS], ids=["whole", "in chunks"])
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(Rows(rows(2, 1, 2)), [event(2), event(1), event(2)], id="one"),
        pytest.param(Rows(rows()), [], id="no match"),
        pytest.param(Rows(rows(3, 1), rows(0, 1, 1, 2, 2)), [event(3), None, event(1), None], id="one or none"),
        pytest.param(Rows(rows(), rows(0, 0, 0)), [None, None], id="none"),
        pytest.param(
            Rows(rows(0, 2, 3, 1), rows(0, 0, 3, 4), collected=True),
            [[], [event(0), event(2), event(3)], [event(1)]],
            id="many",
        ),
        pytest.param(Rows(rows(), rows(0, 0), collected=True), [[]], id="none of many"),
    ],
)
def test_a_variable_has_one_event_or_none_or_many(columns: Columns, events: Rows, expected: list[object]) -> None:
    column = events.column(columns, ["id", "note"])
    assert column.to_pylist() == expected
    struct = pa.struct([("id", pa.int64()), ("note", pa.string())])
    assert column.type == (pa.list_(struct) if events.collected else struct)


def test_a_match_without_an_event_is_null_and_not_a_struct_of_nulls() -> None:
    column = Rows(rows(1), rows(0, 0, 1)).column({"note": NOTES}, ["note"])
    assert column.is_null().to_pylist() == [True, False]
    assert column.to_pylist() == [None, {"note": None}]
