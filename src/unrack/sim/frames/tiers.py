"""Tiers of memory in a run as tables for people: what each server got, and what is used and stranded over time."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats, Ints
from unrack.sim.frames.stranded_memory import pool_faults, stranding
from unrack.sim.frames.tier_holding import PER_HOUR, TierHolding, least_job_prices, tiers_of
from unrack.sim.log import RunLog
from unrack.steps import summed_at
from unrack.units import SECOND_US
from unrack.workload.tier_asks import NO_CEILING

SLO_NAMES = ("met", "local", "remote", "both")
"""Which SLO a placement breaks: none, the floor of local memory, the ceiling of remote memory, both."""


def tier_columns(log: RunLog, held: TierHolding) -> list[pl.Series]:
    """What each job asked of tiers and what its last attempt got, for the jobs frame; see ``docs/file-formats.md``.

    Of a job whose lease changed while it ran, what it held last; and every SLO that it broke during the attempt.
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
        *_asked(log),
        *(of_last(held.mb[:, tier], f"mb_{name}") for tier, name in enumerate(tiers.names)),
        of_last(held.weighted / tiers.cost_scale, "weighted_mb"),
        of_last(held.price / tiers.price_scale / PER_HOUR, "price_per_h"),
        pl.Series("slo", pl.Series([*SLO_NAMES, None], dtype=pl.String).gather(slo)),
    ]


def _asked(log: RunLog) -> list[pl.Series]:
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
    stranded = stranding(log, faults, times)
    scale = tiers.price_scale * PER_HOUR
    return pl.DataFrame(
        {
            "time_s": times / SECOND_US,
            "clusters_used": stranded.clusters_used,
            "servers": steps(tasks),
            "broken_local": steps(tasks * held.low),
            "broken_remote": steps(tasks * held.far),
            "price_per_h": steps(held.price) / scale,
            "least_price_per_h": steps(least_job_prices(log)[log.span_job]) / scale,
            "opened_mb": stranded.opened_mb,
            "stranded_opened_mb": stranded.lost_mb,
            **{f"used_mb_{name}": steps(held.mb[:, tier]) for tier, name in enumerate(tiers.names)},
            **{f"stranded_mb_{name}": stranded.stranded_mb[:, tier] for tier, name in enumerate(tiers.names)},
        }
    )
