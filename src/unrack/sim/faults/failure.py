"""What each failure did: the nodes that it took down, the jobs that it stopped, and the work that was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.spec import UNCOUNTED_MB, Cluster
from unrack.core.affected import first_of
from unrack.units import NEVER_US, SECOND_US

if TYPE_CHECKING:
    from unrack.sim.log import RunLog


class Failure(NamedTuple):
    """A failure that happened."""

    # domain, level: what failed, and which level of failure domains it is of (``"domain"`` for a named set)
    domain: str
    level: str
    # at_us, repaired_us: when it failed, and when it was repaired; a node that another failure keeps down comes back
    # later
    at_us: int
    repaired_us: int
    nodes: int  # in the domain
    # nodes_down, cores_down, mb_down: what went down through it: the nodes that no other failure kept down already,
    # their cores and their memory (MB; -1: not counted on some of them)
    nodes_down: int
    cores_down: int
    mb_down: int


def failure_of(
    cluster: Cluster, domain: str, at_us: int, repaired_us: int, nodes: int, falling: tuple[int, ...]
) -> Failure:
    """The record of a failure of a domain of so many nodes, of which ``falling`` went down through it."""
    ids = list(falling)
    mb = cluster.memory_mb[ids]
    counted = not (mb == UNCOUNTED_MB).any()
    return Failure(
        domain, cluster.level_of(domain), at_us, repaired_us, nodes, len(ids),
        int(cluster.cores[ids].sum()), int(mb.sum()) if counted else -1,
    )  # fmt: skip


def held_elsewhere(log: RunLog, attempt: int) -> bool:
    """Whether an attempt that a failure stopped ran on none of its nodes: it used memory or a device there."""
    failure = log.failures[int(log.attempt_failure[attempt])]
    last = log.attempt_spans[attempt + 1] - 1
    rows = log.rows[log.span_rows[last] : log.span_rows[last + 1]].astype(np.int64)
    nodes = np.array(log.cluster.domain(failure.domain), np.int64)
    return bool((first_of(nodes, rows) == NEVER_US).all())


def failures_frame(log: RunLog) -> pl.DataFrame:
    """One row a failure that happened before the run ended, in order of time; see ``docs/file-formats.md``."""
    count = len(log.failures)
    struck = np.flatnonzero(log.attempt_failure >= 0)
    of = log.attempt_failure[struck]
    _, cores, _ = log.amounts
    lost_us = np.zeros(count)
    np.add.at(lost_us, of, log.over_time(cores)[struck])
    away = np.array([held_elsewhere(log, attempt) for attempt in struck.tolist()], np.bool_)
    ids = log.jobs.ids
    order = np.argsort(of, kind="stable")
    hit = np.bincount(of, minlength=count)
    jobs = [
        ids.gather(log.attempt_job[struck[order[last - own : last]]])
        for own, last in zip(hit.tolist(), np.cumsum(hit).tolist(), strict=True)
    ]
    columns = np.array([failure[2:] for failure in log.failures], np.int64).reshape(-1, 6)
    at, repaired, nodes, nodes_down, cores_down, mb_down = columns.T
    return pl.DataFrame(
        {
            "time_s": at / SECOND_US,
            "repaired_s": repaired / SECOND_US,
            "level": pl.Series([failure.level for failure in log.failures], dtype=pl.String),
            "domain": pl.Series([failure.domain for failure in log.failures], dtype=pl.String),
            "nodes": nodes,
            "nodes_down": nodes_down,
            "cores_down": cores_down,
            "memory_mb_down": pl.Series(mb_down).replace(-1, None),
            "jobs_hit": hit,
            "jobs_hit_elsewhere": np.bincount(of[away], minlength=count),
            "core_s_lost": lost_us / SECOND_US,
            "jobs": pl.Series(jobs, dtype=pl.List(ids.dtype)),
        }
    )
