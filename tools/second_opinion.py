"""Row patterns by the judge of our tests, and by GoogleSQL's reference implementation: random clauses through both.

    python -m venv elsewhere && elsewhere/bin/pip install zetasql==0.1.5
    elsewhere/bin/python tools/second_opinion.py [CLAUSES]

In an environment of its own, since its pins are not ours, and beside the tests, since it takes a minute to start: the
implementation comes as WebAssembly, which is compiled first. It has one row per match, two ways to skip, and conditions
on single rows and their neighbours; patterns without PERMUTE, exclusions and subsets, and no quantifier behind ^ and $.
Left out are endless loops whose body may take no row: `(A??)*` takes all rows there, and none here. The judge needs no
package, and the tests hold everything else to the judge.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.random_rows import VARIABLES, random_condition, random_pattern, random_rows  # noqa: E402
from tests.row_judge import (  # noqa: E402
    Anchor,
    Clause,
    Concat,
    Either,
    Pattern,
    Repeat,
    Row,
    Variable,
    first_match,
)

Found = list[tuple[int, int, int, str]]
"""Of each match: its number, its first row, how many rows it has, and their variables."""
SKIPS = ("PAST LAST ROW", "TO NEXT ROW")
NONE = -1


def by_judge(clause: Clause, rows: list[Row]) -> Found:
    """An empty match has no first row."""
    found: Found = []
    at = 0
    while at < len(rows):
        trail = first_match(clause, rows, at, len(found) + 1)
        if trail is not None:
            labels = "".join(mapped.variable for mapped in trail)
            found.append((len(found) + 1, at if trail else NONE, len(trail), labels))
        past = trail and clause.skip == "PAST LAST ROW"
        at = trail[-1].row + 1 if trail and past else at + 1
    return found


def text_of(clause: Clause) -> str:
    define = ", ".join(f"{name} AS {clause.define.get(name, 'TRUE')}" for name in used(clause.pattern))
    return f"""SELECT number, begun, taken, labels FROM t MATCH_RECOGNIZE (
      ORDER BY row
      MEASURES MATCH_NUMBER() AS number, MIN(row) AS begun, COUNT(*) AS taken,
               STRING_AGG(CLASSIFIER(), '' ORDER BY row) AS labels
      AFTER MATCH SKIP {clause.skip} PATTERN ({clause.pattern}) DEFINE {define})"""


def used(pattern: Pattern) -> list[str]:
    return sorted({letter for letter in str(pattern) if letter in VARIABLES})


def least(pattern: Pattern) -> int:
    """How many rows it takes at least."""
    match pattern:
        case Variable():
            return 1
        case Repeat(part, low):
            return low * least(part)
        case Concat(parts):
            return sum(map(least, parts))
        case Either(parts):
            return min(map(least, parts))
    return 0


def idle(pattern: Pattern) -> bool:
    """Whether a loop in it may go round for ever without taking a row, or is one of an anchor."""
    match pattern:
        case Repeat(part, _, high):
            return idle(part) or isinstance(part, Anchor) or (high is None and least(part) == 0)
        case Concat(parts) | Either(parts):
            return any(map(idle, parts))
    return False


def google() -> Callable[[str, list[Row]], Found]:
    from zetasql.api import CatalogBuilder, PreparedQuery, TableBuilder, create_table_content
    from zetasql.types import AnalyzerOptions, LanguageOptions, TypeKind, ZetaSQLBuiltinFunctionOptions

    language = LanguageOptions.maximum_features()
    language.reserved_keywords += ["MATCH_RECOGNIZE"]
    table = TableBuilder("t")
    for name in ("row", "x", "y"):
        table = table.add_column(name, TypeKind.TYPE_INT64)
    functions = ZetaSQLBuiltinFunctionOptions(language_options=language)
    catalog = CatalogBuilder("c").add_table(table.build()).with_builtin_functions(functions).build()
    options = AnalyzerOptions(language_options=language)

    def run(text: str, rows: list[Row]) -> Found:
        content = create_table_content([[at, row["x"], row["y"]] for at, row in enumerate(rows)])
        builder = PreparedQuery.builder().set_sql(text).set_analyzer_options(options).set_catalog(catalog)
        with builder.set_table_content({"t": content}).prepare() as query:
            data = query.execute().content.table_data
        return sorted(_match(row.cell) for row in (data.row if data is not None else ()))

    return run


def _match(cells: Any) -> tuple[int, int, int, str]:
    number, begun, taken, labels = cells
    begin = NONE if begun.int64_value is None else int(begun.int64_value)
    return int(number.int64_value), begin, int(taken.int64_value), str(labels.string_value or "")


def clause_of(random: Random) -> Clause:
    while True:
        pattern = random_pattern(random, excluding=False)
        if used(pattern) and "PERMUTE" not in str(pattern) and not idle(pattern):
            define = {name: random_condition(random) for name in used(pattern) if random.random() < 0.85}
            return Clause(pattern, define, skip=random.choice(SKIPS))


def main(clauses: int = 500) -> int:
    run, refused = google(), 0
    for seed in range(clauses):
        random = Random(seed)
        clause, rows = clause_of(random), random_rows(random)
        try:
            theirs = run(text_of(clause), rows)
        except Exception as error:
            refused += 1
            print(f"{seed}: not asked: {error}")
            continue
        ours = by_judge(clause, rows)
        if ours != theirs:
            print(f"{seed}: they differ\n{text_of(clause)}\n{rows}\nours   {ours}\ntheirs {theirs}")
            return 1
    print(f"the same matches of {clauses - refused:,} clauses")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
