"""Prediction compiled: speeds of many jobs from columns of ready-made curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unrack.jit import compiled, melted
from unrack.kernels.arrays import Floats, Ints
from unrack.kernels.structs import InKernels
from unrack.slowdown.contention.profile import READS, Fitted

if TYPE_CHECKING:
    from unrack.slowdown.contention.predict import Contention

MEMGEN_READS = 75.0
"""Memgen knows one curve, that of an interferer with three reads to a write, whatever the interferer does."""


class _ContentionColumns(NamedTuple):
    """The fields of :class:`ContentionColumns`."""

    # tolerance, floor, reads: of the model; ``reads`` is what every interferer is taken to read, percent, or -1: what
    # it does read
    tolerance: float
    floor: float
    reads: float
    profile_first: Ints  # int64[apps + 1]: the profiles of an application
    # profile_nodes, remote_speed, traffic: int64[profiles], float64[profiles], float64[3, profiles]: number of nodes;
    # q, at most 1; bandwidth when all memory is remote and when all is local, MB/s, and reads, percent
    profile_nodes: Ints
    remote_speed: Floats
    traffic: Floats
    # int64[2 apps + 1]: the families of (application, target), at 2 app + (1 where the memory is remote)
    family_first: Ints
    # family_nodes, family_scale, family_group: int64, float64, int64[families]: number of nodes; what its speeds are
    # multiplied by; its group of curves for 50 % reads, the one for 100 % being the next
    family_nodes: Ints
    family_scale: Floats
    family_group: Ints
    group_first: Ints  # int64[groups + 1]: the curves of a group
    curve_count: Ints  # int64[curves]: number of interfering nodes, growing within a group
    piece_first: Ints  # int64[curves + 1]: the pieces of a curve
    piece: Floats  # float64[4, pieces]: start, c0, c1, c2, as in :class:`unrack.slowdown.contention.profile.Piece`


class ContentionColumns(InKernels, _ContentionColumns):
    """A contention model as arrays; applications are numbered as in ``ProfileSet.applications``.

    A range ``x_first`` has one entry more than there are ranges: range i goes from ``x_first[i]`` up to, without,
    ``x_first[i + 1]``.
    """


def columns_of(contention: Contention) -> ContentionColumns:
    """The model as columns, for :func:`speed_of` and the other kernels of this file."""
    profiles = contention.profiles
    groups: dict[tuple[int, int, bool], int] = {}
    group_first = [0]
    curves: list[tuple[int, Fitted]] = []
    for app, nodes, remote, reads in contention.fits:
        if reads == READS[0]:
            groups[app, nodes, remote] = len(group_first) - 1
            for each in READS:
                curves += contention.fits[app, nodes, remote, each]
                group_first.append(len(curves))
    family_first = [0]
    families: list[tuple[int, float, int]] = []
    for app in profiles:
        for remote in (False, True):
            families += [
                (family.nodes, family.scale if remote else 1.0, groups[*family.of, remote])
                for family in contention.families[app]
                if (*family.of, remote) in groups
            ]
            family_first.append(len(families))
    rows = profiles.profiles
    return ContentionColumns(
        float(contention.tolerance),
        float(contention.floor),
        MEMGEN_READS if contention.method == "memgen" else -1.0,
        np.cumsum([0, *(len(profiles[app]) for app in profiles)]).astype(np.int64),
        np.array([row.nodes for row in rows], np.int64),
        np.array([min(row.remote_speed, 1.0) for row in rows], np.float64),
        np.array([[row.remote_mb_s, row.local_mb_s, row.reads] for row in rows], np.float64).T.copy(),
        np.array(family_first, np.int64),
        np.array([family[0] for family in families], np.int64),
        np.array([family[1] for family in families], np.float64),
        np.array([family[2] for family in families], np.int64),
        np.array(group_first, np.int64),
        np.array([count for count, _ in curves], np.int64),
        np.cumsum([0, *(len(fit.pieces) for _, fit in curves)]).astype(np.int64),
        np.array([piece for _, fit in curves for piece in fit.pieces], np.float64).reshape(-1, 4).T.copy(),
    )


@melted
def last_up_to(numbers: Ints, first: int, end: int, wanted: int) -> int:
    """Place in [first, end) of the last number up to ``wanted``; ``first`` where all are greater."""
    place = first
    while place + 1 < end and numbers[place + 1] <= wanted:
        place += 1
    return place


@melted
def share_to_next(numbers: Ints, place: int, end: int, wanted: int) -> float:
    """How far ``wanted`` is from the number at ``place`` to the next one; 0 beyond the ends."""
    share = 0.0
    if place + 1 < end and wanted > numbers[place]:
        share = (wanted - numbers[place]) / (numbers[place + 1] - numbers[place])
    return share


@melted
def curve_at(piece_first: Ints, piece: Floats, curve: int, x: float) -> float:
    """A curve's speed at an interfering bandwidth, not capped."""
    place = piece_first[curve + 1] - 1
    while piece[0, place] > x:
        place -= 1
    return float(piece[1, place] + x * (piece[2, place] + x * piece[3, place]))


