"""The driver's time."""

from __future__ import annotations

import time


class Clock:
    """The driver's time: µs since an origin, never going back, whatever happens to the clock of the machine.

    Parameters
    ----------
    origin_s
        The origin, s since 1970.
    last_us
        The last time that was written down; time goes on from there or later.
    """

    def __init__(self, origin_s: float, last_us: int = 0) -> None:
        self.origin_s = origin_s
        self._at = max(last_us, round((time.time() - origin_s) * 1e6))
        self._since = time.monotonic_ns()

    def now(self) -> int:
        """The time, µs."""
        return self._at + (time.monotonic_ns() - self._since) // 1000
