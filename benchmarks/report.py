"""Writes docs/benchmarks.md and its plots from the result files. What has not been measured is said to be missing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from benchmarks.arrivals import section as arrivals
from benchmarks.bench import PARTITIONS_PER_CORE
from benchmarks.commits import section as commits
from benchmarks.experiments import experiments
from benchmarks.experiments.experiment import Experiment
from benchmarks.loops import section as loops
from benchmarks.measure import SLOW, Result, Scale
from benchmarks.papers import section as papers
from benchmarks.patterns import measurements as pattern_measurements
from benchmarks.patterns import section as patterns
from benchmarks.regret import EVENTS as REGRET_EVENTS
from benchmarks.regret import WINDOW as REGRET_WINDOW
from benchmarks.regret import regrets
from benchmarks.results import Results
from benchmarks.row_patterns import section as row_patterns
from benchmarks.self_joins import section as self_joins
from benchmarks.start import section as starting
from benchmarks.streaming import section as streams
from benchmarks.targets import CONFIGURATIONS, Target, Value, measurements, quotient, targets


def write(results: Results, scale: Scale, folder: Path) -> Path:
    """`folder` gets benchmarks.md and, in img/, the plots."""
    images = folder / "img"
    images.mkdir(parents=True, exist_ok=True)
    sections = [
        _opening(results, scale),
        _targets(results),
        _profile(results),
        LARGE,
        _peers(results, scale),
        _regret(results, scale),
        _experiments(results, scale, images),
        commits(results),
        patterns(results),
        loops(results),
        row_patterns(results),
        self_joins(results),
        _flights(results),
        papers(results),
        arrivals(results),
        streams(results),
        starting(results),
        METHOD,
    ]
    path = folder / "benchmarks.md"
    path.write_text("\n\n".join(filter(None, sections)) + "\n")
    return path


METHOD = f"""## How it is measured

- The events are the paper's: 20 types and 5 attributes, drawn uniformly; the time of an event is its number, so a
  window of W holds W events. All peers read one Parquet file (Flink: the same events as plain integers, in memory
  before its clock starts).
- Contenders of a table ran in one process and took turns, after a first run of each that warms it up and counts its
  matches. Times are medians, with the extremes behind them; a ratio is the median of the ratios of the rounds. A
  contender whose first run took more than {SLOW:.0f} s ran once.
