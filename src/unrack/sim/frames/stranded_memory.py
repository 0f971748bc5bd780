"""Which memory is stranded over time: free, but behind clusters that take no server any more.

A cluster is *closed* while its compute pool is down, or has fewer free cores than any server asks, or less free memory
than the lowest floor of any; or while all its pools together have less free memory than any server asks. Free memory of
a pool is *stranded* while all clusters that the pool is in are closed. A cluster is in use while its compute pool holds
a server.
"""

from __future__ import annotations

import numpy as np

from unrack.cluster.tiers.tier import Tiers
from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import CORES as ROW_CORES
from unrack.ledger.lease import FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS
from unrack.sim.log import RunLog
from unrack.sim.recorder import Rows

START, END, DOWN, UP = range(4)
"""Events: of a span, of a pool."""
CORES, MB, FAULTS, SERVERS, OPEN, USED, ALL_MB, TIER, COMPUTES = range(9)
"""Rows of what is known of a pool: free cores and MB, failures that keep it down, tasks that compute there, how many
of its clusters are not closed and how many in use; MB installed, its tier, and whether it has cores at all."""
CLUSTERS, OPENED, LOST = range(3)
"""Columns of what is counted, before the stranded MB of each tier: clusters in use, MB installed in the pools of these,
and how many of these are stranded."""


def tiers_of(log: RunLog) -> Tiers:
    """The tiers of a run's cluster, which has some."""
    tiers = log.cluster.tiers
    assert tiers is not None
    return tiers


def least_of(log: RunLog) -> Ints:
    """int64[3]: the least that any server of the workload asks: cores, MB, MB of them that must be local."""
    jobs = log.jobs
    floor = jobs.memory_mb[:0] if jobs.slo is None else jobs.slo.floor_mb
    return np.array([column.min() if len(column) else 0 for column in (jobs.cores, jobs.memory_mb, floor)], np.int64)


def pool_faults(log: RunLog) -> Ints:
    """int64[events, 3]: time (µs), pool, and 1 where it fails or -1 where it is repaired, up to the end of the run."""
    found = [
        (time, node, step)
        for failure in log.failures
        for node in log.cluster.domain(failure.domain)
        for time, step in ((failure.at_us, 1), (failure.repaired_us, -1))
        if time <= log.end_us
    ]
    return np.array(found, np.int64).reshape(-1, 3)


def stranding(log: RunLog, faults: Ints, times_us: Ints) -> Ints:
    """What is stranded at each time of a run on a cluster with tiers, with faults of :func:`pool_faults`.

    O(spans x pools of a cluster), and O(clusters of a pool) where a pool is about to be full. ``times_us``:
    int64[times], rising, different; among them every start and end of a span and every time of a fault. Returns
    int64[3 + tiers, times]: clusters in use, MB installed in the pools of these, the stranded part of it, and what is
    stranded of each tier.
    """
    cluster, tiers, spans = log.cluster, tiers_of(log), len(log.span_attempt)
    kind = np.repeat([START, END], spans)
    fault_kind = np.where(faults[:, 2] > 0, DOWN, UP)
    events = np.stack([
        np.concatenate([log.span_start_us, log.span_end_us, faults[:, 0]]),
        np.concatenate([kind, fault_kind]),
        np.concatenate([np.arange(spans), np.arange(spans), faults[:, 1]]),
    ])  # fmt: skip
    events = events[:, np.argsort(events[0], kind="stable")]
    of = np.repeat(np.arange(tiers.clusters, dtype=np.int64), np.diff(tiers.first))
    order = np.argsort(tiers.member, kind="stable")
    of_first = np.searchsorted(tiers.member[order], np.arange(len(cluster) + 1)).astype(np.int64)
    pools = np.zeros((COMPUTES + 1, len(cluster)), np.int64)
    pools[CORES], pools[COMPUTES] = cluster.cores, cluster.cores > 0
    pools[MB], pools[ALL_MB], pools[TIER] = cluster.memory_mb, cluster.memory_mb, tiers.tier
    counted = np.zeros((len(times_us), 3 + len(tiers.names)), np.int64)
    at = np.searchsorted(times_us, events[0])
    _sweep(
        events, at, log.span_rows, log.rows, log.span_loans, log.loans, tiers.first, tiers.member, of_first,
        of[order], pools, least_of(log), counted,
    )  # fmt: skip
    return np.ascontiguousarray(counted.T)


