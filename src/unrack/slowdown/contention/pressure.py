"""What many interferers come to (Vieira Zacarias 2023, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unrack.errors import InputError


class Interferer(NamedTuple):
    """Someone who uses memory that a job uses: bandwidth when alone (MB/s), on so many nodes, its reads (percent)."""

    bandwidth: float
    nodes: int
    reads: float


class Pressure(NamedTuple):
    """What many interferers come to."""

    bandwidth: float  # the largest of their bandwidths, MB/s; 0: nobody interferes
    near: int  # number of nodes of those whose bandwidth is within the tolerance of it
    reads: float  # the lowest of their read shares, percent


def pressure_of(interferers: Sequence[tuple[float, int, float]], tolerance: float = 0.25) -> Pressure:
    """The worst bandwidth, the nodes near it and the lowest read share of interferers, in any order.

    Those without bandwidth or nodes do not count. The lowest share is that of all that count, near the worst or not.

    Parameters
    ----------
    interferers
        (bandwidth in MB/s, nodes, read share in percent) of each.
    tolerance
        Whose bandwidth is at least (1 - tolerance) times the worst is near it.

    Raises
    ------
    InputError
        A number is out of its range.

    Examples
    --------
    >>> pressure_of([(1000.0, 2, 90.0), (800.0, 3, 80.0), (100.0, 9, 60.0)])
    Pressure(bandwidth=1000.0, near=5, reads=60.0)
    """
    for interferer in interferers:
        bandwidth, count, reads = interferer
        if not (0 <= bandwidth < 2**42 and count >= 0 and 0 <= reads <= 100):
            want = "a bandwidth and nodes from 0, and a read share from 0 to 100"
            raise InputError("interferer", repr(tuple(interferer)), want)
    real = [Interferer(*interferer) for interferer in interferers if interferer[0] > 0 and interferer[1] > 0]
    if not real:
        return Pressure(0.0, 0, 100.0)
    worst = max(one.bandwidth for one in real)
    near = sum(one.nodes for one in real if one.bandwidth >= (1.0 - tolerance) * worst)
    return Pressure(worst, near, min(one.reads for one in real))
