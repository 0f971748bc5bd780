"""Find the least system that meets the goals, without believing that more is always better.

*One by one*: systems are tried in ascending order of cost until one meets the goals. Every cheaper one has been tried
then: the answer needs no assumption. Most systems that fail do so after a few seeds, so this is the way for spaces of
up to ``ONE_BY_ONE`` systems.

*Bisection*: in larger spaces, along the key with the most values, chain by chain, only below the best system found so
far. What bisection assumes is then tested: the neighbours of the answer along every key, and systems spread evenly
over all that are cheaper. If one of these meets the goals, more is not always better here: all cheaper systems (or the
``MOST_SWEPT`` next to the answer) are tried one by one, and the answer says so.

In both, the next larger systems are looked at too: some of them may miss goals that a smaller one meets.

A goal is met on a share of the seeds or with a confidence, and that may be known before all seeds were run.

*A share of the seeds* (``share = 0.9`` of ``seeds = 20``): the goals hold together on at least so many of these seeds.
That is a fact about these seeds, found without running those that can no longer change it (curtailed sampling).

*A confidence* (``confidence = 0.95``): the mean over all seeds that could be drawn meets each goal. Decided by
one-sided Student-t intervals after 5, 10, 20 … seeds; the chance of error is shared among these looks and among all
systems that a search may try (Bonferroni), so that the confidence is that of the answer, not of one look at one system.

*Both*: at least that share of all seeds that could be drawn meets the goals, with that confidence (Clopper and Pearson,
1934), shared in the same way. Seeds are added until that is sure or surely not so, or all that may be run were run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal, NamedTuple

from unrack.metric.estimate import beta_point, t_point
from unrack.plan.goal import Goal, Trial

FEWEST = 5
"""Seeds of the first look with a confidence."""
FEWEST_ALIKE = 10
"""Fewer seeds that all gave the same value say nothing of the next one."""


SURE = 0.95
"""Of what is told of all seeds where no confidence is asked for."""


def at_least(met: int, seeds: int, error: float = 1 - SURE) -> float:
    """The share of all seeds that could be drawn which meet the goals, at least, but for a chance of error.

    One-sided (Clopper and Pearson, 1934).

    Examples
    --------
    >>> round(at_least(18, 20), 3), round(at_least(9, 9), 3), at_least(0, 5)
    (0.717, 0.717, 0.0)
    """
    return 0.0 if met == 0 else beta_point(met, seeds - met + 1, error)


class Verdict(StrEnum):
    """What is known of a system."""

    MEETS = "meets"
    FAILS = "fails"
    OPEN = "open"
    """More seeds are needed."""
    UNDECIDED = "undecided"
    """All seeds were run, and it is not sure enough either way."""


@dataclass(frozen=True)
class GoalRule:
    """When goals count as met."""

    goals: tuple[Goal, ...]  # all of them
    seeds: int = 20  # how many are run at most
    share: float | None = 0.9  # on which share of the seeds they must hold; ``None``: on the mean
    # how sure it must be of all seeds that could be drawn; ``None``: it is about these seeds alone
    confidence: float | None = None
    systems: int = 1  # how many a search may try

    @property
    def needed(self) -> int:
        """On how many of the seeds the goals must hold, where there is a share of these seeds."""
        return max(1, math.ceil((1.0 if self.share is None else self.share) * self.seeds - 1e-9))

    @cached_property
    def looks(self) -> tuple[int, ...]:
        """After how many seeds it is asked whether the verdict is known.

        Examples
        --------
        >>> GoalRule((), 20, 0.9).looks, GoalRule((), 30, None, 0.95).looks
        ((3, 6, 12, 18, 20), (5, 10, 20, 30))
        """
        first = FEWEST if self.confidence is not None else self.seeds - self.needed + 1
        found, at = [], max(1, min(first, self.seeds))
        last = self.needed if self.confidence is None else self.seeds
        while at < last:
            found.append(at)
            at *= 2
        return tuple(dict.fromkeys([*found, last, self.seeds]))

    @property
    def error(self) -> float:
        """The chance of error of one look at one system."""
        assert self.confidence is not None
        return (1 - self.confidence) / (len(self.looks) * max(1, self.systems))

    def verdict(self, trials: Sequence[Trial]) -> Verdict:
        """What is known after some seeds; ``OPEN`` unless that many are a look."""
        done = len(trials) >= self.seeds
        if self.confidence is None:
            good = sum(self.met(trials))
            if good >= self.needed:
                return Verdict.MEETS
            return Verdict.FAILS if len(trials) - good > self.seeds - self.needed else Verdict.OPEN
        if len(trials) not in self.looks:
            return Verdict.OPEN
        found = self._mean(trials) if self.share is None else self._of_all(trials, self.share)
        return Verdict.UNDECIDED if found == Verdict.OPEN and done else found

    def met(self, trials: Sequence[Trial]) -> list[bool]:
        """For each seed, whether all goals are met."""
        return [all(trial.met(goal) for goal in self.goals) for trial in trials]

    def of_all_seeds(self, trials: Sequence[Trial]) -> tuple[float, float] | None:
        """The share of all seeds that meets the goals, at least and at most; ``None``: one seed says nothing of others.

        With the confidence, shared among looks and systems; without one each bound by itself, and this system by
        itself, with 95 %. Where enough seeds met the goals the lower one is by when the last that was needed did: the
        runs stopped for that.
        """
        if self.seeds == 1:
            return None
        met, error = self.met(trials), 1 - SURE if self.confidence is None else self.error
        good, count = sum(met), len(met)
        high = 1 - at_least(count - good, count, error)
        if self.confidence is None and good >= self.needed:
            good, count = self.needed, [at for at, one in enumerate(met, 1) if one][self.needed - 1]
        return at_least(good, count, error), high

    def _of_all(self, trials: Sequence[Trial], share: float) -> Verdict:
        low, high = self.of_all_seeds(trials) or (0.0, 1.0)
        return Verdict.MEETS if low >= share else Verdict.FAILS if high < share else Verdict.OPEN

    @property
    def fewest(self) -> int:
        """With fewer seeds nothing could be decided in favour of a system, even if all of them met the goals."""
        if self.confidence is None or self.share is None:
            return 1
        return math.ceil(math.log(self.error) / math.log(self.share) - 1e-9)

    def _mean(self, trials: Sequence[Trial]) -> Verdict:
        """Whether the mean meets each goal in each workload; what was not asked for must hold on every seed."""
        asked = [goal for goal in self.goals if not goal.unasked]
        if not all(trial.met(goal) for goal in self.goals if goal.unasked for trial in trials):
            return Verdict.FAILS
        found = [
            self._side(goal, [trial.gap(goal, workload) for trial in trials], len(asked) * len(trials[0].values))
            for goal in asked
            for workload in range(len(trials[0].values))
        ]
        if Verdict.FAILS in found:
            return Verdict.FAILS
        return Verdict.MEETS if all(side == Verdict.MEETS for side in found) else Verdict.OPEN

    def _side(self, goal: Goal, gaps: Sequence[float], tests: int) -> Verdict:
        """On which side of a goal the mean surely is; any of several tests may say that it is the wrong one."""
        if -math.inf in gaps:
            return Verdict.FAILS
        low, high = self.of_mean(gaps, tests)
        if low == high:
            if len(gaps) < min(FEWEST_ALIKE, self.seeds):
                return Verdict.OPEN
            strict = len(goal.comparison) == 1
            return Verdict.MEETS if low > 0 or (low == 0 and not strict) else Verdict.FAILS
        return Verdict.MEETS if low > 0 else Verdict.FAILS if high < 0 else Verdict.OPEN

    def of_mean(self, gaps: Sequence[float], tests: int = 1) -> tuple[float, float]:
        """The mean over all seeds, at least and (in any of several tests) at most; equal if all values are."""
        count = len(gaps)
        if count == 1:
            return -math.inf, math.inf
        mean = math.fsum(gaps) / count
        spread = math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / (count - 1))
        if spread <= 1e-12 * max(1.0, abs(mean)):
            return mean, mean
        unit = spread / math.sqrt(count)
        below, above = (t_point(count - 1, 1 - self.error / among) * unit for among in (1, tests))
        return mean - below, mean + above

    def __str__(self) -> str:
        if self.confidence is None:
            return f"on {self.needed} of {self.seeds} seeds at least" if self.seeds > 1 else "on the one seed"
        sure = f"with {100 * self.confidence:g} % confidence, after at most {self.seeds} seeds"
        return f"{'in the mean' if self.share is None else f'on {100 * self.share:g} % of all seeds'}, {sure}"


@dataclass(frozen=True, eq=False)
class Space:
    """A grid of systems, numbered from 0 in ascending order of what is to be least."""

    places: tuple[tuple[int, ...], ...]  # of each system: the index of its value along every key
    least: tuple[float, ...]  # of each system: what is to be least, such as its cost

    @classmethod
    def over(
        cls,
        sizes: Sequence[int],
        least: Callable[[tuple[int, ...]], float],
        of_equals: Callable[[tuple[int, ...]], float] = lambda place: 0.0,
    ) -> Space:
        """All combinations of so many values along each key; equals by ``of_equals``, then by their values.

        Examples
        --------
        >>> Space.over([2, 2], lambda place: 10 * place[0] - place[1]).places
        ((0, 1), (0, 0), (1, 1), (1, 0))
        """
        places = list(itertools.product(*(range(size) for size in sizes)))
        amounts = {place: least(place) for place in places}
        ordered = sorted(places, key=lambda place: (amounts[place], of_equals(place), place))
        return cls(tuple(ordered), tuple(amounts[place] for place in ordered))

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def _number(self) -> dict[tuple[int, ...], int]:
        return {place: number for number, place in enumerate(self.places)}

    def neighbours(self, system: int, steps: int) -> list[int]:
        """The systems that differ by up to so many steps along one key, in order of their numbers."""
        place = self.places[system]
        moved = (
            (*place[:key], place[key] + by, *place[key + 1 :])
            for key in range(len(place))
            for by in range(-steps, steps + 1)
            if by
        )
        return sorted(self._number[one] for one in moved if one in self._number)

    def chains(self) -> list[list[int]]:
        """All systems in chains along the key with the most values, each in ascending order, the cheapest chain first.

        Examples
        --------
        >>> Space.over([2, 3], lambda place: 10 * place[0] + place[1]).chains()
        [[0, 1, 2], [3, 4, 5]]
        """
        if not self.places:
            return []
        sizes = [len({place[key] for place in self.places}) for key in range(len(self.places[0]))]
        along = max(range(len(sizes)), key=lambda key: sizes[key])
        found: dict[tuple[int, ...], list[int]] = {}
        for number, place in enumerate(self.places):
            found.setdefault((*place[:along], *place[along + 1 :]), []).append(number)
        return sorted(found.values())


Way = Literal["auto", "every", "bisect"]
ONE_BY_ONE = 32
"""Spaces up to this size are tried one by one."""
AT_ONCE = 4
"""So many systems are tried side by side on the way up."""
PROBES = 8
"""Systems that are tried among the cheaper ones that bisection passed over."""
MOST_SWEPT = 256
"""So many of the cheaper ones are tried one by one where more is not always better."""
BESIDE = 2
"""Steps from the answer within which systems are tried."""


class Ask(NamedTuple):
    """Systems of which the least that meets the goals is wanted; with ``every``, all of their verdicts.

    If not ``thorough``, a look after a few seeds is enough.
    """

    systems: tuple[int, ...]
    thorough: bool = True
    every: bool = False


@dataclass
class SearchResult:
    """What a search came to."""

    best: int | None = None  # the least system that meets the goals; ``None``: none was found
    # system → what is known of it, in the order in which they were tried
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    # how many cheaper systems were not tried, and are taken to miss the goals as those around them do
    believed: int = 0

    def worse_above(self) -> list[int]:
        """Systems that cost more than the best, and miss the goals."""
        return sorted(system for system, verdict in self.verdicts.items()
                      if self.best is not None and system > self.best and verdict == Verdict.FAILS)  # fmt: skip

    def undecided_below(self) -> list[int]:
        """Cheaper systems that may meet the goals, which more seeds could tell."""
        return sorted(system for system, verdict in self.verdicts.items()
                      if verdict == Verdict.UNDECIDED and (self.best is None or system < self.best))  # fmt: skip


Missed = Callable[[int], object]  # the goals that a system that was tried misses
Search = Generator[Ask, Mapping[int, Verdict], SearchResult]


def search(space: Space, way: Way = "auto", missed: Missed = lambda _: ()) -> Search:
    """Find the least system of a space that meets the goals: yields what to try, is sent the verdicts, returns them.

    ``way``: ``"every"``: one by one, whatever the size; ``"bisect"``; ``"auto"``: by the size.
    """
    found = SearchResult()
    if way == "every" or (way == "auto" and len(space) <= ONE_BY_ONE):
        yield from _upwards(found, range(len(space)))
    else:
        yield from _bisected(space, found, missed)
        yield from _supported(space, found)
    if found.best is not None:
        above = [one for one in space.neighbours(found.best, BESIDE) if one > found.best]
        yield from _tried(found, above, thorough=False)
    found.believed = sum(one not in found.verdicts for one in range(len(space) if found.best is None else found.best))
    return found


Steps = Generator[Ask, Mapping[int, Verdict], None]


def _tried(found: SearchResult, systems: Iterable[int], thorough: bool = True) -> Steps:
    left = tuple(one for one in systems if one not in found.verdicts)
    if left:
        verdicts = yield Ask(left, thorough)
        found.verdicts.update((one, verdicts[one]) for one in left)


def _upwards(found: SearchResult, systems: Iterable[int]) -> Steps:
    """Try systems in ascending order, a few at once, until one meets the goals, and remember the least that does."""
    left = list(systems)
    while left:
        some, left = left[:AT_ONCE], left[AT_ONCE:]
        yield from _tried(found, some)
        good = [one for one in some if found.verdicts[one] == Verdict.MEETS]
        if good:
            found.best = good[0] if found.best is None else min(found.best, good[0])
            return


def _bisected(space: Space, found: SearchResult, missed: Missed) -> Steps:
    """The least system by bisection, chain by chain; each chain only where it is cheaper than the best so far."""
    for chain in space.chains():
        cheaper = [one for one in chain if found.best is None or one < found.best]
        if not cheaper:
            continue
        low, high = -1, len(cheaper) - 1
        yield from _tried(found, dict.fromkeys((cheaper[high // 2], cheaper[high])))
        half, top = (found.verdicts[cheaper[at]] == Verdict.MEETS for at in (high // 2, high))
        if not top:  # what is below a smaller one that meets them is bisected
            high = high // 2 if half else (yield from _between(found, cheaper, missed))
            if high < 0:
                continue
        while high - low > 1:
            middle = (low + high) // 2
            yield from _tried(found, [cheaper[middle]])
            if found.verdicts[cheaper[middle]] == Verdict.MEETS:
                high = middle
            else:
                low = middle
        found.best = cheaper[high]


def _between(found: SearchResult, chain: list[int], missed: Missed) -> Generator[Ask, Mapping[int, Verdict], int]:
    """The place of a system that meets the goals, between those that miss other ones; -1: none was found."""
    low, high = 0, len(chain) - 1
    yield from _tried(found, chain[:1])
    while high - low > 1 and missed(chain[low]) != missed(chain[high]):
        middle = (low + high) // 2
        yield from _tried(found, [chain[middle]])
        if found.verdicts[chain[middle]] == Verdict.MEETS:
            return middle
        low, high = (low, middle) if missed(chain[middle]) == missed(chain[high]) else (middle, high)
    return low if found.verdicts[chain[low]] == Verdict.MEETS else -1


def _supported(space: Space, found: SearchResult) -> Steps:
    """Test what bisection assumes; if a cheaper system meets the goals after all, try the cheaper ones one by one."""
    best = len(space) if found.best is None else found.best
    near = [] if found.best is None else [one for one in space.neighbours(best, BESIDE) if one < best]
    spread = [(step + 1) * best // (PROBES + 1) for step in range(PROBES)]
    yield from _tried(found, sorted({*near, *(one for one in spread if one < best)}))
    good = [one for one, verdict in found.verdicts.items() if verdict == Verdict.MEETS and one < best]
    if not good:
        return
    found.best = min(good)
    yield from _upwards(found, range(max(0, found.best - MOST_SWEPT), found.best))