@inlined
def _count(pools: Ints, pool: int, sign: int, tally: Ints) -> None:
    """Add the free memory of a pool to what is stranded, if it is, or take it away again."""
    if pools[OPEN, pool] == 0 and pools[FAULTS, pool] == 0:
        tally[3 + pools[TIER, pool]] += sign * pools[MB, pool]
        if pools[USED, pool] > 0:
            tally[LOST] += sign * pools[MB, pool]


@inlined
def _test(cluster: int, pools: Ints, first: Ints, member: Ints, least: Ints, closed: Bools, tally: Ints) -> None:
    """Close or open a cluster as it stands."""
    compute = member[first[cluster]]
    shut = pools[FAULTS, compute] > 0 or pools[CORES, compute] < least[0] or pools[MB, compute] < least[2]
    if not shut:
        free = 0
        for i in range(first[cluster], first[cluster + 1]):
            if pools[FAULTS, member[i]] == 0:
                free += pools[MB, member[i]]
        shut = free < least[1]
    if shut != closed[cluster]:
        closed[cluster] = shut
        for i in range(first[cluster], first[cluster + 1]):
            _count(pools, member[i], -1, tally)
            pools[OPEN, member[i]] += -1 if shut else 1
            _count(pools, member[i], 1, tally)


@inlined
def _use(cluster: int, pools: Ints, first: Ints, member: Ints, step: int, tally: Ints) -> None:
    """A cluster comes into use, or is in use no more."""
    for i in range(first[cluster], first[cluster + 1]):
        pool = member[i]
        _count(pools, pool, -1, tally)
        if pools[USED, pool] > 0:
            tally[OPENED] -= pools[ALL_MB, pool]
        pools[USED, pool] += step
        if pools[USED, pool] > 0:
            tally[OPENED] += pools[ALL_MB, pool]
        _count(pools, pool, 1, tally)


@inlined
def _change(
    pool: int, cores: int, mb: int, faults: int, servers: int, pools: Ints, first: Ints, member: Ints, of_first: Ints,
    of: Ints, least: Ints, closed: Bools, tally: Ints,
) -> None:  # fmt: skip
    """A pool gets and loses something."""
    _count(pools, pool, -1, tally)
    ample = pools[FAULTS, pool] == 0 and pools[MB, pool] >= least[1]
    used = pools[SERVERS, pool] > 0
    pools[CORES, pool] += cores
    pools[MB, pool] += mb
    pools[FAULTS, pool] += faults
    pools[SERVERS, pool] += servers
    _count(pools, pool, 1, tally)
    ample = ample and pools[FAULTS, pool] == 0 and pools[MB, pool] >= least[1]
    if used != (pools[SERVERS, pool] > 0):
        step = -1 if used else 1
        tally[CLUSTERS] += step
        for k in range(of_first[pool], of_first[pool + 1]):
            _use(of[k], pools, first, member, step, tally)
    if pools[COMPUTES, pool] > 0 or not ample:  # memory that is enough for a server before and after opens nothing
        for k in range(of_first[pool], of_first[pool + 1]):
            _test(of[k], pools, first, member, least, closed, tally)


@compiled
def _sweep(
    events: Ints, at: Ints, span_rows: Ints, rows: Rows, span_loans: Ints, loans: Ints, first: Ints, member: Ints,
    of_first: Ints, of: Ints, pools: Ints, least: Ints, counted: Ints,
) -> None:  # fmt: skip
    """Go through the events in order of time."""
    tally = np.zeros(counted.shape[1], np.int64)
    clusters = len(first) - 1
    closed = np.ones(clusters, np.bool_)
    for pool in range(pools.shape[1]):
        _count(pools, pool, 1, tally)
    for cluster in range(clusters):
        _test(cluster, pools, first, member, least, closed, tally)
    known = 0
    for e in range(events.shape[1]):
        while known < at[e]:
            counted[known] = tally
            known += 1
        kind, which = events[1, e], events[2, e]
        if kind in (DOWN, UP):
            step = 1 if kind == DOWN else -1
            _change(which, 0, 0, step, 0, pools, first, member, of_first, of, least, closed, tally)
            continue
        step = 1 if kind == START else -1
        for r in range(span_rows[which], span_rows[which + 1]):
            cores, mb, tasks = -step * rows[r, ROW_CORES], -step * rows[r, LOCAL_MB], step * rows[r, TASKS]
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                _change(node, cores, mb, 0, tasks, pools, first, member, of_first, of, least, closed, tally)
        for k in range(span_loans[which], span_loans[which + 1]):
            mb = -step * loans[k, LOAN_MB]
            _change(loans[k, LENDER], 0, mb, 0, 0, pools, first, member, of_first, of, least, closed, tally)
    while known < len(counted):
        counted[known] = tally
        known += 1
