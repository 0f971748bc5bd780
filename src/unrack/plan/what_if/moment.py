"""The state of a study's run at a time, as a moment to begin from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.ledger.lease import FIRST, NODES, TASKS
from unrack.plan.what_if.scene import Scene
from unrack.sim.log import RunLog
from unrack.sim.simulate import prepared
from unrack.units import SECOND_US, seconds_text
from unrack.workload.job import ESTIMATE, JobTable
from unrack.workload.standing import said_on
from unrack.workload.under_way import UnderWay, order_of

FORGOTTEN = "Ages of waiting jobs, and what was used before, are forgotten."


def at(scene: Scene, time_us: int) -> tuple[Scene, JobTable]:
    """The state of a run at a time: what runs stays where it is, what waits is in the queue; later jobs are unknown.

    Returns
    -------
    Scene, JobTable
        The moment, and the jobs that were over by then.

    Raises
    ------
    InputError
        There is no job then, or what happened before is nothing to begin from.
    """
    when = seconds_text(time_us / SECOND_US)
    if scene.runs.any():
        raise InputError("--at", when, "no time for a study that begins with running jobs: it is a moment already")
    if any(fault.at_us <= time_us for fault in scene.world.faults):
        raise InputError("--at", f"{when}, after failures of nodes", "a time before the first failure")
    jobs = scene.jobs.take(scene.jobs.submit_us <= time_us)
    log = prepared(scene.cluster, jobs, scene.policy, scene.seed, scene.world).run()
    began, ends = log.attempt_start_us <= time_us, log.attempt_end_us > time_us
    running = {int(log.attempt_job[i]): int(i) for i in np.flatnonzero(began & ends)}
    later = set(log.attempt_job[~began].tolist())
    over = set(log.attempt_job[began & ~ends].tolist()) - running.keys() - later
    over |= log.reasons.keys() - set(log.attempt_job.tolist())  # turned away
    waits = [job for job in range(len(jobs)) if job not in over and job not in running]
    if not running and not waits:
        raise InputError("--at", when, "a time at which jobs run or wait")
    submit, ran = jobs.submit_us.copy(), np.zeros(len(jobs), np.int64)
    on: list[str | None] = [None] * len(jobs)
    for job, attempt in running.items():
        on[job] = _on(scene.cluster, log, attempt, time_us)
        submit[job], ran[job] = time_us, time_us - log.attempt_start_us[attempt]
    submit[waits] = time_us + 1 + np.arange(len(waits))
    least = ran + SECOND_US * (ran > 0)  # a job that overruns what it asks ends soon
    asks = jobs.asks.copy()
    asks[ESTIMATE] = np.maximum(asks[ESTIMATE], least)
    under_way = UnderWay(pl.Series(on, dtype=pl.String), ran) if running else None
    moved = replace(
        jobs, submit_us=submit, work_us=np.maximum(jobs.work_us, least), asks=asks, under_way=under_way
    ).take(np.array([job for job in range(len(jobs)) if job not in over], np.int64))
    return replace(scene, jobs=moved.take(order_of(moved)), notes=(FORGOTTEN,)), jobs.take(
        np.array(sorted(over), np.int64)
    )


def _on(cluster: Cluster, log: RunLog, attempt: int, time_us: int) -> str:
    """The nodes of an attempt at a time, as the column ``on`` has them."""
    spans = range(int(log.attempt_spans[attempt]), int(log.attempt_spans[attempt + 1]))
    span = max((one for one in spans if log.span_start_us[one] <= time_us), default=spans[0])
    tasks: dict[int, int] = {}
    for row in log.rows[log.span_rows[span] : log.span_rows[span + 1]].tolist():
        for node in range(row[FIRST], row[FIRST] + row[NODES]):
            tasks[node] = tasks.get(node, 0) + row[TASKS]
    names = cluster.names or tuple(map(str, range(len(cluster))))
    return ",".join(said_on([names[node] for node in sorted(tasks)], [tasks[node] for node in sorted(tasks)]))
