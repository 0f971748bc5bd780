"""Spans, attempts and jobs: in order, without overlap, whole gangs, and as the jobs table says."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.kernels.arrays import Bools, Ints
from unrack.metric.audit.tables import Sums, Tables, Violation, micro, whole


def span_violation(t: Tables) -> Violation | None:
    """The first span that is out of order, overlaps another of its job, or does not hold the whole gang."""
    known = t.held.job >= 0
    if not known.all():
        repeated = t["jobs"]["job"].filter(pl.Series(t.repeated)).implode()  # ids that several jobs have
        if (~known & ~t["placements"]["job"].is_in(repeated).to_numpy()).any():
            return Violation("the placements name a job that the jobs table does not have")
    s = t.sums  # without jobs that share an id: of those only the places are looked at
    done = t.finished[s.row].astype(np.int64)
    if len(s.job) == 0:
        return _jobs(t, s, done)
    new_job = np.diff(s.job, prepend=-1) != 0
    new_attempt = new_job | (np.diff(s.attempt, prepend=0) != 0)
    before = np.append(0, s.end[:-1])
    rules: list[tuple[str, Bools]] = [
        ("has a span that ends before it starts", s.end < s.start),
        ("has rows of one span with different times or outcomes", s.odd),
        ("starts before it was submitted", s.start < t.submit[s.job]),
        (
            "has attempts that are not numbered 1, 2, 3 …",
            np.where(new_job, s.attempt != 1, _jumps(s.attempt, new_attempt)),
        ),
        ("has spans that are not numbered 1, 2, 3 …", np.where(new_attempt, s.span != 1, _jumps(s.span, ~new_attempt))),
        ("has spans of one attempt that overlap or leave a gap", ~new_attempt & (s.start != before)),
        ("has attempts that overlap", new_attempt & ~new_job & (s.start < before)),
        ("runs again after it has finished", new_attempt & ~new_job & (np.append(0, done[:-1]) > 0)),
        ("holds another number of tasks than it has", s.tasks != whole(t["jobs"]["tasks"])[s.job]),
    ]
    for what, wrong in rules:
        found = np.flatnonzero(wrong)
        if len(found):
            i = int(found[np.argmin(s.start[found])])
            return Violation(f"{t.name(s.job[i])}, attempt {s.attempt[i]}, {what}", int(s.start[i]))
    return _jobs(t, s, done)


def _jumps(number: Ints, follows: Bools) -> Bools:
    """bool[spans]: a number that is not one more than the last where it follows, or changes where it does not."""
    step: Ints = np.diff(number, prepend=0)
    return np.asarray(np.where(follows, step != 1, step != 0))


def _ran_before(t: Tables) -> Bools:
    """bool[jobs]: of which nobody knows how long they waited, as they ran already when the run began."""
    if not {"on", "ran_s"} <= set(t["jobs"].columns):
        return np.zeros(t["jobs"].height, np.bool_)
    return (t["jobs"]["ran_s"].is_not_null() & t["jobs"]["wait_s"].is_null()).to_numpy()


def _jobs(t: Tables, s: Sums, done: Ints) -> Violation | None:
    """The first job whose row in the jobs table is not what its spans say."""
    jobs, count = t["jobs"], t["jobs"].height
    start, end, restarts = micro(jobs["start_s"]), micro(jobs["end_s"]), whole(jobs["restarts"])
    finished = (jobs["state"] == "finished").to_numpy()
    ran, began, ended = np.zeros(count, np.int64), np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    attempts, nodes, cores = (np.zeros(count, np.int64) for _ in range(3))
    core_us = np.zeros(count)
    np.maximum.at(attempts, s.job, s.attempt)
    np.maximum.at(ran, s.job, done)
    last = done > 0
    which, own = s.job[last], s.span[last] == 1
    began[which[own]] = s.start[last][own]
    np.maximum.at(ended, which, s.end[last])
    np.maximum.at(nodes, which, s.nodes[last])
    np.maximum.at(cores, which, s.cores[last])
    np.add.at(core_us, which, s.cores[last] * (s.end - s.start)[last].astype(np.float64))
    rules = [
        ("is finished, or not, against what its attempts say", (ran > 0) != finished),
        ("started at another time than its attempt that finished", start != began),
        ("ended at another time than its attempt that finished", end != ended),
        ("ended before it started", finished & (end < start)),
        ("has another number of restarts than of attempts that did not finish", restarts != attempts - ran),
        ("held another number of nodes", whole(jobs["nodes"]) != nodes),
        ("held another number of cores", whole(jobs["cores"]) != cores),
        ("held other core-seconds", ~np.isclose(jobs["core_s"].to_numpy() * 1e6, core_us, rtol=1e-9, atol=1.0)),
        ("waited for another time than from its submission to its start",
         finished & ~_ran_before(t) & (np.abs(jobs["wait_s"].fill_null(0).to_numpy() * 1e6 - (start - t.submit)) > 1)),
    ]  # fmt: skip
    for what, wrong in rules:
        found = np.flatnonzero(wrong & ~t.repeated)
        if len(found):
            return Violation(f"{t.name(int(found[0]))} {what}, by the table of jobs", int(start[found[0]]))
    return None
