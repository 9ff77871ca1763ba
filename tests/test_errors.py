"""Every compile error, literally: place, carets, message and help.

`tests/errors/*.txt` holds cases: a query, a line `----`, and what the user sees; cases are separated by `====`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sase.api import read_text
from sase.compiler.compile import compile_file, compile_query
from sase.compiler.compile_sql import compile_statement
from sase.compiler.composition import Composition
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import SaseError
from sase.compiler.languages.registry import read

FOLDER = Path(__file__).parent / "errors"
RETAIL = {
    "SHELF-READING": {"ts": "timestamp", "id": "bigint", "shelf_id": "int", "category": "string"},
    "COUNTER-READING": {"ts": "timestamp", "id": "bigint", "open": "boolean"},
    "EXIT-READING": {"ts": "timestamp", "id": "bigint", "weight": "double", "tag": "binary"},
}
CATALOGS = {
    "retail": Catalog(types=RETAIL, parameters={"limit": 3, "long": "soon", "thing": [1]}),
    "habits": Catalog(types=RETAIL, parameters={"none": [], "mixed": [1, [2]], "letters": ["a"]}),
    "integer_time": Catalog(
        types={"A": {"ts": "bigint", "id": "bigint"}, "B": {"ts": "bigint", "id": "bigint"}},
        parameters={"forever": 2**63 - 1},
    ),
    "nested": Catalog(
        types={
            name: {"ts": "bigint", "props": "struct<page:string,size:int>", "tags": "array<string>"} for name in "AB"
        }
    ),
    "patterns": Catalog(types={name: {"ts": "bigint", "id": "bigint", "v": "int", "s": "string"} for name in "ABCD"}),
    "clauses": Catalog(types={name: {"ts": "bigint", "id": "bigint", "v": "int", "s": "string"} for name in "ABCD"}),
    "loops": Catalog(types={name: {"ts": "bigint", "id": "bigint", "v": "int", "s": "string"} for name in "ABCD"}),
    "aggregates": Catalog(types={name: {"ts": "bigint", "id": "bigint", "v": "int", "s": "string"} for name in "ABCD"}),
    "vdms_pq": Catalog(
        types={
            "START": {"ts": "timestamp", "car_id": "bigint", "start_time": "int"},
            "STATUS": {"ts": "timestamp", "car_id": "bigint", "speed": "double"},
        },
        parameters={"SOME_ERR": 7},
    ),
    "uncertain": Catalog(
        types={
            **{name: {"ts": "bigint", "prob": "double"} for name in "ABC"},
            "D": {"ts": "bigint"},
            "E": {"ts": "bigint", "prob": "string"},
        }
    ),
    "telegraphcq": Catalog(
        types={
            "Person": {"ts": "timestamp", "person_id": "bigint", "loc_id": "int"},
            "Book": {"ts": "timestamp", "book_id": "bigint", "loc_id": "int"},
        },
        parameters={"soon": "later"},
    ),
    "composition": Catalog(types={name: {"ts": "bigint", "id": "bigint", "n": "int"} for name in "AB"}),
    "composition_ordered": Catalog(
        types={name: {"ts": "bigint", "id": "bigint", "n": "int"} for name in "AB"}, order="n"
    ),
    "conflict": Catalog(types={"A": {"ts": "bigint", "id": "bigint"}, "B": {"ts": "bigint", "id": "string"}}),
}


ON_STREAMS = {
    "stream": CATALOGS["retail"],
    "composition_stream": CATALOGS["composition"],
    "whole_matches": Catalog(types={name: {"ts": "bigint", "id": "bigint", "v": "int"} for name in "ABCD"}),
}


def cases(path: Path) -> list[tuple[str, str]]:
    parts = path.read_text(encoding="utf-8").split("\n====\n")
    return [tuple(part.strip("\n").split("\n----\n", 1)) for part in parts]  # type: ignore[misc]


def shown(query: str, catalog: Catalog, stream: bool = False) -> str:
    with pytest.raises(SaseError) as caught:
        parsed = read_text(query, "query.sase")
        if isinstance(parsed, Composition):
            compile_file(parsed, catalog, version="0", stream=stream)
        else:
            compile_query(parsed, catalog, version="0", stream=stream)
    return "\n".join(line.rstrip() for line in str(caught.value).splitlines())


@pytest.mark.parametrize("name", CATALOGS)
def test_every_error_is_shown_literally(name: str, regenerate_golden: bool) -> None:
    path = FOLDER / f"{name}.txt"
    found = [(query, shown(query, CATALOGS[name])) for query, _ in cases(path)]
    if regenerate_golden:
        path.write_text("\n====\n".join(f"{query}\n----\n{text}" for query, text in found) + "\n", encoding="utf-8")
    assert found == cases(path)


def test_without_a_catalog_only_names_and_types_go_unchecked() -> None:
    read("EVENT SEQ(X a, !(Y b), Z c) WHERE a.p = c.q AND [r] WITHIN 1 hour", "q.sase").bind(Catalog())
    with pytest.raises(SaseError, match="needs WITHIN"):
        read("EVENT SEQ(!(Y b), Z c)", "q.sase").bind(Catalog())


def test_all_errors_of_a_file_are_reported_at_once() -> None:
    with pytest.raises(SaseError) as caught:
        shoplifting = "EVENT SEQ(SHELF-READIN x, EXIT-READING z) WHERE z.idd = 1 AND y.id = 2 WITHIN 0 hours"
        read(shoplifting, "q.sase").bind(CATALOGS["retail"])
    assert [found.span.start for found in caught.value.diagnostics] == [10, 50, 62, 78]


@pytest.mark.parametrize("name", ON_STREAMS)
def test_errors_of_a_stream_are_shown_literally(name: str, regenerate_golden: bool) -> None:
    path = FOLDER / f"{name}.txt"
    found = [(query, shown(query, ON_STREAMS[name], stream=True)) for query, _ in cases(path)]
    if regenerate_golden:
        path.write_text("\n====\n".join(f"{query}\n----\n{text}" for query, text in found) + "\n", encoding="utf-8")
    assert found == cases(path)


@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_sql_are_shown_literally(regenerate_golden: bool, stream: bool) -> None:
    path = FOLDER / ("sql_stream.txt" if stream else "sql.txt")

    def shown(text: str) -> str:
        with pytest.raises(SaseError) as caught:
            compile_statement(text, "query.sql", "trino", version="0", stream=stream)
        return "\n".join(line.rstrip() for line in str(caught.value).splitlines())

    found = [(text, shown(text)) for text, _ in cases(path)]
    if regenerate_golden:
        path.write_text("\n====\n".join(f"{text}\n----\n{said}" for text, said in found) + "\n", encoding="utf-8")
    assert found == cases(path)
