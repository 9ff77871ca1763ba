"""Two checkouts side by side: the same queries on the same files, in turns, each in a Spark of its own.

python -m benchmarks.commits ../before           sequences of 2 M events, as in the targets
python -m benchmarks.commits ../before --large   20 M events that all matter, and 50 M of which some do

The other checkout needs an environment (`make setup` there). What is said is its time over ours, in each round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.bench import FOLDER, Bench
from benchmarks.data import Stream
from benchmarks.results import Results
from benchmarks.shape import Shape
from benchmarks.targets import EVENTS, LARGE

NEGATION = Shape(negations=(2,))
USUAL = {
    "V1 = 100": (Stream(EVENTS, v1=100), Shape()),
    "V1 = 10,000": (Stream(EVENTS, v1=10_000), Shape()),
    "V1 = 100, one negation": (Stream(EVENTS, v1=100), NEGATION),
    "V1 = 10,000, one negation": (Stream(EVENTS, v1=10_000), NEGATION),
    "L = 2": (Stream(EVENTS, v1=100), Shape(length=2)),
    "L = 6": (Stream(EVENTS, v1=100), Shape(length=6)),
    "W = 1,000, one negation": (Stream(EVENTS, v1=100), Shape(window=1_000, negations=(2,))),
    "W = 20,000, one negation": (Stream(EVENTS, v1=100), Shape(window=20_000, negations=(2,))),
}
SPARSE = (Stream(50_000_000, v1=10_000), Shape())

_RUNNER = """
import json, sys, time
import sase
from benchmarks.bench import Bench
from pathlib import Path
spark = Bench(Path(sys.argv[1])).spark
for line in sys.stdin:
    task = json.loads(line)
    query = sase.compile(task["query"], sase.Catalog(types=task["types"]))
    started = time.perf_counter()
    query.run(spark.read.parquet(task["path"])).write.format("noop").mode("overwrite").save()
    print(json.dumps(time.perf_counter() - started), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--large", action="store_true", help="20 M and 50 M events")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    bench = Bench()
    cases = USUAL
    if arguments.large:
        streams = {name: (Stream(20_000_000, v1=v1, types=len(s.types)), s) for name, (v1, s) in LARGE.items()}
        cases = {**streams, "50 M, 3 of 20 types": SPARSE}
    name, results = f"commits{'-large' if arguments.large else ''}", Results(FOLDER / "results")
    with _Checkout(FOLDER.parent) as ours, _Checkout(arguments.other.resolve()) as theirs:
        found: dict[str, Any] = {"commits": [ours.commit, theirs.commit], "cases": {}}
        for case, (stream, shape) in cases.items():
            task = {"query": shape.text, "types": stream.schema, "path": str(bench.parquet(stream))}
            found["cases"][case] = seconds = _in_turns(task, arguments.rounds, ours.run, theirs.run)
            ratios = [other / own for own, other in zip(*seconds, strict=True)]
            own, other = map(statistics.median, seconds)
            print(f"{case}: {own:.2f} s, before {other:.2f} s, {statistics.median(ratios):.2f} times", flush=True)
            results.save(name, found)


def section(results: Results) -> str:
    """What docs/benchmarks.md says about them; empty where nothing has been measured."""
    lines = []
    for name in ("commits", "commits-large"):
        if not (found := results.load(name)):
            continue
        ours, before = found["commits"]
        lines += ["", f"| {before} over {ours} | now | before | before over now |", "| --- " * 4 + "|"]
        for case, (own, other) in found["cases"].items():
            ratio = statistics.median(theirs / mine for mine, theirs in zip(own, other, strict=True))
            lines.append(
                f"| {case} | {statistics.median(own):.2f} s | {statistics.median(other):.2f} s | {ratio:.2f} |"
            )
    if not lines:
        return ""
    return (
        "## Before and now\n\nSequences in two checkouts, in turns; the first commit knew nothing else.\n"
        + "\n".join(lines)
    )


def _in_turns(
    task: Mapping[str, Any],
    rounds: int,
    ours: Callable[[Mapping[str, Any]], float],
    theirs: Callable[[Mapping[str, Any]], float],
) -> tuple[list[float], list[float]]:
    for run in (ours, theirs) * 2:  # to warm up
        run(task)
    pairs = [(ours(task), theirs(task)) for _ in range(rounds)]
    return [own for own, _ in pairs], [other for _, other in pairs]


class _Checkout:
    """A Python of its environment, which runs what it is told."""

    def __init__(self, root: Path) -> None:
        self.commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=root, text=True).strip()
        command = [str(root / ".venv" / "bin" / "python"), "-c", _RUNNER, str(root / "benchmarks" / ".cache")]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=root, env=environment, stdin=pipe, stdout=pipe, text=True)

    def run(self, task: Mapping[str, Any]) -> float:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(task), file=self._process.stdin, flush=True)
        if not (line := self._process.stdout.readline()):
            sys.exit(f"the run of {self.commit} has failed")
        return float(json.loads(line))

    def __enter__(self) -> _Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()


if __name__ == "__main__":
    main()
