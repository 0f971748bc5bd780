"""Settings: what the policies of a study are compared under, and their results averaged over the seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from unrack.metric.comparison import Entry, Mark, Standing, marks, served_less, standings, world_of
from unrack.metric.estimate import Estimate, difference, estimate
from unrack.report.directory import RunFiles
from unrack.study.swept import swept_labels
from unrack.study.world import labelled

__all__ = ["Estimate", "Setting", "difference", "estimate", "policies_of", "settings_of"]


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
    labels
        Swept key → words for it.
    """

    cluster: str
    workload: str
    parameters: Mapping[str, Any]
    runs: Mapping[str, tuple[RunFiles, ...]]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Words for people: workload, cluster and swept values."""
        swept = (f"{self.label(key)} = {value}" for key, value in self.parameters.items())
        return " · ".join([f"{self.workload} on {self.cluster}", *swept])

    def label(self, key: str) -> str:
        """A swept key in words."""
        return self.labels.get(key, key)

    def value(self, policy: str, metric: str) -> Estimate | None:
        """The metric under a policy, over the seeds."""
        return estimate(run.metrics.get(metric) for run in self.runs[policy])

    def values(self, metric: str) -> dict[str, Estimate]:
        """Policy → metric, for those policies where it is defined."""
        found = {policy: self.value(policy, metric) for policy in self.runs}
        return {policy: value for policy, value in found.items() if value is not None}

    @cached_property
    def rows(self) -> dict[str, Entry]:
        """Policy → its runs, as rows that may be compared."""
        return {
            policy: Entry({run.seed: run.metrics for run in runs}, world_of(runs[0].record))
            for policy, runs in self.runs.items()
        }

    @cached_property
    def served_less(self) -> dict[str, float]:
        """Policy → the share of core-time that it served, for those that served less than the best of their world."""
        return served_less(self.rows)

    @property
    def seeds(self) -> int:
        """The most seeds that a policy has."""
        return max(map(len, self.runs.values()))

    @property
    def worlds(self) -> tuple[str, ...]:
        """The worlds that its rows ran in; policies of different ones are not compared."""
        return tuple(dict.fromkeys(row.world for row in self.rows.values()))

    def marks(self, metric: str, better: str) -> dict[str, Mark]:
        """Policy → its mark in the column of a metric; see :mod:`unrack.metric.comparison`."""
        return marks(self.rows, metric, better, self.served_less)

    def standings(self, metric: str, better: str) -> tuple[Standing, ...]:
        """How the policies compare by a metric, a standing a world."""
        return standings(self.rows, metric, better, self.served_less)


def settings_of(runs: Iterable[RunFiles], study: Mapping[str, Any] | None = None) -> tuple[Setting, ...]:
    """Group runs into settings, both in the order in which they first appear.

    Policies go by the label the user gave them; where that would put two different policies of one setting under one
    name, by their full text, with the world where the same policy ran in several.

    Parameters
    ----------
    runs
        In the study's order.
    study
        The study as a table: it knows the names that swept keys are about.
    """
    runs = list(runs)
    labels = swept_labels(dict.fromkeys(key for run in runs for key in run.parameters), study)
    grouped: dict[str, list[RunFiles]] = {}
    for run in runs:
        key = json.dumps([run.cluster, run.workload, run.parameters], sort_keys=True)
        grouped.setdefault(key, []).append(run)
    settings = []
    for members in grouped.values():
        named: dict[str, list[RunFiles]] = {}
        for run in members:
            named.setdefault(_name(run, members), []).append(run)
        first = members[0]
        own_runs = {name: tuple(own) for name, own in named.items()}
        settings.append(Setting(first.cluster, first.workload, first.parameters, own_runs, labels))
    return tuple(settings)


def _name(run: RunFiles, members: Iterable[RunFiles]) -> str:
    """What a run's row is called among those of its setting."""
    alike = {other.policy for other in members if other.label == run.label}
    return labelled(run.label if len(alike) == 1 else run.policy, run.world)


def policies_of(settings: Iterable[Setting]) -> tuple[str, ...]:
    """Every policy of the settings, in order of first appearance."""
    return tuple(dict.fromkeys(policy for setting in settings for policy in setting.runs))
