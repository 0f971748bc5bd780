"""What jobs wait for by their own word: other jobs, and times before which they do not want to start.

Jobs say it in columns of a trace: ``dependency``, in the words of Slurm (``afterok:12:13,afterany:14``), ``begin_s``
(not before, on the clock of the trace) and ``think_s`` with ``follows`` (so long after the end of that job; the filter
``sessions`` makes it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl

from unrack.errors import InputError
from unrack.kernels.arrays import Bools, Ints
from unrack.units import SECOND_US
from unrack.workload.job import JobTable


class After(IntEnum):
    """What of another job is waited for."""

    START = 0  # that it has started
    OK = 1  # that it has ended well
    NOT_OK = 2  # that it has failed
    END = 3  # that it has ended, or will never run


KINDS = {"after": After.START, "afterok": After.OK, "afternotok": After.NOT_OK, "afterany": After.END}
_WANT = "such as afterok:12:13,afterany:14 (afterok, afternotok, afterany, after:ID+MINUTES, singleton)"
_TERM = re.compile(r"(\w+)((?::[^:,?+\s]+(?:\+\d{1,7})?)*)(?:\(\w+\))?")
_MINUTE_US = 60 * SECOND_US
FAILED = frozenset({"0", "5"})
"""Values of ``status`` of the Standard Workload Format of jobs that failed or were cancelled."""


class Edges(list[tuple[int, After, int]]):
    """What one job waits for: other jobs, what of each, and how much longer (µs)."""

    any_of = False  # whether one of them is enough


@dataclass(frozen=True)
class JobGraph:
    """What jobs wait for.

    Attributes
    ----------
    begin_us : int64[jobs]
        Before which they do not start; 0: any time.
    edges
        Job → what it waits for, of those that wait for others.
    ends_well : bool[jobs]
        Which end well when they end by themselves, as far as the trace says.
    """

    begin_us: Ints
    edges: Mapping[int, Edges]
    ends_well: Bools


def graph_of(jobs: JobTable) -> JobGraph | None:
    """What jobs wait for; ``None``: nothing.

    Raises
    ------
    InputError
        A dependency cannot be read, names a job that there is not, or jobs wait for each other.
    """
    said = {name: jobs.extra[name] for name in ("dependency", "begin_s", "follows", "think_s", "job_name")
            if name in jobs.extra.columns}  # fmt: skip
    count, edges = len(jobs), dict[int, Edges]()
    begin_us = np.zeros(count, np.int64)
    if "begin_s" in said:
        seconds = said["begin_s"].cast(pl.Float64, strict=False).fill_null(0.0).fill_nan(0.0).to_numpy()
        begin_us = np.maximum(np.ceil(seconds * SECOND_US), 0).astype(np.int64)
    number_of: dict[str, int] = {}
    if said.keys() & {"dependency", "follows"}:
        number_of = {str(name): number for number, name in enumerate(jobs.ids.to_list())}
    if "dependency" in said:
        single = _singles(jobs, said.get("job_name"))
        for job, text in enumerate(said["dependency"].cast(pl.String).to_list()):
            if text and text.strip() and (found := _read(text.strip(), job, jobs, number_of, single)):
                edges[job] = found
    if "follows" in said and "think_s" in said:
        _sessions(said["follows"], said["think_s"], number_of, edges)
    if not edges and not (begin_us > jobs.submit_us).any():
        return None
    _check(jobs, edges)
    return JobGraph(begin_us, edges, _ends_well(jobs))


def _read(text: str, job: int, jobs: JobTable, number_of: Mapping[str, int], single: Mapping[int, list[int]]) -> Edges:
    """What a dependency says."""
    where, found = f"job {jobs.ids[job]}, dependency", Edges()
    if "," in text and "?" in text:
        raise InputError(where, repr(text[:80]), "',' between all that is wanted, or '?' between what is enough alone")
    found.any_of = "?" in text
    for term in re.split(r"[,?]", text):
        match = _TERM.fullmatch(term.strip())
        if match is None or (match[1].lower() != "singleton" and (match[1].lower() not in KINDS or not match[2])):
            raise InputError(where, repr(text[:80]), _WANT)
        if match[1].lower() == "singleton":
            found += [(other, After.END, 0) for other in single.get(job, [])]
            continue
        kind = KINDS[match[1].lower()]
        for name in match[2].split(":")[1:]:
            name, _, minutes = name.partition("+")
            if name not in number_of:
                raise InputError(where, repr(text[:80]), f"ids of jobs of the trace, not {name!r}")
            found.append((number_of[name], kind, int(minutes or 0) * _MINUTE_US))
    return found


def _singles(jobs: JobTable, names: pl.Series | None) -> dict[int, list[int]]:
    """Job → the one before it with the same name and user: the others are before that."""
    found, last = dict[int, list[int]](), dict[tuple[int, str], int]()
    for job, name in enumerate([] if names is None else names.cast(pl.String).fill_null("").to_list()):
        whose = int(jobs.user[job]), name
        if whose in last:
            found[job] = [last[whose]]
        last[whose] = job
    return found


def _sessions(follows: pl.Series, think_s: pl.Series, number_of: Mapping[str, int], edges: dict[int, Edges]) -> None:
    """Jobs that follow the end of another after a time to think; ids that are not in the trace count for nothing."""
    thinks = think_s.cast(pl.Float64, strict=False).to_list()
    for job, name in enumerate(follows.cast(pl.String).to_list()):
        think = thinks[job]
        if name in number_of and number_of[name] != job and think is not None and think >= 0:
            edges.setdefault(job, Edges()).append((number_of[name], After.END, round(think * SECOND_US)))


def _check(jobs: JobTable, edges: Mapping[int, Edges]) -> None:
    """Refuse jobs that wait for each other: the walk goes depth first, without recursion."""
    done: set[int] = set()
    for first in edges:
        path: list[int] = []
        on_path: set[int] = set()
        stack: list[tuple[int, int]] = [(first, 0)]
        while stack:
            job, at = stack.pop()
            if at == 0:
                if job in done:
                    continue
                path.append(job)
                on_path.add(job)
            others = edges.get(job, Edges())
            if at < len(others):
                stack.append((job, at + 1))
                other = others[at][0]
                if other in on_path:
                    circle = [*path[path.index(other) :], other]
                    words = " → ".join(str(jobs.ids[one]) for one in circle[:8])
                    raise InputError(f"job {jobs.ids[other]}, dependency", f"jobs that wait for each other: {words}",
                                     "jobs that do not wait for themselves")  # fmt: skip
                stack.append((other, 0))
                continue
            path.pop()
            on_path.discard(job)
            done.add(job)


def _ends_well(jobs: JobTable) -> Bools:
    """Which jobs ended well in the trace, where it says how they ended."""
    for name, well in (("state", None), ("status", FAILED)):
        if name in jobs.extra.columns:
            said: Sequence[str | None] = jobs.extra[name].cast(pl.String).to_list()
            if well is None:
                words = [(one or "COMPLETED").split()[0].upper() for one in said]
                return np.array([word in ("COMPLETED", "RUNNING", "PENDING", "SUSPENDED") for word in words])
            return np.array([one not in well for one in said])
    return np.ones(len(jobs), np.bool_)
