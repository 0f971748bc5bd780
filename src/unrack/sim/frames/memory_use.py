"""Memory that jobs used in a run, as tables for people: over time, and what became of each job's. Times in seconds."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome
from unrack.units import SECOND_US


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
