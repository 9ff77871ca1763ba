"""sase: event-pattern queries compiled to PySpark jobs.

query = sase.compile(text, catalog=sase.Catalog.load("retail.toml"))
print(query.job)          # the generated source
print(query.explain())    # logical and physical plan
query.run(events)         # DataFrame → DataFrame of matches

sase.funnel(clicks, ["VIEW", "CART", "BUY"], by="user", within="1 day")   # how far each user gets
sase.sql("SELECT * FROM ticker MATCH_RECOGNIZE (…)", dialect="trino")   # a DataFrame, lazily
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sase.analysis.statistics import statistics as statistics
    from sase.api import Query as Query
    from sase.api import compile as compile
    from sase.compiler.core.catalog import Catalog as Catalog
    from sase.compiler.core.errors import CatalogError as CatalogError
    from sase.compiler.core.errors import OptionError as OptionError
    from sase.compiler.core.errors import SaseError as SaseError
    from sase.compiler.plan.statistics import Statistics as Statistics
    from sase.conversion import Funnel as Funnel
    from sase.conversion import funnel as funnel
    from sase.pictures.nfa import nfa as nfa
    from sase.pictures.plan import plan as plan
    from sase.pictures.stacks import stacks as stacks
    from sase.pictures.stages import stages as stages
    from sase.pictures.timeline import timeline as timeline
    from sase.runtime.errors import SaseRunError as SaseRunError
    from sase.runtime.session import session as session
    from sase.statement import Statement as Statement
    from sase.statement import compile_sql as compile_sql
    from sase.statement import sql as sql

__version__ = "0.1.0"
__all__ = [
    "Catalog",
    "CatalogError",
    "Funnel",
    "OptionError",
    "Query",
    "SaseError",
    "SaseRunError",
    "Statement",
    "Statistics",
    "compile",
    "compile_sql",
    "funnel",
    "nfa",
    "plan",
    "session",
    "sql",
    "stacks",
    "stages",
    "statistics",
    "timeline",
]

# Loaded on first use: an executor that imports sase.runtime must not pay for the compiler and its libraries.
_HOMES = {
    "Catalog": "sase.compiler.core.catalog",
    "CatalogError": "sase.compiler.core.errors",
    "Funnel": "sase.conversion",
    "OptionError": "sase.compiler.core.errors",
    "Query": "sase.api",
    "SaseError": "sase.compiler.core.errors",
    "SaseRunError": "sase.runtime.errors",
    "Statement": "sase.statement",
    "Statistics": "sase.compiler.plan.statistics",
    "compile": "sase.api",
    "compile_sql": "sase.statement",
    "funnel": "sase.conversion",
    "nfa": "sase.pictures.nfa",
    "plan": "sase.pictures.plan",
    "session": "sase.runtime.session",
    "sql": "sase.statement",
    "stacks": "sase.pictures.stacks",
    "stages": "sase.pictures.stages",
    "statistics": "sase.analysis.statistics",
    "timeline": "sase.pictures.timeline",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sase' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext sase`: the cell magic `%%sase`, and its completion."""
    from sase.notebook.extension import load

    load(shell)
