"""Nodes that Slurm has reserved, now or soon, which jobs outside of the reservation must leave alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from unrack.live.slurm.constraints import Reservation
from unrack.units import SECOND_US


class Reserved(NamedTuple):
    """The reservations as last read."""

    reservations: tuple[Reservation, ...] = ()  # all that there are
    wall_us: int = 0  # what the clock of the machine had beyond the driver's, µs

    def closes(self, now: int) -> dict[str, int]:
        """Node → in how many µs it will be reserved, for those that are or will be; 0: it is."""
        at_us, found = now + self.wall_us, dict[str, int]()
        for one in self.reservations:
            if one.end_s * SECOND_US > at_us:
                left = max(one.start_s * SECOND_US - at_us, 0)
                for node in one.nodes:
                    found[node] = min(left, found.get(node, left))
        return found


def closed(closes: Mapping[str, int], us: int) -> set[str]:
    """The nodes on which a job that may run for so long must not be started."""
    return {node for node, left in closes.items() if left < us or not left}
