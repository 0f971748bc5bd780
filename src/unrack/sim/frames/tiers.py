"""Tiers of memory in a run: what was held of each and what it cost, as tables of servers and over time.

Which memory is stranded over time: free, but behind clusters that take no server any more.

A cluster is *closed* while its compute pool is down, or has fewer free cores than any server asks, or less free memory
than the lowest floor of any; or while all its pools together have less free memory than any server asks. Free memory of
a pool is *stranded* while all clusters that the pool is in are closed. A cluster is in use while its compute pool holds
a server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.tiers.tier import LOCAL, Tiers
from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.ledger.lease import CORES as ROW_CORES
from unrack.ledger.lease import FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS
from unrack.policy.tiers.supply import supply_of
from unrack.sim.log import RunLog
from unrack.sim.recorder import Rows
from unrack.solver.servers.least_price import least_prices
from unrack.solver.servers.problem import Asked, asked
from unrack.steps import summed_at
from unrack.units import SECOND_US
from unrack.workload.tier_asks import NO_CEILING, scaled_ceiling

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


PER_HOUR = 1024
"""MB x price of the tier, which is of a GB for an hour, over this: the price of an hour."""


class TierHolding(NamedTuple):
    """What was held in each span."""

    mb: Ints  # int64[spans, tiers]: memory of each tier
    weighted: Ints  # int64[spans]: remote memory, each MB counted with the cost of its tier, in units of the cost scale
    price: Ints  # int64[spans]: sum of MB x price of its tier, in units of the price scale
    # low, far: bool[spans]: less local memory than the floor; more weighted remote memory than the ceiling
    low: Bools
    far: Bools


def tier_holding(log: RunLog) -> TierHolding:
    """Add up the rows and loans of every span of a run on a cluster with tiers."""
    tiers, spans = tiers_of(log), len(log.span_attempt)
    row_of, loan_of = (np.repeat(np.arange(spans), np.diff(first)) for first in (log.span_rows, log.span_loans))
    rows = log.rows.astype(np.int64)
    lender, far_mb = log.loans[:, LENDER], log.loans[:, LOAN_MB]
    mb = np.zeros((spans, len(tiers.names)), np.int64)
    weighted, price = np.zeros(spans, np.int64), np.zeros(spans, np.int64)
    near_mb = rows[:, NODES] * rows[:, LOCAL_MB]
    np.add.at(mb[:, LOCAL], row_of, near_mb)
    np.add.at(mb, (loan_of, tiers.tier[lender]), far_mb)
    np.add.at(weighted, loan_of, far_mb * tiers.cost[lender])
    np.add.at(price, row_of, near_mb * tiers.price[rows[:, 0]])
    np.add.at(price, loan_of, far_mb * tiers.price[lender])
    low, far = np.zeros(spans, np.bool_), np.zeros(spans, np.bool_)
    if (slo := log.jobs.slo) is not None:
        low = mb[:, LOCAL] < slo.floor_mb[log.span_job]
        far = weighted > scaled_ceilings(log)[log.span_job]
    return TierHolding(mb, weighted, price, low, far)


def scaled_ceilings(log: RunLog) -> Ints:
    """int64[jobs]: ceilings in units of the cost scale; where there is none, more than any memory weighs."""
    scale, slo = tiers_of(log).cost_scale, log.jobs.slo
    ceiling = np.full(len(log.jobs), NO_CEILING, np.int64) if slo is None else slo.ceiling_mb
    return scaled_ceiling(ceiling, scale)


def least_job_prices(log: RunLog) -> Ints:
    """int64[jobs]: what each job would cost at least, alone in the cheapest empty cluster; as ``TierHolding.price``.

    Within its SLOs; those that no empty cluster can meet do not count, and a job that fits none costs 0.
    """
    asks, supply = _asked(log), supply_of(log.cluster)
    within = least_prices(supply, asks)
    free = replace(asks, floor=np.zeros_like(asks.floor), ceiling=np.full_like(asks.ceiling, NO_CEILING))
    each = within if (within >= 0).all() else np.where(within >= 0, within, least_prices(supply, free).clip(0))
    return each * log.jobs.tasks


def _asked(log: RunLog) -> Asked:
    """What a task of each job asks; names of tiers that the cluster does not have forbid nothing."""
    jobs, tiers = log.jobs, tiers_of(log)
    forbidden = np.zeros((len(jobs), len(tiers.names)), np.bool_)
    floor = np.zeros(len(jobs), np.int64)
    if (slo := jobs.slo) is not None:
        floor = slo.floor_mb
        for index, name in enumerate(slo.tier_names):
            if name in tiers.names:
                forbidden[:, tiers.names.index(name)] = slo.forbidden[:, index]
    return asked(jobs.cores, jobs.memory_mb, floor, scaled_ceilings(log), tiers=len(tiers.names), forbidden=forbidden)


SLO_NAMES = ("met", "local", "remote", "both")
"""Which SLO a placement breaks: none, the floor of local memory, the ceiling of remote memory, both."""


def tier_columns(log: RunLog, held: TierHolding) -> list[pl.Series]:
    """What each job asked of tiers and what its last attempt got, for the jobs frame; see ``docs/file-formats.md``.

    Of a job with a lease that changed while it ran, what it held last; and every SLO that it broke during the attempt.
    """
    tiers, count = tiers_of(log), len(log.jobs)
    last, attempt = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    attempt[log.attempt_job] = np.arange(len(log.attempt_job))  # attempts stand in the order in which they ended
    ran = attempt >= 0
    last[ran] = log.attempt_spans[attempt[ran] + 1] - 1
    low, far = (log.most(broken.astype(np.int64)) for broken in (held.low, held.far))
    slo = np.where(ran, low[attempt] + 2 * far[attempt], len(SLO_NAMES)) if len(low) else np.full(count, 4)

    def of_last(values: Ints | Floats, name: str) -> pl.Series:
        taken = values[last] if len(values) else np.zeros(count, values.dtype)
        return pl.Series(name, taken).set(pl.Series(~ran), None)

    return [
        *_asked_columns(log),
        *(of_last(held.mb[:, tier], f"mb_{name}") for tier, name in enumerate(tiers.names)),
        of_last(held.weighted / tiers.cost_scale, "weighted_mb"),
        of_last(held.price / tiers.price_scale / PER_HOUR, "price_per_h"),
        pl.Series("slo", pl.Series([*SLO_NAMES, None], dtype=pl.String).gather(slo)),
    ]


def _asked_columns(log: RunLog) -> list[pl.Series]:
    """local_asked_mb, ceiling_mb (null: none), and group with spread, and forbidden, where any job asks for that."""
    if (asks := log.jobs.slo) is None:
        return []
    words = asks.texts()
    return [
        pl.Series("local_asked_mb", asks.floor_mb),
        pl.Series("ceiling_mb", asks.ceiling_mb).set(pl.Series(asks.ceiling_mb >= NO_CEILING), None),
        *(words[name].alias(name) for name in ("group", "spread", "forbidden") if name in words),
    ]


def tiers_frame(log: RunLog, held: TierHolding) -> pl.DataFrame:
    """What was used, stranded and paid: a step function; each row holds until the next. Parameters as above.

    Columns: time_s; clusters_used; servers (tasks of jobs that run), and of these broken_local and broken_remote;
    price_per_h, and least_price_per_h of the same servers, each alone in the empty cluster where it is cheapest;
    opened_mb (installed in the pools of clusters in use) and stranded_opened_mb; used_mb_TIER and stranded_mb_TIER.
    """
    tiers, spans = tiers_of(log), len(log.span_attempt)
    faults = pool_faults(log)
    begin = log.jobs.submit_us[:1]  # the first submission: what is stranded in the empty data centre
    times, at = np.unique(
        np.concatenate([log.span_start_us, log.span_end_us, faults[:, 0], begin]), return_inverse=True
    )
    starts, ends = at[:spans], at[spans : 2 * spans]

    def steps(amount: Ints) -> Ints:
        return summed_at(len(times), (starts, amount), (ends, -amount))

    tasks = log.jobs.tasks[log.span_job]
    clusters, opened, lost, *stranded = stranding(log, faults, times)
    scale = tiers.price_scale * PER_HOUR
    return pl.DataFrame(
        {
            "time_s": times / SECOND_US,
            "clusters_used": clusters,
            "servers": steps(tasks),
            "broken_local": steps(tasks * held.low),
            "broken_remote": steps(tasks * held.far),
            "price_per_h": steps(held.price) / scale,
            "least_price_per_h": steps(least_job_prices(log)[log.span_job]) / scale,
            "opened_mb": opened,
            "stranded_opened_mb": lost,
            **{f"used_mb_{name}": steps(held.mb[:, tier]) for tier, name in enumerate(tiers.names)},
            **{f"stranded_mb_{name}": mb for name, mb in zip(tiers.names, stranded, strict=True)},
        }
    )
