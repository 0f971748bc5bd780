"""The rules of prediction one job at a time, as they are meant: the plain twin of the compiled ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unrack.slowdown.contention.columns import MEMGEN_READS
from unrack.slowdown.contention.predict import Contention, Family
from unrack.slowdown.contention.profile import READS

Interferers = Sequence[tuple[float, int, float]]


class Pressure(NamedTuple):
    """What many interferers come to: worst bandwidth, nodes near it, lowest reads."""

    bandwidth: float
    near: int
    reads: float


class Traffic(NamedTuple):
    """What a job draws from memory: MB/s when all of it is remote and when all is local; its reads, percent."""

    remote_mb_s: float
    local_mb_s: float
    reads: float


def pressure_of(interferers: Interferers, tolerance: float = 0.25) -> Pressure:
    real = [one for one in interferers if one[0] > 0 and one[1] > 0]
    if not real:
        return Pressure(0.0, 0, 100.0)
    worst = max(bandwidth for bandwidth, _, _ in real)
    near = sum(nodes for bandwidth, nodes, _ in real if bandwidth >= (1.0 - tolerance) * worst)
    return Pressure(worst, near, min(reads for _, _, reads in real))


def plain_speed(model: Contention, app: int, nodes: int, remote: float, interferers: Interferers) -> float:
    """(1 - r) S_local + r S_remote, each S from its own curves; where nobody interferes (1 - r) + r q."""
    alone = remote_speed(model, app, nodes)
    pressure = pressure_of(interferers, model.tolerance)
    if pressure.bandwidth <= 0:
        return (1.0 - remote) + remote * alone
    local = _pressed(model, app, nodes, pressure, False, 1.0)
    far = _pressed(model, app, nodes, pressure, True, alone)
    return (1.0 - remote) * local + remote * far


def remote_speed(model: Contention, app: int, nodes: int) -> float:
    """q, at most 1; at a number of nodes that was not measured: that of the measured neighbour with fewer nodes."""
    rows = model.profiles[app]
    fewer = [row for row in rows if row.nodes <= nodes]
    return min((fewer[-1] if fewer else rows[0]).remote_speed, 1.0)


def plain_traffic(model: Contention, app: int, nodes: int) -> Traffic:
    """What the application draws from each node's memory; between measured numbers of nodes, interpolated."""
    rows = model.profiles[app]
    low, high, share = around([row.nodes for row in rows], nodes)
    a, b = rows[low], rows[high]
    return Traffic(
        _between(a.remote_mb_s, b.remote_mb_s, share),
        _between(a.local_mb_s, b.local_mb_s, share),
        _between(a.reads, b.reads, share),
    )


def _pressed(model: Contention, app: int, nodes: int, pressure: Pressure, remote: bool, without: float) -> float:
    """S_local or S_remote; ``without``: what it is where there are no such curves."""
    families = [family for family in model.families[app] if (*family.of, remote, READS[0]) in model.fits]
    count = min(pressure.near, nodes)
    if not families:
        return max(without, model.floor)
    low, high, share = around([family.nodes for family in families], nodes)
    values = [_mixed(model, families[i], pressure, count, remote) for i in (low, high)]
    return max(min(_between(values[0], values[1], share), 1.0), model.floor)


def _mixed(model: Contention, family: Family, pressure: Pressure, count: int, remote: bool) -> float:
    """Eq. 4.3 on the curves of one family."""
    reads = MEMGEN_READS if model.method == "memgen" else pressure.reads
    share = min(max((reads - 50.0) / 50.0, 0.0), 1.0)
    speeds = []
    for curve_reads in READS:
        fits = model.fits[*family.of, remote, curve_reads]
        low, high, part = around([interfering for interfering, _ in fits], count)
        speeds.append(_between(fits[low][1].at(pressure.bandwidth), fits[high][1].at(pressure.bandwidth), part))
    return (family.scale if remote else 1.0) * _between(speeds[0], speeds[1], share)


def around(measured: Sequence[int], wanted: int) -> tuple[int, int, float]:
    """Places of the measured numbers on either side of ``wanted``, and how far it is from the first to the second."""
    last = max((i for i, number in enumerate(measured) if number <= wanted), default=0)
    if last + 1 == len(measured) or measured[last] >= wanted:
        return last, last, 0.0
    return last, last + 1, (wanted - measured[last]) / (measured[last + 1] - measured[last])


def _between(low: float, high: float, share: float) -> float:
    return low * (1.0 - share) + high * share
