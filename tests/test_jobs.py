"""Generated jobs offer what `sase.jobs` writes down, under these names and with these parameters."""

from __future__ import annotations

from inspect import Parameter, isfunction, signature

import pytest

import sase
from sase.jobs import BatchJob, StreamJob

CATALOG = sase.Catalog(types={name: {"ts": "bigint", "id": "bigint", "v": "double"} for name in "ABC"})
QUERIES = {
    "one event": "EVENT A x",
    "a key": "EVENT SEQ(A x, !(B y), C z) WHERE [id] WITHIN 9",
    "slices": "EVENT SEQ(A x, B y) WITHIN 9",
    "all steps": "EVENT SEQ(A x, !(B y), C z) WHERE abs(x.v - z.v) < 2 AND abs(x.v - y.v) < 2 WITHIN 9 RETURN x.id",
}


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_job_offers_what_is_written_down(query: str, stream: bool) -> None:
    protocol = StreamJob if stream else BatchJob
    module = sase.compile(query, CATALOG, stream=stream).module
    functions = {name: member for base in protocol.__mro__ for name, member in vars(base).items() if isfunction(member)}
    offered = {name: member for name, member in functions.items() if not name.startswith("_")}
    assert {"relevant_events", "transform"} < offered.keys()
    for name, member in offered.items():
        _, *expected = signature(member).parameters.values()
        assert shape(signature(getattr(module, name)).parameters.values()) == shape(expected), name
    for name in ("SOURCE", "sequences", *(["OURS"] if stream else [])):
        assert hasattr(module, name)


def shape(parameters: object) -> list[tuple[str, bool]]:
    """Names, and whether each may be left out; annotations are a job's own, by the names that it imports."""
    return [(each.name, each.default is not Parameter.empty) for each in parameters]  # type: ignore[attr-defined]


def test_the_physical_plan_names_the_other_functions() -> None:
    query = sase.compile(QUERIES["all steps"], CATALOG)
    named = {step.function for step in query.compiled.physical.steps if hasattr(step, "function")}
    assert named == {"without_y"} and callable(query.module.without_y)
