"""When a goal counts as met: on a share of the seeds, or with a confidence, and after how many seeds that is known.

*A share of the seeds* (``share = 0.9`` of ``seeds = 20``): the goals hold together on at least so many of these seeds.
That is a fact about these seeds, found without running those that can no longer change it (curtailed sampling).

*A confidence* (``confidence = 0.95``): the mean over all seeds that could be drawn meets each goal. Decided by
one-sided Student-t intervals after 5, 10, 20 … seeds; the chance of error is shared among these looks and among all
systems that a search may try (Bonferroni), so that the confidence is that of the answer, not of one look at one system.

*Both*: at least that share of all seeds that could be drawn meets the goals, with that confidence (Clopper and Pearson,
1934), shared in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from unrack.plan.goal import Goal
from unrack.plan.trial import Trial

FEWEST = 5
"""Seeds of the first look with a confidence."""
FEWEST_ALIKE = 10
"""Fewer seeds that all gave the same value say nothing of the next one."""


class Verdict(StrEnum):
    """What is known of a system."""

    MEETS = "meets"
    FAILS = "fails"
    OPEN = "open"
    """More seeds are needed."""
    UNDECIDED = "undecided"
    """All seeds were run, and it is not sure enough either way."""


@dataclass(frozen=True)
class Rule:
    """When goals count as met.

    Attributes
    ----------
    goals
        All of them.
    seeds
        How many are run at most.
    share
        On which share of the seeds they must hold; ``None``: on the mean.
    confidence
        How sure it must be of all seeds that could be drawn; ``None``: it is about these seeds alone.
    systems
        How many a search may try.
    """

    goals: tuple[Goal, ...]
    seeds: int = 20
    share: float | None = 0.9
    confidence: float | None = None
    systems: int = 1

    @property
    def needed(self) -> int:
        """On how many of the seeds the goals must hold, where there is a share of these seeds."""
        return max(1, math.ceil((1.0 if self.share is None else self.share) * self.seeds - 1e-9))

    @cached_property
    def looks(self) -> tuple[int, ...]:
        """After how many seeds it is asked whether the verdict is known.

        Examples
        --------
        >>> Rule((), 20, 0.9).looks, Rule((), 30, None, 0.95).looks
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
            good = sum(all(trial.met(goal) for goal in self.goals) for trial in trials)
            if good >= self.needed:
                return Verdict.MEETS
            return Verdict.FAILS if len(trials) - good > self.seeds - self.needed else Verdict.OPEN
        if self.seeds == 1 and trials:
            return Verdict.MEETS if all(trials[0].met(goal) for goal in self.goals) else Verdict.FAILS
        if len(trials) not in self.looks:
            return Verdict.OPEN
        found = self._mean(trials) if self.share is None else self._of_all(trials, self.share)
        return Verdict.UNDECIDED if found == Verdict.OPEN and done else found

    def _of_all(self, trials: Sequence[Trial], share: float) -> Verdict:
        """Whether the share of all seeds that meet the goals is at least, or surely less than, what it must be."""
        from scipy.special import betaincinv

        count = len(trials)
        good = sum(all(trial.met(goal) for goal in self.goals) for trial in trials)
        low = 0.0 if good == 0 else float(betaincinv(good, count - good + 1, self.error))
        high = 1.0 if good == count else float(betaincinv(good + 1, count - good, 1 - self.error))
        return Verdict.MEETS if low >= share else Verdict.FAILS if high < share else Verdict.OPEN

    def _mean(self, trials: Sequence[Trial]) -> Verdict:
        """Whether the mean meets each goal in each workload; what nobody asked for must hold on every seed."""
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
        from scipy.special import stdtrit

        if -math.inf in gaps:
            return Verdict.FAILS
        count = len(gaps)
        mean = math.fsum(gaps) / count
        spread = math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / (count - 1))
        if spread <= 1e-12 * max(1.0, abs(mean)):
            if count < min(FEWEST_ALIKE, self.seeds):
                return Verdict.OPEN
            strict = len(goal.comparison) == 1
            return Verdict.MEETS if mean > 0 or (mean == 0 and not strict) else Verdict.FAILS
        unit = spread / math.sqrt(count)
        if mean > float(stdtrit(count - 1, 1 - self.error)) * unit:
            return Verdict.MEETS
        return Verdict.FAILS if -mean > float(stdtrit(count - 1, 1 - self.error / tests)) * unit else Verdict.OPEN

    def __str__(self) -> str:
        if self.confidence is None:
            return f"on {self.needed} of {self.seeds} seeds at least" if self.seeds > 1 else "on the one seed"
        sure = f"with {100 * self.confidence:g} % confidence"
        return f"{'the mean' if self.share is None else f'{100 * self.share:g} % of all seeds'}, {sure}"
