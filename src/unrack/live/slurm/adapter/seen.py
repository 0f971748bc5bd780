"""The jobs of a reading one by one, members of arrays among them, and what each is to the driver."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from unrack.live.asks.words import is_marked
from unrack.live.driver.seen import Seen, SeenJob, SeenNode, Shown
from unrack.live.slurm.adapter.awaited import Awaited
from unrack.live.slurm.adapter.reservations import SeveralReservations
from unrack.live.slurm.adapter.together import broken, merged
from unrack.live.slurm.constraints import Reservation
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import Reading, SlurmJob

MOST_MEMBERS = 2_000
"""How many waiting members of one array are looked at; the others follow as these start."""
MAY_START = frozenset(
    {"", "None", "Priority", "Resources", "Prolog", "Cleaning", "BurstBufferResources", "BurstBufferStageIn"}
)
"""Why a job that was released may wait and start yet. All other reasons forbid its start, or a later one."""
BEFORE_IT = ("UnavailableNodes:", "May be reserved for other job")
"""What Slurm adds of nodes that a job of a higher priority is to have first, and of nodes that are down."""
NOT_OPEN = "a node of its place is down or drains"
"""Why a job that was let go does not start, where Slurm says no more than ``Resources``."""
HELD_BY_USER = "JobHeldUser"
"""Also what Slurm says of a job that a job_submit script has held, so that such a job has to be marked."""


class Take(StrEnum):
    """Which held jobs of its partitions the driver takes."""

    BY_ADMIN = "held-by-admin"  # those that an administrator has held, or the job_submit script, which marks them
    HELD = "held"  # held by any account


class Member(NamedTuple):
    """A job, or one member of an array: its key, and what Slurm says of it."""

    key: JobKey
    job: SlurmJob


def members(reading: Reading) -> Iterator[Member]:
    """The jobs of a reading one by one; of a long array the first that wait."""
    for job in reading.jobs:
        yield from _members(job, job.tasks_waiting[:MOST_MEMBERS])


def all_members(reading: Reading, known: Collection[str]) -> Iterator[Member]:
    """The jobs of a reading one by one, whatever the limits of arrays are; of a long array the first that wait.

    A heterogeneous job is one, with the key of its first component.

    Parameters
    ----------
    known
        Keys of members that are told of in any case: one that is left out would count as gone.
    """
    together: dict[int, list[SlurmJob]] = {}
    for job in reading.jobs:
        if job.het:
            together.setdefault(job.het, []).append(job)
            continue
        array, waiting = job.array or job.id, job.tasks_waiting
        others = [member for member in waiting[MOST_MEMBERS:] if f"{array}_{member}" in known]
        yield from _members(job, (*waiting[:MOST_MEMBERS], *others))
    nodes = [node.name for node in reading.nodes] if together else []
    for number, parts in together.items():
        yield Member(JobKey(number), merged(parts, nodes))


def _members(job: SlurmJob, waiting: Sequence[int]) -> Iterator[Member]:
    """A job; or, of a record of several members of an array, those that are named."""
    if job.member >= 0 and job.array:
        yield Member(JobKey(job.array, job.member), job)
    elif job.tasks_waiting:
        for member in waiting:
            yield Member(JobKey(job.array or job.id, member), replace(job, member=member, tasks_waiting=()))
    else:
        yield Member(JobKey(job.id), job)


def key_of(text: str) -> JobKey:
    """The key that was written as ``123`` or ``123_4``."""
    match = re.fullmatch(r"(\d{1,18})(?:_(\d{1,18}))?", text)
    assert match is not None, text
    return JobKey(int(match[1]), int(match[2]) if match[2] else -1)


def is_in(job: SlurmJob, partitions: Collection[str]) -> bool:
    """True if a job asks for partitions of the driver's, and for no other; of a heterogeneous one, a component."""
    return any(set(partitions).issuperset(part.partition.split(",")) for part in job.every)


