"""VDMS-PQ as a front end."""

from __future__ import annotations

from functools import partial

from sase.compiler.core.missing import without_missing
from sase.compiler.languages.front_end import Parsed
from sase.compiler.languages.sase.binder import bind
from sase.compiler.languages.sase.front_end import parsed
from sase.compiler.languages.vdms_pq.parser import parse


def read(text: str, filename: str) -> Parsed:
    query = parse(text, filename)
    return parsed(query, partial(bind, query, missing=without_missing))
