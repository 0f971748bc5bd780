"""A run's log as tables for people: jobs, usage over time, memory, rounds. Times in seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.ledger.lease import CORES, FIRST, LENDER, NODES
from unrack.ledger.state import Status
from unrack.policy.around import UNIT, RoundCount
from unrack.resources.places import is_resource
from unrack.sim.frames.held import tasks_held
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome
from unrack.steps import each_of, levels, summed_at
from unrack.units import NEVER_US, SECOND_US
from unrack.workload.site.graph import STATE_KEPT
from unrack.workload.site.sessions import first_of
from unrack.workload.site.settled import BEHIND

BOUND_US = 10 * SECOND_US
"""The threshold of the bounded slowdown: 10 s (Feitelson and Rudolph 1998)."""

STATE_NAMES = {
    Status.FINISHED: "finished",
    Status.REJECTED: "rejected",
    Status.QUEUED: "queued",
    Status.HELD: "held",
    Status.RUNNING: "running",
    Status.UNKNOWN: "unknown",
}


def _seconds(time_us: Ints, known: Bools) -> pl.Series:
    return pl.Series(np.where(known, time_us / SECOND_US, np.nan), nan_to_null=True)


def jobs_frame(
    log: RunLog, fastest: Floats | None = None, lends: bool = False, more: Sequence[pl.Series] = ()
) -> pl.DataFrame:
    """One row a job, in order of (submission, id).

    Of a job with a lease that changed while it ran, ``nodes`` and ``cores`` are the most that it held at one time;
    ``core_s`` is what it held, integrated over time. Of a job that ran already when the run began, ``start_s`` is when
    it began; how long it had waited before is not known: its wait, response and slowdowns are null. ``run_s`` is
    without the time for which it was suspended. Where jobs wait for others or
    for a time by their own word, there is ``eligible_s``, when each could first be started (null: never): waits begin
    then.

    ``fastest``: float64[jobs], the best speed of each job on this hardware; ``lends``: say what each job borrowed;
    ``more``: further columns, before those of the trace.
    """
    jobs = log.jobs
    count = len(jobs)
    nodes, cores, _ = log.amounts
    start, end = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    held_nodes, held_cores, attempts, run = (np.zeros(count, np.int64) for _ in range(4))
    core_us = np.zeros(count)
    if len(log.attempt_job):
        np.add.at(attempts, log.attempt_job, 1)
        done = log.attempt_outcome == Outcome.FINISHED
        which = log.attempt_job[done]
        start[which], end[which] = log.attempt_start_us[done], log.attempt_end_us[done]
        held_nodes[which], held_cores[which] = log.most(nodes)[done], log.most(cores)[done]
        run[which] = log.ran_us[done]
        core_us[which] = log.over_time(cores)[done]
    finished = end >= 0
    since = log.came_us
    response = end - since
    reasons = [""] * count
    for job, reason in log.reasons.items():
        reasons[job] = str(reason)
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.where(finished & (run > 0), response / run, np.nan)
    waited = finished
    if jobs.under_way is not None:
        waited = finished & ~jobs.under_way.runs
        slowdown[~waited] = np.nan
        on = [pl.Series("on", jobs.under_way.on), pl.Series("ran_s", jobs.under_way.ran_us / SECOND_US)]
        more = [*more, on[0], on[1].set(jobs.under_way.on.is_null(), None)]
    if log.eligible_us is not None:
        more = [*more, _seconds(since, since < NEVER_US).alias("eligible_s")]
        if "state" in jobs.extra.columns and STATE_KEPT not in jobs.extra.columns:
            more = [*more, jobs.extra["state"].alias(STATE_KEPT)]
    late = ~finished | (end > jobs.deadline_us)
    late[list(log.cut)] = True
    bounded = np.maximum(1.0, response / np.maximum(run, BOUND_US))
    users = pl.Series([*jobs.user_names, None], dtype=pl.String)
    apps = pl.Series([*jobs.app_names, None], dtype=pl.String)
    states = np.array([STATE_NAMES[status] for status in Status])
    extra = jobs.extra
    frame = pl.DataFrame(
        {
            "job": jobs.ids,
            "submit_s": jobs.submit_us / SECOND_US,
            "start_s": _seconds(start, finished),
            "end_s": _seconds(end, finished),
            "wait_s": _seconds(start - since, waited),
            "response_s": _seconds(response, waited),
            "run_s": _seconds(run, finished),
            "request_s": jobs.request_us / SECOND_US,
            "work_s": jobs.work_us / SECOND_US,
            "deadline_s": _seconds(jobs.deadline_us, jobs.deadline_us >= 0),
            "slowdown": pl.Series(slowdown, nan_to_null=True),
            "bounded_slowdown": pl.Series(np.where(waited, bounded, np.nan), nan_to_null=True),
            "tasks": jobs.tasks,
            "cores_per_task": jobs.cores,
            "memory_mb_per_task": jobs.memory_mb,
            "nodes": held_nodes,
            "cores": held_cores,
            "core_s": core_us / SECOND_US,
            "memory_mb": jobs.tasks * jobs.memory_mb,
            "user": users.gather(np.where(jobs.user < 0, len(users) - 1, jobs.user)),
            "app": apps.gather(np.where(jobs.app < 0, len(apps) - 1, jobs.app)),
            "priority": jobs.priority,
            "state": pl.Series(states[log.state], dtype=pl.String),
            "reason": pl.Series(reasons, dtype=pl.String),
            "restarts": np.maximum(attempts - finished, 0),
            "missed": pl.Series(late).set(pl.Series(jobs.deadline_us < 0), None),
        }
    )
    if len(log.cluster.devices):
        rules = [""] * count
        for job, rule in log.rules.items():
            rules[job] = rule
        speed = np.ones(count) if fastest is None else fastest
        asked = [pl.Series(f"{kind}.{name}", amounts) for (kind, name), amounts in sorted(jobs.devices.items())]
        frame = frame.with_columns(
            pl.Series("placed_by", rules, dtype=pl.String),
            pl.Series("fastest_s", jobs.work_us / SECOND_US / speed),
            *asked,
        )
    else:
        claimed = [key for key in sorted(jobs.devices) if is_resource(key[0])]
        frame = frame.with_columns(pl.Series(".".join(key), jobs.devices[key]) for key in claimed)
    if lends:
        frame = frame.with_columns(loan_columns(log))
    frame = frame.with_columns(more)
    new = [name for name in extra.columns if name not in (*frame.columns, BEHIND)]
    return frame.hstack(extra.select(new)) if new else frame


def usage_frame(log: RunLog, lends: bool = False, sized: bool = False) -> pl.DataFrame:
    """What was held and which jobs waited: a step function; each row holds until the next.

    A job that is queued again after a failure counts as waiting again, unless it is rejected then. ``lends``: also say
    what was lent: memory_mb_lent (part of memory_mb_held), nodes_lending, nodes_only_lending.
    """
    jobs = log.jobs
    _, cores, mb = log.amounts
    asked = jobs.tasks * jobs.asks[1]
    of_span = np.where(cores > 0, asked[log.span_job], 0)  # a suspended job has none
    runs = log.attempt_job
    waiting = log.state != Status.REJECTED
    requeued = log.attempt_outcome != Outcome.FINISHED
    if not waiting.all():  # one rejected after a failure had waited until the first start, and did not wait again
        last = np.zeros(len(jobs), np.int64)
        last[runs] = np.arange(len(runs))
        requeued &= waiting[runs] | (last[runs] != np.arange(len(runs)))
        waiting[runs] = True
    entered = np.flatnonzero(waiting & (log.came_us < NEVER_US))
    again, again_at = runs[requeued], log.attempt_end_us[requeued]
    begins = np.zeros(len(of_span), np.int64)  # 1: the first span of an attempt, which takes its job out of the queue
    begins[log.attempt_spans[:-1]] = 1
    moments = [log.span_start_us, log.span_end_us, log.came_us[entered], again_at]
    unique, inverse = np.unique(np.concatenate(moments), return_inverse=True)
    start, end, enter, enter_again = np.split(inverse, np.cumsum([len(times) for times in moments])[:-1])

    def held(amount: Ints | int) -> Ints:
        return summed_at(len(unique), (start, amount), (end, -amount))

    columns = {
        "cores_held": held(cores),
        "cores_asked": held(np.where(cores > 0, tasks_held(log) * jobs.asks[1][log.span_job], 0) if sized else of_span),
        "memory_mb_held": held(mb),
        "running_jobs": held(1),
        "queued_jobs": summed_at(len(unique), (start, -begins), (enter, 1), (enter_again, 1)),
        "queued_cores": summed_at(
            len(unique), (start, -of_span * begins), (enter, asked[entered]), (enter_again, asked[again])
        ),
    }
    if lends:
        columns["memory_mb_lent"] = held(log.borrowed())
        columns["nodes_lending"], columns["nodes_only_lending"] = lending_nodes(log, unique)
    if len(log.capacity):
        merged = np.union1d(unique, log.capacity[:, 0])
        at = np.searchsorted(unique, merged, side="right") - 1
        columns = {name: np.append(column, 0)[at] for name, column in columns.items()}  # -1: nothing held yet
        changes = np.searchsorted(log.capacity[:, 0], merged, side="right") - 1
        online = np.where(changes < 0, log.cluster.total_cores, log.capacity[changes, 1])
        unique = merged
    else:
        online = np.full(len(unique), log.cluster.total_cores, np.int64)
    frame = pl.DataFrame({"time_s": unique / SECOND_US, **columns, "cores_online": online})
    order = "time_s cores_held cores_asked memory_mb_held cores_online running_jobs queued_jobs queued_cores"
    of_loans = "memory_mb_lent nodes_lending nodes_only_lending" if lends else ""
    return frame.select(f"{order} {of_loans}".split())


def memory_frame(log: RunLog) -> pl.DataFrame:
    """One row whenever use was looked at. Columns: time_s, used_mb, held_mb, asked_mb, all of the jobs that ran."""
    times, used, held, asked = log.memory.T
    return pl.DataFrame(
        {"time_s": times / SECOND_US, "used_mb": used.copy(), "held_mb": held.copy(), "asked_mb": asked.copy()}
    )


def use_columns(log: RunLog) -> list[pl.Series]:
    """For the jobs frame: what each job used at most, what it was given and gave back, and how often memory ended it.

    Columns: peak_mb_per_task (of the task that uses most), memory_grown_mb and memory_shrunk_mb (summed over the
    changes of its leases), memory_stops (attempts that ended for lack of memory), and node_s_lost (node-seconds that
    these held, in the part that no checkpoint has kept), node_s_blocked (in which it stood still for lack of memory).
    """
    jobs, count = log.jobs, len(log.jobs)
    usage = jobs.usage
    assert usage is not None
    grown, shrunk, stops = (np.zeros(count, np.int64) for _ in range(3))
    lost = np.zeros(count)
    nodes, _, mb = log.amounts
    if log.changed:
        same = np.diff(log.span_attempt) == 0
        step, job = np.diff(mb)[same], log.span_job[1:][same]
        np.add.at(grown, job, np.maximum(step, 0))
        np.add.at(shrunk, job, np.maximum(-step, 0))
    ended = np.flatnonzero(log.attempt_outcome == Outcome.OUT_OF_MEMORY)
    np.add.at(stops, log.attempt_job[ended], 1)
    for attempt, stopped in log.memory_stops.items():
        lost[log.attempt_job[attempt]] += nodes[log.attempt_spans[attempt]] * stopped.lost_us / SECOND_US
    return [
        pl.Series("peak_mb_per_task", usage.job_peaks(jobs.memory_mb)),
        pl.Series("memory_grown_mb", grown),
        pl.Series("memory_shrunk_mb", shrunk),
        pl.Series("memory_stops", stops),
        pl.Series("node_s_lost", lost),
        pl.Series("node_s_blocked", [log.held_node_us.get(job, 0) / SECOND_US for job in range(count)]),
    ]


def preemption_columns(log: RunLog, suspends: bool) -> list[pl.Series]:
    """Further columns of jobs where jobs are stopped for others.

    Columns: preemptions (attempts that were stopped), and core_s_lost_preempted (core-seconds of work lost with them,
    of the cores of a job's own size, as work is told of that); where some are suspended also suspensions (how often)
    and suspended_s (for how long).
    """
    count, lost = np.zeros(len(log.jobs), np.int64), np.zeros(len(log.jobs))
    cores, tasks = log.amounts[1], tasks_held(log)
    for attempt, preempted in log.preempted.items():
        job, span = log.attempt_job[attempt], log.attempt_spans[attempt]
        count[job] += 1
        lost[job] += cores[span] * log.jobs.tasks[job] / tasks[span] * preempted.lost_us / SECOND_US
    found = [pl.Series("preemptions", count), pl.Series("core_s_lost_preempted", lost)]
    if suspends:
        own = [log.suspended.get(job, []) for job in range(len(log.jobs))]
        stood = [sum(one.until_us - one.at_us for one in some) / SECOND_US for some in own]
        found += [pl.Series("suspensions", [len(some) for some in own]), pl.Series("suspended_s", stood, pl.Float64)]
    return found


def limit_columns(log: RunLog) -> list[pl.Series]:
    """Further columns of jobs where some accept shorter limits, or are stopped at theirs.

    Columns: limit_s (that a job had in its last attempt, if it is another than it asks; else null), and cut (whether it
    ended there with work left); where jobs are stopped at limits also extensions (how often it was given more time) and
    extended_s (how much).
    """
    count = first_of(log.jobs).tolist()
    limits = [log.limits[job] / SECOND_US if job in log.limits else None for job in count]
    found = [pl.Series("limit_s", limits, pl.Float64), pl.Series("cut", [job in log.cut for job in count])]
    if log.extensions is not None:
        own = [log.extensions.get(job, []) for job in count]
        more = [sum(one.until_us - one.at_us for one in some) / SECOND_US for some in own]
        found += [pl.Series("extensions", [len(some) for some in own]), pl.Series("extended_s", more, pl.Float64)]
    return found


def rounds_frame(counts: Ints | None) -> pl.DataFrame:
    """One row a round, in order; ``counts`` (int64[rounds, 7]) as of :class:`unrack.policy.around.RoundCount`.

    Columns: time_s, jobs, tried, placed, left, networks, cost_placed, cost_waiting.
    """
    assert counts is not None
    columns = dict(zip(RoundCount._fields, counts.T, strict=True))
    return pl.DataFrame(
        {
            "time_s": columns["at_us"] / SECOND_US,
            **{name: columns[name].copy() for name in ("jobs", "tried", "placed")},
            "left": columns["jobs"] - columns["placed"],
            "networks": columns["networks"].copy(),
            **{name: columns[name] / UNIT for name in ("cost_placed", "cost_waiting")},
        }
    )


def loan_columns(log: RunLog) -> list[pl.Series]:
    """What the attempt that finished had borrowed, for the jobs frame: remote_mb, remote_share, lenders, stretch.

    Of a job with a lease that changed while it ran, ``remote_mb`` is the most at one time, ``remote_share`` is of all
    MB x time, and ``lenders`` counts all that ever lent to it.

    ``remote_share`` is of all MB held, ``lenders`` counts different nodes, ``stretch`` is the time it ran over the time
    that it runs undisturbed; the shares are null for jobs that did not finish, or where they would be 0 / 0.
    """
    jobs = log.jobs
    done = log.attempt_outcome == Outcome.FINISHED
    which = log.attempt_job[done]
    remote, run = (np.zeros(len(jobs), np.int64) for _ in range(2))
    part, held = np.zeros(len(jobs)), np.zeros(len(jobs))
    finished = np.zeros(len(jobs), np.bool_)
    finished[which] = True
    borrowed, mb = log.borrowed(), log.amounts[2]
    remote[which] = log.most(borrowed)[done]
    own = log.over_time if log.changed else np.asarray
    part[which], held[which] = own(borrowed)[done], own(mb)[done]
    run[which] = log.ran_us[done]
    kept = np.repeat(done, np.diff(log.attempt_loans))
    job = np.repeat(log.attempt_job, np.diff(log.attempt_loans))[kept]
    pairs = np.unique(job * len(log.cluster) + log.loans[kept, LENDER])
    lenders = np.bincount(pairs // len(log.cluster), minlength=len(jobs))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(finished & (held > 0), part / held, np.nan)
        stretch = np.where(finished & (jobs.left_us > 0), run / jobs.left_us, np.nan)
    return [
        pl.Series("remote_mb", remote),
        pl.Series("remote_share", share, nan_to_null=True),
        pl.Series("lenders", lenders.astype(np.int64)),
        pl.Series("stretch", stretch, nan_to_null=True),
    ]


def lending_nodes(log: RunLog, times_us: Ints) -> Ints:
    """int64[2, times]: how many nodes lend at each of these times, and how many of them compute nothing.

    A node lends while tasks of another node use its memory, and computes while a job holds cores of it. O(n log n) in
    the loans and in the placements on nodes that ever lend, node by node. ``times_us``: int64[times], rising,
    different, among them every start and every end of a span.
    """
    lender, found = log.loans[:, LENDER], np.zeros((2, len(times_us)), np.int64)
    busy, first, nodes = log.rows[:, CORES] > 0, *(log.rows[:, column].astype(np.int64) for column in (FIRST, NODES))
    of_loan, of_row = (
        np.repeat(np.arange(len(bound) - 1), np.diff(bound)) for bound in (log.span_loans, log.span_rows)
    )
    for lenders in np.array_split(np.unique(lender), 1 + len(log.rows) // 2**18):  # some at a time, to use less memory
        loan, low = np.flatnonzero(np.isin(lender, lenders)), np.searchsorted(lenders, first)
        row, host = each_of(low, np.where(busy, np.searchsorted(lenders, first + nodes) - low, 0))
        span, is_loan = np.concatenate([of_loan[loan], of_row[row]]), np.repeat([1, 0], [len(loan), len(host)])
        _, when, (lends, computes) = levels(
            np.concatenate([lender[loan], lenders[host]]), log.span_start_us[span], log.span_end_us[span],
            np.stack([is_loan, 1 - is_loan]),
        )  # fmt: skip
        at = np.searchsorted(times_us, when)
        for count, is_so in zip(found, (lends > 0, (lends > 0) & (computes == 0)), strict=True):
            count += summed_at(len(times_us), (at, np.diff(is_so.astype(np.int64), prepend=0)))
    return found
