"""A line of a plan and what its search came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from unrack.plan.lines import Line
from unrack.plan.rule import Rule
from unrack.plan.search import Found
from unrack.plan.trial import Trial


@dataclass(eq=False)
class Searched:
    """A line and what its search came to.

    Attributes
    ----------
    line
        Which.
    rule
        When goals counted as met.
    drawn
        Whether seeds make a difference.
    trials
        System → what it did, seed by seed.
    found
        What the search came to; empty while it goes on.
    """

    line: Line
    rule: Rule
    drawn: bool
    trials: dict[int, list[Trial]] = field(default_factory=dict)
    found: Found = field(default_factory=Found)
