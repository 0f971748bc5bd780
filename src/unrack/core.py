"""Events in, decisions out: no clock, no socket, no heap.

The simulated and the live worlds both drive this, through :meth:`Core.handle` only.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.pools.pace import Pace
from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError, RefusedError
from unrack.ledger.affected import struck
from unrack.ledger.devices.columns import SERIAL, SINCE_US
from unrack.ledger.lease import Lease
from unrack.ledger.state import QUEUED, REJECTED, RUNNING, UNKNOWN, ClusterState
from unrack.ledger.undo import Undo
from unrack.policy.contract import Decision, Estimates, Need, Policy, Reject, Requeue, Resize, Start
from unrack.reasons import Code, Reason
from unrack.resources.contract import Gangs
from unrack.resources.places import is_resource
from unrack.slowdown.model import Model
from unrack.slowdown.pools import pace_of, sets_speeds, wants_of
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, MEMORY, TASKS, Job, JobTable, job_table, plain
from unrack.workload.store import JobStore, one_row

Ints = NDArray[np.int64]


class Submitted(NamedTuple):
    """A job has arrived.

    Attributes
    ----------
    job
        The job, which gets the next number; or, of a core that was made with a table of jobs, the number of its next
        row, which nobody has been shown before.
    work_us
        Beside a job: how long it runs at speed 1, for policies whose estimates are exact; ``None``: not known.
    """

    job: Job | int
    work_us: int | None = None


class Finished(NamedTuple):
    """A running job has ended by itself."""

    job: int


class Vacated(NamedTuple):
    """A running job has given back what it held; its :class:`Finished` follows, later at this time.

    For worlds in which others arrive in between: policies learn how long it ran only from the second event.
    """

    job: int


class Kept(NamedTuple):
    """How much work a job that was stopped with its work kept had done in that attempt, µs at speed 1.

    The world tells it where it knows better than the core, which counts the time that the job ran, or with models of
    devices the progress that these predict: jobs that contend for memory get less done. Counts if the job still waits.
    """

    job: int
    done_us: int


class UsageChanged(NamedTuple):
    """A task of a running job now uses ``mb`` of memory; what it holds is the policy's business."""

    job: int
    task: int
    mb: int


class Failed(NamedTuple):
    """Nodes have gone down together; the jobs that used them are stopped and queued again.

    ``domain`` is the name of what failed, if it has one.
    """

    nodes: tuple[int, ...]
    domain: str = ""


class Repaired(NamedTuple):
    """Nodes are back."""

    nodes: tuple[int, ...]


class Detached(NamedTuple):
    """Devices whose detaching is over: they are free again."""

    devices: tuple[int, ...]


class Round(NamedTuple):
    """Time for the policy to decide."""


Event = Submitted | Finished | Vacated | Kept | UsageChanged | Failed | Repaired | Detached | Round

NOTHING: list[Decision] = []
NO_JOBS = job_table(submit_us=np.zeros(0, np.int64), work_us=np.zeros(0, np.int64), tasks=np.zeros(0, np.int64))
ROUND = Round()