- All peers that look for matches must find the same number, or nothing is recorded.
- Spark runs with as many threads as there are cores, {PARTITIONS_PER_CORE} shuffle partitions per core, in the Java
  that `sase run` starts (of what was measured before November 18, 2026, all but the stream with 20 types and *Flink
  CEP* at 10 M, in one with Java's defaults), and else with its defaults; results go to its noop sink. Planning is part
  of the time. Compiling a query, starting an engine and reading the file's schema are not. DuckDB has the same threads
  and memory, and counts its matches, which is less than handing them out.
- *floor* is Spark's scan of the relevant events and of the columns that the query mentions, their shuffle by key and
  their sort by time; *identity* is the same with a Python worker behind it that hands every batch back.
- *sase* counts the events that cannot take part for want of a type or time, so as to warn of them; *sase_uncounted*
  is the same job without that. Where a target is bound by the floor, its table says what a query that took no longer
  than the floor would reach.
- *engine* is the kernel alone on one core, on sorted events in memory; *job* is the whole Spark job.

To repeat: `make bench`. It takes up where it was stopped; `python -m benchmarks --help` has the rest."""


LARGE = """## Where the time goes with 20 million events

All of them relevant, V1 = 10,000, L = 3 with one negation, 2 cores. Workers read the files (`scan=worker`): Spark's
part is to plan the query and to collect the matches. A worker takes, of CPU and for each row, some 75 ns to read it,
100 to sort it and 55 in the kernel (2.75 million rows, the best of a few, on a busy machine).

Of files in the order of time, each worker has a span. Of files in no order, workers deal the events out by key,
packed in cells, and Spark shuffles these. *Spark's shuffle* is what all other events take. Measured by hand, once, on
another day than the large targets above, and on a slower machine; *unsorted* carries the type as a string, both ways:

|  | seconds | CPU of the JVM | CPU of Python |
| --- | --- | --- | --- |
| scan | 3.2 | 3.2 | |
| scan, shuffle of time, key and state bits | 6.6 | 11.3 | |
| the same, to a worker that drops it | 8.7 | 13.7 | 1.0 |
| scan, shuffle, identity mapInArrow, no sort (*unsorted*) | 10.5 | 16.0 | 1.7 |
| sase, Spark's shuffle | 10.5 | 12.6 | 5.7 |
| sase, Spark's shuffle and sort, bad events not counted | 17.1 | 27.1 | 2.6 |

So with Spark's shuffle it takes as long as the worker that hands everything back unsorted. What is left there is the
shuffle: Spark takes 400 ns of CPU for a row that it shuffles and 120 ns to hand it to Python. That is why workers
pack what they read. State bits and other small numbers take 8 or 32 bits in a cell; in a row of Spark's, which has 8
bytes for each column in any case, that would save 4 % of the shuffle. Codes in the place of strings do not pay: the
shop's 2.5 million relevant events, with UUIDs and products, take 4.2 s to be shuffled and handed to Python and back,
and 3.3 s with a number for each string, if somebody had the numbers; to find out which strings there are takes 2.3
and 1.0 s. (By hand, medians of four.)"""


def _opening(results: Results, scale: Scale) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Written by `python -m benchmarks report` from `benchmarks/results/`. The ratios are what counts: the times",
        "behind them are those of one machine, and a ratio is only ever taken within one measurement.",
    ]
    found = filter(None, (results.load(measurement.name) for measurement in measurements(scale)))
    machines = list({str(sorted(result["machine"].items())): result["machine"] for result in found}.values())
    for machine in machines:
        versions = ", ".join(
            f"{name} {machine[name]}"
            for name in ("python", "sase", "pyspark", "numba", "pyarrow", "duckdb")
            if machine[name]
        )
        lines += [
            "",
            f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
            f"{machine['system']}; {versions}.",
        ]
    if scale.quick:
        lines += ["", "**A quick run on tiny data: it shows that everything works, and its times mean nothing.**"]
    return "\n".join(lines)


def _targets(results: Results) -> str:
    rows = []
    for target in targets():
        result = results.load(target.measurement)
        value = target.value(result) if result else None
        bounded = target.without(result) if result else None
        bound = f"{target.bound_by}: {_value(target, bounded)}" if bounded else ""
        rows.append((target.against, target.case, _bound(target), *_verdict(target, value, result), bound))
    return "## Targets\n\n" + _table(("against", "case", "to reach", "measured", "", "what bounds it"), rows)


def _bound(target: Target) -> str:
    return f"{'≤' if target.kind == 'at most' else '≥'} {target.bound:g}{target.unit}"


def _verdict(target: Target, value: Value | None, result: Result | None) -> tuple[str, str]:
    if value is None:
        return "", "not measured" if result is None else "no result"
    return _value(target, value), {True: "reached", False: "**not reached**", None: "stopped too early to tell"}[
        target.reached(value)
    ]


def _value(target: Target, value: Value) -> str:
    return f"{'> ' if value.least else ''}{_short(value.number)}{target.unit}"


STEPS = {
    "floor": "scan, shuffle, sort",
    "identity": "to Python and back",
    "sase_uncounted": "kernel, matches",
    "sase": "counting bad events",
}
"""Contenders of which each does what the one before does and something more."""


def _profile(results: Results) -> str:
    """Where the time goes: what each step adds to that of the steps before it."""
    rows = []
    for case, name in CONFIGURATIONS.items():
        result = results.load(f"targets-{name}")
        contenders = result["contenders"] if result else {}
        if not all(label in contenders and _is_done(contenders[label]) for label in STEPS):
            continue
        times = [min(contenders[label]["seconds"]) for label in STEPS]
        shares = [(time - before) / times[-1] for time, before in zip(times, [0.0, *times], strict=False)]
        rows.append((case, *(f"{max(0.0, share):.0%}" for share in shares), f"{contenders['sase']['rows']:,}"))
    if not rows:
        return ""
    text = (
        "Where the time of sase goes, from the fastest rounds. The kernel and its matches are the smallest part or "
        "nearly so: what bounds the other ratios is the floor, and what bounds those to the floor is the way to Python "
        "and the counting of events that cannot take part. On 1,000 events, the identity job takes about a third of "
        "what it takes here, which is planning and starting stages."
    )
    return f"{text}\n\n" + _table(("", *STEPS.values(), "matches"), rows)


def _peers(results: Results, scale: Scale) -> str:
    parts = ["## Peers, on the same events"]
    shop = [each for each in pattern_measurements(scale) if each.name.startswith("patterns-shop")]
    for measurement in (*measurements(scale), *shop):
        result = results.load(measurement.name)
        if result is None or len(result["contenders"]) < 2:
            continue
        contenders: dict[str, Result] = result["contenders"]
        base = next(iter(contenders))
        events = sorted({entry["events"] for entry in contenders.values()})
        query = contenders[base]["query"].rpartition("\nRETURN")[0].replace("\n", " ")
        domain = contenders[base]["stream"].get("v1")
        rows = [
            (
                label,
                _rows(entry),
                _seconds(entry, result["limit"]),
                "" if label == base else _quotient(result, label, base),
            )
            for label, entry in contenders.items()
        ]
        keys = f"V1 = {domain:,}" if domain else "of a shop"
        keys += ", in no order of time" * contenders[base]["stream"].get("mixed", False)
        parts.append(f"`{query}` on {' and '.join(f'{number:,}' for number in events)} events, {keys}:")
        parts.append(_table(("", "found", "seconds", f"time over that of {base}"), rows))
    return "\n\n".join(parts) if len(parts) > 1 else ""


def _regret(results: Results, scale: Scale) -> str:
    """The time of the chosen strategy over that of the best one, point by point."""
    found = [(each, result) for each in regrets(scale) if (result := results.load(each.name)) is not None]
    if not found:
        return ""
    rows, ratios = [], []
    for each, result in found:
        for point in result["points"]:
            times = point["seconds"]
            best = min(times, key=lambda name: times[name])
            ratios.append(times[point["chosen"]] / times[best])
            numbers = (f"{point['v1']:,}", f"{point['v2']:,}", f"{each.length}", f"{each.skew}")
            rows.append(
                (*numbers, point["chosen"], best, f"{ratios[-1]:.2f}×", f"{max(times.values()) / times[best]:.1f}×")
            )
    close = sum(ratio <= 1.2 for ratio in ratios) / len(ratios)
    worst = max(rows, key=lambda row: float(row[6][:-1]))
    return "\n\n".join(
        (
            "## The choice of a strategy",
            f"`SEQ(E1, …, EL) WHERE [attr1, attr2] WITHIN {REGRET_WINDOW:,}` on {REGRET_EVENTS:,} events: the strategy "
            "that the [cost model](cost-model.md) chooses, and the fastest one. "
            f"The chosen one is within 1.2× of the best in {close:.0%} of {len(ratios)} points, and "
            f"{max(ratios):.2f}× at worst (V1 = {worst[0]}, V2 = {worst[1]}, L = {worst[2]}, skew {worst[3]}); the "
            f"median is {statistics.median(ratios):.2f}×. To reach: 95 %, and 2×.",
            "<details><summary>All points</summary>",
            _table(("V1", "V2", "L", "skew", "chosen", "best", "regret", "the worst one's"), rows),
            "</details>",
        )
    )


def _experiments(results: Results, scale: Scale, images: Path) -> str:
    parts = ["## The paper's experiments"]
    for experiment in experiments(scale):
        found = [(x, result) for x, race in experiment.points if (result := results.load(race.name)) is not None]
        parts += [f"### {experiment.title}", f"*The paper:* {experiment.paper}"]
        if not any(_is_done(entry) for _, result in found for entry in result["contenders"].values()):
            parts.append("*Here:* not measured.")
            continue
        parts.append(f"*Here:* {_summary(experiment, found)}")
        if len(found) > 1:
            name = f"{experiment.name}.svg"
            _plot(experiment, found, images / name)
            parts.append(f"![{experiment.title}](img/{name})")
            parts.append(_curves(experiment, found))
            parts += _sequences(experiment, found)
        else:
            parts.append(_comparison(found[0][1]))
    return "\n\n".join(parts)


def _summary(experiment: Experiment, found: Sequence[tuple[int, Result]]) -> str:
    """The statement that the paper makes, from our numbers: who is how much slower, at both ends of the curve."""
    base, *others = experiment.compare
    ends = [found[0], found[-1]] if len(found) > 1 else found
    statements = []
    for other in others:
        ratios = [(x, ratio) for x, result in ends if (ratio := _quotient(result, other, base))]
        at = [f"{ratio}{f' at {experiment.axis} = {x:,}' if experiment.axis else ''}" for x, ratio in ratios]
        if at:
            statements.append(f"**{other}** {' and '.join(at)}")
    return f"the time over that of **{base}** is: {'; '.join(statements)}." if statements else "see the table."


def _comparison(result: Result) -> str:
    """Each contender against the first one of its kind: a kernel alone is not compared with a Spark job."""
    contenders: dict[str, Result] = result["contenders"]
    first = {entry["peer"]: label for label, entry in reversed(contenders.items())}
    rows = [
        (label, _rows(entry), _seconds(entry, result["limit"]), _quotient(result, label, first[entry["peer"]]))
        for label, entry in contenders.items()
    ]
    return _table(("", "found", "seconds", "time over that of the first"), rows)


def _curves(experiment: Experiment, found: Sequence[tuple[int, Result]]) -> str:
    """Events a second; beside them, for the normalised experiments, what the paper plots."""
    curves = _series(experiment, found)
    rows = []
    for x, result in found:
        cells = [f"{x:,}"]
        for label in _labels(found):
            entry = result["contenders"][label]
            cells.append(_rate(curves[label][x]) if x in curves[label] else _status(entry, result["limit"]))
        rows.append(cells)
    unit = "events per second" if experiment.metric == "throughput" else "throughput over that of the lightest load"
    return f"In {unit}:\n\n" + _table((experiment.axis, *_labels(found)), rows)


def _series(experiment: Experiment, found: Sequence[tuple[int, Result]]) -> dict[str, dict[int, float]]:
    curves: dict[str, dict[int, float]] = {}
    for label in _labels(found):
        curve = {
            x: entry["events"] / statistics.median(entry["seconds"])
            for x, result in found
            if _is_done(entry := result["contenders"][label])
        }
        if experiment.metric == "normalised throughput":
            lightest = found[0][0] if experiment.lightest == "first" else found[-1][0]
            curve = {x: rate / curve[lightest] for x, rate in curve.items()} if lightest in curve else {}
        curves[label] = curve
    return curves


def _sequences(experiment: Experiment, found: Sequence[tuple[int, Result]]) -> list[str]:
    """How many sequences construction built, where that differs: the paper's figure 10(b)."""
    labels = [label for label in _labels(found) if found[0][1]["contenders"][label]["rows_are"] == "sequences"]
    counts = [[result["contenders"][label]["rows"] for label in labels] for _, result in found]
    if not any(len(set(row) - {None}) > 1 for row in counts):
        return []
    rows = [
        (f"{x:,}", *("" if count is None else f"{count:,}" for count in row))
        for (x, _), row in zip(found, counts, strict=True)
    ]
    return ["Sequences built:", _table((experiment.axis, *labels), rows)]


def _plot(experiment: Experiment, found: Sequence[tuple[int, Result]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": experiment.name, "svg.fonttype": "none", "font.size": 9}):
        figure, axes = pyplot.subplots(figsize=(7.6, 3.4), layout="constrained")
        colours: dict[str, str] = {}
        for label, curve in _series(experiment, found).items():
            strategy, _, kind = label.rpartition(", ")
            colour = colours.setdefault(strategy or label, f"C{len(colours)}")
            dashes = ":" if kind == "engine" else "-"
            axes.plot(list(curve), list(curve.values()), dashes, color=colour, marker="o", markersize=3, label=label)
        axes.set(
            xlabel=experiment.axis,
            ylabel="events per second" if experiment.metric == "throughput" else experiment.metric,
        )
        axes.set_yscale("log")
        if experiment.logarithmic:
            axes.set_xscale("log")
        else:
            axes.set_xticks([x for x, _ in found])
        axes.grid(alpha=0.3)
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _flights(results: Results) -> str:
    result = results.load("flights")
    if result is None or not result["contenders"]:
        return ""
    ours = result["contenders"]["sase"]
    rows = [(label, _rows(entry), _seconds(entry, result["limit"])) for label, entry in result["contenders"].items()]
    return "\n\n".join(
        (
            "## Real flights",
            f"The {ours['events']:,} departures from New York in 2013: a plane arrives over two hours late, then "
            "departs late again the same day with no on-time flight between. Each match is one of DuckDB's, too, and "
            "there are no others.",
            f"```sase\n{result['query']}\n```",
            _table(("", "found", "seconds"), rows),
        )
    )


def _labels(found: Sequence[tuple[int, Result]]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(result["contenders"] for _, result in found)))


def _is_done(entry: Result) -> bool:
    return bool(entry["status"] == "done")


def _rows(entry: Result) -> str:
    return "" if entry["rows"] is None else f"{entry['rows']:,} {entry['rows_are']}"


def _seconds(entry: Result, limit: float) -> str:
    if not _is_done(entry):
        return _status(entry, limit)
    seconds = entry["seconds"]
    spread = f" ({_short(min(seconds))}–{_short(max(seconds))})" if len(seconds) > 1 else ""
    return f"{_short(statistics.median(seconds))}{spread}"


def _status(entry: Result, limit: float) -> str:
    return f"> {limit:g} s" if entry["status"] == "over limit" else str(entry["status"])


def _quotient(result: Result, label: str, base: str) -> str:
    value = quotient(result, label, base)
    return "" if value is None else f"{'> ' if value.least else ''}{_short(value.number)}×"


def _short(number: float) -> str:
    """Three digits, which is more than the noise leaves."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}" if number >= 0.1 else f"{number:.2g}"


def _rate(number: float) -> str:
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(header), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
