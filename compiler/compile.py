"""The whole compiler as one call: text → bound query → logical plan → rules → physical plan → job."""

from __future__ import annotations

from dataclasses import dataclass, field

from sase.compiler import rules
from sase.compiler.binder import bind
from sase.compiler.bound import BoundQuery
from sase.compiler.catalog import Catalog
from sase.compiler.choose import Choices, choose
from sase.compiler.codegen import generate
from sase.compiler.errors import OptionError, did_you_mean
from sase.compiler.explain import explain
from sase.compiler.logical import Plan
from sase.compiler.parser import parse
from sase.compiler.physical import PhysicalPlan, physical_plan
from sase.compiler.statistics import Statistics
from sase.compiler.strategy import Strategy


@dataclass(frozen=True)
class Options:
    """How, never what: the answer is the same whatever they say."""

    disable: frozenset[str] = frozenset()
    strategy: Strategy = field(default_factory=Strategy)
    statistics: Statistics | None = None

    def __post_init__(self) -> None:
        for name in sorted(self.disable - set(rules.NAMES)):
            raise OptionError(f"there is no rule {name!r}: {did_you_mean(name, rules.NAMES, 'the rules are')}")


@dataclass(frozen=True)
class Compiled:
    query: BoundQuery
    choices: Choices
    physical: PhysicalPlan
    job: str

    @property
    def plan(self) -> Plan:
        return self.choices.chosen.plan

    def explain(self) -> str:
        return explain(self.choices, self.physical)


def compile_query(
    text: str,
    catalog: Catalog,
    options: Options | None = None,
    *,
    filename: str = "query.sase",
    version: str,
    standalone: str | None = None,
) -> Compiled:
    options = options or Options()
    query = bind(parse(text, filename), catalog)
    choices = choose(query, options.strategy, options.disable, options.statistics)
    physical = physical_plan(choices.chosen.plan)
    return Compiled(query, choices, physical, generate(physical, version, standalone))


def check_query(text: str, catalog: Catalog, filename: str) -> None:
    """Raises what is wrong with the query; an open catalog leaves types and attributes unchecked."""
    bind(parse(text, filename), catalog)
