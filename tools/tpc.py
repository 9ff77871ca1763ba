"""The texts of TPC-H and TPC-DS have self-joins, and none is a sequence: they must come out as they stand.

    python tools/tpc.py SQLGLOT     the unpacked source distribution of sqlglot, whose tests have the texts and tables

Beside the tests, since the texts are not ours to copy. What is said of a join that might have been one is printed.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from random import Random

import sqlglot

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from self_joins import Duck, joined, random_rows  # noqa: E402

from sase.compiler.core import scalars  # noqa: E402


def main() -> int:
    source = Path(sys.argv[1])
    helpers = runpy.run_path(str(source / "tests" / "helpers.py"))
    wrong = 0
    for name, schema in (("tpc-h", helpers["TPCH_SCHEMA"]), ("tpc-ds", helpers["TPCDS_SCHEMA"])):
        tables = Duck(random_rows(Random(1)))
        for table, columns in schema.items():
            listed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
            tables.connection.execute(f'CREATE TABLE "{table}" ({listed})')
        lines = (source / "tests" / "fixtures" / "optimizer" / name / f"{name}.sql").read_text().splitlines()
        text = "\n".join(line for line in lines if not line.startswith("# "))
        # What sqlglot's optimizer makes of a query stands behind it.
        queries = [query for query in sqlglot.parse(text) if query][::2]
        for number, query in enumerate(queries, 1):
            statement = query.sql(dialect="spark")
            found = joined(statement, tables)
            same = scalars.sql(found.query) == scalars.sql(sqlglot.parse_one(statement, dialect="spark"))
            if found.views or not same:
                wrong += 1
                print(f"{name} {number}: changed")
            for each in found.left:
                print(f"{name} {number}: left alone, {each.reason}")
        print(f"{name}: {len(queries)} queries")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
