"""Racing over seeds: systems that are tried side by side get more seeds only while their verdict is open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unrack.plan.rule import Rule, Verdict
from unrack.plan.search import Ask
from unrack.plan.trial import Trial

SIDE_BY_SIDE = 2
"""Looks that all systems of a race get; beyond these the least one whose verdict is open goes on alone."""


@dataclass
class Race:
    """Systems that were asked for together, the least one first.

    Attributes
    ----------
    ask
        What was asked.
    rule
        When goals count as met.
    trials
        System → what it did, on the seeds 0, 1, 2 … of the plan, those of earlier races among them.
    """

    ask: Ask
    rule: Rule
    trials: dict[int, list[Trial]]

    def __post_init__(self) -> None:
        for system in self.ask.systems:
            self.trials.setdefault(system, [])

    def wanted(self) -> Iterator[tuple[int, range]]:
        """Systems, and their seeds (by number) that are to be run next; none: the race is decided."""
        beside = self.rule.looks[:SIDE_BY_SIDE][-1]
        first = True
        for system in self.ask.systems:
            verdict = self.verdict(system)
            if verdict == Verdict.MEETS and self.ask.thorough and not self.ask.every:
                return  # what costs more is not asked for any longer
            if verdict != Verdict.OPEN:
                continue
            done = len(self.trials[system])
            if done < beside or self.ask.every or (first and self.ask.thorough):
                yield system, range(done, next(look for look in self.rule.looks if look > done))
            first = False

    def verdict(self, system: int) -> Verdict:
        """What is known of a system."""
        return self.rule.verdict(self.trials[system])

    def verdicts(self) -> dict[int, Verdict]:
        """System → what is known of it at the end."""
        return {system: self.verdict(system) for system in self.ask.systems}
