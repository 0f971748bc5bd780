"""Compiled: how hard others press on the memory that a job uses, and the speeds that follow.

What is known of every job and node is on a board, in columns.

A use is *away* if the tasks that use a node's memory are on another node. Two uses of a node's memory by different jobs
interfere if either of them is away; memory that is held and never used does not count. What the uses on a node come to
is worked out once (:func:`rank_uses`) and kept until a lease that uses that node's memory comes, goes or changes; a job
reads it for each of its nodes. So a change costs the uses on the nodes that it touches, and those of the jobs that it
touches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.distance import NAMES, distance_of
from unrack.cluster.spec import Cluster
from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.kernels.structs import InKernels
from unrack.ledger.lease import FIRST, LENDER, LOCAL_MB, NODES
from unrack.ledger.memory_use import AT, FOR, IN_USE, JOB, NEXT_AT, NEXT_OF, MemoryUse
from unrack.ledger.state import RUNNING
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


class _Board(NamedTuple):
    """The fields of :class:`Board`."""

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
    # int64[3, nodes]: FRESH: 1 if the node's rows of ``top`` and ``top_job`` hold. MARK: which search has met it.
    # LISTED: the nodes that it has listed.
    nodes: Ints
    # float64[nodes, 9]: WORST: largest bandwidth among those that use the node's memory, and the largest without the
    # job that draws it. LOWEST: lowest reads, and the lowest without that job. Four columns on, the same among those
    # that are away. PRESSED: the largest bandwidth for the job that is being looked at.
    top: Floats
    top_job: Ints  # int64[nodes, 4]: the job of WORST and that of LOWEST; the same of those that are away
    # int64[2, room]: of the job that is being looked at: NODE of the memory, AWAY 1 if it is used from another node
    uses: Ints
    mark: Ints  # int64[1]: the next number of a search


class Board(InKernels, _Board):
    """What the kernels know and note. The last column over jobs is for what-ifs."""


def make_board(settings: MemoryContention, cluster: Cluster, apps: Ints) -> Board:
    """A board without running jobs; ``apps`` as from :func:`unrack.slowdown.memory.speeds.applications_of`."""
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
        top_job=np.zeros((nodes, 4), np.int64),
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


# --- lists of uses ----------------------------------------------------------------------------------------------


@inlined
def list_job(use: Ints, first_of: Ints, uses: Ints, nodes: Ints, job: int) -> tuple[int, bool]:
    """List the uses of a running job; returns how many, and whether the nodes are all fresh."""
    count, fresh = 0, True
    entry = first_of[job]
    while entry >= 0:
        node = use[AT, entry]
        if use[IN_USE, entry] > 0:
            uses[NODE, count] = node
            uses[AWAY, count] = 1 if use[FOR, entry] != node else 0
            fresh = fresh and nodes[FRESH, node] == 1
            count += 1
        entry = use[NEXT_OF, entry]
    return count, fresh


@inlined
def list_lease(rows: Ints, loans: Ints, uses: Ints) -> int:
    """List the uses that a lease stands for; returns how many."""
    count = 0
    for row in range(rows.shape[0]):
        if rows[row, LOCAL_MB] > 0:
            for node in range(rows[row, FIRST], rows[row, FIRST] + rows[row, NODES]):
                uses[NODE, count], uses[AWAY, count] = node, 0
                count += 1
    for i in range(loans.shape[0]):
        uses[NODE, count], uses[AWAY, count] = loans[i, LENDER], 1
        count += 1
    return count


@inlined
def _find_jobs(
    use: Ints, first_at: Ints, uses: Ints, count: int, nodes: Ints, jobs: Ints, found: int, mark: int
) -> int:
    """Find the jobs that listed uses concern, each once; returns how many are found then.

    ``mark`` and ``mark + 1`` must be new, but for jobs with MET at ``mark``, which are known. The nodes are to be
    ranked anew.
    """
    for i in range(count):
        node, away = uses[NODE, i], uses[AWAY, i] == 1
        nodes[FRESH, node] = 0
        if nodes[MARK, node] == mark + 1 or (nodes[MARK, node] == mark and not away):
            continue
        nodes[MARK, node] = mark + 1 if away else mark
        entry = first_at[node]
        while entry >= 0:
            other = use[JOB, entry]
            if jobs[MET, other] != mark and (away or use[FOR, entry] != node):
                jobs[MET, other] = mark
                jobs[FOUND, found] = other
                found += 1
            entry = use[NEXT_AT, entry]
    return found


# --- nodes ------------------------------------------------------------------------------------------------------


@inlined
def unknown_user(use: Ints, first_at: Ints, uses: Ints, count: int, nodes: Ints, jobs: Ints) -> int:
    """A job on a listed node, of those not fresh, that was not worked out as it has just started; -1: none."""
    for i in range(count):
        node = uses[NODE, i]
        if nodes[FRESH, node] == 0:
            entry = first_at[node]
            while entry >= 0:
                if jobs[ON, use[JOB, entry]] == 0:
                    return int(use[JOB, entry])
                entry = use[NEXT_AT, entry]
    return -1


@inlined
def rank_uses(
    use: Ints, first_at: Ints, uses: Ints, count: int, nodes: Ints, load: Floats, top: Floats, top_job: Ints
) -> None:
    """Work out what the uses of the memory of each listed node come to, where that is not fresh."""
    for i in range(count):
        node = uses[NODE, i]
        if nodes[FRESH, node] == 1:
            continue
        nodes[FRESH, node] = 1
        for side in range(2):
            top[node, 4 * side + WORST] = top[node, 4 * side + WORST + 1] = 0.0
            top[node, 4 * side + LOWEST] = top[node, 4 * side + LOWEST + 1] = 100.0
            top_job[node, 2 * side] = top_job[node, 2 * side + 1] = -1
        entry = first_at[node]
        while entry >= 0:
            job, away = use[JOB, entry], use[FOR, entry] != node
            drawn, reads = load[AWAY_MB_S if away else LOCAL_MB_S, job], load[READS, job]
            for side in range((2 if away else 1) if drawn > 0.0 and use[IN_USE, entry] > 0 else 0):
                worst, lowest = 4 * side + WORST, 4 * side + LOWEST
                if top_job[node, 2 * side] == job:
                    top[node, worst] = max(top[node, worst], drawn)
                elif drawn > top[node, worst]:
                    top[node, worst + 1] = top[node, worst]
                    top[node, worst] = drawn
                    top_job[node, 2 * side] = job
                elif drawn > top[node, worst + 1]:
                    top[node, worst + 1] = drawn
                if top_job[node, 2 * side + 1] != job:
                    if reads < top[node, lowest]:
                        top[node, lowest + 1] = top[node, lowest]
                        top[node, lowest] = reads
                        top_job[node, 2 * side + 1] = job
                    elif reads < top[node, lowest + 1]:
                        top[node, lowest + 1] = reads
            entry = use[NEXT_AT, entry]


@inlined
def pressure_on(
    uses: Ints, count: int, nodes: Ints, top: Floats, top_job: Ints, job: int, mark: int, tolerance: float
) -> tuple[float, int, float]:
    """What presses on a job with the listed uses: worst bandwidth, number of nodes near it, lowest reads."""
    places, worst, reads, near = 0, 0.0, 100.0, 0
    for i in range(count):
        node, side = uses[NODE, i], 1 - uses[AWAY, i]  # local uses meet only those that are away
        at = 4 * side + WORST
        drawn = top[node, at + 1] if top_job[node, 2 * side] == job else top[node, at]
        worst = max(worst, drawn)
        at = 4 * side + LOWEST
        reads = min(reads, top[node, at + 1] if top_job[node, 2 * side + 1] == job else top[node, at])
        if nodes[MARK, node] != mark:
            nodes[MARK, node] = mark
            nodes[LISTED, places] = node
            places += 1
            top[node, PRESSED] = drawn
        elif drawn > top[node, PRESSED]:
            top[node, PRESSED] = drawn
    for i in range(places):
        drawn = top[nodes[LISTED, i], PRESSED]
        if drawn > 0.0 and drawn >= (1.0 - tolerance) * worst:
            near += 1
    return worst, near, reads


# --- changes ----------------------------------------------------------------------------------------------------


@compiled
def changed_by(
    c: ContentionColumns, b: Board, m: MemoryUse, pool: Ints, lease_at: Ints, status: NDArray[np.int8], job: int,
    rows: Ints, loans: Ints,
) -> int:  # fmt: skip
    """After a lease came, went or changed: how many jobs have a new speed, its own job among them if it runs.

    They are in ``b.jobs[FOUND]``, their speeds in ``b.load[SPEED]``. ``job``, ``rows`` and ``loans`` are those of the
    lease.
    """
    use, first_at, first_of = m.use, m.first_at, m.first_of
    uses, nodes, jobs, load, top, top_job = b.uses, b.nodes, b.jobs, b.load, b.top, b.top_job
    mark = b.mark[0]
    jobs[MET, job] = mark
    found = 0
    if status[job] == RUNNING:
        work_out(c, b, m, pool, lease_at, job)
        jobs[FOUND, 0] = job
        found = 1
    else:
        jobs[ON, job] = 0
        load[SPEED, job] = 1.0
    found = _find_jobs(use, first_at, uses, list_lease(rows, loans, uses), nodes, jobs, found, mark)
    mark += 2
    changed = 0
    for i in range(found):
        other = jobs[FOUND, i]
        count, fresh = list_job(use, first_of, uses, nodes, other)
        unknown = -1 if fresh else unknown_user(use, first_at, uses, count, nodes, jobs)
        while unknown >= 0:
            work_out(c, b, m, pool, lease_at, unknown)
            unknown = unknown_user(use, first_at, uses, count, nodes, jobs)
        if not fresh:
            rank_uses(use, first_at, uses, count, nodes, load, top, top_job)
        worst, near, reads = pressure_on(uses, count, nodes, top, top_job, other, mark, c.tolerance)
        near = min(near, jobs[ON, other])
        mark += 1
        if load[SEEN_WORST, other] != worst or load[SEEN_NEAR, other] != near or load[SEEN_READS, other] != reads:
            load[SEEN_WORST, other], load[SEEN_NEAR, other], load[SEEN_READS, other] = worst, near, reads
            speed = speed_under(c, b, other, jobs[APP, other], worst, near, reads)
            if speed != load[SPEED, other] or other == job:
                load[SPEED, other] = speed
                jobs[FOUND, changed] = other
                changed += 1
    b.mark[0] = mark
    return changed
