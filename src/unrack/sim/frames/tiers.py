"""Tiers of memory in a run, as tables of servers and over time: what was held of each, its cost, and what is stranded.

Stranded memory is free, but behind clusters that take no server any more. A cluster is *closed* while its compute pool
is down, or has fewer free cores than any server asks, or less free memory than the lowest floor of any; or while all
its pools together have less free memory than any server asks. Free memory of a pool is *stranded* while all clusters
that the pool is in are closed. A cluster is in use while its compute pool holds a server.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.tiers import LOCAL, Tiers
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.ledger.lease import CORES as ROW_CORES
from unrack.ledger.lease import FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS
from unrack.policy.tiers.own_policy import in_numbers, supply_of
from unrack.sim.log import RunLog
from unrack.solver.servers import least_prices
from unrack.steps import changed, each_of, summed_at
from unrack.units import SECOND_US
from unrack.workload.tier_asks import NO_CEILING, scaled_ceiling


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

    O(n log n) in the spans and in the clusters of each pool that is about to be full. ``times_us``: int64[times],
    rising, different; among them every start and end of a span and every time of a fault. Returns int64[3 + tiers,
    times]: clusters in use, MB installed in the pools of these, the stranded part of it, and what is stranded of each
    tier.
    """
    tiers, (least_cores, least_mb, floor_mb) = tiers_of(log), least_of(log)
    all_mb, count = log.cluster.memory_mb, len(times_us)
    of = np.repeat(np.arange(tiers.clusters, dtype=np.int64), np.diff(tiers.first))
    computes = np.isin(np.arange(len(of)), tiers.first[:-1])

    def joined(thing: Ints, at: Ints, change: Ints, *through: Ints) -> tuple[Ints, ...]:
        """The changes of what one thing is a member of, or has as members; and which rows of the table say so."""
        own, other = through
        order = np.argsort(own, kind="stable")
        low, high = (np.searchsorted(own[order], thing, side) for side in ("left", "right"))
        which, row = each_of(low, high - low)
        return other[order[row]], at[which], np.take(change, which, axis=1), order[row]

    pool, at, own = changed(*_held(log, faults, times_us))
    cores, mb, down, tasks = own
    free = np.where(down == 0, mb, 0)
    shut = (down > 0) | (cores < least_cores) | (mb < floor_mb)
    # more than any server asks is as good as that: a pool with plenty changes nothing for its clusters
    change = _changes(pool, np.stack([np.minimum(free, least_mb), shut, tasks > 0]))
    some = np.flatnonzero(change.any(axis=0) | (at < 0))
    cluster, when, change, row = joined(pool[some], at[some], change[:, some], tiers.member, of)
    change[1] *= computes[row]
    cluster, when, (near, shut, used) = changed(cluster, when, change)
    change = _changes(cluster, np.stack([(shut == 0) & (near >= least_mb), used]))
    some = np.flatnonzero(change.any(axis=0))  # clusters that open or close, or come into use or go out of it
    of_pool, when, change, _ = joined(cluster[some], when[some], change[:, some], of, tiers.member)
    both = np.concatenate([_changes(pool, np.stack([free, tasks > 0])), np.zeros((2, len(pool)), np.int64)])
    more = np.concatenate([np.zeros_like(change), change])
    pool, at, (free, busy, opened, used) = changed(
        np.concatenate([pool, of_pool]), np.concatenate([at, when]), np.concatenate([both, more], axis=1)
    )
    stranded = np.where(opened == 0, free, 0)
    sums = np.stack([busy, np.where(used > 0, all_mb[pool], 0), np.where(used > 0, stranded, 0), stranded])
    change = _changes(pool, sums)
    tier = [np.where(tiers.tier[pool] == index, change[3], 0) for index in range(len(tiers.names))]
    return np.stack([summed_at(count, (np.maximum(at, 0), each)) for each in (*change[:3], *tier)])


def _held(log: RunLog, faults: Ints, times_us: Ints) -> tuple[Ints, Ints, Ints]:
    """Changes of pools: pool, place of the time (-1: before all), and of free cores and MB, failures, and tasks."""
    pools, spans = np.arange(len(log.cluster)), len(log.span_attempt)
    row_of, loan_of = (np.repeat(np.arange(spans), np.diff(first)) for first in (log.span_rows, log.span_loans))
    rows = log.rows.astype(np.int64)
    row, node = each_of(rows[:, FIRST], rows[:, NODES])
    none, lent = np.zeros(len(log.loans), np.int64), log.loans[:, LOAN_MB]
    held = np.stack([-rows[row, ROW_CORES], -rows[row, LOCAL_MB], np.zeros(len(row), np.int64), rows[row, TASKS]])
    held = np.concatenate([held, np.stack([none, -lent, none, none])], axis=1)
    of, holder = np.concatenate([row_of[row], loan_of]), np.concatenate([node, log.loans[:, LENDER]])
    start, end = (np.searchsorted(times_us, time) for time in (log.span_start_us, log.span_end_us))
    begin = np.stack([log.cluster.cores, log.cluster.memory_mb, *np.zeros((2, len(pools)), np.int64)])
    fails = np.zeros((4, len(faults)), np.int64)
    fails[2] = faults[:, 2]
    return (
        np.concatenate([pools, holder, holder, faults[:, 1]]),
        np.concatenate([np.full(len(pools), -1), start[of], end[of], np.searchsorted(times_us, faults[:, 0])]),
        np.concatenate([begin, held, -held, fails], axis=1),
    )


def _changes(thing: Ints, level: Ints) -> Ints:
    """int64[amounts, rows]: by how much each level is another than the one of its thing before it."""
    change: Ints = level.astype(np.int64)
    later = np.flatnonzero(thing[1:] == thing[:-1]) + 1
    change[:, later] -= level[:, later - 1]
    return change


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
    supply, each = supply_of(log.cluster), np.full(len(log.jobs), -1)
    for meets in (True, False):
        if (each < 0).any():
            each = np.where(each < 0, least_prices(supply, in_numbers(log.cluster, log.jobs, meets)), each)
    return each.clip(0) * log.jobs.tasks


SLO_NAMES = ("met", "local", "remote", "both")
"""Which SLO a placement breaks: none, the floor of local memory, the ceiling of remote memory, both."""


def tier_columns(log: RunLog, held: TierHolding) -> list[pl.Series]:
    """What each job asked of tiers and what its last attempt got, for the jobs frame; see ``docs/result-tables.md``.

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
