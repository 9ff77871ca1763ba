"""The experiments of the SASE paper (its section 5) and of the letter on negation in the stacks, on this engine.

The paper measured one thread over events in memory. `engine` is the like here: the kernel alone, on one core. `job` is
what a user waits for: the same on Spark, with its scan, shuffle and sort.
"""

from __future__ import annotations

from benchmarks.experiments import construction, equivalence, negation, predicates, relational
from benchmarks.experiments.experiment import Experiment
from benchmarks.measure import Scale


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    modules = (construction, equivalence, predicates, relational, negation)
    return tuple(experiment for module in modules for experiment in module.experiments(scale))
