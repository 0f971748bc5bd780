"""Parts of a workload, and workloads stretched or shaken in time; each filter leaves a record in ``Workload.intake``.

``Intake.dropped`` counts the jobs left out and the header entry ``Filters`` holds one line for each filter applied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unrack.errors import InputError, check_choice, check_kinds
from unrack.facts import counted
from unrack.kernels.arrays import Bools, Ints
from unrack.units import LONGEST_US, SECOND_US, seconds_text, time_us
from unrack.workload.account import local_clock
from unrack.workload.formats.asks.dependencies import waits_for
from unrack.workload.job import JobTable, Workload
from unrack.workload.resample import begins_moved, draw_again, recorded
from unrack.workload.site.sessions import sessions
from unrack.workload.sizing import flexible
from unrack.workload.under_way import order_of
from unrack.workload.usage.settings import ask_for_more, use

_JITTER = 0x6A74  # beside the seed, so that these draws are no generator's


def window(workload: Workload, start_us: int, end_us: int) -> Workload:
    """Jobs submitted in [start, end), counted from the first submission; their times stay as they are.

    Follow with :func:`rebase` to start the clock at 0.
    """
    if not 0 <= start_us < end_us:
        raise InputError("filter window", f"{start_us} to {end_us} µs", "a start and a later end")
    since = workload.jobs.submit_us - _first_us(workload.jobs)
    words = f"window from {seconds_text(start_us / SECOND_US)} to {seconds_text(end_us / SECOND_US)}"
    return _part(workload, (since >= start_us) & (since < end_us), "outside window", words)


def _first(workload: Workload, jobs: Any) -> Workload:
    """The first ``jobs`` jobs in order of (submission, id)."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise InputError("filter first", repr(jobs), "a number of jobs, 1 or more")
    return _part(workload, np.arange(len(workload)) < jobs, "after the first", f"the first {counted(jobs, 'job')}")


def _users(workload: Workload, names: Any) -> Workload:
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, (str, int)) for name in names):
        raise InputError("filter users", repr(names), "a list of users")
    for name in names:
        if str(name) not in workload.jobs.user_names:
            known = ", ".join(workload.jobs.user_names[:20])
            raise InputError("filter users", repr(name), f"users of {workload.name}: {known or 'none are known'}")
    codes = [workload.jobs.user_names.index(str(name)) for name in names]
    listed = ", ".join(map(str, names))
    return _part(workload, np.isin(workload.jobs.user, codes), "other users", f"only users {listed}")


def _sizes(workload: Workload, value: Any) -> Workload:
    """Jobs of so many cores in total, from the fewest to the most, both included."""
    fewest, most = _pair("sizes", value)
    if not all(isinstance(bound, int) and not isinstance(bound, bool) for bound in (fewest, most)):
        raise InputError("filter sizes", repr(value), "two whole numbers of cores")
    if not 1 <= fewest <= most:
        raise InputError("filter sizes", f"{fewest} to {most}", "a number of cores and a larger one")
    total = workload.jobs.tasks * workload.jobs.cores
    return _part(workload, (total >= fewest) & (total <= most), "other sizes", f"only jobs of {fewest} to {most} cores")


def scale_load(workload: Workload, factor: float) -> Workload:
    """Divide the times between submissions by ``factor``: above 1 is more load.

    Deadlines and times before which jobs are not to begin move with submissions.
    """
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not (math.isfinite(factor) and factor > 0):
        raise InputError("filter scale_load", repr(factor), "a factor above 0")
    jobs = workload.jobs
    begin = _first_us(jobs)
    scaled = begin + np.rint((jobs.submit_us - begin) / factor)
    if len(jobs) and scaled[-1] > LONGEST_US:
        raise InputError("filter scale_load", repr(factor), "a factor that keeps submissions within 285 years")
    return _moved(workload, scaled.astype(np.int64), "arrivals scaled", f"load scaled by {factor:g}")


def jitter(workload: Workload, most_us: int, seed: int = 0) -> Workload:
    """Move each submission by a time drawn evenly from -most to +most, though never below 0; deadlines move along.

    Jobs that run when the run begins stay where they are, and nothing moves to before then.

    One log is one sample: the same policies on jittered copies of it tell how much of a difference is chance.

    Parameters
    ----------
    workload
        What is shaken; the first draw is for its first job in order of (submission, id).
    most_us
        The farthest that a submission moves, µs; 0: none moves.
    seed
        Of the draws.

    Raises
    ------
    InputError
        The time is negative.
    """
    if not 0 <= most_us <= LONGEST_US:
        raise InputError("filter jitter", f"{most_us} µs", "a time from 0 to 285 years")
    jobs = workload.jobs
    moved = np.random.default_rng([_JITTER, seed]).integers(-most_us, most_us + 1, len(jobs))
    submit = np.clip(jobs.submit_us + moved, 0, LONGEST_US)
    if jobs.under_way is not None:  # the run begins when it did
        submit = np.where(jobs.under_way.runs, jobs.submit_us, np.maximum(submit, _first_us(jobs)))
    words = f"submissions moved by up to {seconds_text(most_us / SECOND_US)} either way, seed {seed}"
    return _moved(workload, submit, "arrivals jittered", words)


