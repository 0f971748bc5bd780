"""The table of limits: how full they were, and which jobs waited for room in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats, Ints
from unrack.resources.site.kept import OUTSIDE, amounts_of
from unrack.resources.site.keys import ReservationFile
from unrack.resources.site.told.partitions import MOST, length_s, share_text
from unrack.resources.use import Kept, Table, ends_of, joined_s
from unrack.steps import held_between
from unrack.units import SECOND_US


class ToldLimit(NamedTuple):
    """A limit of a cluster file, as tables tell it; the places of claims that are of it are named after it."""

    measure: str
    per: str
    owner: str
    most: int
    kept: tuple[tuple[float, float, int], ...] = ()  # from when to when a reservation keeps how much of it, s

    def has(self, place: str) -> bool:
        """Whether a place is this limit, of any user or account."""
        if self.kept:
            return place == self.owner
        subject = f"{self.measure} of {self.per}"
        return place.startswith((f"{subject},", f"{subject} ")) and place.endswith(f", {self.owner}")

    def __str__(self) -> str:
        if self.kept:
            return f"{self.owner}: {self.most:,}, less {self.kept[0][2]:,} while they are kept"
        subject = {"all": "all together"}.get(self.per, f"each {self.per}")
        return f"{self.measure} of {subject}, {self.owner}: {self.most:,}"


def rules_of(site: Mapping[str, Any], counters: Mapping[str, int]) -> list[ToldLimit]:
    """The limits of a site on more than one job, and licences that are kept, from what was written of it."""
    owners = [("site", site.get("limits", ()))]
    for key, word in (("partitions", "partition"), ("qos", "quality of service"), ("accounts", "account")):
        owners += [(f"{word} {one['name']}", one.get("limits", ())) for one in site.get(key, ())]
    for account in site.get("accounts", ()):
        for user in account.get("users", ()):
            owners.append((f"user {user['name']} in account {account['name']}", user.get("limits", ())))
    kept = list[ToldLimit]()
    for one in site.get("reservations", ()):
        file = ReservationFile(**one)
        times = [(start / SECOND_US, end / SECOND_US) for start, end in file.windows_us]
        for name, amount in amounts_of(file).items():
            spans = tuple((start, end, amount) for start, end in times)
            kept.append(ToldLimit(str(name), "all", f"{name}{OUTSIDE} {file.name}", counters[str(name)], spans))
    return kept + [
        ToldLimit(measure, per, owner, most)
        for owner, limits in owners
        for limit in limits
        if (per := limit.get("per", "all")) != "job"
        for measure, most in limit["amounts"].items()
    ]


def limit_tables(runs: Sequence[Kept]) -> Iterator[Table]:
    """A row a policy and limit, those waited for longest: how full it was, and which jobs waited for room in it."""
    counters = () if runs[0].nodes is None else runs[0].nodes.counters
    rules, rows = rules_of(runs[0].written, dict(counters)), list[tuple[str, ...]]()
    for policy in dict.fromkeys(run.policy for run in runs):
        own = [run for run in runs if run.policy == policy]
        told = [(rule, [use for run in own if (use := _use(run, rule)) is not None]) for rule in rules]
        found = sorted(
            ((rule, uses) for rule, uses in told if uses), key=lambda one: -sum(use.waited_s for use in one[1])
        )
        for rule, uses in found[:MOST]:
            n, most = len(own), max(use.peak for use in uses)
            rows.append((
                policy, str(rule), f"{sum(use.jobs for use in uses) / n:,.0f}", f"{most:,}",
                share_text(sum(use.full for use in uses) / n), f"{sum(use.waiting for use in uses) / n:,.0f}",
                f"{sum(use.waited_s for use in uses) / 3600 / n:,.1f}", f"{sum(use.rejected for use in uses) / n:,.0f}",
            ))  # fmt: skip
    if rows:
        words = (
            f"The {MOST} that were waited for longest. Held at most: by one of those that it is of; full: the part of "
            "the time in which nothing was left to one of them. Waited: jobs that found no room in it between their "
            "submission and their start, and for how long, whatever else they waited for; too big: over it by itself."
        )
        head = ("policy", "limit", "jobs", "held at most", "full", "waited", "hours waited", "too big")
        yield Table("Limits", words, head, tuple(rows))


class _Use(NamedTuple):
    jobs: int
    peak: int
    full: float
    waiting: int
    waited_s: float
    rejected: int


def _use(run: Kept, rule: ToldLimit) -> _Use | None:
    """How a limit was used; ``None``: no job counted for it."""
    assert run.table is not None
    jobs, claims = run.table("jobs"), run.claims.filter(pl.col("quantity") == rule.measure)
    held = {
        str(name): own for (name,), own in claims.partition_by("place", as_dict=True).items() if rule.has(str(name))
    }
    over = jobs.filter(pl.col("state") == "rejected")["reason"].to_list()
    rejected = sum(rule.has(reason.removeprefix("too-big: ").rpartition(" (")[0]) for reason in over if reason)
    if not held and not rejected:
        return None
    came = pl.col("eligible_s") if "eligible_s" in jobs.columns else pl.col("submit_s")
    waits = jobs.filter(pl.col("wait_s") > 0).select("job", came.alias("since_s"), pl.col("wait_s"))
    peak, waiting, waited_s, full = 0, 0, 0.0, list[tuple[float, float]]()
    for own in held.values():
        peak = max(peak, int(held_between(own, *ends_of(own))[1].max()))
        windows = pl.DataFrame(
            rule.kept, {"start_s": pl.Float64, "end_s": pl.Float64, "amount": pl.Int64}, orient="row"
        )
        taken = pl.concat([own.select(windows.columns).cast(windows.schema), windows])
        times, level = held_between(taken, *ends_of(taken))
        full += [span for span, now in zip(pairwise(times.tolist()), level.tolist(), strict=False) if now >= rule.most]
        short = short_s(times, level, rule.most, own.unique("job", maintain_order=True).join(waits, on="job"))
        waiting, waited_s = waiting + int((short > 0).sum()), waited_s + float(short.sum())
    count = sum(own["job"].n_unique() for own in held.values())
    return _Use(count, peak, joined_s(full) / length_s(jobs), waiting, waited_s, rejected)


def short_s(times: Floats, level: Ints, most: int, jobs: pl.DataFrame) -> Floats:
    """For how long each of some jobs, which count for ``amount`` and wait, would have found no room."""
    found = np.zeros(jobs.height)
    start, amount = jobs["since_s"].to_numpy(), jobs["amount"].to_numpy()
    end = start + jobs["wait_s"].to_numpy()
    for one in np.unique(amount):
        until, own = np.append(0.0, np.cumsum(np.diff(times) * (level[:-1] > most - one))), amount == one
        found[own] = np.interp(end[own], times, until) - np.interp(start[own], times, until)
    return found
