"""What is known of every job and node where jobs use each other's memory, in columns for compiled kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.cluster.distance import NAMES, distance_of
from unrack.cluster.spec import Cluster
from unrack.jit import inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import NODES
from unrack.ledger.memory.use import AT, FOR, IN_USE, NEXT_OF, MemoryUse
from unrack.slowdown.contention.columns import ContentionColumns, speed_of, traffic_of
from unrack.slowdown.memory.settings import MemoryContention

APP, ON, MET, FOUND = range(4)
"""Rows of :attr:`Board.jobs`."""
LOCAL_MB_S, AWAY_MB_S, READS, REMOTE, FAR, SEEN_WORST, SEEN_NEAR, SEEN_READS, SPEED = (*range(5), *range(8, 12))
"""Rows of :attr:`Board.load`; FAR to FAR + 3 by distance."""
FRESH, MARK, LISTED = range(3)
"""Rows of :attr:`Board.nodes`."""
WORST, LOWEST, PRESSED = 0, 2, 8
"""Columns of :attr:`Board.top`."""
NODE, AWAY = range(2)
"""Rows of :attr:`Board.uses`."""


class Board(NamedTuple):
    """What the kernels know and note. The last column over jobs is for what-ifs."""

    where: Ints  # int64[3, nodes]: rack, group of racks and cores, as the cluster has them
    # float64[5]: by distance; then 1 where jobs draw in proportion to the share of their memory that lies there, else
    # 0
    factor: Floats
    # int64[4, jobs + 1]: APP: number of its application. ON: how many nodes it runs on; 0 = not worked out since it
    # started. MET, FOUND: which search has met it; the jobs that were found.
    jobs: Ints
    # float64[12, jobs + 1]: LOCAL_MB_S, AWAY_MB_S: MB/s that it draws where its memory is local, and where it is
    # another node's. READS: percent. REMOTE: share of its memory that is remote; FAR …: the same by distance.
    # SEEN_WORST, SEEN_NEAR, SEEN_READS: what its speed was last worked out for. SPEED.
    load: Floats
    # int64[3, nodes]: FRESH: 1 if the node's rows of ``top`` and ``who`` hold. MARK: which search has met it. LISTED:
    # the nodes that it has listed.
    nodes: Ints
    # float64[nodes, 9]: WORST: largest bandwidth among those who use the node's memory, and the largest without the
    # job that draws it. LOWEST: lowest reads, and the lowest without that job. Four columns on, the same among those
    # that are away. PRESSED: the largest bandwidth for the job that is being looked at.
    top: Floats
    who: Ints  # int64[nodes, 4]: the job of WORST and that of LOWEST; the same of those that are away
    # int64[2, room]: of the job that is being looked at: NODE whose memory, AWAY 1 if it is used from another node
    uses: Ints
    mark: Ints  # int64[1]: the next number of a search


def make_board(settings: MemoryContention, cluster: Cluster, apps: Ints) -> Board:
    """A board on which nobody runs; ``apps`` as from :func:`unrack.slowdown.memory.apps.applications_of`."""
    nodes, count = len(cluster), len(apps) + 1
    jobs = np.zeros((4, count), np.int64)
    jobs[APP] = np.append(apps, -1)
    jobs[MET] = -1
    load = np.zeros((12, count))
    load[SEEN_WORST], load[SPEED] = -1.0, 1.0
    marks = np.zeros((3, nodes), np.int64)
    marks[MARK] = -1
    by_distance = [getattr(settings.distance, name) for name in NAMES]
    return Board(
        where=np.stack([cluster.rack, cluster.rack_group, cluster.cores]),
        factor=np.array([*by_distance, float(settings.traffic == "share")]),
        jobs=jobs,
        load=load,
        nodes=marks,
        top=np.zeros((nodes, 9)),
        who=np.zeros((nodes, 4), np.int64),
        uses=np.zeros((2, 0), np.int64),
        mark=np.zeros(1, np.int64),
    )


@inlined
def add_far(b: Board, column: int, at: int, user: int, mb: int) -> int:
    """Count remote memory by distance; returns how much it is."""
    if at == user:
        return 0
    b.load[FAR + distance_of(b.where[0], b.where[1], b.where[2], at, user), column] += mb
    return mb


@inlined
def settle(c: ContentionColumns, b: Board, column: int, app: int, on: int, remote_mb: int, total_mb: int) -> None:
    """Note what follows from a job's nodes and memory: its shares and what it draws."""
    load = b.load
    share = remote_mb / total_mb if total_mb > 0 else 0.0
    for distance in range(4):
        load[FAR + distance, column] /= max(total_mb, 1)
    away, local, reads = traffic_of(c, app, on)
    if b.factor[4] == 1.0:
        away, local = away * share, local * (1.0 - share)
    b.jobs[ON, column] = on
    load[REMOTE, column], load[READS, column] = share, reads
    load[LOCAL_MB_S, column], load[AWAY_MB_S, column] = local, away
    load[SEEN_WORST, column] = -1.0


@inlined
def work_out(c: ContentionColumns, b: Board, m: MemoryUse, pool: Ints, lease_at: Ints, job: int) -> None:
    """Note what a running job draws and how far its memory is."""
    on, remote_mb, total_mb = 0, 0, 0
    for row in range(lease_at[0, job], lease_at[0, job] + lease_at[1, job]):
        on += pool[row, NODES]
    for distance in range(4):
        b.load[FAR + distance, job] = 0.0
    entry = m.first_of[job]
    while entry >= 0:
        total_mb += m.use[IN_USE, entry]
        remote_mb += add_far(b, job, m.use[AT, entry], m.use[FOR, entry], m.use[IN_USE, entry])
        entry = m.use[NEXT_OF, entry]
    settle(c, b, job, b.jobs[APP, job], on, remote_mb, total_mb)


@inlined
def speed_under(c: ContentionColumns, b: Board, column: int, app: int, worst: float, near: int, reads: float) -> float:
    """The speed of a job under a pressure; where distances count, each remote part at its own."""
    load = b.load
    on, remote = b.jobs[ON, column], load[REMOTE, column]
    even = True
    for distance in range(4):
        even = even and (b.factor[distance] == 1.0 or load[FAR + distance, column] == 0.0)
    if even or app < 0:
        return float(speed_of(c, app, on, remote, worst, near, reads))
    whole = speed_of(c, app, on, 1.0, worst, near, reads)
    speed = 0.0 if remote >= 1.0 else (1.0 - remote) * speed_of(c, app, on, 0.0, worst, near, reads)
    for distance in range(4):
        speed += load[FAR + distance, column] / (1.0 + b.factor[distance] * (1.0 / whole - 1.0))
    return float(speed)