class Core:
    """A cluster, its jobs and a policy.

    Parameters
    ----------
    cluster
        What there is.
    jobs
        The rows that :class:`Submitted` will show by number, one after the other; ``None``: none, and it brings jobs.
    policy
        Who decides.
    models
        How jobs run on shared and composed devices; without a model a job runs its base time.
    memory
        Whether it is kept who uses whose memory; of policies that lend it always is.

    Raises
    ------
    PolicyError
        The policy needs something that the jobs do not have, or does not place the devices that they ask for.
    """

    def __init__(
        self,
        cluster: Cluster,
        jobs: JobTable | None,
        policy: Policy[Any],
        models: Sequence[Model] = (),
        memory: bool = False,
    ) -> None:
        jobs = NO_JOBS if jobs is None else jobs
        if len(jobs):
            check_needs(policy, jobs)
        check_memory(policy, cluster, jobs)
        self._tiered = bool(getattr(policy, "tiers", False))
        self._exact = policy.estimates == Estimates.EXACT
        self.jobs = jobs
        self.store = JobStore(jobs)
        self.policy = policy
        self.models = tuple(models)
        self._stepwise = bool(getattr(policy, "stepwise", False))
        wants = wants_of(cluster.devices, jobs)
        pace = pace_of(self.models, cluster.devices, jobs)
        self.lends = bool(getattr(policy, "lends", False))
        self._elsewhere = self.lends or self._tiered
        self.learns = bool(getattr(policy, "learns", False))
        self._vacated: set[int] = set()
        claims = cluster.places.asked(jobs.devices, len(jobs))
        told, memory = self._told(jobs), self.lends or memory
        self.state = ClusterState(cluster, told, wants, pace, memory, claims, self.learns)
        self.view = View(self.state, self.store)
        self._expected_us: MutableSequence[int] = plain(self.state.asks[ESTIMATE])
        self._whole_us: dict[int, int] = {}
        self._before_us: dict[int, int] = {}
        self.memory: Any = policy.begin(self.view)
        self.reasons: dict[int, Reason] = {}
        self.pace = pace if len(cluster.devices) else None
        self.paced = sets_speeds(cluster.devices, self.models)
        self._unmet: MutableSequence[int] = plain(unmet(cluster, jobs, pace, self._elsewhere))
        self._impossible = bytearray(self._too_big(jobs))

    def _told(self, jobs: JobTable) -> Ints:
        """int64[4, jobs]: what the policy is told that jobs ask."""
        asks = jobs.asks.copy()
        if self._exact:
            asks[ESTIMATE] = jobs.work_us
        return np.ascontiguousarray(asks)

    def _too_big(self, jobs: JobTable) -> bytes:
        """Which jobs the whole cluster, empty, could not hold, beside those with a device that nobody has."""
        possible = getattr(self.policy, "possible", None)
        cluster = self.state.cluster
        found = impossible(cluster, jobs, self.lends) if possible is None else ~np.asarray(possible(cluster, jobs))
        return np.asarray(found, np.bool_).tobytes()

    def handle(self, event: Event, now: int) -> list[Decision]:
        """Take note of an event at time ``now`` (µs); returns what was decided and done.

        Only :class:`Round` asks the policy. A failure answers with the requeues it caused, and the submission of a job
        that the whole cluster, empty, could not hold with its rejection.

        Raises
        ------
        RefusedError
            The event or one of the policy's decisions contradicts the state; nothing of that plan was done.
        """
        state = self.state
        kind = type(event)
        if kind is Round:
            decisions = self._decide(now)
            if self._stepwise:
                step = decisions
                while step:
                    step = self._decide(now)
                    decisions = decisions + step
            return decisions
        if kind is Finished:
            job: Any = event.job  # type: ignore[union-attr]  # the line above says so
            if self._vacated and job in self._vacated:
                self._vacated.remove(job)
                state.note_end(job, now)
            else:
                state.release(job, now)
            return NOTHING
        if isinstance(event, Submitted):
            return self._submit(event)
        if isinstance(event, Vacated):
            state.release(event.job, now, noted=False)
            self._vacated.add(event.job)
            return NOTHING
        if isinstance(event, Kept):
            if event.job in self._before_us and state.condition(event.job) == QUEUED:
                self._expect(event.job, max(0, self._before_us[event.job] - event.done_us))
            return NOTHING
        if isinstance(event, UsageChanged):
            state.use(event.job, event.task, event.mb)
            return NOTHING
        if isinstance(event, Failed):
            return self._fail(event, now)
        if isinstance(event, Detached):
            state.detached(event.devices)
            return NOTHING
        assert isinstance(event, Repaired)
        for node in event.nodes:
            state.set_online(node, True)
        return NOTHING

    def _submit(self, event: Submitted) -> list[Decision]:
        state = self.state
        job = self._receive(event.job, event.work_us) if isinstance(event.job, Job) else event.job
        if job > state.known:
            state.condition(job)
            raise RefusedError(f"submit job {job}: the next one is job {state.known}; jobs come in order")
        if state.condition(job) == UNKNOWN and (self._impossible[job] or self._unmet[job] >= 0):
            reason = self.too_big(job)
            state.reject(job)
            self.reasons[job] = reason
            return [Reject(job, reason)]
        state.submit(job)
        return NOTHING

    def _receive(self, job: Job, work_us: int | None) -> int:
        """Take in a job that nobody knew; returns its number.

        Raises
        ------
        RefusedError
            Rows of the table that the core was made with are still to come; the policy does not place what the job
            asks for; or it must know how long the job runs and nobody says.
        """
        state, cluster = self.state, self.state.cluster
        if state.known < state.jobs:
            raise RefusedError(f"submit job {job.id}: row {state.known} of the table comes first")
        if self._exact and work_us is None:
            raise RefusedError(
                f"submit job {job.id}: {self.policy.name} plans on exact run times, and nobody gives its"
            )
        row = one_row(job, work_us)
        try:
            check_devices(self.policy, row)
            check_memory(self.policy, cluster, row)
        except (PolicyError, InputError) as error:
            raise RefusedError(f"submit job {job.id}: {error}") from None
        self.store.add(job, row)
        wants, pace = wants_of(cluster.devices, row), pace_of(self.models, cluster.devices, row)
        asks = self._told(row)[:, 0]
        number = state.add_job(asks, wants[:, :, 0], pace.model[:, 0], cluster.places.asked(row.devices, 1)[:, 0])
        self._expected_us.append(int(asks[ESTIMATE]))
        self._unmet.append(int(unmet(cluster, row, pace, self._elsewhere)[0]))
        self._impossible += self._too_big(row)
        return number

    def _decide(self, now: int) -> list[Decision]:
        """Ask the policy once, and do what it decides."""
        decisions, self.memory = self.policy.decide(self.view, self.memory, now)
        if len(decisions) == 1:
            self._do(decisions[0], now)
        elif decisions:
            self._commit(decisions, now)
        return decisions

    def _commit(self, decisions: list[Decision], now: int) -> None:
        """Do all that a plan says, in order; if one decision is refused, nothing was done."""
        undo = Undo(self.state, self.state.devices is not None)
        told = {d.job: self._told_of(d.job) for d in decisions if isinstance(d, Requeue)}
        done = 0
        try:
            for decision in decisions:
                if isinstance(decision, Resize | Requeue):
                    undo.note(decision.lease.job if isinstance(decision, Resize) else decision.job)
                self._do(decision, now)
                done += 1
        except RefusedError:
            for decision in reversed(decisions[:done]):
                if isinstance(decision, Start):
                    undo.start(decision.lease.job)
                elif isinstance(decision, Resize):
                    undo.exchange(decision.lease.job)
                elif isinstance(decision, Requeue):
                    undo.requeue(decision.job)
                    self._tell_again(decision.job, told[decision.job])
                else:
                    undo.reject(decision.job)
                    del self.reasons[decision.job]
            undo.finish()
            raise

    def _told_of(self, job: int) -> tuple[int | None, ...]:
        """What is kept of a job's expected run time."""
        expected = self._expected_us[job] if 0 <= job < len(self._expected_us) else None
        return expected, self._whole_us.get(job), self._before_us.get(job)

    def _tell_again(self, job: int, told: tuple[int | None, ...]) -> None:
        """Restore what :meth:`_told_of` gave."""
        expected, *others = told
        if expected is not None:
            self._expected_us[job] = expected
        for kept, value in zip((self._whole_us, self._before_us), others, strict=True):
            if value is None:
                kept.pop(job, None)
            else:
                kept[job] = value

    def _do(self, decision: Decision, now: int) -> None:
        """Do what one decision says, or nothing."""
        if type(decision) is not Start:
            self._apply(decision, now)
            return
        lease = decision.lease
        job = lease.job
        # of a number that no job has the state says so
        self.state.start(lease, self._expected_us[job] if 0 <= job < len(self._expected_us) else 0, now)

    def refused(self) -> NDArray[np.bool_]:
        """bool[jobs]: of the rows of its table, which are rejected when they are submitted."""
        return np.frombuffer(self._impossible, np.bool_) | (np.asarray(self._unmet, np.int64) >= 0)

    def booked_us(self, job: int) -> int:
        """How long a job is expected to run when nothing slows it down, as the policy was told, µs."""
        return self._expected_us[job]

    def expects_end(self, job: int, now: int) -> bool:
        """Whether the policy expects a running job to end right now; asked of policies that learn run times."""
        foresee = getattr(self.policy, "expected_end_us", None)
        expected = self.state.booked_end(job) if foresee is None else foresee(self.view, self.memory, job, now)
        return bool(expected == now)

    def next_round(self, now: int) -> int | None:
        """When the policy wants a :class:`Round` next even if nothing happens, µs; ``None``: only on events.

        Raises
        ------
        RefusedError
            It asks for a time that is not after ``now``, or for what is no time.
        """
        wanted: Any = self.policy.next_round(self.view, self.memory, now)
        if wanted is None:
            return None
        if type(wanted) is not int:
            if not isinstance(wanted, np.integer):
                got = f"{wanted!r:.100} ({type(wanted).__name__})"
                raise RefusedError(f"policy {self.policy.name} asks for a round at {got}, which is no time in whole µs")
            wanted = int(wanted)
        if wanted <= now:
            raise RefusedError(f"policy {self.policy.name} asks for a round at {wanted} µs, and it is {now} µs")
        return int(wanted)

    def why(self, job: int, now: int) -> Reason:
        """Why a job is not running: asked after a round."""
        if job in self.reasons and self.state.conditions[job] == REJECTED:
            return self.reasons[job]
        return self.policy.why(self.view, self.memory, job, now)

    def begins_us(self, job: int, now: int) -> int:
        """When a job that has just started begins to work: later than ``now`` while its devices are being attached."""
        devices = self.state.devices
        if devices is None or not devices.asking[job]:
            return now
        return max(now, int(devices.columns.clock[SINCE_US, job]))

    def groups(self, lease: Lease) -> tuple[int, ...]:
        """The number, its own in the run, of the composition or split device behind each share of a running lease."""
        devices = self.state.devices
        assert devices is not None
        return tuple(int(devices.columns.group[SERIAL, min(share.devices)]) for share in lease.shares)

    def too_big(self, job: int) -> Reason:
        """In what a job is bigger than the whole cluster."""
        cluster = self.state.cluster
        if self._unmet[job] >= 0:
            row = one_row(self.store.job(job), None)
            pace = pace_of(self.models, cluster.devices, row)
            return lacking(cluster, row, 0, self._unmet[job], pace, self._elsewhere)
        tasks, cores, mb = (int(self.state.asks[row, job]) for row in (TASKS, CORES, MEMORY))
        if tasks * cores > cluster.total_cores:
            return Reason(Code.TOO_BIG, "cores", tasks * cores, cluster.total_cores)
        if cores > int(cluster.cores.max()):
            return Reason(Code.TOO_BIG, "cores on one node", cores, int(cluster.cores.max()))
        if self._tiered:
            return Reason(Code.TOO_BIG, f"an empty cluster for {cores} cores and {mb} MB, within the server's SLOs")
        room = int(places(cluster, np.array([cores]), np.array([0 if self.lends else mb]))[0])
        if self.lends:
            most = int(cluster.memory_mb.sum())
            if room < tasks:
                return Reason(Code.TOO_BIG, f"places for tasks of {cores} cores", tasks, room)
            if tasks * mb > most:
                return Reason(Code.TOO_BIG, "MB, local and borrowed", tasks * mb, most)
            return Reason(Code.TOO_BIG, f"nodes for {tasks} tasks of {mb} MB, with lenders for them")
        most = int(cluster.memory_mb[cluster.cores > 0].max())
        if mb > most:
            return Reason(Code.TOO_BIG, "MB on one node", mb, most)
        if room >= tasks:
            return Reason(Code.TOO_BIG, f"{self.policy.name} has no place for it")
        return Reason(Code.TOO_BIG, f"places for tasks of {cores} cores and {mb} MB", tasks, room)

    def _apply(self, decision: Decision, now: int) -> None:
        state = self.state
        if isinstance(decision, Resize):
            job = decision.lease.job
            if state.condition(job) != RUNNING:
                raise RefusedError(f"resize job {job}: it is not running")
            state.apply(decision.lease, 0, now, decision.below)
        elif isinstance(decision, Requeue):
            self._requeue(decision, now)
        elif isinstance(decision, Reject):
            if state.condition(decision.job) != QUEUED:
                raise RefusedError(f"reject job {decision.job}: it is not queued")
            state.reject(decision.job)
            self.reasons[decision.job] = decision.reason
        else:
            raise RefusedError(f"policy {self.policy.name} decided {decision!r}, which is not a decision")

    def _requeue(self, decision: Requeue, now: int) -> None:
        """Queue a running job again: whole, or with the work that is left of it."""
        job, state = decision.job, self.state
        left_us = state.left_us(job, now)
        state.release(job, now, UNKNOWN)
        state.submit(job)
        if decision.keep_work:
            self._before_us[job] = self._expected_us[job]
            self._whole_us.setdefault(job, self._expected_us[job])
            self._expect(job, left_us)
        elif job in self._whole_us:
            del self._before_us[job]
            self._expect(job, self._whole_us.pop(job))

    def _expect(self, job: int, time_us: int) -> None:
        """Change how long a job is expected to run when nothing slows it down."""
        self._expected_us[job] = time_us
        self.state.asks[ESTIMATE, job] = time_us

    def _fail(self, event: Failed, now: int) -> list[Decision]:
        decisions: list[Decision] = []
        nodes = sorted(event.nodes)
        found = struck(self.state, nodes)
        for node in nodes:
            what = f"node {node}" + (f" with {event.domain}" if event.domain not in ("", f"node{node}") else "")
            for job in found.get(node, ()):
                decision = Requeue(job, Reason(Code.NODE_FAILED, what))
                self._requeue(decision, now)
                decisions.append(decision)
            self.state.set_online(node, False)
        return decisions