def rebase(workload: Workload, start_us: int = 0) -> Workload:
    """Move all submissions and deadlines together so that the first submission is at ``start_us``."""
    if not 0 <= start_us <= LONGEST_US:
        raise InputError("filter rebase", f"{start_us} µs", "a time from 0 to 285 years")
    submit = workload.jobs.submit_us - _first_us(workload.jobs) + start_us
    words = f"first submission moved to {seconds_text(start_us / SECOND_US)}"
    moved = _moved(workload, submit, "times rebased", words)
    header = dict(moved.intake.header)
    if (first := local_clock(workload.jobs.submit_us[:1], {**header, "TimeZone": "0", "TimeZoneString": ""})) is None:
        return moved
    header["UnixStartTime"] = str(first[0].dt.epoch("s")[0] - start_us // SECOND_US)
    return replace(moved, intake=replace(moved.intake, header=header))


def _first_us(jobs: JobTable) -> int:
    return int(jobs.submit_us[0]) if len(jobs) else 0


def _part(workload: Workload, keep: Bools, rule: str, words: str) -> Workload:
    jobs = workload.jobs.take(keep)
    words = f"{words}: {len(jobs)} of {counted(len(workload), 'job')} kept"
    waits = waits_for(jobs.ids, {name: jobs.extra[name] for name in jobs.extra.columns})
    if waits is not None:
        jobs = replace(jobs, extra=jobs.extra.with_columns(**waits.columns))
    changed = {} if waits is None else {"dependency not there": int(waits.absent.sum())}
    return recorded(workload, jobs, words, dropped={rule: len(workload) - len(jobs)}, changed=changed)


def _moved(workload: Workload, submit_us: Ints, rule: str, words: str) -> Workload:
    jobs = workload.jobs
    moved = int(np.count_nonzero(submit_us != jobs.submit_us))
    deadline = np.where(jobs.deadline_us < 0, -1, np.maximum(jobs.deadline_us + submit_us - jobs.submit_us, 0))
    jobs = replace(jobs, submit_us=submit_us, deadline_us=deadline, extra=begins_moved(jobs, submit_us))
    return recorded(workload, jobs.take(order_of(jobs)), words, changed={rule: moved})


def _pair(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise InputError(f"filter {name}", repr(value), "a list of two: from and to")
    return value[0], value[1]


def _time(name: str, value: Any) -> int:
    try:
        return time_us(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"filter {name}", repr(value), f"a time such as '7 d' ({error})") from None


FILTERS: dict[str, Callable[[Workload, Any, int], Workload]] = {
    "window": lambda workload, value, _: window(workload, *(_time("window", one) for one in _pair("window", value))),
    "users": lambda workload, value, _: _users(workload, value),
    "sizes": lambda workload, value, _: _sizes(workload, value),
    "first": lambda workload, value, _: _first(workload, value),
    "resample": draw_again,
    "scale_load": lambda workload, value, _: scale_load(workload, value),
    "jitter": lambda workload, value, seed: jitter(workload, _time("jitter", value), seed),
    "rebase": lambda workload, value, _: rebase(workload, _time("rebase", value)),
    "sessions": sessions,
    "flexible": flexible,
    "usage": use,
    "overestimate": ask_for_more,
}
"""Filter name → function of a workload, a value as study files give it, and a seed: ``window = ["0 s", "7 d"]``,
``users = [3, 4]``, ``sizes = [1, 64]``, ``first = 1000``, ``resample = {amount = "gpus", of = 100}``,
``scale_load = 1.2``, ``jitter = "30 s"``, ``rebase = 0``, ``sessions = "users"``, ``flexible = 0.5``,
``usage = "series.csv.gz"``, ``overestimate = 0.6``."""
SEEDED = frozenset({"resample", "jitter", "flexible", "usage", "overestimate"})
"""Filters that draw, so that every seed has a workload of its own."""


def filtered(workload: Workload, filters: Mapping[str, Any], seed: int = 0) -> Workload:
    """Apply filters by name, always in the order of :data:`FILTERS`, whatever the order given.

    Parameters
    ----------
    workload
        What is filtered.
    filters
        Name → value.
    seed
        Of filters that draw (``resample``, ``jitter``, ``flexible``, ``usage``, ``overestimate``).

    Raises
    ------
    InputError
        There is no such filter, or its value is wrong.
    """
    check_kinds("filtered", workload=(workload, Workload), filters=(filters, Mapping))
    for name in filters:
        check_choice("filters", name, FILTERS)
    for name, apply in FILTERS.items():
        if name in filters:
            workload = apply(workload, filters[name], seed)
    return workload
