"""Lengths of time in a query's text: written there, or given with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from sase.compiler.core import durations
from sase.compiler.languages.sase.syntax import Duration, Name


def given(length: Duration | Name, parameters: Mapping[str, object]) -> Duration | Name:
    """With a parameter replaced by its value; what stays a Name has none that is a length of time."""
    if isinstance(length, Duration):
        return length
    match parameters.get(length.text):
        case bool():
            return length
        case int() as value:
            return Duration(((str(value), None),), length.span)
        case timedelta() as value:
            return Duration(((str(value // timedelta(microseconds=1)), "microseconds"),), length.span)
        case str() as value if parts := durations.parse(value):
            return Duration(parts, length.span)
    return length