def check_needs(policy: Policy[Any], jobs: JobTable) -> None:
    """Refuse a policy whose needs the jobs do not meet.

    Raises
    ------
    PolicyError
        It names the first need that is not met.
    """
    met = {
        Need.REQUESTS: True,
        Need.DEADLINES: bool((jobs.deadline_us >= 0).any()),
        Need.PRIORITIES: bool((jobs.priority != 0).any()),
        Need.USERS: bool((jobs.user >= 0).any()),
    }
    for need in sorted(policy.needs):
        if not met[need]:
            raise PolicyError(f"policy {policy.name}", f"a workload without {need}", f"a workload with {need}")
    check_devices(policy, jobs)


def check_devices(policy: Policy[Any], jobs: JobTable) -> None:
    """Refuse a policy that does not place the devices, or what is of resources, that jobs ask for.

    Raises
    ------
    PolicyError
        As said.
    """
    kinds = sorted({kind for (kind, _), amounts in jobs.devices.items() if bool((amounts > 0).any())})
    claimed = [kind for kind in kinds if is_resource(kind)]
    if claimed and not getattr(policy, "claims", False):
        want = "a policy that claims them for jobs, as the built-in ones do by every rule with a name"
        raise PolicyError(f"policy {policy.name}", f"a workload that asks for {', '.join(claimed)}", want)
    kinds = [kind for kind in kinds if not is_resource(kind)]
    if kinds and not getattr(policy, "devices", False):
        want = "a policy that places devices: a built-in one (slo: without parameters), or your own with devices = True"
        raise PolicyError(f"policy {policy.name}", f"a workload that asks for devices ({', '.join(kinds)})", want)


