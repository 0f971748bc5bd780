"""A policy around another one, which takes the time that its decisions take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Timed:
    """The same policy, with a stopwatch.

    Attributes
    ----------
    asked
        How often it was asked to decide.
    took_s
        How long that took in all, s.
    """

    def __init__(self, inner: Any, clock_s: Callable[[], float]) -> None:
        self._inner, self._clock_s = inner, clock_s
        self.asked, self.took_s = 0, 0.0

    def __getattr__(self, member: str) -> Any:
        """All else is the other policy's."""
        if member.startswith("__") or member == "_inner":
            raise AttributeError(member)
        return getattr(self._inner, member)

    def decide(self, view: Any, memory: Any, now: int) -> Any:
        """The other policy's decisions."""
        began = self._clock_s()
        found = self._inner.decide(view, memory, now)
        self.took_s += self._clock_s() - began
        self.asked += 1
        return found
