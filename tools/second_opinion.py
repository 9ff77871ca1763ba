"""What Google's reference implementation of SQL says of random row patterns, beside what our judge says.

    python -m venv /tmp/other && /tmp/other/bin/pip install zetasql
    /tmp/other/bin/python tools/second_opinion.py [PATTERNS]

It runs in an environment of its own, outside of the tests: the engine takes a minute to start. Patterns have no PERMUTE
and no exclusion, which GoogleSQL does not know, and matches begin behind the last one or at the next row.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.random_rows import VARIABLES, random_condition, random_pattern, random_rows
from tests.row_judge import Aggregate, Clause, Exclude, MatchNumber, Permute, Repeat, Row, answer

MEASURES: dict[str, Any] = {
    "n": MatchNumber(),
    "long": Aggregate("count", None),
    **{
        f"{name.lower()}_{function}": Aggregate(function, "row", name)
        for name in VARIABLES
        for function in ("count", "sum")
    },
}


def random_clause(random: Random) -> Clause:
    while True:
        pattern = random_pattern(random, excluding=False)
        used = sorted({part for part in str(pattern) if part in VARIABLES})
        if used and not _has(pattern, Permute) and not _has(pattern, Exclude) and not _odd(pattern):
            break
    define = {name: random_condition(random) for name in used}
    measures = {name: each for name, each in MEASURES.items() if getattr(each, "variable", None) in (None, *used)}
    return Clause(pattern, define, measures, skip=random.choice(["PAST LAST ROW", "TO NEXT ROW"]))


def _has(pattern: Any, kind: type) -> bool:
    return isinstance(pattern, kind) or any(_has(part, kind) for part in _inner(pattern))


def _odd(pattern: Any) -> bool:
    """What the other one writes differently: `{0,0}`, and alternatives of nothing."""
    return (isinstance(pattern, Repeat) and pattern.high == 0) or any(map(_odd, _inner(pattern)))


def _inner(pattern: Any) -> tuple[Any, ...]:
    return (*getattr(pattern, "parts", ()), *([pattern.part] if hasattr(pattern, "part") else []))


def text_of(clause: Clause, rows: list[Row]) -> str:
    def value(number: Any) -> str:
        return "CAST(NULL AS INT64)" if number is None else str(number)

    structs = [
        f"STRUCT({', '.join(f'{value(row[name])} AS {name}' for name in ('row', 't', 'x', 'y'))})" for row in rows
    ]
    measures = ", ".join(f"{each} AS {name}" for name, each in clause.measures.items())
    define = ", ".join(f"{name} AS {each}" for name, each in clause.define.items())
    return (
        f"SELECT {', '.join(clause.measures)} FROM (SELECT * FROM UNNEST([{', '.join(structs)}])) "
        f"MATCH_RECOGNIZE (ORDER BY t, row MEASURES {measures} AFTER MATCH SKIP {clause.skip} "
        f"PATTERN ({clause.pattern}) DEFINE {define})"
    ).replace("row", "row_")


class Other:
    def __init__(self) -> None:
        from zetasql.api import CatalogBuilder, PreparedQuery
        from zetasql.types import AnalyzerOptions, LanguageOptions, ZetaSQLBuiltinFunctionOptions

        language = LanguageOptions.maximum_features()
        language.reserved_keywords = [*(language.reserved_keywords or []), "MATCH_RECOGNIZE"]
        builtin = ZetaSQLBuiltinFunctionOptions(language_options=language)
        self.catalog = CatalogBuilder("catalog").with_builtin_functions(builtin).build()
        self.options, self.query = AnalyzerOptions(language_options=language), PreparedQuery

    def answer(self, text: str) -> list[tuple[int, ...]]:
        builder = self.query.builder().set_sql(text).set_analyzer_options(self.options).set_catalog(self.catalog)
        with builder.prepare() as query:
            rows = query.execute().content.table_data.row
        return [tuple(None if cell.int64_value is None else int(cell.int64_value) for cell in row.cell) for row in rows]


def main(patterns: int = 300) -> None:
    other = Other()
    agreed = refused = 0
    for seed in range(patterns):
        random = Random(900_000 + seed)
        clause = random_clause(random)
        rows: list[Row] = [{**row, "row": at} for at, row in enumerate(random_rows(random))]
        text = text_of(clause, rows)
        try:
            found = sorted(other.answer(text), key=repr)
        except Exception as error:
            refused += 1
            print(f"refused: {str(error).splitlines()[0]}\n  {text[text.index('PATTERN') :]}")
            continue
        wanted = sorted((tuple(row.values()) for row in answer(clause, rows)), key=repr)
        if found == wanted:
            agreed += 1
        else:
            print(f"seed {seed}: {text}\n  theirs {found}\n  ours   {wanted}")
    print(f"{agreed} of {patterns} agree, {refused} refused, {patterns - agreed - refused} differ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
