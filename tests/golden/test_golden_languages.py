"""The jobs of other languages, reviewed like those of SASE: plan and job of printed queries.

Their answers are tested with the examples.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import sase

EXAMPLES = Path(__file__).parents[2] / "examples"
QUERIES = {
    "tcq_booklifting": "library/booklifting.tcq",
    "vdms_q1": "vdms_pq/q1.vdms",
    "vdms_q2": "vdms_pq/q2.vdms",
}
CATALOGS = {"library": "library.toml", "vdms_pq": "cars.toml"}


@pytest.mark.parametrize("name", QUERIES)
def test_plan_and_job_are_as_reviewed(name: str, regenerate_golden: bool) -> None:
    path = EXAMPLES / QUERIES[name]
    catalog = sase.Catalog.load(path.parent / CATALOGS[path.parent.name])
    check(name, sase.compile(path.read_text(encoding="utf-8"), catalog, filename=path.name), regenerate_golden)


def test_with_a_window_what_has_arrived_is_told_in_slices(regenerate_golden: bool) -> None:
    text = "PATTERN x:START, y:STATUS\nWHERE x.car_id = y.car_id && y.speed > avg*(y.speed)\nWITHIN 10 minutes"
    catalog = sase.Catalog.load(EXAMPLES / "vdms_pq/cars.toml")
    check("vdms_slices", sase.compile(text, catalog, filename="slices.vdms"), regenerate_golden)


def check(name: str, query: sase.Query, regenerate: bool) -> None:
    golden = Path(__file__).parent / name
    for file, text in {"plan.txt": query.explain(), "job.py": query.job}.items():
        if regenerate:
            golden.mkdir(exist_ok=True)
            (golden / file).write_text(text, encoding="utf-8")
        assert text == (golden / file).read_text(encoding="utf-8")
