"""Rows of Parquet files, in batches that a worker has room for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sase.runtime.operator import row_groups
from sase.runtime.operator.row_groups import in_batches

ROWS = 20_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Each text is written down once, so the file is small."""
    texts = [f"{number:01000}" for number in range(4)]
    rows = {
        "n": range(ROWS),
        "text": [texts[at % 4] for at in range(ROWS)],
        "kind": ["AB"[at % 2] for at in range(ROWS)],
    }
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet", row_group_size=ROWS // 2)
    return tmp_path / "rows.parquet"


def test_a_batch_is_no_larger_than_it_should_be(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "MOST_BYTES", 2 << 20)
    assert file.stat().st_size < 1 << 20
    with pq.ParquetFile(file) as opened:
        found = list(in_batches(opened, [0, 1], ["n", "text"]))
    assert pa.Table.from_batches(found).column("n").to_pylist() == list(range(ROWS))
    assert all(batch.num_rows >= row_groups.LOOK and batch.nbytes < 3 << 20 for batch in found[:-1])


def test_no_more_is_looked_at_than_a_few_rows(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of what is read comes once."""
    read: list[tuple[int, int]] = []
    iter_batches = pq.ParquetFile.iter_batches

    def watched(opened: pq.ParquetFile, size: int, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in iter_batches(opened, size, *args, **options):
            read.append((size, batch.num_rows))
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    with pq.ParquetFile(file) as opened:
        assert sum(batch.num_rows for batch in in_batches(opened, [0, 1], ["n", "text"])) == ROWS
    looks = [rows for size, rows in read if size == row_groups.LOOK]
    assert looks == [row_groups.LOOK] and sum(rows for _, rows in read) == ROWS + row_groups.LOOK


def test_what_grows_wider_is_noticed_with_the_next_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "MOST_BYTES", 2 << 20)
    texts = ["short"] * (ROWS // 2) + ["long" * 250] * (ROWS // 2)
    pq.write_table(pa.table({"text": texts}), tmp_path / "rows.parquet", row_group_size=ROWS // 4)
    with pq.ParquetFile(tmp_path / "rows.parquet") as opened:
        found = [batch.num_rows for batch in in_batches(opened, range(4), ["text"])]
    assert found[:3] == [ROWS // 4] * 3 and found[3] < ROWS // 8 and sum(found) == ROWS


@pytest.mark.parametrize("columns", [["n"], ["n", "kind"]])
def test_narrow_rows_come_a_row_group_at_a_time(file: Path, columns: list[str]) -> None:
    """Also where texts are read as dictionaries."""
    with pq.ParquetFile(file, read_dictionary=["kind"]) as opened:
        found = list(in_batches(opened, [1, 0], columns, ["kind"]))
    assert [batch.num_rows for batch in found] == [ROWS // 2, ROWS // 2]
    assert found[0].column("n")[0].as_py() == ROWS // 2


def test_no_row_is_no_batch(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "rows.parquet")
    with pq.ParquetFile(tmp_path / "rows.parquet") as opened:
        assert sum(batch.num_rows for batch in in_batches(opened, range(opened.num_row_groups), ["text"])) == 0
