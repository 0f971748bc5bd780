"""The tables of queues: how their jobs waited, and what each used of its quotas, borrowed and lent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats
from unrack.resources.site.keys import QueueFile
from unrack.resources.site.quotas import place_name
from unrack.resources.site.told.partitions import WAITS, counts_of, jobs_of, share_text, waits_of
from unrack.resources.use import COLOURS, Kept, Table, picture
from unrack.steps import held_between

NO_QUEUE = "(none)"
WORDS = (
    "Averages from the first submission to the last end, in the unit of the quota. Borrowed: what it used beyond its "
    "nominal quota; lent: what others of its cohort borrowed, shared out by what each left unused then, and lends."
)
HEAD = ("policy", "queue", "quota", "nominal", "used", "used at most", "borrowed", "lent", "time borrowing")


class ToldQuota(NamedTuple):
    """A quota as tables tell it; its pool, in which a cohort lends each other: cohort, flavour and measure."""

    queue: str
    pool: tuple[str, str, str]
    nominal: int
    lends: int  # how much of it others may use at most


def name_of(pool: tuple[str, str, str]) -> str:
    """Of what the quotas of a pool are."""
    return pool[2] + (f" in {pool[1]}" if pool[1] else "")


def queue_tables(runs: Sequence[Kept]) -> Iterator[Table]:
    """A row a policy and queue, one a quota, and a picture of the pool of which most was borrowed, for each policy."""
    queues = [QueueFile(**one) for one in runs[0].written.get("queues", ())]
    if not queues:
        return
    names = {name: one.name for one in queues for name in (one.name, *one.also, *[""] * one.default)}

    def of(_: Kept, jobs: pl.DataFrame) -> pl.DataFrame:
        said = jobs["queue"] if "queue" in jobs.columns else pl.Series([""] * jobs.height)
        own = [names.get(name, NO_QUEUE) for name in said.cast(pl.String).fill_null("").to_list()]
        stops = jobs["preemptions"] if "preemptions" in jobs.columns else pl.Series([0] * jobs.height)
        return jobs.with_columns(pl.Series("of", own, dtype=pl.String), stops.alias("preemptions"))

    rows = []
    for policy, jobs, count in jobs_of(runs, of, "preemptions"):
        for name in [*(one.name for one in queues), NO_QUEUE]:
            if (own := jobs.filter(pl.col("of") == name)).height:
                stopped = f"{own['preemptions'].sum() / count:,.0f}"
                rows.append((policy, name, *counts_of(own, count), stopped, *waits_of(own)))
    words = "Stopped: how often its jobs were preempted, such as to give back what was lent. Waits: jobs that ended."
    yield Table("Queues", words, ("policy", "queue", "jobs", "not served", "stopped", *WAITS), tuple(rows))
    pools = dict[tuple[str, str, str], list[ToldQuota]]()
    for one in queues:
        for quota in one.quotas:
            for measure, nominal in quota.nominal.items():
                pool = one.cohort or f" {one.name}", quota.flavour, measure
                own_quota = ToldQuota(one.name, pool, nominal, min(nominal, quota.lend.get(measure, nominal)))
                pools.setdefault(pool, []).append(own_quota)
    told, pictures = list[tuple[str, ...]](), list[Table]()
    for policy in dict.fromkeys(run.policy for run in runs):
        own_runs = [run for run in runs if run.policy == policy]
        used = {pool: [_use(run, quotas) for run in own_runs] for pool, quotas in pools.items()}
        for pool, quotas in pools.items():
            for i, own_quota in enumerate(quotas):
                held, borrowed, lent, beyond = (np.mean([getattr(one, name)[i] for one in used[pool]])
                                                for name in _Used._fields[:4])  # fmt: skip
                most = f"{max(one.most[i] for one in used[pool]):,.0f}"
                told.append((policy, own_quota.queue, name_of(pool), f"{own_quota.nominal:,}", f"{held:,.2f}",
                             most, f"{borrowed:,.2f}", f"{lent:,.2f}", share_text(float(beyond))))  # fmt: skip
        if pools:
            pool = max(pools, key=lambda pool: float(used[pool][0].borrowed.sum()))
            first = used[pool][0]
            lines = {one.queue: (first.times, line) for one, line in zip(pools[pool], first.level, strict=True)}
            words = "What each queue used, in the first run of the policy; averages over pieces of time."
            drawn = picture(dict(list(lines.items())[: len(COLOURS)]), "used")
            pictures.append(Table(f"Use of {name_of(pool)} over time, {policy}", words, (), (), drawn))
    if told:
        yield from (Table("Quotas", WORDS, HEAD, tuple(told)), *pictures)


class _Used(NamedTuple):
    """Of quotas of a pool: averages over a run, the most, and what was used when."""

    # held, borrowed, lent, beyond (part of the time in which something was borrowed), most: float64[quotas]
    held: Floats
    borrowed: Floats
    lent: Floats
    beyond: Floats
    most: Floats
    # what was used from each time (s) until the next: float64[times], float64[quotas, times - 1]
    times: Floats
    level: Floats


def _use(run: Kept, quotas: Sequence[ToldQuota]) -> _Used:
    assert run.table is not None
    jobs, (_, flavour, measure) = run.table("jobs"), quotas[0].pool
    begin, end = jobs["submit_s"].min() or 0.0, jobs["end_s"].max() or 0.0
    assert isinstance(begin, float)
    assert isinstance(end, float)
    claims = run.claims.filter(pl.col("quantity") == measure)
    places = [place_name(measure, f"queue {quota.queue}", flavour) for quota in quotas]
    steps = [held_between(claims.filter(pl.col("place") == place), begin, end) for place in places]
    times = np.unique(np.concatenate([at for at, _ in steps]))
    level = np.array([held[np.searchsorted(at, times[:-1], "right") - 1] for at, held in steps], np.float64)
    nominal, lends = (np.array([[quota[i]] for quota in quotas], np.float64) for i in (2, 3))
    borrowed, spare = np.maximum(level - nominal, 0), np.clip(nominal - level, 0, lends)
    lent = spare * np.minimum(borrowed.sum(axis=0) / np.maximum(spare.sum(axis=0), 1e-9), 1)
    part = np.diff(times) / max(end - begin, 1e-9)
    beyond = (borrowed > 0).astype(np.float64) @ part
    return _Used(level @ part, borrowed @ part, lent @ part, beyond, level.max(axis=1, initial=0), times, level)
