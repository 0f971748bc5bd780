"""How fast work goes while nothing is compiled, and how long the rest will take."""

from __future__ import annotations

from collections import deque

WINDOW_S = 10.0
"""What counts as recent."""
LEAST_S = 1.0
"""Work of less time says nothing about the rest."""


class Pace:
    """Jobs done over time; moments are given, in seconds of any clock.

    Attributes
    ----------
    compiled_s
        Time in which kernels were compiled.
    now
        The latest moment.

    Examples
    --------
    Ten seconds of compiling are not held against the jobs:

    >>> pace = Pace()
    >>> for now, done, compiling in ((0, 0, True), (10, 0, False), (12, 200, False)):
    ...     pace.at(now, done, compiling)
    >>> pace.rate, pace.left_s(1000), pace.compiled_s
    (100.0, 8.0, 10.0)
    """

    def __init__(self) -> None:
        self.compiled_s = 0.0
        self.compiling = False
        self.now: float | None = None
        self._busy_s = 0.0
        self._marks: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._done = 0

    def at(self, now: float, done: int, compiling: bool) -> None:
        """So many jobs are done now, and from now on kernels are compiled or not."""
        passed = 0.0 if self.now is None else now - self.now
        if self.compiling:
            self.compiled_s += passed
        else:
            self._busy_s += passed
        self.now, self._done, self.compiling = now, done, compiling
        self._marks.append((self._busy_s, done))
        while len(self._marks) > 2 and self._marks[1][0] <= self._busy_s - WINDOW_S:
            self._marks.popleft()

    @property
    def rate(self) -> float | None:
        """Jobs a second: over all of the time or lately, whichever is slower; ``None``: too early to say."""
        if self._busy_s < LEAST_S or not self._done:
            return None
        since, before = self._marks[0]
        whole = self._done / self._busy_s
        return min(whole, (self._done - before) / (self._busy_s - since)) if self._busy_s > since else whole

    def left_s(self, jobs: int) -> float | None:
        """Time until so many jobs are done; ``None``: nobody can say."""
        rate = self.rate
        return (jobs - self._done) / rate if rate and not self.compiling else None
