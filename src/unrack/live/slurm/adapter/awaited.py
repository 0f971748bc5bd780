"""Whether what a job waits for has come about, by how other jobs are seen to stand.

Slurm itself looks at what a *held* job waits for once a minute, and at that of one that is let go in each of its
cycles. So jobs that follow each other would lose a minute each if only Slurm's word counted. What is believed here too
early costs a start that Slurm does not allow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.workload.formats.asks.dependencies import SINGLETON, WaitClause, parts_of

_AWAITED = re.compile(r"(\d{1,18})(?:_(\*|\d{1,18}))?")
_FAILED = "(failed)"
"""What Slurm adds to what will never come about."""


class Awaited:
    """What the jobs of a reading wait for."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def has_come(self, job: SlurmJob) -> bool:
        """True if a job waits for no other, or for what all has come about; if that is not known, False."""
        if _FAILED in job.dependency and "?" not in job.dependency:
            return False
        return all(any(self._is_met(way, job) for way in ways) for ways in parts_of(job.dependency))

    def _is_met(self, way: WaitClause, job: SlurmJob) -> bool:
        if way.kind == SINGLETON:
            return not job.array and min(self._earliest.get((job.user, job.name), job.id), job.id) == job.id
        if way.kind == "aftercorr":  # each member for that of the same number
            ids = [f"{name.removesuffix('_*')}_{job.member}" for name in way.ids]
            way = WaitClause("afterok", tuple(ids if job.array else ()))
        return bool(way.ids) and all(_stands(way.kind, self._named(one)) for one in way.ids)

    def _named(self, name: str) -> list[SlurmJob]:
        """The jobs that are meant: one, or all of an array or of a heterogeneous job; none: they are not known."""
        match = _AWAITED.fullmatch(name)
        found = self._by_number.get(int(match[1]), []) if match else []
        return [one for one in found if match and match[2] in (None, "*", str(one.member))]

    @cached_property
    def _by_number(self) -> Mapping[int, list[SlurmJob]]:
        found: dict[int, list[SlurmJob]] = {}
        for job in self._reading.jobs:
            for number in {job.id, job.array or job.id, job.het or job.id}:
                found.setdefault(number, []).append(job)
        return found

    @cached_property
    def _earliest(self) -> Mapping[tuple[str, str], int]:
        """User and name → the lowest number of their jobs that wait; -1: one runs."""
        found: dict[tuple[str, str], int] = {}
        for job in self._reading.jobs:
            if job.runs or job.waits:
                owner, number = (job.user, job.name), -1 if job.runs else job.id
                found[owner] = min(found.get(owner, number), number)
        return found


def _stands(kind: str, jobs: list[SlurmJob]) -> bool:
    """True if jobs stand as one waits for; False for kinds that only Slurm can tell."""
    if not jobs:
        return False
    if kind == "after":
        return all(not job.waits and not job.tasks_waiting for job in jobs)
    over = not any(job.waits or job.runs for job in jobs)
    well = all(job.state == "COMPLETED" for job in jobs)
    return over and {"afterany": True, "afterok": well, "afternotok": not well}.get(kind, False)
