"""Settings: what the policies of a study are compared under, and their results averaged over the seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from unrack.report.directory import RunFiles
from unrack.study.world import World, labelled, world_of

# Two-sided 95 % points of Student's t distribution for 1, 2, 3 … degrees of freedom.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes
    ----------
    mean
        The mean, in the unit of the metric.
    half
        Half the width of its 95 % confidence interval (Student's t); 0 with one value.
    count
        How many seeds gave a value.
    """

    mean: float
    half: float
    count: int


def estimate(values: Iterable[float | None]) -> Estimate | None:
    """The mean of the values that are there; ``None`` without any.

    Examples
    --------
    >>> estimate([1.0, None, 3.0])
    Estimate(mean=2.0, half=12.706, count=2)
    """
    there = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not there:
        return None
    count = len(there)
    mean = math.fsum(there) / count
    if count == 1:
        return Estimate(mean, 0.0, 1)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in there) / (count - 1))
    # Beyond the table the series t(n) = 1.96 + 2.37 / n + … is right to three digits.
    factor = _T95[count - 2] if count - 2 < len(_T95) else 1.96 + 2.37 / (count - 1) + 2.8 / (count - 1) ** 2
    return Estimate(mean, factor * spread / math.sqrt(count), count)


@dataclass(frozen=True)
class Setting:
    """Runs that differ in policy and seed alone.

    Attributes
    ----------
    cluster, workload
        Their names.
    parameters
        Swept key → value.
    runs
        Policy → its runs, one a seed, in the study's order.
    """

    cluster: str
    workload: str
    parameters: Mapping[str, Any]
    runs: Mapping[str, tuple[RunFiles, ...]]

    @property
    def title(self) -> str:
        """Words for people: workload, cluster and swept values."""
        return " · ".join([f"{self.workload} on {self.cluster}", *(f"{k} = {v}" for k, v in self.parameters.items())])

    def value(self, policy: str, metric: str) -> Estimate | None:
        """The metric under a policy, over the seeds."""
        return estimate(run.metrics.get(metric) for run in self.runs[policy])

    def values(self, metric: str) -> dict[str, Estimate]:
        """Policy → metric, for those policies where it is defined."""
        found = {policy: self.value(policy, metric) for policy in self.runs}
        return {policy: value for policy, value in found.items() if value is not None}


def settings_of(runs: Iterable[RunFiles]) -> tuple[Setting, ...]:
    """Group runs into settings, both in the order in which they first appear.

    Policies go by the label the user gave them; where that would put two different policies of one setting under one
    name, by their full text.
    """
    grouped: dict[str, list[RunFiles]] = {}
    for run in runs:
        key = json.dumps([run.cluster, run.workload, run.parameters], sort_keys=True)
        grouped.setdefault(key, []).append(run)
    settings = []
    for members in grouped.values():
        meanings: dict[str, set[str]] = {}
        for run in members:
            meanings.setdefault(run.label, set()).add(run.policy)
        named: dict[str, list[RunFiles]] = {}
        for run in members:
            name = run.label if len(meanings[run.label]) == 1 else run.policy
            named.setdefault(labelled(name, run.world), []).append(run)
        first = members[0]
        settings.append(
            Setting(first.cluster, first.workload, first.parameters, {name: tuple(own) for name, own in named.items()})
        )
    return tuple(settings)


def of_one_world(setting: Setting) -> Setting:
    """The setting with the policies that can be compared: those in the study's own world, if any are."""
    worlds = {policy: world_of(policy) for policy in setting.runs}
    kept = World.STUDY if World.STUDY in worlds.values() else next(iter(worlds.values()))
    return replace(setting, runs={policy: runs for policy, runs in setting.runs.items() if worlds[policy] == kept})


def policies_of(settings: Iterable[Setting]) -> tuple[str, ...]:
    """Every policy of the settings, in order of first appearance."""
    return tuple(dict.fromkeys(policy for setting in settings for policy in setting.runs))


def best_of(values: Mapping[str, Estimate], better: str) -> tuple[str, ...]:
    """The policies with the best mean of their world, as :func:`best_of_world`: two worlds are never compared."""
    worlds: dict[str, dict[str, Estimate]] = {}
    for policy, value in values.items():
        worlds.setdefault(world_of(policy), {})[policy] = value
    return tuple(policy for own in worlds.values() for policy in best_of_world(own, better))


def best_of_world(values: Mapping[str, Estimate], better: str) -> tuple[str, ...]:
    """The policies with the best mean, ties included; empty where nothing is better or all are equal.

    Parameters
    ----------
    values
        Policy → mean.
    better
        ``"low"``, ``"high"`` or ``""`` (neither).
    """
    if better not in ("low", "high") or len(values) < 2:
        return ()
    means = [value.mean for value in values.values()]
    top = min(means) if better == "low" else max(means)
    best = tuple(name for name, value in values.items() if math.isclose(value.mean, top, rel_tol=1e-9, abs_tol=1e-12))
    return () if len(best) == len(values) else best
