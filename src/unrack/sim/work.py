"""Work left of running jobs that change speed: work falls by elapsed time x speed (Vieira Zacarias 2023, eq. 6.1)."""

from __future__ import annotations

from math import ceil

from unrack.units import NEVER_US


class Work:
    """What is left to do, by job.

    Speeds are floats and times whole µs: a job ends at the first whole µs at which nothing is left. A job that always
    runs at speed 1 ends exactly ``work`` µs after it started.
    """

    def __init__(self) -> None:
        self._left: dict[int, float] = {}
        self._speed: dict[int, float] = {}
        self._since: dict[int, int] = {}

    def start(self, job: int, work: float, now: int) -> None:
        """Start a job with ``work`` µs (at speed 1) to do; nothing is done before ``now``, which may lie ahead."""
        self._left[job] = work
        self._speed[job] = 1.0
        self._since[job] = now

    def left(self, job: int, now: int) -> float:
        """What is left at ``now``, µs at speed 1."""
        return max(0.0, self._left[job] - max(0, now - self._since[job]) * self._speed[job])

    def change_speed(self, job: int, speed: float, now: int) -> bool:
        """Let a job go on at ``speed``; False if it had that speed already."""
        if speed == self._speed[job]:
            return False
        self._left[job] = self.left(job, now)
        self._since[job] = max(now, self._since[job])
        self._speed[job] = speed
        return True

    def end_us(self, job: int) -> int:
        """When it ends if its speed does not change again, µs."""
        return self._since[job] + ceil(self._left[job] / self._speed[job])

    def hold(self, job: int, now: int) -> int:
        """Let nothing be done until :meth:`go_on`; returns for how much longer nothing would have been done, µs."""
        self._left[job], since = self.left(job, now), self._since[job]
        self._since[job] = NEVER_US
        return max(0, since - now)

    def go_on(self, job: int, now: int) -> None:
        """Let a job that was held go on."""
        self._since[job] = now

    def more(self, job: int, work: float, now: int) -> None:
        """Let a job have ``work`` µs more to do."""
        self._left[job] = self.left(job, now) + work
        self._since[job] = max(now, self._since[job])

    def stop(self, job: int) -> None:
        """Forget a job."""
        del self._left[job], self._speed[job], self._since[job]

    def after(self, job: int, work: float, now: int) -> int:
        """When it will have done ``work`` µs more than at ``now`` if its speed does not change, µs."""
        return max(now, self._since[job]) + ceil(work / self._speed[job])

    def stall(self, job: int, time_us: int, now: int) -> None:
        """Let nothing be done for so long from now on."""
        self._left[job] = self.left(job, now)
        self._since[job] = max(now, self._since[job]) + time_us
