"""A Slurm in memory: nodes, held jobs, orders; it starts what is released where it is told to, and counts starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unrack.errors import ClusterError
from unrack.ledger.lease import Lease
from unrack.live.driver.clock import Clock
from unrack.live.driver.contract import Problem
from unrack.live.driver.portable import Names
from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.state.epoch import Beginning
from unrack.live.slurm.adapter.seen import Take
from unrack.live.slurm.jobs import JobReading, devices_of, odd, stands, words_of
from unrack.live.slurm.machines import machines_of
from unrack.live.slurm.orders import (
    AskAgain,
    HoldBack,
    JobKey,
    Lengthen,
    Order,
    OrderAnswer,
    Place,
    Release,
    RequeueHeld,
)
from unrack.live.slurm.reading import NodeShare, Reading, SlurmJob, SlurmNode
from unrack.workload.job import Demand, Job

ORIGIN_S = 1_700_000_000
IDLE = frozenset({"IDLE"})


PREEMPTS = '''\
from unrack.policy import Code, Need, Reason, Requeue, Start, Traits


class Preempts:
    """Starts who came last first, and stops who runs for whoever has come since, seldom."""

    name = "preempts"
    traits = Traits(places=frozenset({Need.DEVICES, Need.COUNTED}), stepwise=True)

    def decide(self, view, memory, now):
        waiting = [job.index for job in view.waiting_jobs()][::-1]
        for job in waiting:
            start = Start.on(view.candidates(job))
            if start is not None:
                return [start], memory
        running = view.running_jobs.tolist()
        if waiting and running and min(running) < max(waiting) and now - (memory or -4_000_000) >= 4_000_000:
            return [Requeue(min(running), Reason(Code.PREEMPTED))], now + 1
        return [], memory
'''
"""A policy that stops jobs, as the text of a file."""


class Killed(BaseException):
    """The driver is killed here."""


REQUEUED_US = 121_000_000
"""How long Slurm does not start again who was requeued, unless it is told to."""


class HandClock(Clock):
    """Time that goes on by hand."""

    def __init__(self) -> None:
        self.origin_s = float(ORIGIN_S)
        self.at_us = 0

    def now(self) -> int:
        return self.at_us

    @property
    def wall_s(self) -> float:
        return self.origin_s + self.at_us / 1e6


@dataclass
class FakeJob:
    """A job of the fake."""

    id: int
    nodes: int
    cores: int
    run_s: float
    limit_s: int
    comment: str = ""
    memory_mb: int = 0
    gpus: int = 0
    partition: str = "ours"
    state: str = "PENDING"
    priority: int = 0
    reason: str = "JobHeldAdmin"
    submit_s: int = ORIGIN_S
    start_us: int = -1
    end_us: int = -1
    required: tuple[str, ...] = ()
    features: str = ""
    excluded: tuple[str, ...] = ()
    reservation: str = ""
    licences: dict[str, int] = field(default_factory=dict)
    dependency: str = ""
    user: str = "u"
    nice: int = 0
    ran_in: str = ""
    held_on: tuple[str, ...] = ()
    restarts: int = 0
    completing: bool = False
    begin_us: int = -1
    killed_s: int = 0
    het: int = 0
    component: int = 0
    starts: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    lengthened: list[tuple[int, int]] = field(default_factory=list)


class FakeSlurm:
    """The fake: a client, and the cluster behind it."""

    account = ""  # that of all jobs

    def __init__(self, clock: HandClock, nodes: int = 4, cores: int = 4, memory_mb: int = 1000) -> None:
        self.clock = clock
        self.nodes = {
            f"n{i + 1}": SlurmNode(
                f"n{i + 1}", cores, memory_mb, words=frozenset({"IDLE"}), partitions=frozenset({"ours", "other"})
            )
            for i in range(nodes)
        }
        self.jobs: dict[int, FakeJob] = {}
        self.dirty = True
        self.unreachable = 0
        self.refuse: dict[int, int] = {}
        self.stuck: set[int] = set()
        self.commands = 0
        self.saved: dict[int, FakeJob] = {}
        self.comes_back_us = 0
        self.boots = 1
        self.stops = False  # whether jobs are stopped at their limits

    # --- as a client ----------------------------------------------------------------------------------------------

    def changed(self) -> bool:
        self._reach()
        return self.dirty

    def read(self) -> Reading:
        self._reach()
        self.dirty = False
        return Reading(self.clock.wall_s, tuple(self.nodes.values()), tuple(map(self._shown, self.jobs.values())))

    def booted_s(self) -> int:
        self._reach()
        return self.boots

    def carry_out(self, orders: Sequence[Order]) -> list[OrderAnswer]:
        self._reach()
        answers = []
        for order in orders:
            self.commands += 1
            answers.append(OrderAnswer(order, self._obey(order)))
        self.dirty = True
        self.schedule()
        return answers

    def _reach(self) -> None:
        if self.unreachable:
            self.unreachable -= 1
            raise UnreachableError("no answer")

    def _obey(self, order: Order) -> str:
        job = self.jobs.get(order.job.id)
        if job is None:
            return "Invalid job id specified"
        if self.refuse.get(job.id, 0):
            self.refuse[job.id] -= 1
            return "Requested node configuration is not available"
        if isinstance(order, Lengthen):
            for part in self.together(job.id):
                if part.state not in ("PENDING", "RUNNING"):
                    return "Job/step already completing or completed"
                part.limit_s = order.limit_s
                part.lengthened.append((self.clock.at_us, order.limit_s))
            return ""
        if job.het:
            return self._obey_together(job, order)
        if isinstance(order, RequeueHeld):
            if job.state != "RUNNING":
                return "Job is pending execution"
            self.requeue(job.id, held=True)
        elif job.state != "PENDING":
            return "Job is no longer pending execution"
        elif isinstance(order, Place):
            job.required = order.nodes
            job.partition = order.partition or job.partition
            job.reservation = order.reservation or job.reservation
            job.features = "" if order.anywhere else job.features
            job.begin_us = -1 if order.at_once else job.begin_us
            job.limit_s = job.limit_s if order.limit_s is None else order.limit_s
        elif isinstance(order, AskAgain):
            job.required, job.partition = order.nodes or job.required, order.partition or job.partition
            job.features = order.features or job.features
        elif isinstance(order, Release):
            job.priority, job.reason = 100, "BeginTime" if job.begin_us > self.clock.at_us else "None"
        else:
            assert isinstance(order, HoldBack)
            job.priority, job.reason, job.required = 0, "JobHeldAdmin", ()
        return ""

    def _obey_together(self, job: FakeJob, order: Order) -> str:
        """An order for a heterogeneous job: its first component stands for all, but each has a place of its own."""
        parts = self.together(job.id)
        if isinstance(order, RequeueHeld):
            if job.state != "RUNNING":
                return "Job is pending execution"
            self.requeue(job.id, held=True)
            return ""
        for part, (nodes, partition) in zip(parts, getattr(order, "parts", ()), strict=False):
            if part.state != "PENDING":
                return "Job is no longer pending execution"
            part.partition = partition or part.partition
            place = isinstance(order, Place)
            part.excluded = tuple(name for name in self.nodes if name not in nodes) if place else nodes
        for part in [part for part in parts if part.state == "PENDING"]:
            if isinstance(order, Place) and order.at_once:
                part.begin_us = -1
                part.limit_s = part.limit_s if order.limit_s is None else order.limit_s
            if isinstance(order, Release):
                part.priority, part.reason = 100, "BeginTime" if part.begin_us > self.clock.at_us else "None"
            elif isinstance(order, HoldBack):
                part.priority, part.reason = 0, "JobHeldAdmin"
        return ""

    def together(self, number: int) -> list[FakeJob]:
        """All components of the job that a component is of; of a job by itself that."""
        het = self.jobs[number].het
        return [job for job in self.jobs.values() if job.het == het] if het else [self.jobs[number]]

    def _shown(self, job: FakeJob) -> SlurmJob:
        def second(at_us: int) -> int:
            return 0 if at_us < 0 else int(ORIGIN_S + at_us / 1e6)

        return SlurmJob(
            job.id, job.state, job.reason, user=job.user, account=self.account, partition=job.partition,
            comment=job.comment, priority=job.priority, submit_s=job.submit_s, start_s=second(job.start_us),
            end_s=second(job.end_us), limit_s=job.limit_s, nodes_min=job.nodes, tasks=job.nodes,
            cpus=job.nodes * job.cores, cpus_per_task=job.cores, node_memory_mb=job.memory_mb,
            required_nodes=job.required, holds={name: NodeShare(job.cores, job.memory_mb) for name in job.held_on},
            restarts=job.restarts, completing=job.completing, eligible_s=second(job.begin_us), features=job.features,
            excluded_nodes=job.excluded, reservation=job.reservation, licences=job.licences,
            dependency=job.dependency, nice=job.nice, het=job.het, component=job.component, gres={"gpu": job.gpus},
            het_size=len(self.together(job.id)) if job.het else 0,
        )  # fmt: skip

    # --- the cluster ------------------------------------------------------------------------------------------------

    def submit(self, nodes: int = 1, cores: int = 1, run_s: float = 5, limit_s: int = 10, **more: Any) -> int:
        number = len(self.jobs) + 1
        submit_s = int(self.clock.wall_s)
        self.jobs[number] = FakeJob(number, nodes, cores, run_s, limit_s, submit_s=submit_s, **more)
        self.dirty = True
        return number

    def submit_together(self, *parts: dict[str, Any], **more: Any) -> int:
        """A heterogeneous job; the number of its first component."""
        numbers = [self.submit(**{**more, **part}) for part in parts]
        for component, number in enumerate(numbers):
            self.jobs[number].het, self.jobs[number].component = numbers[0], component
        return numbers[0]

    def free(self, name: str) -> tuple[int, int, int]:
        node = self.nodes[name]
        running = [job for job in self.jobs.values() if name in job.held_on]
        gpus = node.gres.get("gpu", 0) - sum(job.gpus for job in running)
        memory_mb = node.memory_mb - sum(job.memory_mb for job in running)
        return node.cores - sum(job.cores for job in running), memory_mb, gpus

    def fits(self, job: FakeJob, name: str) -> bool:
        cores, mb, gpus = self.free(name)
        return self.nodes[name].usable and cores >= job.cores and mb >= job.memory_mb and gpus >= job.gpus

    def schedule(self) -> None:
        """Start what is released and has room."""
        if self.clock.at_us < self.comes_back_us:
            return
        for job in self.jobs.values():
            if job.state != "PENDING" or not job.priority or job.id in self.stuck or job.begin_us > self.clock.at_us:
                continue
            if job.het:
                self._start_together(job)
                continue
            names = job.required or tuple(name for name in self.nodes if self.fits(job, name))[: job.nodes]
            if len(names) == job.nodes and all(name in self.nodes and self.fits(job, name) for name in names):
                self._launch([job], [tuple(names)])

    def _start_together(self, job: FakeJob) -> None:
        """Start all components of a job, each on nodes that no other has, or none."""
        parts, places = self.together(job.id), list[tuple[str, ...]]()
        for part in parts:
            taken = {name for names in places for name in names}.union(part.excluded)
            names = tuple(name for name in self.nodes if name not in taken and self.fits(part, name))[: part.nodes]
            waits = part.state != "PENDING" or not part.priority or part.begin_us > self.clock.at_us
            if len(names) < part.nodes or waits or part.id in self.stuck:
                return
            places.append(names)
        self._launch(parts, places)

    def _launch(self, parts: Sequence[FakeJob], places: Sequence[tuple[str, ...]]) -> None:
        """Start components; a node that killed one in this second takes the new run for that, and all have failed."""
        alive = all(part.killed_s < int(self.clock.wall_s) for part in parts)
        for part, names in zip(parts, places, strict=True):
            part.state, part.held_on, part.start_us, part.reason = "RUNNING", names, self.clock.at_us, "None"
            if alive:
                part.starts.append((self.clock.at_us, names))
            else:
                self.end(part.id, "FAILED")
        self.dirty = True

    def tick(self, us: int) -> None:
        """Time goes on: jobs end, released ones start."""
        self.clock.at_us += us
        for job in self.jobs.values():
            if job.state == "RUNNING" and self.clock.at_us >= job.start_us + job.run_s * 1e6:
                self.end(job.id, "COMPLETED")
            elif job.state == "RUNNING" and self.clock.at_us >= job.start_us + job.limit_s * 1e6 and self.stops:
                self.end(job.id, "TIMEOUT")
        self.schedule()

    def end(self, number: int, state: str) -> None:
        job = self.jobs[number]
        every = self.together(number) if job.state == "PENDING" or not job.component else [job]
        for job in every:
            if job.state in ("RUNNING", "PENDING"):
                job.state, job.held_on, job.end_us = state, (), self.clock.at_us
                self.dirty = True

    def requeue(self, number: int, held: bool) -> None:
        for job in [job for job in self.together(number) if job.state == "RUNNING"]:
            job.state, job.held_on, job.start_us, job.restarts = "PENDING", (), -1, job.restarts + 1
            job.priority, job.reason = (0, "JobHeldAdmin") if held else (100, "None")
            job.submit_s = job.killed_s = int(self.clock.wall_s)  # as Slurm does
            job.begin_us = self.clock.at_us + REQUEUED_US
            self.dirty = True

    def mark(self, name: str, *words: str) -> None:
        self.nodes[name] = replace(self.nodes[name], words=frozenset(words))
        self.dirty = True

    def save(self) -> None:
        """The controller writes down what it knows of jobs that wait."""
        self.saved = {number: replace(job) for number, job in self.jobs.items() if job.state == "PENDING"}

    def crash(self, down_us: int) -> None:
        """The controller is killed, forgets what it has been told since it saved, and starts nothing for a while."""
        for number, job in self.jobs.items():
            saved = self.saved.get(number)
            same = saved is not None and job.state == "PENDING" and job.restarts == saved.restarts
            if same and job.submit_s == saved.submit_s:
                job.priority, job.reason, job.required = saved.priority, saved.reason, saved.required
                job.excluded, job.partition = saved.excluded, saved.partition
        self.comes_back_us = self.clock.at_us + down_us
        self.boots += 1
        self.dirty = True

    def forget_ended(self) -> None:
        self.jobs = {k: j for k, j in self.jobs.items() if j.state in ("PENDING", "RUNNING")}
        self.dirty = True


class PlainTerms:
    """Terms of a site with one partition; comments such as ``nvme=200`` ask for MB of a pool of drives."""

    def __init__(
        self, policy: Any = "easy", pools: list[dict[str, Any]] | None = None, start_timeout_s: int = 10
    ) -> None:
        self.partitions, self.take = frozenset({"ours"}), Take.BY_ADMIN
        self.start_timeout_us, self.longest_us = start_timeout_s * 1_000_000, 86_400_000_000
        self.policy, self.pools, self.how = policy, pools, JobReading(self.longest_us)

    def beginning(self, reading: Reading, origin_s: float) -> Beginning:
        if not reading.nodes:
            raise ClusterError("nodes", "none", "one")
        early_s = self.start_timeout_us / 1e6
        found = machines_of(reading, partitions=self.partitions, origin_s=origin_s, early_s=early_s)
        self.how = self.how._replace(shares=found.shares)
        return Beginning(found.content | ({"pools": self.pools} if self.pools else {}), found.names, self.policy)

    def job(self, job: SlurmJob, key: JobKey, names: Names, now_us: int) -> Job | Problem:
        if job.comment == "problem":
            return Problem("it says so itself")
        if job.comment == "misread":
            return Problem("it asks for what there is not", misread=True)
        if found := next(odd(job, names.cluster, self.how), None):
            return Problem(found)
        devices = {"nvme": {"capacity_mb": int(job.comment[5:])}} if job.comment.startswith("nvme=") else {}
        devices |= devices_of(job, job.nodes_min, names.cluster, self.how)
        limit_us = self.longest_us if job.limit_s is None else job.limit_s * 1_000_000
        demand = Demand(job.nodes_min, job.cpus_per_task, job.node_memory_mb, devices)
        return Job(0, str(key), now_us, limit_us, None, 0, job.user, "", demand, words_of(job, names.cluster))

    def stands(self, job: SlurmJob, names: Names) -> tuple[Job, Lease] | None:
        return stands(job, names.node_of, names.cluster, self.how)