@melted
def group_at(
    group_first: Ints, curve_count: Ints, piece_first: Ints, piece: Floats, group: int, x: float, count: int
) -> float:
    """A group's speed between its measured counts of interfering nodes."""
    end = group_first[group + 1]
    low = last_up_to(curve_count, group_first[group], end, count)
    share = share_to_next(curve_count, low, end, count)
    speed = curve_at(piece_first, piece, low, x)
    if share > 0.0:
        speed = speed * (1.0 - share) + curve_at(piece_first, piece, low + 1, x) * share
    return speed


@compiled
def speed_of(
    c: ContentionColumns, app: int, nodes: int, remote: float, worst_bandwidth: float, count_near: int, reads: float
) -> float:
    """The speed of one job: what ``Contention.speed`` says, given what its interferers come to.

    Parameters
    ----------
    c
        The model.
    app
        The application's number; -1: none, and the speed is 1.
    nodes
        The job's nodes.
    remote
        Share of its memory that is remote, 0 to 1.
    worst_bandwidth, count_near, reads
        What its interferers come to, as of :func:`worst_of`; a bandwidth of 0: no job interferes.
    """
    if app < 0:
        return 1.0
    alone = c.remote_speed[last_up_to(c.profile_nodes, c.profile_first[app], c.profile_first[app + 1], nodes)]
    if worst_bandwidth <= 0.0:
        return float((1.0 - remote) + remote * alone)
    group_first, curve_count, piece_first, piece = c.group_first, c.curve_count, c.piece_first, c.piece
    family_first, family_nodes, family_scale, family_group, floor = (
        c.family_first, c.family_nodes, c.family_scale, c.family_group, c.floor,
    )  # fmt: skip
    seen = reads if c.reads < 0.0 else c.reads
    full = min(max((seen - 50.0) / 50.0, 0.0), 1.0)
    count = min(count_near, nodes)
    total = 0.0
    for side in range(2):  # local, remote
        weight = remote if side == 1 else 1.0 - remote
        first, end = family_first[2 * app + side], family_first[2 * app + side + 1]
        if weight == 0.0:
            continue
        if first == end:
            total += weight * max(alone if side == 1 else 1.0, floor)
            continue
        low = last_up_to(family_nodes, first, end, nodes)
        share = share_to_next(family_nodes, low, end, nodes)
        speed = 0.0
        for family in range(low, low + 2 if share > 0.0 else low + 1):
            part = (share if family > low else 1.0 - share) * family_scale[family]
            for which in range(2):  # eq. 4.3: 50 % and 100 % reads
                weigh = part * (full if which == 1 else 1.0 - full)
                if weigh > 0.0:
                    group = family_group[family] + which
                    speed += weigh * group_at(
                        group_first, curve_count, piece_first, piece, group, worst_bandwidth, count
                    )
        total += weight * max(min(speed, 1.0), floor)
    return total


@compiled
def worst_of(c: ContentionColumns, bandwidth: Floats, nodes: Ints, reads: Floats) -> tuple[float, int, float]:
    """What interferers come to: (worst bandwidth, nodes near it, lowest reads); (0, 0, 100): none interferes.

    Those without bandwidth or nodes do not count. The lowest share is that of all that count, near the worst or not.

    Parameters
    ----------
    bandwidth, nodes, reads : float64[interferers], int64[interferers], float64[interferers]
        Of each, in any order: MB/s when alone, number of nodes, and share of reads, percent. One with a bandwidth of at
        least (1 - tolerance) times the worst is near it.
    """
    worst, lowest, near = 0.0, 100.0, 0
    for i in range(len(bandwidth)):
        if bandwidth[i] > 0.0 and nodes[i] > 0:
            worst = max(worst, bandwidth[i])
            lowest = min(lowest, reads[i])
    for i in range(len(bandwidth)):
        if bandwidth[i] > 0.0 and nodes[i] > 0 and bandwidth[i] >= (1.0 - c.tolerance) * worst:
            near += nodes[i]
    return worst, near, lowest


@compiled
def traffic_of(c: ContentionColumns, app: int, nodes: int) -> tuple[float, float, float]:
    """(MB/s when all memory is remote, when all is local, reads in percent) of a job; nothing for application -1."""
    if app < 0:
        return 0.0, 0.0, 100.0
    end = c.profile_first[app + 1]
    low = last_up_to(c.profile_nodes, c.profile_first[app], end, nodes)
    share = share_to_next(c.profile_nodes, low, end, nodes)
    high = low + 1 if share > 0.0 else low
    remote = c.traffic[0, low] * (1.0 - share) + c.traffic[0, high] * share
    local = c.traffic[1, low] * (1.0 - share) + c.traffic[1, high] * share
    reads = c.traffic[2, low] * (1.0 - share) + c.traffic[2, high] * share
    return remote, local, reads
