"""Carry out a plan: search every line side by side, run what the searches ask for, and keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from unrack.errors import InputError, nearest
from unrack.plan.decided import values_text
from unrack.plan.goal import COST, Trial, Values, known_metric, mean_of
from unrack.plan.lines import Line, Plan
from unrack.plan.search import Ask, GoalRule, Search, SearchResult, Verdict, search
from unrack.study.grid import Run
from unrack.study.runner import Progress, keep_runs, make_folder
from unrack.study.workers.shared import Workers

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
    good = [one for one, verdict in found.verdicts.items() if verdict == Verdict.MEETS]
    means = {one: mean_of(searched.trials[one], metric) for one in good}
    known = [one for one in good if means[one] is not None]
    found.best = min(known, key=lambda one: (sign * (means[one] or 0.0), one), default=None)
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
                one.begin(search(one.line.space, plan.settings.search))
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
