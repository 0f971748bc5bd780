"""Jobs that ask for several reservations (``--reservation=a,b``), of which Slurm takes the first that will do."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from unrack.live.slurm.adapter.together import for_each
from unrack.live.slurm.constraints import Reservation
from unrack.live.slurm.reading import Reading, SlurmJob


class SeveralReservations:
    """What reservations have for jobs, by a reading."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self.at_s = reading, reading.at_s
        self.known = {one.name: one for one in reading.reservations}

    @cached_property
    def cores(self) -> dict[str, tuple[int, int]]:
        """Node → how many of its cores no job holds, and how many it has."""
        free = {node.name: node.cores if node.usable else 0 for node in self.reading.nodes}
        for job in self.reading.jobs:
            for name, held in job.holds.items():
                free[name] = free.get(name, 0) - held.cores
        return {node.name: (free[node.name], node.cores) for node in self.reading.nodes}

    def in_one(self, job: SlurmJob, before: str = "") -> SlurmJob:
        """A job in the first of its reservations in which it can start at once.

        If it can in none, it is the one of ``before``, or the first of those that open first. One that has nodes, by
        name or as it runs, is in the first that has them. Slurm itself shows all of them until it is told of one.
        """
        there = [self.known[name] for name in job.reservation.split(",") if name in self.known]
        if "," not in job.reservation or not there:
            return job
        name = min(there, key=lambda one: (*self._against(one, job), one.name != before)).name
        job = for_each(job, lambda part: replace(part, reservation=name))
        return replace(job, reservation=name, reserved_in=name)

    def _against(self, one: Reservation, job: SlurmJob) -> tuple[bool, bool, float, bool]:
        """What speaks against a reservation: it has not its nodes, is over too soon, begins later, or has no room."""
        own, flexible = set(job.holds) or set(job.required_nodes), not one.opens_s
        elsewhere = bool(one.nodes) and not flexible and not own.issubset(one.nodes)
        begins_s = max(one.opens_s, self.at_s)
        ends = flexible or begins_s + (job.limit_s or 0) <= one.end_s
        each = -(-job.cpus // max(job.nodes_min, 1))
        nodes = [self.cores[name] for name in one.nodes if name in self.cores]
        room = sum(free >= (cores if job.exclusive else each) for free, cores in nodes)
        return elsewhere, not ends, begins_s, bool(one.nodes) and room < job.nodes_min
