"""What `avg*` costs: a query with it, the same query without it, and with a constant in its place.

python -m benchmarks run --only arrivals
"""

from __future__ import annotations

import statistics

from benchmarks.data import Cars
from benchmarks.measure import Contender, Race, Scale
from benchmarks.peers import Verbatim
from benchmarks.results import Results

EVENTS, ROUNDS, LIMIT = 10_000_000, 3, 120.0

WITHOUT, MOST = "without", 1.5
KINDS = {
    WITHOUT: "",
    "a constant": "125.0",
    "avg*": "1.25 * avg*(y.speed)",
    "max*": "0.8333 * max*(y.speed)",
}
"""What the speed is above."""


def measurements(scale: Scale) -> list[Race]:
    cars = Cars(scale.events(EVENTS))
    contenders = [Contender(name, "sase", cars, Verbatim(query(value))) for name, value in KINDS.items()]
    return [Race("arrivals", tuple(contenders), scale.rounds(ROUNDS), scale.limit(LIMIT))]


def query(value: str) -> str:
    above = f" AND y.speed > {value}" if value else ""
    return f"EVENT SEQ(START x, STATUS y) WHERE [car_id]{above} WITHIN 1 minute RETURN x.car_id, y.speed"


def section(results: Results) -> str:
    result = results.load("arrivals")
    if result is None:
        return ""
    entries = result["contenders"]
    lines = ["| | matches | seconds | of *without* | of *a constant* | |", "| --- " * 6 + "|"]
    for name, value in KINDS.items():
        entry, what = entries[name], f"`y.speed > {value}`" if value else "without such a condition"
        if entry["status"] != "done":
            lines.append(f"| {what} | {entry['status']} | | | | |")
            continue
        ratios = [_ratio(entry["seconds"], entries[base]["seconds"]) for base in (WITHOUT, "a constant")]
        verdict = "" if "*(" not in value else "reached" if ratios[0] <= MOST else f"**not reached** (≤ {MOST}×)"
        if verdict and (entry.get("once") or entries[WITHOUT].get("once")):
            verdict = "one of the two ran once only, cold: says nothing"
        cells = [f"{statistics.median(entry['seconds']):.2f}", *(f"{ratio:.2f}×" for ratio in ratios), verdict]
        lines.append(f"| {what} | {entry['rows']:,} | {' | '.join(cells)} |")
    load = result["load_before"]
    busy = f" The machine had other work to do (a load of {load:.0f})." if load > 2 else ""
    return "\n\n".join(
        (
            "## Aggregates of what has arrived",
            f"{entries[WITHOUT]['events']:,} events of 10,000 cars, a thousand a second, and a window of a minute: at "
            "every status report, the average of the 60,000 events before it, of all cars. To reach: at most "
            f"{MOST}× the same query without it. A constant in its place, of about as many matches, lets Spark drop "
            f"three events of four before the shuffle; what has arrived is counted with them.{busy}",
            "\n".join(lines),
        )
    )


def _ratio(seconds: list[float], base: list[float]) -> float:
    """The median of the rounds' own; 0 where there is nothing to compare with."""
    return statistics.median([one / other for one, other in zip(seconds, base, strict=False)] or [0.0])
