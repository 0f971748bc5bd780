"""Carry out a plan: search every line side by side, run what the searches ask for, and keep it.

A line is the search for one cluster and policy of the study, with the runs that it needs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from unrack.cluster.prices.bill import Bill, bill_of, check_prices
from unrack.cluster.prices.prices import EXAMPLE, Prices, make_prices
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError, nearest
from unrack.plan.decided import values_text
from unrack.plan.goal import COST, Trial, Values, known_metric, shared_means
from unrack.plan.search import Ask, GoalRule, Search, SearchResult, Space, Verdict, search
from unrack.plan.settings import PlanSettings, Vary
from unrack.study.grid import Run, Sources, runs_of
from unrack.study.input.file import StudyTable
from unrack.study.input.inputs import Document, PolicySpec, make_cluster, make_policy_spec
from unrack.study.input.sweep import set_value
from unrack.study.notes import swept_labels
from unrack.study.runner import Progress, keep_runs, make_folder
from unrack.study.workers.shared import Workers

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
            space = Space.over([len(vary.values) for vary in varies], least, lambda place: bills[place].total)
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
            return not (parts[0] == "clusters" and parts[1].isdecimal() and int(parts[1]) != cluster)
        seen = []
        for value in vary.values[:2]:
            table = self._at({vary.key: value})
            own = {**table, "clusters": table["clusters"][cluster]}
            own["policies"] = table["policies"][policy] if policy < len(table["policies"]) else None
            seen.append(own)
        return bool(seen[0] != seen[1])


SIDE_BY_SIDE = 2
"""Looks that all systems of a race get; beyond these the least one with an open verdict goes on alone."""


@dataclass(eq=False)
class Searched:
    """A line and what its search came to."""

    line: Line  # which
    rule: GoalRule  # when goals counted as met
    drawn: bool  # whether seeds make a difference
    # system → what it did, on the seeds 0, 1, 2 … of the plan
    trials: dict[int, list[Trial]] = field(default_factory=dict)
    found: SearchResult = field(default_factory=SearchResult)  # what the search came to; empty while it goes on

    def begin(self, search: Search) -> None:
        """Take a search, and what it asks for first."""
        self._search = search
        self._take(next(search))

    def _take(self, ask: Ask | None) -> None:
        self._ask = ask
        for system in () if ask is None else ask.systems:
            self.trials.setdefault(system, [])

    def missed(self, system: int) -> tuple[bool, ...]:
        """Which goals a system misses on half of its seeds, or more."""
        trials = self.trials[system]
        return tuple(2 * sum(trial.met(goal) for trial in trials) <= len(trials) for goal in self.rule.goals)

    def wanted(self) -> list[Turn]:
        """What is to be run next, as verdicts are not known yet; none: the search has ended."""
        while self._ask is not None:
            if turns := list(self._open(self._ask)):
                return turns
            verdicts = {system: self.rule.verdict(self.trials[system]) for system in self._ask.systems}
            try:
                self._take(self._search.send(verdicts))
            except StopIteration as end:
                self.found = end.value
                self._take(None)
        return []

    def _open(self, ask: Ask) -> Iterator[Turn]:
        beside = self.rule.looks[:SIDE_BY_SIDE][-1]
        first = True
        for system in ask.systems:
            verdict, done = self.rule.verdict(self.trials[system]), len(self.trials[system])
            if verdict == Verdict.MEETS and ask.thorough and not ask.every:
                return  # what costs more is not asked for any longer
            if verdict != Verdict.OPEN:
                continue
            if done < beside or ask.every or (first and ask.thorough):
                yield Turn(self, system, range(done, next(look for look in self.rule.looks if look > done)))
            first = False


class Tried(NamedTuple):
    """How far a plan is: systems of which something is known, of how many; runs; what is tried now."""

    systems: int
    of: int
    runs: int
    now: str
    compiling: bool = False


Told = Callable[[Tried], None]


class Turn(NamedTuple):
    """Runs of a system on a seed that are wanted."""

    searched: Searched
    system: int
    seeds: range


def execute(
    plan: Plan, workers: Workers, directory: Path, *, told: Told | None = None, audit: bool = True
) -> list[Searched]:
    """Find the least system of every line; the answer does not depend on how many workers there are.

    Finished runs are kept in the directory, as those of a study, and are not run again; made if it is not there.

    Raises
    ------
    InputError
        The directory cannot be made, no run has the metric of a goal, or so few seeds could decide nothing.
    RunError
        A run failed; the others are kept.
    """
    make_folder(directory)
    bench = _Bench(plan, workers, directory, told, audit)
    while turns := [turn for searched in bench.all for turn in searched.wanted()]:
        bench.run(turns)
    return bench.all


def _all_of(searched: Searched, metric: str, sign: int) -> Search:
    """Try all systems; the best is that which meets the goals with the best mean of a metric."""
    found = SearchResult()
    found.verdicts.update((yield Ask(tuple(range(len(searched.line.space))), every=True)))
    good = {one: searched.trials[one] for one, verdict in found.verdicts.items() if verdict == Verdict.MEETS}
    means = shared_means(good, metric)
    found.best = min(means, key=lambda one: (sign * means[one], one), default=None)
    return found


class _Bench:
    def __init__(self, plan: Plan, workers: Workers, directory: Path, told: Told | None, audit: bool) -> None:
        self.plan, self.workers, self.directory, self.told, self.audit = plan, workers, directory, told, audit
        self.all = [
            Searched(line, plan.settings.rule(len(line.space), drawn), drawn)
            for line, drawn in zip(plan.lines, plan.drawn, strict=True)
        ]
        for one in self.all:
            if plan.ordered:
                one.begin(search(one.line.space, plan.settings.search, one.missed))
            else:  # an objective that only runs can tell is compared over all systems
                one.begin(_all_of(one, plan.settings.objective, plan.settings.sign))
        if short := next((one.rule for one in self.all if one.rule.seeds < one.rule.fewest), None):
            want = f"at least {short.fewest}: fewer cannot show {short}, even if all of them met the goals"
            raise InputError("seeds", str(short.seeds), want)
        self.references: dict[tuple[int, int], tuple[Values, ...]] = {}
        self.runs = 0
        self.checked = False

    def run(self, turns: Sequence[Turn]) -> None:
        """Run systems on seeds, all side by side, and add what they did to their trials."""
        made = [self.plan.runs(searched.line, system, tuple(seeds)) for searched, system, seeds in turns]
        beside = self._references(turns)
        runs = {run.id: run for own in (*beside.values(), *made) for run in own}
        told = None if self.told is None else self._progress(turns, self.told)
        rows = keep_runs(self.workers, list(runs.values()), self.directory, told=told, audit=self.audit)
        values = {row["run"]: row for row in rows}
        self.runs += len(runs)
        for key, own in beside.items():
            self.references[key] = tuple(values[run.id] for run in own)
        for (searched, system, seeds), own in zip(turns, made, strict=True):
            number, cost = self.all.index(searched), searched.line.bills[system].total
            for seed in seeds:
                seen = tuple({**values[run.id], COST: cost} for run in own if run.seed == seed)
                searched.trials[system].append(Trial(seen, self.references.get((number, seed))))
        self._check()

    def _references(self, turns: Sequence[Turn]) -> dict[tuple[int, int], list[Run]]:
        """(line by number, seed) → runs of the reference that are not known yet."""
        if self.plan.settings.reference is None:
            return {}
        wanted = {(self.all.index(searched), seed): searched.line for searched, _, seeds in turns for seed in seeds}
        return {
            key: self.plan.reference_runs(line, (key[1],)) for key, line in wanted.items() if key not in self.references
        }

    def _check(self) -> None:
        """Refuse a metric that no run has, after the first runs."""
        if self.checked:
            return
        rows = [values for searched in self.all for trials in searched.trials.values() for trial in trials
                for values in trial.values if values.get("jobs_finished")]  # fmt: skip
        if not rows:
            return  # systems on which nothing ends have no waits, and larger ones may
        self.checked = True
        metrics = [*(goal.metric for goal in self.plan.settings.goals if not goal.unasked)]
        if known_metric(self.plan.settings.objective):
            metrics.append(self.plan.settings.objective)
        for metric in metrics:
            if all(row.get(metric) is None for row in rows):
                there = [name for name, value in rows[0].items() if isinstance(value, float)]
                raise InputError(f"goal on {metric}", "no value in any run of this study", nearest(metric, there))

    def _progress(self, turns: Sequence[Turn], told: Told) -> Callable[[Progress], None]:
        tried = sum(len(searched.trials) for searched in self.all)
        total = sum(len(searched.line.space) for searched in self.all)
        systems = [values_text(turn.searched.line.values(turn.system), self.plan.labels) for turn in turns]
        before, now = self.runs, "; ".join(dict.fromkeys(systems))
        return lambda progress: told(Tried(tried, total, before + progress.runs_done, now, progress.compiling))
