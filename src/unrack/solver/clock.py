"""A time limit of the user's, where there is one; and whether it ended anything. Without one, work is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import TypedDict

COUNTED_S = 60.0
"""Work of a search without a time limit, in seconds of an ordinary core: steps, iterations and nodes are counted."""


@dataclass
class Clock:
    """When there should be an answer.

    Attributes
    ----------
    limit_s
        Time from the beginning, s; infinite: none, and then no clock is looked at.
    began
        By :func:`time.perf_counter`, s.
    cut
        Whether something ended because of the limit: then another run may have another answer.
    """

    limit_s: float = inf
    began: float = field(default_factory=lambda: perf_counter())
    cut: bool = False
    whole: Clock | None = None

    @classmethod
    def of(cls, limit_s: float | None) -> Clock:
        """The clock of a limit; ``None``: none."""
        return cls(inf if limit_s is None else limit_s)

    def by(self, share: float) -> Clock:
        """The clock of what has to end when a share of the limit is used up."""
        return Clock(share * self.limit_s, self.began, whole=self)

    def over(self) -> bool:
        """Whether the time is up; whoever asks ends for that."""
        if self.limit_s == inf or perf_counter() - self.began < self.limit_s:
            return False
        self.note()
        return True

    def left_s(self, least: float = 0.0) -> float:
        """Seconds that are left, but not fewer than ``least``."""
        return inf if self.limit_s == inf else max(self.limit_s - (perf_counter() - self.began), least)

    def took_s(self) -> float:
        """Seconds since the beginning."""
        return perf_counter() - self.began

    def note(self) -> None:
        """Something was ended by the limit."""
        self.cut = True
        if self.whole is not None:
            self.whole.note()


class Part(TypedDict):
    """The arguments of a part of a search."""

    limit_s: float | None
    effort_s: float


def part_of(limit_s: float | None, share: float) -> Part:
    """What a part of a search may take: of the time limit, where there is one, and of the work."""
    return {"limit_s": None if limit_s is None else share * limit_s, "effort_s": share * counted_s(limit_s, None)}


def counted_s(limit_s: float | None, effort_s: float | None) -> float:
    """The work that a search may do, in seconds of an ordinary core: what is asked, else as much as the limit."""
    if effort_s is not None:
        return effort_s
    return COUNTED_S if limit_s is None else limit_s
