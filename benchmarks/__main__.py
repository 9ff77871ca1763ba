"""Runs what has not been measured yet, then writes docs/benchmarks.md.

python -m benchmarks                       everything: an hour or two; stop it and start it again as you like
python -m benchmarks --quick               tiny data, one round: does everything work?
python -m benchmarks run --only targets    what begins with this name; see `list`
python -m benchmarks report                the report again, from the results that are there
python -m benchmarks calibrate             the constants of the cost model, measured anew on this machine
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from benchmarks.arrivals import measurements as arrivals
from benchmarks.bench import FOLDER, Bench
from benchmarks.experiments import experiments
from benchmarks.flights import Flights
from benchmarks.loops import measurements as loops
from benchmarks.measure import Disagreement, Measurement, Scale
from benchmarks.papers import Papers
from benchmarks.patterns import measurements as patterns
from benchmarks.regret import regrets
from benchmarks.results import Results
from benchmarks.row_patterns import measurements as row_patterns
from benchmarks.self_joins import measurements as self_joins
from benchmarks.start import Starting
from benchmarks.streaming import measurements as streams
from benchmarks.targets import LIMIT, ROUNDS, measurements

ROOT = FOLDER.parent


def main() -> int:
    arguments = _arguments()
    scale = Scale(arguments.quick)
    quick = FOLDER / ".cache" / "quick"
    results = Results(quick if arguments.quick else FOLDER / "results")
    if arguments.command == "list":
        for measurement in plan(scale, arguments.only):
            print(f"{'done' if results.is_complete(measurement.name) else '    '}  {measurement.name}")
        return 0
    if arguments.command == "calibrate":
        from benchmarks.calibrate import calibrate

        calibrate(Bench(), lambda line: print(line, flush=True))
        return 0
    status = 0
    if arguments.command in ("run", "all"):
        status = run(plan(scale, arguments.only), results, arguments.again)
    if arguments.command in ("report", "all"):
        from benchmarks.report import write

        path = write(results, scale, quick if arguments.quick else ROOT / "docs")
        print(f"wrote {os.path.relpath(path)}")
    return status


def plan(scale: Scale, only: str = "") -> list[Measurement]:
    races = [race for experiment in experiments(scale) for _, race in experiment.points]
    flights = Flights(scale.rounds(ROUNDS), scale.limit(LIMIT))
    starting, papers = Starting(scale.rounds(3)), Papers(scale, scale.rounds(3))
    whole = [*measurements(scale), *regrets(scale), *streams(scale), *patterns(scale), *loops(scale), *arrivals(scale)]
    everything = [*whole, *row_patterns(scale), *self_joins(scale), flights, starting, papers, *races]
    return [measurement for measurement in everything if measurement.name.startswith(only)]


def run(plan: list[Measurement], results: Results, again: bool) -> int:
    """One result file a measurement. A disagreement between peers is reported and never saved."""
    todo = [measurement for measurement in plan if again or not results.is_complete(measurement.name)]
    print(f"{len(plan) - len(todo)} of {len(plan)} measurements are there already", flush=True)
    bench, started, wrong = Bench(), time.monotonic(), 0
    try:
        for number, measurement in enumerate(todo, 1):
            minutes = (time.monotonic() - started) / 60
            print(f"[{number} of {len(todo)}, {minutes:.1f} min] {measurement.name}", flush=True)
            try:
                load = os.getloadavg()[0]
                result = measurement.run(bench, lambda line: print(f"    {line}", flush=True))
            except Disagreement as error:
                print(f"    WRONG: {error}", flush=True)
                wrong += 1
                continue
            results.save(
                measurement.name, {"name": measurement.name, "machine": bench.facts(), "load_before": load, **result}
            )
            if reason := result.get("reason"):
                print(f"    {result['status']}: {reason}", flush=True)
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr)
        return 130
    finally:
        bench.stop_spark()
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=("all", "run", "report", "list", "calibrate"),
        default="all",
        help="default: run and report",
    )
    parser.add_argument("--quick", action="store_true", help="tiny data, results apart from the real ones")
    parser.add_argument("--only", metavar="NAME", default="", help="measurements whose name begins so")
    parser.add_argument("--again", action="store_true", help="measure anew what has a result")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
