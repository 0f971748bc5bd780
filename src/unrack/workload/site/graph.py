"""What jobs wait for by their own word: other jobs, and times before which they do not want to start.

Jobs say it in columns of a trace: ``dependency``, in the words of Slurm (``afterok:12:13,afterany:14``), ``begin_s``
(not before, on the clock of the trace) and ``think_s`` with ``follows`` (so long after the end of that job; the filter
``sessions`` makes it).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.kernels.arrays import Bools, Ints
from unrack.resources.site.installed import Site
from unrack.slurm_text.job_ids import job_state
from unrack.units import NEVER_US, SECOND_US
from unrack.workload.formats.asks.dependencies import SINGLETON, first_circle, parts_of
from unrack.workload.job import JobTable
from unrack.workload.site.sessions import first_of
from unrack.workload.site.settled import BEHIND, numbers_said, said_by


class After(IntEnum):
    """What of another job is waited for."""

    START = 0  # that it has started
    OK = 1  # that it has ended well
    NOT_OK = 2  # that it has failed
    END = 3  # that it has ended, or will never run
    ALONE = 4  # the same, and what it waits for as a singleton, too
    TURN = 5  # that it has started, or will never run, and what it waits for in its queue, too


KINDS = {"after": After.START, "afterok": After.OK, "afternotok": After.NOT_OK, "afterany": After.END}
_WANT = "such as afterok:12:13,afterany:14 (afterok, afternotok, afterany, after:ID+MINUTES, singleton)"
_MINUTE_US = 60 * SECOND_US
_SEVERAL = -1
"""In place of the number of a job: several have its id."""
FAILED = frozenset({"0", "5"})
"""Values of ``status`` of the Standard Workload Format of jobs that failed or were cancelled."""
NOT_WELL = frozenset({
    "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED",
    "LAUNCH_FAILED", "RECONFIG_FAIL", "SPECIAL_EXIT", "ERROR", "KILLED", "ABORTED",
})  # fmt: skip
"""Values of ``state`` of jobs that did not end well: those of Slurm, and words of other systems."""
STATE_KEPT = "trace_state"
"""What tables of a run call the column ``state`` of the trace, as they have one of their own."""
Ways = tuple[tuple[int, After, int], ...]
"""Other jobs, what of each is waited for, and how much longer (µs); one of them is enough."""


@dataclass(frozen=True)
class JobGraph:
    """What jobs wait for."""

    begin_us: Ints  # int64[jobs]: before which they do not start; 0: any time
    waits: Mapping[int, Sequence[Ways]]  # job → what it waits for, all of it; of those that wait for others
    ends_well: Bools  # bool[jobs]: which end well when they end by themselves, as far as the trace says
    follow: Collection[int]  # jobs that come when their users have thought


def graph_of(jobs: JobTable) -> JobGraph | None:
    """What jobs wait for; ``None``: nothing.

    An InputError if a dependency cannot be read, names a job that there is not, or jobs wait for each other.
    """
    said = {name: jobs.extra[name] for name in ("dependency", "begin_s", "follows", "think_s", "job_name", BEHIND)
            if name in jobs.extra.columns}  # fmt: skip
    count, waits, first = len(jobs), dict[int, list[Ways]](), first_of(jobs)
    begin_us, follow = np.zeros(count, np.int64), set[int]()
    if "begin_s" in said:
        seconds = numbers_said(jobs, "begin_s").to_numpy()
        begin_us = np.maximum(np.ceil(seconds * SECOND_US), 0).astype(np.int64)
        np.maximum.at(begin_us, first, begin_us)
    number_of: dict[str, int] = {}
    if said.keys() & {"dependency", "follows"}:
        for name, number in zip(map(str, jobs.ids.to_list()), first.tolist(), strict=True):
            number_of[name] = number if number_of.get(name, number) == number else _SEVERAL
    if "dependency" in said:
        texts = said["dependency"].cast(pl.String).to_list()
        single = _singles(jobs, said.get("job_name"), texts, first)
        for job, text in enumerate(texts):
            if text and text.strip() and (found := _read(text, job, jobs, number_of, single)):
                if any(other == first[job] for ways in found for other, _, _ in ways):
                    raise InputError(f"job {jobs.ids[job]}, dependency", repr(text[:80]), "no component of its own job")
                waits.setdefault(int(first[job]), []).extend(found)
    if "follows" in said and "think_s" in said:
        numbers_said(jobs, "think_s")
        thinks = said["think_s"].cast(pl.Float64, strict=False).to_list()
        for job, name in enumerate(said["follows"].cast(pl.String).to_list()):
            if number_of.get(name) == _SEVERAL:
                raise InputError(f"job {jobs.ids[job]}, follows", repr(name), "the id of one job, which several have")
            if name in number_of and (think := thinks[job]) is not None and think >= 0:
                follow.add(int(first[job]))
                waits.setdefault(int(first[job]), []).append(((number_of[name], After.END, round(think * SECOND_US)),))
    for job, other in enumerate(said[BEHIND].to_list() if BEHIND in said else ()):
        if other >= 0:
            waits.setdefault(int(first[job]), []).append(((int(first[other]), After.TURN, 0),))
    if not waits and not (begin_us > jobs.submit_us).any():
        return None
    columns = {name: said[own] for name, own in (("dependency", "dependency"), ("preceding", "follows")) if own in said}
    if circle := first_circle(jobs.ids, columns):
        got = f"jobs that wait for each other: {' → '.join(circle[:8])}"
        raise InputError(f"job {circle[0]}, dependency", got, "jobs that do not wait for themselves")
    return JobGraph(begin_us, waits, _ends_well(jobs), follow)


def _read(
    text: str, job: int, jobs: JobTable, number_of: Mapping[str, int], single: Mapping[int, Sequence[int]]
) -> list[Ways]:
    where, met = f"job {jobs.ids[job]}, dependency", list[Ways]()
    for ways in parts_of(text):
        found: list[tuple[int, After, int]] = []
        alone: Sequence[int] | None = None
        for part in ways:
            if part.kind == SINGLETON:
                alone = single.get(job, ())
                continue
            if part.kind not in KINDS or not part.ids:
                raise InputError(where, repr(text[:80]), _WANT)
            own = []
            for name in part.ids:
                bare, _, minutes = (name, "", "") if name in number_of else name.rpartition("+")
                if number_of.get(bare) == _SEVERAL:
                    raise InputError(where, repr(text[:80]), f"ids of one job each, not {bare!r}, which several have")
                if bare not in number_of or not (minutes or "0").isdecimal() or len(minutes) > 9:
                    raise InputError(where, repr(text[:80]), f"ids of jobs of the trace, not {name!r}")
                own.append((number_of[bare], KINDS[part.kind], int(minutes or 0) * _MINUTE_US))
            if len(ways) == 1:
                met += [(one,) for one in own]
            else:
                found += own
        if alone is not None:
            met += [(*found, (other, After.ALONE, 0)) for other in alone]
        elif found:
            met.append(tuple(found))
    return met


def _singles(
    jobs: JobTable, names: pl.Series | None, texts: Sequence[str | None], first: Ints
) -> dict[int, Sequence[int]]:
    """Singleton → those before it with the same name and user, from the last singleton of them on."""
    found, since = dict[int, Sequence[int]](), dict[tuple[int, str], list[int]]()
    for job, name in enumerate([] if names is None else names.cast(pl.String).fill_null("").to_list()):
        before, own = since.setdefault((int(jobs.user[job]), name), []), int(first[job])
        if SINGLETON in (texts[job] or "").lower():
            found[job] = [other for other in dict.fromkeys(before) if other != own]
            before.clear()
        before.append(own)
    return found


def _ends_well(jobs: JobTable) -> Bools:
    """Which jobs ended well in the trace, where it says how they ended."""
    for name in (STATE_KEPT, "state", "status"):
        if name in jobs.extra.columns:
            said: Sequence[str | None] = jobs.extra[name].cast(pl.String).to_list()
            if name == "status":
                return np.array([one not in FAILED for one in said])
            well = {text: _well(text or "") for text in set(said)}
            return np.array([well[text] for text in said])
    return np.ones(len(jobs), np.bool_)


def _well(state: str) -> bool:
    """Whether a job of a state ended well; one of which nothing bad is known did."""
    try:
        word = job_state(state)
    except ValueError:
        word = state.split()[0].upper()
    return word not in NOT_WELL


def graces_us(cluster: Cluster, jobs: JobTable, always: bool) -> Ints | None:
    """int64[jobs]: for how long each may overrun its limit, µs; ``NEVER_US``: it is not stopped.

    ``None``: no job is stopped. A job of several partitions has the longest of theirs. ``cluster``, ``jobs``: as they
    are before they are settled; ``always``: whether jobs are stopped at their limits where nothing is said.
    """
    site, none = cluster.places.installed.get("site"), 0 if always else NEVER_US
    if not isinstance(site, Site) or not says_over_time(site):
        return np.zeros(len(jobs), np.int64) if always else None
    usual = none if site.file.over_time is None else site.file.over_time
    own = {one.name: usual if one.over_time is None else one.over_time for one in site.file.partitions}
    default = next((one.name for one in site.file.partitions if one.default), "")
    found = {}
    for text in set(said := said_by(jobs, cluster).partition):
        names = [name.strip() for name in (text or default).split(",")]
        found[text] = max((own[name] for name in names if name in own), default=usual)
    return np.array([found[text] for text in said], np.int64)


def says_over_time(site: Site) -> bool:
    """Whether a site says when jobs are stopped that overrun their limits."""
    return site.file.over_time is not None or any(one.over_time is not None for one in site.file.partitions)