def check_memory(policy: Policy[Any], cluster: Cluster, jobs: JobTable) -> None:
    """Refuse a policy for tiers of memory that the cluster does not have, and one that lends where there are tiers.

    Raises
    ------
    PolicyError
        The policy does not go with the cluster's memory, or with the jobs.
    InputError
        A job names a tier or a level that the cluster does not have.
    """
    if getattr(policy, "tiers", False):
        from unrack.policy.tiers.own_policy import refuse_others

        refuse_others(policy.name, cluster, jobs)
    elif cluster.tiers is not None and getattr(policy, "lends", False):
        want = f"slo, slo-first-fit, slo-best-fit or an OnTiers: cluster {cluster.name!r} has tiers of memory"
        raise PolicyError(f"policy {policy.name}", "one that lends among all nodes", want)


def places(cluster: Cluster, cores: NDArray[np.int64], mb: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[asks]: how many tasks of so many cores and MB the whole cluster, empty, can hold."""
    kinds, counts = np.unique(np.stack([cluster.cores, cluster.memory_mb]), axis=1, return_counts=True)
    room = np.zeros(len(cores), np.int64)
    for (node_cores, node_mb), count in zip(kinds.T.tolist(), counts.tolist(), strict=True):
        if node_cores == 0:
            continue  # memory alone: nothing runs there
        fit = np.where(cores > 0, node_cores // np.maximum(cores, 1), 2**31)
        room += count * np.where(mb > 0, np.minimum(fit, node_mb // np.maximum(mb, 1)), fit)
    return room


def unmet(cluster: Cluster, jobs: JobTable, pace: Pace, elsewhere: bool = False) -> Ints:
    """int64[jobs]: which demand (its place in ``jobs.devices``) no node could ever meet; -1: all can be met.

    A demand can be met by the largest composition of some pool that reaches a node with the cores and memory asked;
    quantities that a model governs do not count, but a part of a split device must hold them. ``elsewhere``: memory may
    be that of other nodes, so that a node needs the cores only. Whether all demands can be met at one node is not
    looked at.
    """
    found = np.full(len(jobs), -1, np.int64)
    for place, ((kind, name), amounts) in enumerate(jobs.devices.items()):
        if not (amounts > 0).any():
            continue
        if is_resource(kind):
            never = cluster.places.never((kind, name), amounts, gangs_of(jobs, elsewhere))
            found = np.where((found < 0) & never, place, found)
            continue
        met = np.zeros(len(jobs), np.bool_)
        for pool in cluster.suppliers.get((kind, name), ()):
            fits = np.zeros(len(jobs), np.bool_)
            for cores, mb in pool.sizes:
                fits |= (jobs.cores <= cores) & (elsewhere | (jobs.memory_mb <= mb))
            met |= fits & (pool.governed(pace) | (amounts <= pool.most))
        found = np.where((found < 0) & (amounts > 0) & ~met, place, found)
    return found


def lacking(cluster: Cluster, jobs: JobTable, job: int, place: int, pace: Pace | None, elsewhere: bool) -> Reason:
    """What it is that no node has for a demand that :func:`unmet` found: devices, or cores or memory beside them."""
    kind, name = list(jobs.devices)[place]
    asked, what = int(jobs.devices[kind, name][job]), f"{kind}.{name}"
    if is_resource(kind):
        return cluster.places.too_big((kind, name), asked, gangs_of(jobs.take(np.array([job])), elsewhere))
    pools = cluster.suppliers.get((kind, name), ())
    serve = [pool for pool in pools if asked <= pool.most or (pace is not None and pool.governed(pace)[job])]
    if not serve:
        most = max((pool.most for pool in pools), default=0)
        return Reason(Code.TOO_BIG, f"{what} on devices that one node can attach", asked, most)
    nodes = np.any([pool.reached for pool in serve], axis=0)
    cores, mb = int(jobs.cores[job]), int(jobs.memory_mb[job])
    most = int(cluster.cores[nodes].max())
    if elsewhere or cores > most:
        return Reason(Code.TOO_BIG, f"cores on one node that can attach {what}", cores, most)
    most = int(cluster.memory_mb[nodes & (cluster.cores >= cores)].max())
    return Reason(Code.TOO_BIG, f"MB on one node that can attach {what}", mb, most)


def gangs_of(jobs: JobTable, elsewhere: bool) -> Gangs:
    """Jobs as resources see them."""
    return Gangs(jobs.tasks, jobs.cores, jobs.memory_mb, elsewhere)


def impossible(cluster: Cluster, jobs: JobTable, lends: bool = False) -> NDArray[np.bool_]:
    """bool[jobs]: which jobs the whole cluster, empty, could not hold, on shared or on whole nodes.

    Where nodes lend memory, only the sum of it counts.
    """
    if lends:
        cores = places(cluster, jobs.cores, np.zeros(len(jobs), np.int64))
        return np.asarray((cores < jobs.tasks) | (jobs.tasks * jobs.memory_mb > cluster.memory_mb.sum()))
    asks, inverse = np.unique(jobs.asks[[CORES, MEMORY]], axis=1, return_inverse=True)
    return np.asarray(places(cluster, asks[0], asks[1])[inverse.ravel()] < jobs.tasks)
