"""A time limit of the user's, where there is one; and whether it ended anything. Without one, work is counted.

A limit is of the time that this process computes, on all its threads. What it waits for a busy machine is not counted,
nor is the compilation of kernels. A limit only cuts: until then every step is the one that would be made without it,
and once anything was cut everything is. So a limited answer is the one at which the search without a limit had arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from math import inf
from time import perf_counter, process_time

from unrack.jit import telling_of_each

LEAST_WALL_S = 0.1
"""A solver that knows wall time only has so much at least."""


@dataclass
class Clock:
    """When there should be an answer."""

    limit_s: float = inf  # time that may be computed, s; infinite: no limit, and then no clock is looked at
    # by :func:`time.process_time`; what is compiled since then is added
    began_s: float = field(default_factory=lambda: process_time())
    began_wall_s: float = field(default_factory=lambda: perf_counter())  # by :func:`time.perf_counter`
    # whether something ended because of the limit: then everything does, and another run may have another answer
    cut: bool = False
    _compiling_since_s: float = 0.0

    def over(self) -> bool:
        """Whether the time is up; the search that asks then ends."""
        self.cut = self.cut or (self.limit_s < inf and self._used_s() >= self.limit_s)
        return self.cut

    def left_s(self) -> float:
        """What may still be computed, s; infinite without a limit."""
        return inf if self.limit_s == inf else max(self.limit_s - self._used_s(), 0.0)

    def wall_s(self) -> float:
        """Wall time in which what is left is used up, if the machine stays as busy; infinite without a limit."""
        left = self.left_s()
        if left == inf:
            return inf
        used = self.limit_s - left
        return max(left * max(self.took_s() / used, 1.0) if used > 0 else left, LEAST_WALL_S)

    def took_s(self) -> float:
        """Wall time since the beginning, s."""
        return perf_counter() - self.began_wall_s

    def compiling(self, change: int) -> None:
        """Kernels begin (1) or end (-1) to be compiled."""
        if change > 0:
            self._compiling_since_s = process_time()
        else:
            self.began_s += process_time() - self._compiling_since_s

    def _used_s(self) -> float:
        return process_time() - self.began_s


@contextmanager
def timed(limit_s: float | Clock | None) -> Iterator[Clock]:
    """The clock of a limit while it is in use; ``None``: without a limit; one that runs already goes on."""
    clock = limit_s if isinstance(limit_s, Clock) else Clock(inf if limit_s is None else limit_s)
    new = clock is not limit_s and clock.limit_s < inf
    with telling_of_each(clock.compiling) if new else nullcontext():
        yield clock
