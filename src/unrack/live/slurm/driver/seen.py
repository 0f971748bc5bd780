"""The jobs of a reading one by one, members of arrays among them, and what each is to the driver."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from unrack.live.slurm.asks.words import is_marked
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import Reading, SlurmJob

MOST_MEMBERS = 2_000
"""How many waiting members of one array are looked at; the others follow as these start."""
HELD_BY_USER = "JobHeldUser"
"""Also what Slurm says of a job that a job_submit script has held, so that such a job has to be marked."""


class Take(StrEnum):
    """Which held jobs of its partitions the driver takes."""

    BY_ADMIN = "held-by-admin"  # those that an administrator has held, or the job_submit script, which marks them
    HELD = "held"  # whoever held them


class Member(NamedTuple):
    """A job, or one member of an array: its key, and what Slurm says of it."""

    key: JobKey
    job: SlurmJob


def members(reading: Reading) -> Iterator[Member]:
    """The jobs of a reading one by one; of an array with a limit no more waiting members than may run."""
    running: dict[int, int] = {}
    for job in reading.jobs:
        if job.array and job.member >= 0 and not job.waits and job.runs:
            running[job.array] = running.get(job.array, 0) + 1
    for job in reading.jobs:
        if job.member >= 0 and job.array:
            yield Member(JobKey(job.array, job.member), job)
        elif job.tasks_waiting:
            room = MOST_MEMBERS
            if job.array_limit:
                room = max(0, job.array_limit - running.get(job.array or job.id, 0))
            for member in job.tasks_waiting[:room]:
                yield Member(JobKey(job.array or job.id, member), replace(job, member=member, tasks_waiting=()))
        else:
            yield Member(JobKey(job.id), job)


def key_of(text: str) -> JobKey:
    """The key that was written as ``123`` or ``123_4``."""
    match = re.fullmatch(r"(\d{1,18})(?:_(\d{1,18}))?", text)
    assert match is not None, text
    return JobKey(int(match[1]), int(match[2]) if match[2] else -1)


def is_another(job: SlurmJob, submit_s: int) -> bool:
    """True if a job only has the number of one that was submitted at ``submit_s``, s since 1970.

    A controller that is killed gives numbers again that it had not written down. Slurm moves the time of submission of
    a job that is requeued, and counts how often it was: one that never was has the time that it came with.
    """
    return not job.restarts and 0 < submit_s < job.submit_s


def is_in(job: SlurmJob, partitions: Collection[str]) -> bool:
    """True if a job asks for one of the driver's partitions, and for no other."""
    asked = job.partition.split(",")
    return len(asked) == 1 and asked[0] in partitions and not job.het


def not_now(job: SlurmJob, take: Take, at_s: float) -> str:
    """Why a held job is not to be started now; ``""``: it is."""
    by_user = job.reason == HELD_BY_USER and not job.restarts  # who was requeued is said to be held by its user
    if take == Take.BY_ADMIN and by_user and not is_marked(job.admin_comment):
        return "held by its user"
    if job.dependency:
        return "waits for other jobs"
    if job.eligible_s > at_s and not job.restarts:  # Slurm sets one whenever it requeues
        return "its begin time has not come"
    return ""
