"""The jobs of a reading as rows of a table of jobs: those that run, those that wait, and those that wait for more."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from unrack.cluster.spec import Cluster
from unrack.live.driver.contract import Problem
from unrack.live.slurm.adapter.reservations import SeveralReservations
from unrack.live.slurm.adapter.seen import HELD_BY_USER, MOST_MEMBERS, Member, members
from unrack.live.slurm.jobs import COUNTED, GPUS, JobReading, job_of, odd, said
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.live.slurm.snapshot.standing import standing_of
from unrack.slurm_text.hostlists import compress
from unrack.units import SECOND_US
from unrack.workload.formats.asks.dependencies import parts_of
from unrack.workload.job import Job
from unrack.workload.site.settled import named_in_vain
from unrack.workload.standing import said_on

_ELSE = re.compile(r"(?i)held|dependency|begintime|reservation|deadline")
"""Reasons of Slurm that have to do with something else than what is free."""
_REASON = re.compile(r"[A-Za-z0-9_]{0,60}")
APART = "spread"
"""The resource that keeps the tasks of a group apart."""
MOST_APART, MOST_WAITING = 8, 60
"""As many jobs may have tasks that are kept apart, and as many wait: plans with more of them take minutes."""
WORDS = (
    "partition", "account", "qos", "constraint", "req_nodes", "exc_nodes", "reservation", "nice", "dependency", "het",
    "array", "array_limit",
)  # fmt: skip
"""Columns of what jobs say of where and after which others they may run; empty ones are left out."""
_WAITS = "Waits for something else ({})"
_SOON_S = 1
"""How much longer a job that is past its limit, or being cleared up, is taken to hold its nodes."""


class SnapshotRow(NamedTuple):
    """A job of a snapshot."""

    key: str  # what Slurm calls it: ``123``, or ``123_4`` of a member of an array
    job: Job  # what it asks
    # on, ran_s: of a job that runs: the nodes of its tasks, and for how long it has run; ``""`` and 0 of others
    on: str
    ran_s: float
    submit_s: float | None  # when it joins the queue, s from now; ``None``: not as long as it waits for something else
    waits_for: str  # what else it waits for; ``""``: for nothing but its turn
    slurm: SlurmJob  # what Slurm says of it
    group: int = 0  # its own group among those with tasks kept apart, each on a node of its own; 0: none

    @property
    def runs(self) -> bool:
        """True if it runs."""
        return bool(self.on)


class Rows(NamedTuple):
    """The rows of a snapshot, how many jobs have tasks that are kept apart, and what was left out, a sentence each."""

    rows: tuple[SnapshotRow, ...]
    groups: int
    notes: tuple[str, ...]


def rows_of(
    reading: Reading,
    cluster: Cluster,
    how: JobReading,
    *,
    partitions: Collection[str] | None = None,
    held_by_admin: bool = False,
    counted: bool = False,
) -> Rows:
    """The jobs that run on a cluster or wait for it, those that run first, then in order of their submission.

    Parameters
    ----------
    reading
        What Slurm says.
    cluster
        Its nodes, with names.
    how
        How jobs are read.
    partitions
        Only waiting jobs that may run in one of them; those that run on their nodes are of any partition.
    held_by_admin
        Whether jobs that an administrator or a plugin holds wait in the queue, as where unrack schedules.
    counted
        Whether jobs that run count for limits, of their account, QOS and partition.
    """
    tally: dict[str, int] = {}
    runs, waits, reserved = [], [], SeveralReservations(reading)
    at_once = {job.array or job.id: job.array_limit for job in reading.jobs if job.array_limit}
    for record in reading.jobs:
        _count(tally, "Waits as a later member of a long array; left out", len(record.tasks_waiting[MOST_MEMBERS:]))
    for member in members(reading):
        job = replace(reserved.in_one(member.job), array_limit=at_once.get(member.key.id, 0))
        member = member._replace(job=job)
        if job.runs:
            row = _running(member, reading, cluster, how, tally)
            if row is not None:
                runs.append(_counting(row, reading) if counted else row)
        elif job.waits and (partitions is None or set(partitions) & set(job.partition.split(","))):
            waits.append(_waiting(member, reading, cluster, how, held_by_admin, tally))
    waiting = sorted((row for row in waits if row is not None), key=lambda row: (row.slurm.submit_s, _number(row.key)))
    waiting = _after_others(runs, waiting, tally)
    soon_s = 1 / SECOND_US  # all together, once what runs is there
    first = [row if row.submit_s is None else row._replace(submit_s=max(row.submit_s, soon_s)) for row in waiting]
    first, groups = _apart(_together(first, tally), cluster, tally)
    notes = [f"{what}: {count} job{'s' * (count != 1)}." for what, count in tally.items() if count]
    return Rows((*sorted(runs, key=lambda row: _number(row.key)), *first), groups, tuple(notes))


def _together(rows: list[SnapshotRow], tally: dict[str, int]) -> list[SnapshotRow]:
    """The jobs that wait, of which components of one join the queue together, or none does."""
    of: dict[int, list[SnapshotRow]] = {}
    for row in rows:
        if row.slurm.het:
            of.setdefault(row.slurm.het, []).append(row)
    made = []
    for row in rows:
        parts = of.get(row.slurm.het, ())
        if len(parts) < row.slurm.het_size:
            _count(tally, "Left out, as not all components of its job are here")
            continue
        if parts:
            waits_for = next((part.waits_for for part in parts if part.submit_s is None), "")
            latest_s = max(part.submit_s or 0.0 for part in parts)
            row = row._replace(submit_s=None if waits_for else latest_s, waits_for=waits_for or row.waits_for)
        made.append(row)
    return made


def _after_others(runs: list[SnapshotRow], waiting: list[SnapshotRow], tally: dict[str, int]) -> list[SnapshotRow]:
    """The jobs that wait, with those in the queue that wait for jobs which run or are in the queue."""
    there, made, more = {row.key for row in runs}, list(waiting), True
    there |= {row.key for row in waiting if row.submit_s is not None}
    while more:
        more = False
        for place, row in enumerate(made):
            ways = [way for met in parts_of(row.slurm.dependency) for way in met]
            if row.waits_for == OTHERS and all(way.ids and there.issuperset(way.ids) for way in ways):
                made[place], more = row._replace(submit_s=0.0, waits_for=""), True
                there.add(row.key)
                tally[_WAITS.format(OTHERS)] -= 1
    return made


def _apart(rows: list[SnapshotRow], cluster: Cluster, tally: dict[str, int]) -> tuple[list[SnapshotRow], int]:
    """The rows, with groups for those that are to have several nodes and could have fewer; and how many groups."""
    places = []
    for place, row in enumerate(rows):
        demand = row.job.demand
        two = (cluster.cores >= 2 * demand.cores) & (cluster.memory_mb >= 2 * demand.memory_mb)
        if demand.tasks > 1 and row.slurm.nodes_min == demand.tasks and bool(two.any()) and row.submit_s is not None:
            places.append(place)
    if len(places) > MOST_APART or (places and len(rows) > MOST_WAITING):
        tally["Asks for several nodes, and may have fewer here, as the queue is long"] = len(places)
        return rows, 0
    made = list(rows)
    for group, place in enumerate(places, 1):
        made[place] = rows[place]._replace(group=group)
    return made, len(places)


def table_row(row: SnapshotRow, at_s: float) -> dict[str, Any]:
    """A row as columns of a CSV; what Slurm says beside them has names that begin with ``slurm_``."""
    job, slurm, demand = row.job, row.slurm, row.job.demand
    limit_s = job.request_us / SECOND_US
    run_s = max(limit_s, row.ran_s + _SOON_S) if row.runs else limit_s
    if slurm.completing:
        run_s = row.ran_s + _SOON_S
    devices = demand.devices
    return {
        "id": row.key,
        "submit": None if row.submit_s is None else round(row.submit_s, 6),
        "run": run_s,
        "request": run_s,
        "tasks": demand.tasks,
        "cores": demand.cores,
        "memory": demand.memory_mb,
        "priority": job.priority,
        "user": job.user or None,
        "app": job.app or None,
        "on": row.on or None,
        "ran": row.ran_s if row.runs else None,
        **{f"{GPUS}.{name}": amount for name, amount in devices.get(GPUS, {}).items()},
        **({f"{APART}.group": row.group, f"{APART}.most": 1} if row.group else {}),
        **{f"{COUNTED}.{name}": amount for name, amount in devices.get(COUNTED, {}).items()},
        **{name: text or None for name, text in job.said.items()},
        "nice": slurm.nice or None,
        "het": str(slurm.het) if slurm.het and not row.runs else None,
        "array": row.key.partition("_")[0] if slurm.array_limit else None,
        "array_limit": str(slurm.array_limit) if slurm.array_limit else None,
        "dependency": None if row.runs or row.waits_for else slurm.dependency or None,
        "waits_for": row.waits_for or None,
        "waited_s": max(0, round(at_s - slurm.submit_s)) if slurm.submit_s and not row.runs else None,
        "slurm_state": said(slurm.state),
        "slurm_reason": _reason(slurm),
        "slurm_partition": said(slurm.partition),
        "slurm_account": said(slurm.account),
        "slurm_limit_s": slurm.limit_s,
        "slurm_submit_s": slurm.submit_s or None,
        "slurm_start_s": slurm.start_s or None,
    }


def _running(
    member: Member, reading: Reading, cluster: Cluster, how: JobReading, tally: dict[str, int]
) -> SnapshotRow | None:
    job = member.job
    found = standing_of(job, cluster.names, cluster.number_of, cluster, how)
    if found is None:
        if not job.holds:
            _count(tally, "Runs, and Slurm does not say where; left out")
        return None
    if found.less_mb:
        _count(tally, "Has more memory on some of its nodes than is said here")
    ran_s = max(0.0, reading.at_s - job.start_s) if job.start_s else 0.0
    names = said_on(list(found.tasks), list(found.tasks.values()))
    return SnapshotRow(str(member.key), found.job, compress(names), round(ran_s, 3), 0.0, "", job)


def _counting(row: SnapshotRow, reading: Reading) -> SnapshotRow:
    """A job that runs, with the words by which it counts for limits."""
    job, held = row.slurm, row.slurm.holds
    inside = all(job.partition in node.partitions for node in reading.nodes if node.name in held)
    words = {"account": job.account, "qos": job.qos, "partition": job.partition if inside else ""}
    return row._replace(job=replace(row.job, said=words))


def _waiting(
    member: Member, reading: Reading, cluster: Cluster, how: JobReading, held_by_admin: bool, tally: dict[str, int]
) -> SnapshotRow | None:
    job = member.job
    asked = job_of(job, cluster, how, key=member.key)
    if isinstance(asked, Problem):
        _count(tally, f"Left out, as {asked.why}")
        return None
    for sentence in odd(job, cluster, how):
        _count(tally, f"Not kept of a job: {sentence}")
    vain = named_in_vain(asked, cluster)
    if vain == "exc_nodes":  # those that are away
        asked, vain = replace(asked, said={**asked.said, vain: ""}), ""
    waits_for = f"its {vain}" if vain else waits_for_more(job, reading.at_s, held_by_admin)
    submit_s: float | None = 0.0
    if waits_for:
        _count(tally, _WAITS.format(waits_for))
        submit_s = job.eligible_s - reading.at_s if waits_for == BEGIN else None
    return SnapshotRow(str(member.key), asked, "", 0.0, submit_s, waits_for, job)


BEGIN, OTHERS = "its begin time", "other jobs"


def waits_for_more(job: SlurmJob, at_s: float, held_by_admin: bool = False) -> str:
    """What a waiting job waits for beside its turn; ``""``: nothing."""
    if job.is_held:
        if not held_by_admin or job.reason == HELD_BY_USER:
            return "its release"
    elif job.reservation and job.reason == "Reservation":
        pass  # the site tells of it
    elif _ELSE.search(job.reason) and "begintime" not in job.reason.lower():
        return OTHERS if job.dependency else _reason(job)
    if job.dependency:
        return OTHERS
    return BEGIN if job.eligible_s > at_s else ""


def _reason(job: SlurmJob) -> str:
    return job.reason if _REASON.fullmatch(job.reason) else ""


def _count(tally: dict[str, int], what: str, more: int = 1) -> None:
    tally[what] = tally.get(what, 0) + more


def _number(key: str) -> tuple[int, ...]:
    return tuple(int(part) for part in key.split("_"))


def columns_of(rows: Iterator[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns; amounts that a row does not have are 0."""
    listed = list(rows)
    names = list(dict.fromkeys(name for row in listed for name in row))
    columns = {name: [row.get(name, None if name in WORDS else 0) for row in listed] for name in names}
    return {name: column for name, column in columns.items() if name not in WORDS or any(column)}