def seen_of(reading: Reading, partitions: Collection[str], take: Take, known: Mapping[str, str]) -> Seen:
    """What the driver sees of a reading.

    Parameters
    ----------
    partitions, take
        Their jobs are the driver's, and which of these.
    known
        Keys as of :func:`all_members`, and the reservation of each so far.
    """
    nodes = tuple(SeenNode(node.name, node.takes_jobs) for node in reading.nodes)
    usable = frozenset(node.name for node in nodes if node.usable)
    closed, awaited = frozenset(node.name for node in reading.nodes if node.is_closed), Awaited(reading)
    reserved = SeveralReservations(reading)
    whole = (one for one in reading.reservations if "CoreIDs" not in one.fields)  # some of its cores are for others
    kept = [one for one in whole if one.end_s > reading.at_s]
    found = {}
    for member in all_members(reading, known):
        if member.job.dependency and member.job.waits and awaited.has_come(member.job):
            member = member._replace(job=replace(member.job, dependency=""))
        key = str(member.key)
        member = member._replace(job=reserved.in_one(member.job, known.get(key, "")))
        job = member.job
        shown = Shown.RUNS if job.runs else Shown.OVER
        if job.waits and shown == Shown.OVER:
            shown = Shown.HELD if job.is_held else Shown.FREE
        held = shown == Shown.HELD
        open_to = () if held else usable.difference(*_of_others(job, kept, reading.at_s))
        shut = shown == Shown.FREE and not closed.isdisjoint(job.required_nodes)
        found[key] = SeenJob(
            key, shown, (job.submit_s, member.key.id, member.key.member), member, is_in(job, partitions),
            held and take == Take.BY_ADMIN and job.reason != "JobHeldAdmin" and not_now(job, take, reading.at_s) != "",
            job.submit_s, job.start_s, job.end_s, job.restarts, job.limit_s, job.state,
            NOT_OPEN if shut else job.reason, shut or is_refused(job, open_to), job.required_nodes,
            frozenset(job.holds), job.completing, shown == Shown.OVER and _ran(job), bool(job.components), broken(job),
        )  # fmt: skip
    return Seen(reading.at_s, nodes, found, reading, reading.unreadable, reading.used)


def _of_others(job: SlurmJob, kept: Sequence[Reservation], at_s: float) -> Iterator[tuple[str, ...]]:
    """The nodes of reservations that a job does not ask for and would run into, if it waits, let go, for some nodes."""
    if job.waits and job.reason.startswith("ReqNodeNotAvail"):
        until_s = math.inf if job.limit_s is None else at_s + job.limit_s
        yield from (one.nodes for one in kept if one.name != job.reservation and one.start_s < until_s)


def _ran(job: SlurmJob) -> bool:
    return job.start_s > 0 and job.end_s >= job.start_s and (job.state != "CANCELLED" or bool(job.holds))


def is_refused(job: SlurmJob, usable: Collection[str] = ()) -> bool:
    """True if a job that was released waits for what forbids its start where it was placed, by Slurm's reason.

    Nodes that Slurm calls unavailable and that are ``usable``, as none are that are reserved for others, are those of
    jobs before it, in partitions that overlap.

    Examples
    --------
    >>> waits = SlurmJob(1, "PENDING", "Resources", priority=1, required_nodes=("n1",))
    >>> is_refused(waits), is_refused(replace(waits, reason="PartitionTimeLimit"))
    (False, True)
    >>> gone = replace(waits, reason="ReqNodeNotAvail, UnavailableNodes:n1")
    >>> is_refused(gone, {"n1"}), is_refused(gone, {"n2"})
    (False, True)
    """
    reason, _, more = job.reason.partition(",")
    if reason == "ReqNodeNotAvail" and more.strip().startswith(BEFORE_IT) and set(job.required_nodes) <= set(usable):
        return False
    return job.waits and reason not in MAY_START and not reason.startswith("JobHeld")


def lost_its_reservation(job: SlurmJob) -> bool:
    """True if Slurm holds a job as its reservation has ended, and no other was named since."""
    return not job.reservation and (job.state == "RESV_DEL_HOLD" or job.reason == "ReservationDeleted")


def not_now(job: SlurmJob, take: Take, at_s: float) -> str:
    """Why a held job is not to be started now; ``""``: it is."""
    by_user = job.reason == HELD_BY_USER and not job.restarts  # a requeued job is said to be held by its user
    if take == Take.BY_ADMIN and by_user and not is_marked(job.admin_comment):
        return "held by its user"
    if any(map(lost_its_reservation, job.every)):
        return "its reservation is gone: name another, or release it to run anywhere"
    if job.dependency:
        return "waits for other jobs"
    if job.eligible_s > at_s and not job.restarts:  # Slurm sets one whenever it requeues
        return "its begin time has not come"
    return ""
