"""What a system did on a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unrack.plan.goal import Goal

Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Trial:
    """What a system did on a seed: a table of metrics a workload, and those of the reference, if there is one."""

    values: tuple[Values, ...]
    reference: tuple[Values, ...] | None = None

    def of(self, goal: Goal, workload: int) -> tuple[float | None, float | None]:
        """The value and the reference's value of the metric of a goal."""
        reference = None if self.reference is None else self.reference[workload].get(goal.metric)
        return self.values[workload].get(goal.metric), reference

    def met(self, goal: Goal) -> bool:
        """True if the goal is met by every workload."""
        return all(goal.met(*self.of(goal, workload)) for workload in range(len(self.values)))

    def gap(self, goal: Goal, workload: int) -> float:
        """How far on the good side of the goal, in the unit of the metric; below 0: it is missed."""
        value, reference = self.of(goal, workload)
        want = goal.threshold(reference)
        if value is None or want is None or not math.isfinite(value):
            return -math.inf
        return want - value if goal.low_is_good else value - want


def mean_of(trials: Sequence[Trial], metric: str) -> float | None:
    """The mean of a metric over seeds and workloads; ``None``: it is defined in none."""
    values = [value for trial in trials for one in trial.values if (value := one.get(metric)) is not None]
    return math.fsum(values) / len(values) if values else None
