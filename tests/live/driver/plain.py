"""A plain orchestrator in memory: jobs wait unbound, are bound to nodes, start some time later, run and end.

It knows no holds, partitions, arrays or commands in two steps: a job that is bound to nothing is held, one that is
bound may start at any time. Its keys are words. It may be slow, refuse, forget, lose jobs and answers, and have several
drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fake_slurm import ORIGIN_S, HandClock

from unrack.errors import ClusterError
from unrack.ledger.lease import Lease
from unrack.live.driver.contract import Acknowledgement, Act, AskedJob, Order, Problem
from unrack.live.driver.portable import Names
from unrack.live.driver.seen import Seen, SeenJob, SeenNode, Shown, UnreachableError
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import Beginning
from unrack.live.driver.state.stage import Running
from unrack.live.driver.state.table import KnownJobs
from unrack.workload.job import Demand, Job

WAITS, RUNS, DONE, CANCELLED = "waits", "runs", "done", "cancelled"
LACKS = "less is free than is counted"


def key_of(number: int) -> str:
    """What the job that came so many-th is called."""
    return f"job-{number}.a"


@dataclass
class PlainJob:
    """A job."""

    key: str
    number: int
    nodes: int = 1
    cores: int = 1
    run_s: float = 5
    limit_s: int = 10
    drive_mb: int = 0
    problem: str = ""  # why its user does not want it to start
    ours: bool = True
    state: str = WAITS
    bound: tuple[str, ...] = ()
    bound_us: int = -1
    reason: str = ""
    submit_s: int = 0
    start_us: int = -1
    end_us: int = -1
    restarts: int = 0
    starts: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)


class Cluster:
    """The nodes and jobs of a plain orchestrator, and all that may go wrong with them."""

    def __init__(self, clock: HandClock, nodes: int = 4, cores: int = 4) -> None:
        self.clock, self.cores = clock, cores
        self.nodes = {f"n{i + 1}": True for i in range(nodes)}  # whether jobs may start there
        self.jobs: dict[str, PlainJob] = {}
        self.version = 0
        self.late_us = 0  # how long a start takes
        self.unreachable = 0  # how many of the next calls are not answered
        self.lost_answers = 0  # how many of the next orders have their effect, and no answer
        self.refuse: dict[str, int] = {}  # job: how many of its next orders are refused
        self.lacks = set[str]()  # jobs for which less is free than is counted, which is known once a start has failed
        self.freed = 0  # how often some of that came free
        self.stuck: set[str] = set()
        self.danger: Callable[[str], None] = lambda _: None
        self.on_start: Callable[[PlainJob], None] = lambda _: None
        self.orders = 0
        self._saved: dict[str, PlainJob] = {}
        self._down_until_us = 0

    def submit(self, nodes: int = 1, cores: int = 1, **more: Any) -> str:
        number = len(self.jobs) + 1
        key = key_of(number)
        self.jobs[key] = PlainJob(key, number, nodes, cores, submit_s=int(self.clock.wall_s), **more)
        self.version += 1
        return key

    def held_on(self, name: str) -> int:
        return sum(job.cores for job in self.jobs.values() if job.state == RUNS and name in job.bound)

    def bind(self, key: str, nodes: Sequence[str]) -> None:
        """Somebody gives a job a place."""
        job = self.jobs[key]
        job.bound, job.bound_us, job.reason = tuple(nodes), self.clock.at_us, ""
        self.version += 1

    def unbind(self, job: PlainJob) -> None:
        job.bound, job.bound_us, job.reason = (), -1, ""
        self.version += 1

    def schedule(self) -> None:
        """Start what is bound, has room, and is not too early."""
        if self.clock.at_us < self._down_until_us:
            return
        for job in self.jobs.values():
            early = self.clock.at_us < job.bound_us + self.late_us
            if job.state != WAITS or not job.bound or early or job.key in self.stuck:
                continue
            if any(self.nodes.get(name) is None or self.held_on(name) + job.cores > self.cores for name in job.bound):
                self.version += job.reason != "no room"
                job.reason = "no room"
                continue
            job.state, job.start_us, job.reason = RUNS, self.clock.at_us, ""
            job.starts.append((self.clock.at_us, job.bound))
            self.on_start(job)
            self.version += 1

    def tick(self, us: int) -> None:
        """Time goes on."""
        self.clock.at_us += us
        for job in self.jobs.values():
            if job.state == RUNS and self.clock.at_us >= job.start_us + job.run_s * 1e6:
                self.end(job.key)
        self.schedule()

    def end(self, key: str, state: str = DONE) -> None:
        job = self.jobs[key]
        if job.state in (WAITS, RUNS):
            job.state, job.end_us = state, self.clock.at_us
            self.version += 1

    def evict(self, key: str, bound: bool = False) -> None:
        """Stop a running job, which waits again; ``bound``: for the same place."""
        job = self.jobs[key]
        if job.state == RUNS:
            job.state, job.start_us, job.restarts = WAITS, -1, job.restarts + 1
            job.bound_us = self.clock.at_us
            self.version += 1
            if not bound:
                self.unbind(job)

    def mark(self, name: str, usable: bool | None) -> None:
        """Drain a node, take it back into service, or take it away."""
        self.nodes = {**self.nodes, name: bool(usable)}
        if usable is None:
            del self.nodes[name]
        self.version += 1

    def save(self) -> None:
        """Write down which jobs wait, and where they are bound."""
        self._saved = {key: replace(job) for key, job in self.jobs.items() if job.state == WAITS}

    def crash(self, down_us: int = 0) -> None:
        """Forget since then to what jobs that still wait were bound, and start nothing for a while."""
        for key, job in self.jobs.items():
            if job.state == WAITS and key in self._saved and job.restarts == self._saved[key].restarts:
                job.bound, job.bound_us = self._saved[key].bound, self._saved[key].bound_us
        self._down_until_us = self.clock.at_us + down_us
        self.version += 1

    def reach(self) -> None:
        if self.unreachable:
            self.unreachable -= 1
            raise UnreachableError("no answer")


class Plain:
    """The adapter of such a cluster; ``tells``: whether it says which jobs have changed."""

    name = "Plain"
    cut_short = frozenset({CANCELLED})

    def __init__(
        self, cluster: Cluster, policy: Any = "easy", pools: list[dict[str, Any]] | None = None, timeout_s: int = 10,
        tells: bool = False,
    ) -> None:  # fmt: skip
        self.cluster, self.policy, self.pools = cluster, policy, pools
        self.start_timeout_us, self.longest_us = timeout_s * 1_000_000, 86_400_000_000
        self._version = -1
        self._told: tuple[tuple[SeenNode, ...], dict[str, SeenJob]] | None = None
        self._tells, self.asked_about = tells, list[str]()
        self._refused: dict[str, int] = {}
        self._lacked: dict[str, int] = {}

    def changed(self, now: int) -> bool:
        self.cluster.reach()
        return self.cluster.version != self._version

    def read(self, table: KnownJobs) -> Seen:
        self.cluster.reach()
        self._version = self.cluster.version
        nodes = tuple(SeenNode(name, usable) for name, usable in self.cluster.nodes.items())
        jobs, changed = {key: self._shown(job) for key, job in self.cluster.jobs.items()}, None
        if self._tells:
            if self._told is not None:
                before = self._told[1]
                changed = frozenset(key for key in jobs.keys() | before.keys() if jobs.get(key) != before.get(key))
                nodes = self._told[0] if nodes == self._told[0] else nodes
            self._told = nodes, jobs
        return Seen(self.cluster.clock.wall_s, nodes, jobs, changed=changed)

    def _shown(self, job: PlainJob) -> SeenJob:
        def second(at_us: int) -> int:
            return 0 if at_us < 0 else int(ORIGIN_S + at_us / 1e6)

        waits = Shown.FREE if job.bound else Shown.HELD
        return SeenJob(
            job.key, {WAITS: waits, RUNS: Shown.RUNS}.get(job.state, Shown.OVER), (job.submit_s, job.number),
            replace(job), job.ours, submit_s=job.submit_s, start_s=second(job.start_us), end_s=second(job.end_us),
            restarts=job.restarts, limit_s=job.limit_s, state=job.state, reason=job.reason, refused=bool(job.reason),
            told=job.bound if job.state in (WAITS, RUNS) else (),
            nodes=frozenset(job.bound if job.state == RUNS else ()), ran=job.start_us >= 0 <= job.end_us,
        )  # fmt: skip

    def beginning(self, seen: Seen, origin_s: float) -> Beginning:
        if not seen.nodes:
            raise ClusterError("nodes", "none", "one")
        names = tuple(node.name for node in seen.nodes)
        content: dict[str, Any] = {"name": "plain", "nodes": [{"count": len(names), "cores": self.cluster.cores}]}
        return Beginning(content | ({"pools": self.pools} if self.pools else {}), names, self.policy)

    def turn(self, seen: Seen, table: KnownJobs, now: int) -> None:
        self._refused = {key: until for key, until in self._refused.items() if until > now}

    def _job(self, own: PlainJob, now: int) -> Job:
        devices = {"nvme": {"capacity_mb": own.drive_mb}} if own.drive_mb else {}
        return Job(0, own.key, now, own.limit_s * 1_000_000, None, 0, "u", "", Demand(own.nodes, own.cores, 0, devices))

    def asked(self, entry: Entry, job: SeenJob, names: Names) -> AskedJob | Problem:
        self.asked_about.append(entry.key)
        if job.own.problem:
            return Problem(job.own.problem)
        if self._lacked.get(job.key) == self.cluster.freed:
            return Problem(LACKS)
        if job.key in self._refused:
            return Problem("it was refused a short while ago", again_us=self._refused[job.key])
        return AskedJob(self._job(job.own, entry.seen_us), self._shares(job))

    def _shares(self, job: SeenJob) -> bool:
        return bool(job.own.nodes > 1 and 2 * job.own.cores <= self.cluster.cores)

    def takes(self, job: SeenJob, asked: Job) -> None:
        """Nobody has less room for that."""

    def wants_apart(self, job: SeenJob, names: Names) -> bool:
        return self._shares(job)

    def stands(self, job: SeenJob, names: Names) -> tuple[Job, Lease] | None:
        nodes = sorted(names.node_of[name] for name in job.nodes if name in names.node_of)
        if not nodes:
            return None
        asked = self._job(replace(job.own, nodes=len(nodes), drive_mb=0), 0)
        return asked, Lease.on(-1, nodes, [1] * len(nodes), [job.own.cores] * len(nodes), [0] * len(nodes))

    def asks_otherwise(self, entry: Entry, job: SeenJob, names: Names) -> bool:
        return False

    def holds_otherwise(self, entry: Entry, job: SeenJob, names: Names) -> None:
        """It holds what it asks for."""

    def own_of(self, record: Mapping[str, Any]) -> None:
        """Nothing is kept."""

    def queued(self, entry: Entry, job: SeenJob) -> None:
        """Nothing is kept."""

    def placed(self, entry: Entry, lease: Lease | None, names: Names) -> None:
        """Nothing is kept."""

    def carry_out(self, orders: Sequence[Order]) -> Iterator[Sequence[Acknowledgement]]:
        for order in orders:
            self.cluster.reach()
            self.cluster.danger("before an order")
            problem = self._obey(order, self.cluster.jobs.get(order.entry.key))
            self.cluster.orders += 1
            self.cluster.danger("after an order")
            if self.cluster.lost_answers:
                self.cluster.lost_answers -= 1
                raise UnreachableError("the answer is lost")
            yield [Acknowledgement(order, order.act, problem, excused=problem == LACKS)]
        self.cluster.schedule()

    def _obey(self, order: Order, job: PlainJob | None) -> str:
        if job is None:
            return "there is no such job"
        if self.cluster.refuse.get(job.key, 0):
            self.cluster.refuse[job.key] -= 1
            return "not now"
        if order.act == Act.START:
            if job.key in self.cluster.lacks:
                self._lacked[job.key] = self.cluster.freed
                return LACKS
            if job.state != WAITS or (job.bound and sorted(job.bound) != order.entry.nodes):
                return "it is bound already"
            self.cluster.bind(job.key, order.entry.nodes)
        elif order.act == Act.STOP:
            self.cluster.evict(job.key)
        elif order.act == Act.MORE:
            assert isinstance(order.entry.stage, Running)
            if job.state != RUNS:
                return "it does not run"
            job.limit_s = order.entry.stage.more.given_s or job.limit_s
            self.cluster.version += 1
        elif job.state != WAITS:
            return "it does not wait"
        else:
            self.cluster.unbind(job)
        return ""

    def forgotten(self, key: str) -> bool:
        return False

    def refused(self, entry: Entry, job: SeenJob, now: int) -> None:
        self._refused[entry.key] = now + 2_000_000

    def refused_until_us(self, key: str, now: int) -> int:
        return self._refused.get(key, now)

    def started(self, key: str) -> None:
        self._refused.pop(key, None)
