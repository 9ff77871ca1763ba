"""What a cell shows of its matches: the first rows and how long they took, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pyspark.sql.types import NumericType

from sase.runtime.io.output import as_text, earliest, leaf_columns, printing_order
from sase.runtime.io.report import duration, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 20


@dataclass(frozen=True)
class Rows:
    """The first rows as text; None is NULL. `more` says that there are others."""

    header: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str | None, ...], ...]
    more: bool


def counted_rows(matches: DataFrame, limit: int = ROWS) -> tuple[Rows, int]:
    """The earliest rows, and how many there are: all matches are found."""
    rows, count = earliest(matches, limit)
    return _rows(matches, [tuple(row) for row in rows], count > limit), count


def first_rows(matches: DataFrame, limit: int = ROWS, ordered: bool = False) -> Rows:
    """Whichever rows Spark has first, sorted by time: to sort before would mean to find all matches. Rows that are
    `ordered` stay as they are."""
    leaves = list(leaf_columns(matches.schema))
    order = [] if ordered else printing_order(leaves)
    columns = matches.select([column.alias(f"_{at}") for at, (_, _, column) in enumerate(leaves)])
    texts = [as_text(f"_{at}", kind).alias(f"t{at}") for at, (_, kind, _) in enumerate(leaves)]
    found = columns.select(*texts, *(f"_{at}" for at in order)).limit(limit + 1).collect()
    kept = sorted(found[:limit], key=lambda row: [(value is not None, value) for value in row[len(leaves) :]])
    return _rows(matches, [tuple(row[: len(leaves)]) for row in kept], len(found) > limit)


def _rows(matches: DataFrame, rows: Sequence[tuple[str | None, ...]], more: bool) -> Rows:
    leaves = list(leaf_columns(matches.schema))
    header = tuple(".".join(path) for path, _, _ in leaves)
    return Rows(header, tuple(isinstance(kind, NumericType) for _, kind, _ in leaves), tuple(rows), more)


@dataclass(frozen=True, repr=False)
class CellOutput:
    """What stands below a cell: rows, and a line about them."""

    name: str
    shown: Rows

    @property
    def summary(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        rows = table(self.shown.header, self.shown.rows, self.shown.numeric) if self.shown.rows else ""
        return rows + self.summary

    def _repr_html_(self) -> str:
        rows = html_table(self.shown) if self.shown.rows else ""
        style = "font-size: 0.9em; opacity: 0.8; white-space: pre-line"
        return f'{rows}<div style="{style}">{escape(self.summary)}</div>'


@dataclass(frozen=True, repr=False)
class Preview(CellOutput):
    """A batch: how many there are is known if somebody asked."""

    count: int | None
    seconds: float
    notes: Sequence[str] = ()
    """What is to be said of the events."""
    one: str = "match"
    many: str = "matches"

    @property
    def summary(self) -> str:
        shown = len(self.shown.rows)
        count = self.count if self.shown.more else shown
        match count:
            case 0:
                matches = f"no {self.many}"
            case 1:
                matches = f"1 {self.one}"
            case None:
                matches = f"the first {shown} {self.many}; --count counts them all"
            case _:
                matches = f"{count:,} {self.many}" + (f", {shown} of them shown" if count > shown else "")
        return "\n".join([*self.notes, f"{self.name}: {matches} · {duration(self.seconds)}"])


def html_table(shown: Rows) -> str:
    """A table that scrolls sideways where the page is narrow. Colours are the page's own."""

    def row(cells: Sequence[str | None], tag: str) -> str:
        return "<tr>" + "".join(map(lambda *c: cell(tag, *c), cells, shown.numeric)) + "</tr>"

    def cell(tag: str, value: str | None, right: bool) -> str:
        style = f"text-align: {'right' if right else 'left'}; padding: 0.15em 0.8em; white-space: nowrap"
        if value is None:
            return f'<{tag} style="{style}; opacity: 0.5">NULL</{tag}>'
        cut = value if len(value) <= CELL else value[: CELL - 1] + "…"
        return f'<{tag} style="{style}">{escape(cut)}</{tag}>'

    body = "".join(row(cells, "td") for cells in shown.rows)
    return (
        '<div style="overflow-x: auto"><table style="border-collapse: collapse; font-size: 0.9em">'
        f'<thead style="border-bottom: 1px solid currentColor">{row(shown.header, "th")}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


CELL = 80
"""Longer values are cut."""
