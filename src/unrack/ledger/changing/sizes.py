"""Jobs that change: the sizes that they can have, and what a suspended one goes on with."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from unrack.kernels.arrays import Ints


class Sizes(NamedTuple):
    """The sizes of one job; the size that it was submitted with is one of them, and has the speed 1.

    Examples
    --------
    >>> sizes = Sizes((2, 4), (0.6, 1.0))
    >>> sizes.time_us(60, 2)
    100
    """

    tasks: tuple[int, ...]  # ascending
    speed: tuple[float, ...]  # of each, as a multiple of that of its own size
    malleable: bool = False  # whether a policy may change it while it runs
    change_us: int = 0  # how long it stands still at a change while it runs, µs
    asks: tuple[tuple[float, int], ...] = ()  # at which part of its work (above 0, below 1) it asks for which size

    @property
    def changes(self) -> bool:
        """Whether its size may change while it runs."""
        return self.malleable or bool(self.asks)

    @property
    def own(self) -> int:
        """The size that it was submitted with, or the smallest that is as fast; the largest if it cannot have that."""
        return next((n for n, speed in zip(self.tasks, self.speed, strict=True) if speed == 1.0), self.tasks[-1])

    def some(self, places: Sequence[int]) -> Sizes:
        """Some of the sizes, by their places; it asks for no others."""
        tasks, speed = tuple(self.tasks[i] for i in places), tuple(self.speed[i] for i in places)
        return self._replace(tasks=tasks, speed=speed, asks=tuple(one for one in self.asks if one[1] in tasks))

    def speed_at(self, tasks: int) -> float:
        """How fast it runs with so many tasks, which is one of its sizes."""
        return self.speed[self.tasks.index(tasks)]

    def time_us(self, own_us: int, tasks: int) -> int:
        """How long it runs with so many tasks if it runs ``own_us`` at its own size, µs."""
        return ceil(own_us / self.speed_at(tasks))


class Suspended(NamedTuple):
    """What it held, and what is left of it."""

    rows: Ints  # int64[rows, 5]: of its lease, with its cores
    since_us: int
    left_us: int  # the work that is expected to be left of it, µs at speed 1
    lead_us: int  # how much longer its devices were being attached
