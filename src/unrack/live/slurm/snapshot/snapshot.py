"""A running Slurm at one moment: its cluster, its jobs as a workload that begins now, and its present policy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.live.driver.used import counted as counted_use
from unrack.live.slurm.jobs import JobReading
from unrack.live.slurm.machines import machines_of
from unrack.live.slurm.reading import Reading
from unrack.live.slurm.snapshot.rows import APART, WORDS, SnapshotRow, columns_of, rows_of, table_row
from unrack.live.study_file import in_use, workload_of, write_study
from unrack.resources.places import AMOUNT, PLACE
from unrack.slurm_text.scheduler import Scheduler
from unrack.units import SECOND_US
from unrack.workload.job import JobTable, Workload
from unrack.workload.site.settled import settled
from unrack.workload.standing import tasks_on

_DTYPES: dict[str, type[pl.DataType]] = {
    "id": pl.String, "submit": pl.Float64, "run": pl.Float64, "request": pl.Float64, "tasks": pl.Int64,
    "cores": pl.Int64, "memory": pl.Int64, "priority": pl.Int64, "user": pl.String, "app": pl.String, "on": pl.String,
    "ran": pl.Float64, "waits_for": pl.String, "waited_s": pl.Int64, "slurm_state": pl.String,
    "slurm_reason": pl.String, "slurm_partition": pl.String, "slurm_account": pl.String, "slurm_limit_s": pl.Int64,
    "slurm_submit_s": pl.Int64, "slurm_start_s": pl.Int64, **dict.fromkeys(WORDS, pl.String),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A running system."""

    at_s: float  # when, s since 1970
    content: Mapping[str, Any]  # the keys of its cluster file
    rows: tuple[SnapshotRow, ...]  # its jobs
    policy: Mapping[str, Any]  # the policy that is most like its own, as a study has it
    notes: tuple[str, ...]  # what was left out or changed, a sentence each
    unused: tuple[str, ...] = ()  # columns of what no job asks for, which is not in the cluster
    spare: Mapping[str, Any] = field(default_factory=dict)  # keys of a cluster file of that

    @cached_property
    def cluster(self) -> Cluster:
        """Its nodes."""
        return Cluster.from_dict(self.content, "cluster")

    @cached_property
    def table(self) -> pl.DataFrame:
        """A row a job, as :meth:`write` writes them; those that wait for something else have no ``submit``."""
        columns = columns_of(table_row(row, self.at_s) for row in self.rows)
        if not columns:
            columns = {name: [] for name in _DTYPES}
        found = (pl.Series(name, values, dtype=_DTYPES.get(name, pl.Int64)) for name, values in columns.items())
        return pl.DataFrame([column for column in found if column.name not in self.unused])

    @property
    def workload(self) -> Workload:
        """Its jobs, without those that wait for something else.

        Raises
        ------
        TraceError
            There are none.
        """
        return workload_of(self.table)

    def write(self, path: Path) -> Path:
        """Write a study file, and a CSV of the jobs beside it; returns the latter.

        Raises
        ------
        InputError
            They cannot be written.
        """
        return write_study(path, self.content, self.table, self.policy, "Slurm", self.at_s, self.notes, self.spare)


def snapshot_of(
    reading: Reading,
    scheduler: Scheduler,
    *,
    partitions: Collection[str] | None = None,
    additions: Mapping[str, Any] | None = None,
    longest_us: int = 7 * 86_400 * SECOND_US,
    held_by_admin: bool = False,
) -> Snapshot:
    """What a reading shows, as a study that begins then.

    Parameters
    ----------
    reading, scheduler
        What Slurm says.
    partitions
        Only their nodes, the jobs that run there, and those that may; ``None``: all, as one cluster.
    additions
        Further keys of the cluster, as of :func:`unrack.live.slurm.machines.machines_of`.
    longest_us
        How long a job without a limit is taken to run.
    held_by_admin
        Whether jobs that an administrator or a plugin holds wait in the queue, as where unrack schedules.

    Raises
    ------
    ClusterError
        There are no such partitions, or no node is left.
    """
    machines = machines_of(reading, additions, partitions=partitions, in_use=True)
    cluster = Cluster.from_dict(machines.content, "cluster")
    how = JobReading(longest_us, scheduler.memory, lenient=True, together=machines.together, shares=machines.shares)
    counted = reading.accounting is not None and bool(reading.accounting.accounts)
    found = rows_of(reading, cluster, how, partitions=partitions, held_by_admin=held_by_admin, counted=counted)
    notes = [*machines.notes, *scheduler.notes, *found.notes, *_partitions(reading, partitions)]
    used = () if reading.used is None else reading.used.amounts
    machines = machines._replace(content=counted_use(machines.content, used, 0))
    content = {**machines.content, APART: {"groups": found.groups}} if found.groups else machines.content
    taken = Snapshot(reading.at_s, content, found.rows, scheduler.policy, tuple(notes))
    content, unused, spare = in_use(content, taken.table)
    taken = replace(taken, content=content, unused=tuple(unused), spare=spare)
    if not counted:
        return replace(taken, notes=(*notes, "No limit of accounts or QOS is kept."))
    return _within_limits(taken)


def _within_limits(taken: Snapshot) -> Snapshot:
    """The same, where jobs that run beyond a limit, which was lowered or is not meant for them, count for none."""
    if not any(row.runs for row in taken.rows):
        return taken
    over = beyond_limits(*settled(taken.cluster, taken.workload.jobs))
    if not over:
        return taken
    rows = [
        row._replace(job=replace(row.job, user="", said={})) if row.runs and row.key in over else row
        for row in taken.rows
    ]
    note = f"Runs beyond a limit, and counts for none here: {len(over)} job{'s' * (len(over) != 1)}."
    return replace(taken, rows=tuple(rows), notes=(*taken.notes, note))


def beyond_limits(cluster: Cluster, jobs: JobTable) -> set[str]:
    """The jobs that run, one after the other, for which no room is left in what they count for."""
    free, over = cluster.places.total.copy(), set[str]()
    asked = cluster.places.asked(jobs.devices, len(jobs))
    for job in np.flatnonzero(jobs.standing.runs & asked.any(axis=0)).tolist():
        tasks = tasks_on(cluster, jobs, job)
        nodes, counts = np.array(sorted(tasks)), np.array([tasks[node] for node in sorted(tasks)])
        claims = cluster.places.claims(asked[:, job], nodes, counts, free)
        within = (claims[:, AMOUNT] <= free[claims[:, PLACE]]).all()
        if within and cluster.places.agree(asked[:, job], nodes, counts, claims):
            free[claims[:, PLACE]] -= claims[:, AMOUNT]
        else:
            over.add(str(jobs.ids[job]))
    return over


def parts_of(reading: Reading) -> list[tuple[str, ...]]:
    """The partitions, those together that share nodes, in order of name; nodes of none are left out."""
    groups: list[set[str]] = []
    for node in reading.nodes:
        if not node.partitions:
            continue
        mine, others = set(node.partitions), []
        for group in groups:
            if group & mine:
                mine |= group
            else:
                others.append(group)
        groups = [*others, mine]
    return sorted(tuple(sorted(group)) for group in groups)


def _partitions(reading: Reading, chosen: Collection[str] | None) -> Sequence[str]:
    parts = parts_of(reading)
    if chosen is None and len(parts) > 1:
        listed = "; ".join(", ".join(part) for part in parts[:8])
        return [f"Some partitions share no nodes ({listed}): --partition takes one alone, which is faster."]
    return []
