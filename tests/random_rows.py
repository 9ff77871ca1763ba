"""Random row patterns, clauses and rows, for the judge and for what it judges."""

from __future__ import annotations

from random import Random

from tests.row_judge import (
    Aggregate,
    Anchor,
    At,
    Classifier,
    Clause,
    Concat,
    Either,
    Empty,
    Exclude,
    Expression,
    IsNull,
    Literal,
    MatchNumber,
    Not,
    Operation,
    Pattern,
    Permute,
    Repeat,
    Row,
    Variable,
)

VARIABLES = "ABC"
ONE = "ONE ROW PER MATCH"
SHOWN = (
    ONE,
    "ALL ROWS PER MATCH",
    "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
    "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
)
SKIPS = ("PAST LAST ROW", "TO NEXT ROW", "TO FIRST A", "TO LAST B", "TO C")
COMPARISONS = ("<", "<=", "=", "<>", ">", ">=")


def random_rows(random: Random, most: int = 9) -> list[Row]:
    """In order of t, which may stand still."""
    rows, time = [], 0
    for _ in range(random.randint(1, most)):
        time += random.randint(0, 3)
        rows.append({"t": time, "x": random.choice([0, 1, 2, 3, None]), "y": random.randint(0, 3)})
    return rows


def random_pattern(random: Random, depth: int = 3, excluding: bool = True) -> Pattern:
    def inner(deeper: int = 1) -> Pattern:
        return random_pattern(random, max(depth - deeper, 0), excluding)

    if depth == 0 or random.random() < 0.25:
        rare: list[Pattern] = [Empty(), Anchor("^"), Anchor("$")]
        return random.choice(rare) if random.random() < 0.1 else Variable(random.choice(VARIABLES))
    kind, count = random.random(), random.randint(2, 3)
    if kind < 0.35:
        return Concat(tuple(inner() for _ in range(count)))
    if kind < 0.55:
        return Either(tuple(inner() for _ in range(count)))
    if kind < 0.62:
        return Permute(tuple(inner(2) for _ in range(count)))
    if kind < 0.70 and excluding:
        return Exclude(inner())
    low = random.choice([0, 0, 1, 1, 2])
    high = random.choice([None, None, low + 1, max(low, 1)])
    return Repeat(inner(), low, high, random.random() < 0.6)


def random_condition(random: Random) -> Expression:
    """About one row and its neighbours."""
    left = At(random.choice("xy"), step=random.choice([0, 0, 0, -1, 1]))
    right = random.choice([Literal(random.randint(0, 3)), At(random.choice("xy"), step=random.choice([-1, -2, 1]))])
    condition: Expression = Operation(left, random.choice(COMPARISONS), right)
    if random.random() < 0.3:
        other = random.choice([IsNull(At("x")), Operation(At("y"), ">", Literal(1))])
        condition = Operation(condition, random.choice(["AND", "OR"]), other)
    return condition


def random_measure(random: Random, one: bool) -> Expression:
    variable = random.choice([None, *VARIABLES, "S"])
    final = random.choice([None, True, False])
    kind = random.random()
    if kind < 0.45:
        return At(
            random.choice("xy"),
            variable,
            random.random() < 0.5,
            random.choice([0, 0, 1, 2]),
            random.choice([0, 0, 0, -1, 2]),
            final,
        )
    if kind < 0.6:
        return Classifier(variable, random.random() < 0.5, final, random.choice([0, 0, -1, 1]))
    if kind < 0.65:
        return MatchNumber()
    function = random.choice(["count", "sum", "min", "max", "avg", "array_agg"])
    column = None if function == "count" and random.random() < 0.5 else random.choice("xy")
    return Aggregate(function, column, variable, final, column is not None and random.random() < 0.3)


def random_clause(random: Random, conditions: int = 3, running: bool = False) -> Clause:
    shown = random.choice(SHOWN)
    pattern = random_pattern(random, excluding="UNMATCHED" not in shown)
    used = sorted({part for part in str(pattern) if part in VARIABLES})
    members = tuple(used[:2])
    known = [*used, *(["S"] if members else [])]
    define = {
        name: random_running_condition(random, known) if running else random_condition(random)
        for name in used
        if random.random() < 0.85
    }
    measures = {f"m{at}": random_measure(random, shown == ONE) for at in range(random.randint(1, 4))}
    measures = {name: each for name, each in measures.items() if getattr(each, "variable", None) in (None, *known)}
    skips = [skip for skip in SKIPS if skip.split()[-1] in {"ROW", *used}]
    return Clause(
        pattern,
        define,
        measures,
        {"S": members} if members else {},
        shown,
        random.choice(skips),
        ("t", random.randint(1, 9)) if random.random() < 0.25 else None,
    )


def random_running_condition(random: Random, known: list[str]) -> Expression:
    """About rows that were mapped before, in no part that is about one row alone."""
    variable, one, other_one = (random.choice([None, *known]), *(random.choice(known) for _ in range(2)))
    value: Expression = random.choice(
        [
            At(random.choice("xy"), variable, random.random() < 0.5, random.choice([0, 0, 1])),
            At(random.choice("xy"), variable, True, random.choice([0, 1])),
            Aggregate(random.choice(["count", "sum", "min", "max", "avg"]), random.choice("xy"), variable),
            Aggregate(random.choice(["count", "sum", "avg"]), random.choice("xy"), variable, distinct=True),
            Aggregate("count", None, variable),
        ]
    )
    other: Expression = random.choice([At(random.choice("xy")), Literal(random.randint(0, 4)), At("y", step=-1)])
    if random.random() < 0.3:
        value = Operation(value, random.choice("+-*"), random.choice([Literal(1), At("y"), At("x", one)]))
    condition: Expression = Operation(value, random.choice(COMPARISONS), other)
    if random.random() < 0.2:
        step = random.choice([0, 0, -1, 1])
        condition = Operation(Classifier(one, step=step), random.choice(["=", "<>"]), Literal("A"))
    if random.random() < 0.4:
        more = random.choice([IsNull(At("x", other_one)), Operation(At("y"), ">", Literal(0)), Not(condition)])
        condition = Operation(condition, random.choice(["AND", "OR"]), more)
    return condition
