"""What a run held in each span of each tier of memory, what that cost, and which SLO it broke."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from unrack.cluster.tiers.tier import LOCAL, Tiers
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import LENDER, LOAN_MB, LOCAL_MB, NODES
from unrack.policy.tiers.supply import supply_of
from unrack.sim.log import RunLog
from unrack.solver.servers.least_price import least_prices
from unrack.solver.servers.problem import Asked, asked
from unrack.workload.tier_asks import NO_CEILING, scaled_ceiling

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


def tiers_of(log: RunLog) -> Tiers:
    """The tiers of a run's cluster, which has some."""
    tiers = log.cluster.tiers
    assert tiers is not None
    return tiers


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
    least: Ints = each * log.jobs.tasks
    return least


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
