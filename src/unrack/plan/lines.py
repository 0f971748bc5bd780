"""The lines of a plan: a search for each cluster and policy of the study, and the runs that it needs."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

from unrack.cluster.prices.bill import Bill, bill_of, check_prices
from unrack.cluster.prices.prices import EXAMPLE, Prices, make_prices
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError
from unrack.plan.goal import COST
from unrack.plan.search import Space
from unrack.plan.settings import PlanSettings, Vary
from unrack.study.grid import Run, Sources, runs_of
from unrack.study.input.file import StudyTable
from unrack.study.input.inputs import Document, PolicySpec, make_cluster, make_policy_spec
from unrack.study.input.sweep import set_value
from unrack.study.swept import swept_labels

MOST_SYSTEMS = 20_000


@dataclass(frozen=True, eq=False)
class Line:
    """A search for the least system of one cluster under one policy."""

    # cluster, policy: by number
    cluster: int
    policy: int
    # cluster_name, policy_label: what the answer calls them
    cluster_name: str
    policy_label: str
    varies: tuple[Vary, ...]  # the keys that make a difference here
    space: Space  # the systems
    bills: tuple[Bill, ...]  # what each system costs, by its number

    def values(self, system: int) -> dict[str, Any]:
        """Key → value of a system."""
        place = self.space.places[system]
        return {vary.key: vary.values[at] for vary, at in zip(self.varies, place, strict=True)}


class Plan:
    """A study, what is to be found, perhaps with further policies, and how the runs of any system are made.

    Raises
    ------
    InputError
        A key leads nowhere or makes no difference, a system cannot be built, or no varied key changes the objective.
    """

    def __init__(self, document: Document, settings: PlanSettings, policies: Sequence[str] = ()) -> None:
        self.document, self.settings = document, settings
        self.table = document.validated(StudyTable, document.table)
        self.name = self.table.name or PurePath(document.path).stem or "plan"
        added = [make_policy_spec(text, document, -1) for text in policies]
        self.written = [make_policy_spec(entry, document, i) for i, entry in enumerate(self.table.policies)]
        self.sources = Sources(document, added)
        self._clusters: dict[str, Cluster] = {}
        self.prices = self._prices()
        self.reference_policy = self._reference_policy(added)
        lines = [
            self._line(cluster, policy, spec)
            for cluster in range(len(self.table.clusters))
            for policy, spec in enumerate([*self.written, *added])
        ]
        for vary in settings.varies:
            if all(vary.key not in [own.key for own in line.varies] for line in lines):
                raise InputError(f"vary {vary.key}", "a key that makes no difference", "a key of this study that does")
        if settings.reference is not None:
            self._at(self._of_reference())
        self.lines = tuple(lines)
        for what in ("currency", "years"):
            there = {str(getattr(line.bills[0].prices, what)): line.cluster_name for line in lines}
            if len(there) > 1:
                got = ", ".join(f"{value} for {name}" for value, name in there.items())
                raise InputError(f"prices, {what}", got, "the same for all clusters, as their costs are compared")

    @cached_property
    def labels(self) -> dict[str, str]:
        """Varied keys, and those of the reference, in words."""
        keys = [vary.key for vary in self.settings.varies]
        return swept_labels(dict.fromkeys([*keys, *self._of_reference()]), self.document.table)

    @cached_property
    def drawn(self) -> tuple[bool, ...]:
        """For each line, whether seeds make a difference: to the jobs, to failures, or to its policy."""
        effects = [[effect for run in self.runs(line, 0, (0, 1)) for effect in run.effects] for line in self.lines]
        return tuple(not all(effect.why_not for effect in own if effect.key == "seeds") for own in effects)

    @property
    def ordered(self) -> bool:
        """True if systems are in order of what is to be least, and not of a metric that only runs can tell."""
        return self.settings.objective in (COST, *(vary.key for vary in self.settings.varies))

    def runs(self, line: Line, system: int, seeds: Sequence[int]) -> list[Run]:
        """The runs of a system: workloads × seeds."""
        return self._runs(line.values(system), seeds, line.cluster, line.policy)

    def reference_runs(self, line: Line, seeds: Sequence[int]) -> list[Run]:
        """The runs of the system that goals are relative to: workloads × seeds."""
        policy = line.policy if self.reference_policy is None else self.reference_policy
        return self._runs(self._of_reference(), seeds, line.cluster, policy)

    def _runs(self, values: dict[str, Any], seeds: Sequence[int], cluster: int, policy: int) -> list[Run]:
        table = self.document.validated(StudyTable, self._at(values))
        return runs_of(table, seeds, values, self.sources, (cluster, policy))

    def _of_reference(self) -> dict[str, Any]:
        return {key: value for key, value in (self.settings.reference or {}).items() if key != "policy"}

    def _reference_policy(self, added: list[PolicySpec]) -> int | None:
        """The number of the policy of the reference; one that is not of the study is added to its policies."""
        wanted = (self.settings.reference or {}).get("policy")
        if wanted is None:
            return None
        labels = [spec.label for spec in (*self.written, *added)]
        if wanted in labels:
            return labels.index(wanted)
        self.sources = replace(self.sources, added=[*added, make_policy_spec(wanted, self.document, -1)])
        return len(labels)

    def _at(self, values: Mapping[str, Any]) -> dict[str, Any]:
        own = {key: value for key, value in self.document.table.items() if key not in ("plan", "sweep")}
        changed = copy.deepcopy(own)
        for key, value in values.items():
            if not set_value(changed, key, value, self.document):
                raise InputError(f"vary {key}", "a key that leads nowhere", "a key of this study, or of its parts")
        return changed

    def _prices(self) -> Prices | None:
        given = self.settings.prices
        if given is None:
            return None
        made = make_prices(given, "prices")
        check_prices(made, [self._cluster({}, i) for i in range(len(self.table.clusters))], "prices")
        return made

    def _cluster(self, values: Mapping[str, Any], index: int) -> Cluster:
        table = self._at(values)["clusters"][index]
        key = f"{index} {table!r}"
        if key not in self._clusters:
            self._clusters[key] = make_cluster(table, self.document, index)
        return self._clusters[key]

    def _line(self, cluster: int, policy: int, spec: PolicySpec) -> Line:
        varies = tuple(vary for vary in self.settings.varies if self._counts(vary, cluster, policy))
        size = math.prod(len(vary.values) for vary in varies)
        if size > MOST_SYSTEMS:
            raise InputError("vary", f"{size:,} systems", f"at most {MOST_SYSTEMS:,}: fewer values, or larger steps")
        bills: dict[tuple[int, ...], Bill] = {}

        def least(place: tuple[int, ...]) -> float:
            values = {vary.key: vary.values[at] for vary, at in zip(varies, place, strict=True)}
            made = self._cluster(values, cluster)
            bills[place] = bill_of(made, made.prices or self.prices or make_prices(EXAMPLE))
            if self.settings.objective in values:
                return float(place[[vary.key for vary in varies].index(self.settings.objective)])
            return bills[place].total

        with self.document.part("clusters", cluster, kind=ClusterError):
            space = Space.over([len(vary.values) for vary in varies], least)
        line = Line(cluster, policy, self._cluster({}, cluster).name, spec.label, varies, space,
                    tuple(bills[place] for place in space.places))  # fmt: skip
        if self.settings.objective == COST and len(space) > 1 and space.least[0] == space.least[-1]:
            keys = ", ".join(vary.key for vary in varies)
            none = ", ".join(line.bills[0].unpriced)
            got = f"the same cost of {line.cluster_name} for all values of {keys}"
            want = f"prices of what is varied ({none or 'nodes, memory, devices …'}), or --objective {varies[0].key}"
            raise InputError("objective cost", got, want)
        return line

    def _counts(self, vary: Vary, cluster: int, policy: int) -> bool:
        """True if the values of a key make a difference to a cluster, a policy or what both have."""
        if len(vary.values) == 1:
            parts = vary.key.split(".")
            return not (parts[0] == "clusters" and parts[1].isdigit() and int(parts[1]) != cluster)
        seen = []
        for value in vary.values[:2]:
            table = self._at({vary.key: value})
            own = {**table, "clusters": table["clusters"][cluster]}
            own["policies"] = table["policies"][policy] if policy < len(table["policies"]) else None
            seen.append(own)
        return bool(seen[0] != seen[1])
