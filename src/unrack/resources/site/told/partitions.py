"""Tables of partitions, accounts and queues: what they had of the cluster or quotas, and how their jobs waited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from unrack.kernels.arrays import Bools, Floats
from unrack.resources.contract import Nodes
from unrack.resources.site.installed import Site
from unrack.resources.site.keys import SiteFile
from unrack.resources.site.quotas import place_name
from unrack.resources.use import COLOURS, Kept, Table, picture
from unrack.steps import held_between
from unrack.units import seconds_text

NO_PARTITION = "(none)"
NO_ACCOUNT = "(not known)"
MOST = 10
"""Accounts and limits of a table."""
WAITS = ("mean wait", "p95 wait", "mean bounded slowdown")


def partition_tables(runs: Sequence[Kept]) -> Iterator[Table]:
    """A row a policy and partition: its jobs, what they had of its nodes, and how they waited."""
    site = runs[0].written
    if not site.get("partitions") or runs[0].nodes is None:
        return
    cores = {name: int(runs[0].nodes.cores[mask].sum()) for name, mask in masks_of(site, runs[0].nodes).items()}

    def of(run: Kept, jobs: pl.DataFrame) -> pl.DataFrame:
        return jobs.with_columns(pl.Series("of", partitions_of(run, jobs), dtype=pl.String))

    words = (
        "Not served: jobs that did not run to their end. Used: cores x time of its jobs, of that of all its nodes from "
        "the first submission to the last end; nodes may be in several partitions. Waits are of jobs that ended."
    )
    rows = []
    for policy, jobs, runs_of in jobs_of(runs, of):
        whole_s = sum(length_s(run.table("jobs")) for run in runs if run.policy == policy and run.table is not None)
        for name in [*cores, NO_PARTITION]:
            own = jobs.filter(pl.col("of") == name)
            if own.height:
                used = float(own["core_s"].sum()) / (cores[name] * whole_s) if name in cores else None
                rows.append((policy, name, *counts_of(own, runs_of), share_text(used), *waits_of(own)))
    yield Table("Partitions", words, ("policy", "partition", "jobs", "not served", "used", *WAITS), tuple(rows))


def account_tables(runs: Sequence[Kept]) -> Iterator[Table]:
    """A row a policy and account, those with the most core-hours: its part of the use beside its part of the shares."""
    accounts = {one["name"]: one for one in runs[0].written.get("accounts", ())}
    due = _due(accounts)

    def of(_: Kept, jobs: pl.DataFrame) -> pl.DataFrame:
        said = jobs["account"] if "account" in jobs.columns else pl.Series([None] * jobs.height, dtype=pl.String)
        above = [list(_lineage(name, accounts)) for name in said.cast(pl.String).fill_null(NO_ACCOUNT).to_list()]
        return jobs.with_columns(pl.Series("of", above, dtype=pl.List(pl.String)))

    rows: list[tuple[str, ...]] = []
    for policy, jobs, runs_of in jobs_of(runs, of):
        total, counted = float(jobs["core_s"].sum()) or 1.0, jobs.explode("of")
        if counted["of"].n_unique() < 2 and counted["of"].first() == NO_ACCOUNT:
            continue
        top = counted.group_by("of").agg(pl.col("core_s").sum()).sort("core_s", "of", descending=[True, False])
        for name, core_s in top.head(MOST).iter_rows():
            own, hours = counted.filter(pl.col("of") == name), f"{core_s / 3600 / runs_of:,.0f}"
            shares = share_text(due.get(name)), share_text(core_s / total)
            rows.append((policy, name, *counts_of(own, runs_of), hours, *shares, *waits_of(own)))
    if rows:
        words = (
            f"The {MOST} with the most core-hours, each with the accounts below it. Shares: its part among its "
            "siblings, times that of the accounts above it; use: its part of all core-hours. Users are under Who waits."
        )
        head = ("policy", "account", "jobs", "not served", "core-hours", "shares", "use", *WAITS)
        yield Table("Accounts", words, head, tuple(rows))


def partitions_of(run: Kept, jobs: pl.DataFrame) -> list[str]:
    """The partition that each job ran in; of several that it named, the first that has all its nodes."""
    site = run.written
    default = next((one["name"] for one in site.get("partitions", ()) if one.get("default")), NO_PARTITION)
    name = next((name for name in ("partition", "queue") if name in jobs.columns), None)
    said = [""] * jobs.height if name is None else jobs[name].cast(pl.String).fill_null("").to_list()
    several = {job for job, text in zip(jobs["job"].to_list(), said, strict=True) if "," in text}
    nodes = _nodes_of(run, several) if several else {}
    masks = masks_of(site, run.nodes) if several and run.nodes is not None else {}
    found = []
    for job, text in zip(jobs["job"].to_list(), said, strict=True):
        names = [one.strip() for one in text.split(",") if one.strip()] or [default]
        own = nodes.get(job, [])
        found.append(next((one for one in names if one in masks and masks[one][own].all()), names[0]))
    return found


def _nodes_of(run: Kept, which: set[Any]) -> dict[Any, list[int]]:
    assert run.table is not None
    rows = run.table("placements").filter(pl.col("job").is_in(list(which)))
    found: dict[Any, list[int]] = {}
    for job, first, nodes in rows.select("job", "first_node", "nodes").iter_rows():
        found.setdefault(job, []).extend(range(first, first + nodes))
    return found


def masks_of(site: Mapping[str, Any], nodes: Nodes) -> dict[str, Bools]:
    """Partition → bool[nodes]: those of it, whatever reservations keep."""
    return Site({**site, "reservations": ()}, nodes, "site").nodes_of


def _lineage(name: str, accounts: Mapping[str, Any]) -> Iterator[str]:
    while name:
        yield name
        name = accounts[name].get("parent", "") if name in accounts else ""


def _due(accounts: Mapping[str, Any]) -> dict[str, float]:
    """Account → its part of the shares of all; users of an account are siblings of the accounts below it.

    The members of an account with the shares ``"parent"`` are those of the account above; it has no part of its own.
    """
    own = [name for name, one in accounts.items() if one.get("shares", 1) != "parent"]
    above = {name: [one for one in _lineage(name, accounts) if one in own] for name in ("", *accounts)}
    levels = Counter[str]()
    for name, one in accounts.items():
        levels[(*above[name], "")[0]] += sum(map(_shares, one.get("users", ())))
        levels[(*above[one.get("parent", "")], "")[0]] += _shares(one)
    parts = {name: _shares(accounts[name]) / (levels[(*above[name], "")[1]] or 1) for name in own}
    return {name: prod(parts[one] for one in above[name]) for name in own}


def _shares(one: Mapping[str, Any]) -> int:
    """Shares of its own, of an account or a user."""
    shares = one.get("shares", 1)
    return 0 if shares == "parent" else int(shares)


def jobs_of(runs: Sequence[Kept], of: Any, *more: str) -> Iterator[tuple[str, pl.DataFrame, int]]:
    """Policy, the jobs of all its runs with a column ``of`` and ``more``, and how many runs these are."""
    for policy in dict.fromkeys(run.policy for run in runs):
        frames = [of(run, run.table("jobs")) for run in runs if run.policy == policy and run.table is not None]
        columns = ["of", "state", "core_s", "wait_s", "bounded_slowdown", "submit_s", "end_s", *more]
        if frames:
            yield policy, pl.concat([frame.select(columns) for frame in frames]), len(frames)


def length_s(jobs: pl.DataFrame) -> float:
    """From the first submission to the last end; above 0."""
    begin, end = jobs["submit_s"].min(), jobs["end_s"].max()
    return max(float(end) - float(begin), 1e-9) if isinstance(begin, float) and isinstance(end, float) else 1e-9


def counts_of(jobs: pl.DataFrame, runs: int) -> tuple[str, str]:
    """How many jobs there are, and how many did not end, in a run."""
    return f"{jobs.height / runs:,.0f}", f"{int((jobs['state'] != 'finished').sum()) / runs:,.0f}"


def waits_of(jobs: pl.DataFrame) -> tuple[str, str, str]:
    """The texts of ``WAITS``."""
    mean, high, slow = jobs["wait_s"].mean(), jobs["wait_s"].quantile(0.95, "linear"), jobs["bounded_slowdown"].mean()
    waits = (seconds_text(value) if isinstance(value, float) else "–" for value in (mean, high))
    return (*waits, f"{slow:,.1f}" if isinstance(slow, float) else "–")  # type: ignore[return-value]  # two of them


def share_text(value: float | None) -> str:
    """A share in per cent."""
    return "–" if value is None else f"{100 * value:.1f} %"


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
    file = SiteFile.model_validate(runs[0].written)
    if not (queues := file.queues):
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
    owners = [(one.name, file.root(one.cohort) or f" {one.name}", one.quotas) for one in queues]
    owners += [(f"cohort {one.name}", file.root(one.name), one.quotas) for one in file.cohorts]
    for name, root, quotas_of in owners:
        for quota in quotas_of:
            for measure, nominal in quota.nominal.items():
                pool = root, quota.flavour, measure
                own_quota = ToldQuota(name, pool, nominal, min(nominal, quota.lend.get(measure, nominal)))
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
