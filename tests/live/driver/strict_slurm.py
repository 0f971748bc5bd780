"""A Slurm in memory that has arrays, limits and reservations, and notes who was released against them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fake_slurm import FakeJob, FakeSlurm, HandClock

from unrack.live.slurm.constraints import Partition, Reservation
from unrack.live.slurm.orders import JobKey, Order, OrderAnswer
from unrack.live.slurm.reading import Licence, Reading
from unrack.slurm_text.tres import licences


class StrictSlurm(FakeSlurm):
    """The fake, with members of arrays in one record until one of them is touched, as Slurm has them.

    ``asked``: each reason for which it did not start what was released, in order: job, reason.
    """

    def __init__(self, clock: HandClock, **more: Any) -> None:
        super().__init__(clock, **more)
        self.partitions = {"ours": Partition("ours", said="at first")}
        self.reservations: tuple[Reservation, ...] = ()
        self.licences: dict[str, Licence] = {}
        self.arrays: dict[int, tuple[int, int]] = {}  # job → its array and which member it is
        self.members: dict[tuple[int, int], int] = {}
        self.throttles: dict[int, int] = {}
        self.touched: set[int] = set()
        self.limit: Callable[[FakeJob], str] = lambda job: ""
        self.asked: list[tuple[int, str]] = []
        self.qos = ""

    def submit_array(self, members: int, throttle: int = 0, **more: Any) -> list[int]:
        numbers = [self.submit(**more) for _ in range(members)]
        for member, number in enumerate(numbers):
            self.arrays[number] = numbers[-1], member
            self.members[numbers[-1], member] = number
        self.throttles[numbers[-1]] = throttle
        return numbers

    def number_of(self, key: JobKey) -> int:
        if key.member < 0:
            return key.id
        return self.members.get((key.id, key.member), 0)

    def carry_out(self, orders: Sequence[Order]) -> list[OrderAnswer]:
        self.touched |= {self.number_of(order.job) for order in orders}
        return super().carry_out(orders)

    def _obey(self, order: Order) -> str:
        return super()._obey(replace(order, job=JobKey(self.number_of(order.job))))

    def read(self) -> Reading:
        reading = super().read()
        shown, alike = [], dict[int, list[int]]()
        for job in reading.jobs:
            array, member = self.arrays.get(job.id, (0, -1))
            if array and job.waits and job.id not in self.touched and job.priority == 0:
                alike.setdefault(array, []).append(member)
            elif array or self.qos:
                limit = self.throttles.get(array, 0)
                shown.append(replace(job, qos=self.qos, array=array, member=member, array_limit=limit))
            else:
                shown.append(job)
        jobs = {job.id: job for job in reading.jobs} if alike else {}
        for array, members in alike.items():
            record, limit = jobs[self.members[array, members[0]]], self.throttles[array]
            shown.append(
                replace(record, id=array, array=array, tasks_waiting=tuple(members), array_limit=limit, qos=self.qos)
            )
        return Reading(reading.at_s, reading.nodes, tuple(shown), self.licences, self.partitions, self.reservations)

    def refused(self, job: FakeJob) -> str:
        """Why a job that was released is not started, whatever is free."""
        if job.dependency:
            kind, _, awaited = job.dependency.partition(":")
            state = self.jobs[int(awaited)].state
            if state in ("PENDING", "RUNNING") or (kind == "afterok" and state != "COMPLETED"):
                return "Dependency"
            job.dependency = ""
        array = self.arrays.get(job.id, (0, -1))[0]
        running = sum(
            one.state == "RUNNING" for one in self.jobs.values() if self.arrays.get(one.id, (0, 0))[0] == array
        )
        if array and 0 < self.throttles[array] <= running:
            return "JobArrayTaskLimit"
        whys = [self.refused_in(name, job) for name in job.partition.split(",")]
        if all(whys):
            return whys[0]
        if job.het:  # it was placed by the nodes that it must not have
            return self.limit(job)
        there = [self.nodes[name] for name in job.required if name in self.nodes]
        wanted = [set(one.split("&")) for one in job.features.split("|")]
        if set(job.required) & set(job.excluded) or not all(
            any(way <= {*node.features, ""} for way in wanted) for node in there
        ):
            return "BadConstraints"
        until_s = self.clock.wall_s + job.limit_s
        named = job.reservation.split(",")[:1]  # nodes that are named are tried in the first of several alone
        if why := self.refused_inside(named[0], job, until_s):
            return why
        running = [one for one in self.jobs.values() if one.state == "RUNNING"]
        for name, count in job.licences.items():
            for at_s in [self.clock.wall_s, *(one.start_s for one in self.reservations)]:
                if not self.clock.wall_s <= at_s < until_s:
                    continue
                then = [one for one in running if one.start_us / 1e6 + one.limit_s > at_s - self.clock.origin_s]
                used = sum(one.licences.get(name, 0) for one in then)
                for one in self.reservations:
                    kept = licences(one.fields.get("Licenses", "")).get(name, 0)
                    if one.name not in named and one.start_s <= at_s < one.end_s:
                        mine = sum(own.licences.get(name, 0) for own in then if own.reservation == one.name)
                        used += max(0, kept - mine)
                if name not in self.licences or used + count > self.licences[name].total:
                    return "Licenses"
        if job.reservation and not {one.name for one in self.reservations}.intersection(named):
            return "ReservationDeleted"
        return self.limit(job)

    def refused_inside(self, name: str, job: FakeJob, until_s: float) -> str:
        """Why a job is not started in a reservation, or outside of all, on its nodes; ``""``: it is."""
        for one in self.reservations:
            if one.name == name:
                if "FLEX" in one.fields.get("Flags", ""):
                    continue
                if not one.start_s <= self.clock.wall_s or until_s > one.end_s:
                    return "Reservation"
                if one.nodes and not set(job.required) <= set(one.nodes):
                    return "BadConstraints"
            elif one.start_s < until_s and one.end_s > self.clock.wall_s and set(one.nodes) & set(job.required):
                return "ReqNodeNotAvail"
        return ""

    def refused_in(self, name: str, job: FakeJob) -> str:
        """Why a job is not started in a partition; ``""``: nothing forbids it."""
        if (partition := self.partitions.get(name)) is not None:
            if partition.forbids_starts:
                return "PartitionDown"
            if reasons := list(partition.refusals(job.limit_s, job.nodes, job.cores)):
                return reasons[0]
        outside = any(name not in self.nodes[one].partitions for one in job.required if one in self.nodes)
        return "BadConstraints" if outside else ""

    def schedule(self) -> None:
        """Start what is released, allowed and has room, one by one, for the limits of arrays."""
        released = [job for job in self.jobs.values() if job.state == "PENDING" and job.priority]
        stuck = self.stuck
        for job in released:
            if reason := next(filter(None, map(self.refused, self.together(job.id))), ""):
                self.asked.append((job.id, reason))
                self.dirty |= job.reason != reason
                job.reason = reason
            else:
                mine = {part.id for part in self.together(job.id)}
                self.stuck = stuck | {other.id for other in released if other.id not in mine}
                super().schedule()
        self.stuck = stuck

    def reserve(self, start_s: float, end_s: float, *nodes: str, **fields: str) -> None:
        """Reserve nodes, from and to so many s from now."""
        at = self.clock.wall_s
        name = f"r{len(self.reservations)}"
        self.reservations += (Reservation(name, int(at + start_s), int(at + end_s), nodes, fields),)
        self.dirty = True

    def key(self, number: int) -> str:
        """What the driver calls a job."""
        array, member = self.arrays.get(number, (0, -1))
        return f"{array}_{member}" if array else str(number)

    def run_on(self, number: int) -> set[str]:
        """All nodes on which a job has run."""
        return {node for _, nodes in self.jobs[number].starts for node in nodes}
