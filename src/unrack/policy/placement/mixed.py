"""Where a job goes, with its nodes, memory and devices chosen together.

A task needs a node that serves all that it asks there: cores, its memory by the rule for memory, and devices within
reach. The rule for memory chooses nodes and lenders for all tasks at once, on the nodes that serve one: devices of
which there is plenty change nothing. Only rules that look at compositions choose the node for each task themselves,
where it asks for devices. The tasks then take their devices one after the other; where a node has none left, those
that are without go elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from unrack.ledger.lease import NODES, Lease, Share, in_runs, nodes_of
from unrack.ledger.lease import TASKS as LEASE_TASKS
from unrack.policy.discipline.walk import LATE, REFUSED
from unrack.policy.gpus.rule import GpuRule
from unrack.policy.placement.alone import Alone
from unrack.policy.placement.claiming import (
    NONE,
    Claiming,
    Taking,
    asks_devices,
    claiming,
    claims_whatever,
    found_together,
    kind_together,
    ways,
    why_not_together,
)  # fmt: skip
from unrack.policy.placement.contract import MemoryRule, MixedNotes, Room, Spot
from unrack.policy.placement.lent_memory import (
    FITS,
    OF_DEVICES,
    RUNS,
    LentMemory,
    LocalMemory,
    fill,
    hold,
    joined_loans,
    on_one_node,
    room_on,
)  # fmt: skip
from unrack.policy.pools.place_kernel import NO_CORES, RANDOM_FIT, close_unserved
from unrack.policy.pools.pool_placement import BY_LOAD, NAMES, RULES, PoolNotes
from unrack.policy.pools.pool_policy import Lookahead, Pooled, Urgency
from unrack.policy.tiers.cluster_kernel import Clusters, server_asks
from unrack.reasons import Code, Reason
from unrack.sealed import sealed, shown
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, MEMORY, TASKS


@dataclass(frozen=True)
class Mixed:
    """Places jobs with all that they ask for."""

    place: str = "first-fit"  # a name in ``PLACES``
    memory: MemoryRule = field(default_factory=LocalMemory)  # the rule for memory
    whole: bool = False  # whether a node serves one job at a time
    # the rule for GPUs, for jobs that have all memory on their nodes and ask for no devices; ``None``, and for other
    # jobs: nodes by the rules above, and there the GPUs that are nearest to each other
    gpus: GpuRule | None = None
    pools: Pooled | None = None  # the rule for pools with its parameters; ``None``: that of ``place``

    @cached_property
    def pooled(self) -> Pooled:
        """The rule for pools."""
        return self.pools or (Lookahead() if self.place == "lookahead" else Pooled(rule=self._of_devices))

    @property
    def _of_devices(self) -> str:
        return "first-fit" if self.place == RUNS else self.place

    @cached_property
    def timeless(self) -> bool:
        """Whether deadlines do not count, so that time alone changes nothing."""
        patient = self.gpus is not None and self.gpus.postpone
        return (self.place == RUNS or RULES.get(self.place, RANDOM_FIT + 1) <= RANDOM_FIT) and not patient

    def begin(self, view: View) -> MixedNotes:
        """Notes on a cluster as it is now."""
        gpus = None if self.gpus is None else self.gpus.begin(view)
        return MixedNotes(self.pooled.begin(view), self.memory.begin(view), gpus)

    def find(self, view: View, notes: MixedNotes, job: int, now: int) -> Lease | None:
        """A lease by the rules that are in force now."""
        notes.pools.refused = NO_CORES
        if view.cores_asked(job) > view.free_cores:
            return None
        notes.pools.refused = 0
        if job in view.components.of:
            return found_together(self, view, notes, job, now)
        if self._by_gpus(view, notes, job):
            return self._on_gpus(view, notes, job, now)
        pools = self._ready(view, notes)
        if self._plain and self._by_pools(view, job):
            found = self.pooled.find(view, pools, job, pools.rule, now)
            pools.refused = found if isinstance(found, int) else 0
            return None if isinstance(found, int) else found
        pools.late = False
        lease = self._find(view, notes, job, now)
        if lease is None and pools.late and view.running_count == 0 and view.deadline_us[job] >= 0:
            pools.patient = job  # it would wait forever for a place where it is not late
            lease = self._find(view, notes, job, now)
            pools.patient = -1
        return lease

    def on(
        self, view: View, notes: MixedNotes | None, job: int, now: int, chosen: Lease, gpus: slice = NONE
    ) -> Lease | None:
        """The lease on nodes that another rule chose, with all else that the job asks for; ``None``: not free there.

        Parameters
        ----------
        notes
            As of :meth:`begin`; ``None``: they are made if they are needed.
        chosen
            Nodes, tasks and cores; where the rule for memory lends, the memory is chosen here as well.
        gpus
            The quantities of which it has the claims.
        """
        local = isinstance(self.memory, LocalMemory)
        if not local or (asks_devices(view, job) and not chosen.shares):
            own = self.begin(view) if notes is None else notes
            self._ready(view, own)
            found = self._find(view, own, job, now, chosen)
            if found is None:
                return None
            chosen = chosen._replace(shares=found.shares) if local else found
        claims = None if len(chosen.claims) and gpus is NONE else claiming(view, job)
        if claims is None:
            return chosen
        lease = claims.with_claims(chosen, gpus)
        return lease if claims.fits(lease) else None

    def alone(self, view: View, notes: MixedNotes) -> Alone:
        """The rules, for kernels."""
        memory = self.memory
        terms, aware = memory.chosen_by(view, notes.memory) if isinstance(memory, LentMemory) else (None, None)
        fit = FITS.get(memory.place, 0) if isinstance(memory, LentMemory | LocalMemory) else 0
        found = notes.memory if isinstance(notes.memory, Clusters) else None
        servers = () if found is None else (found._replace(online=view.columns.online), server_asks(view))
        rule = -1 if self.pools else RULES.get(self._of_devices, -1)
        return Alone(terms, aware, notes.pools.answer, rule, fit, servers)

    def kind(self, view: View, notes: MixedNotes, job: int) -> object:
        """Its shape; beside it, where deadlines count, its own and its run time."""
        if job in view.components.of:
            return kind_together(self, view, notes, job)
        if self._by_gpus(view, notes, job):
            assert self.gpus is not None
            room = self.gpus.kind(view, notes.gpus, job)
            devices = notes.pools.shape(view, job) if asks_devices(view, job) else -1
            return room, devices, int(view.asks[ESTIMATE, job]) if view.cluster.places.windows else 0
        shape = notes.pools.shape(view, job), self.memory.kind(view, job)
        if self.timeless or (self._plain and view.asks[TASKS, job] == 1):
            return shape
        return shape, int(view.deadline_us[job]), int(view.asks[ESTIMATE, job])

    def due_us(self, view: View, notes: MixedNotes, job: int) -> tuple[int, int]:
        """Its own; by look-ahead it counts as long as it can be met."""
        return int(view.deadline_us[job]), self.pooled.late_from_us(view, notes.pools, job) - 1

    def in_kernel(self, view: View, notes: MixedNotes, job: int) -> bool:
        """Whether a task alone is placed by the rule for pools, which does not draw."""
        alone = self._plain and view.asks[TASKS, job] == 1 and job not in view.components.of
        if not alone or self._by_gpus(view, notes, job) or claiming(view, job) is not None:
            return False
        return self.place in OF_DEVICES and self._by_pools(view, job)

    def pass_over(self, view: View, notes: MixedNotes) -> Callable[..., int] | None:
        """Of pooled devices."""
        return self.pooled.pass_over(view, self._ready(view, notes)) if self._plain else None

    def found(self, view: View, notes: MixedNotes, job: int, node: int) -> Lease:
        """As the rule for pools has it."""
        return self.pooled.found(view, notes.pools, job, node)

    def refusal(self, notes: MixedNotes, job: int) -> tuple[int, int]:
        """As the rule for pools has it."""
        if self.timeless:
            return REFUSED, 0
        if self.gpus is not None and self.gpus.postpone:  # by its own utility, which refuses no other
            return (REFUSED, 0) if notes.gpus.best.get(notes.gpus.alike.get(job, -1), 0.0) < 0 else (LATE, -1)
        return self.pooled.refusal(notes.pools)

    def opens_us(self, view: View, notes: MixedNotes, jobs: list[int], now: int) -> int | None:
        """By the rule for pools, or when a job no longer waits for GPUs that suit it."""
        if self.timeless:
            return None
        if self.gpus is not None and self.gpus.postpone:
            return self.gpus.opens_us(view, jobs, now)
        pools, pooled, tasks = self._ready(view, notes), self.pooled, view.asks[TASKS]
        jobs = pooled.freest(view, pools, [job for job in jobs if job not in view.components.of], now)
        alike = [job for job in jobs if self._plain and tasks[job] == 1 and claiming(view, job) is None]
        first = pooled.opens_us(view, pools, np.array(alike, np.int64), pools.rule, now)
        for job in (job for job in jobs if job not in alike):
            if tasks[job] == 1:
                room = self._room(view, notes, job, claiming(view, job))
                for mb in self.memory.offers(view, notes.memory, job, room):
                    free = shown(np.concatenate([room.cores, mb]).reshape(2, -1))
                    first = min(first, pooled.opens_us(view, pools, np.array([job]), pools.rule, now, free))
            else:
                for moment in sorted(set(pooled.gang_moments(view, pools, job, now))):
                    if now < moment < first and self.find(view, notes, job, moment) is not None:
                        first = moment
        return first if first < NEVER_US else None

    def rule(self, notes: MixedNotes) -> str:
        """The rule in force; of the disaggregation-aware policy, one of its two."""
        return NAMES.get(notes.pools.rule, self.place)

    def why(self, view: View, notes: MixedNotes, job: int, now: int) -> Reason | None:
        """What there is too little of."""
        if job in view.components.of:
            return why_not_together(self, view, notes, job, now)
        pools = self._ready(view, notes)
        draws = pools.rule == RANDOM_FIT  # asking must not
        if not draws and self.find(view, notes, job, now) is not None:
            return None
        if self._by_gpus(view, notes, job) and self._on_gpus(view, notes, job, now, patient=False) is not None:
            assert self.gpus is not None
            return self.gpus.waits(view, notes.gpus, job)
        if self._plain:
            reason = self.pooled.why(view, pools, job, now)
            return None if reason.code == Code.NOT_YET else reason
        claims = claiming(view, job)
        if claims is not None and (lacks := claims.lacks()) is not None:
            return lacks
        room = self._room(view, notes, job, claims)
        tasks, cores = view.asks[[TASKS, CORES], job].tolist()
        places = int((room.cores[room.cores >= cores] // max(cores, 1)).sum()) if cores else tasks
        if places < tasks and not isinstance(notes.memory, Clusters):  # which say how near they come
            what = "on whole idle nodes" if self.whole else f"of {cores} cores"
            return Reason(Code.NO_ROOM, f"places for tasks {what}", tasks, places)
        if asks_devices(view, job):
            reason = self.pooled.why(view, pools, job, now, sealed(room.seen(local=False)))
            if reason.code != Code.NOT_YET:
                return reason
        return self.memory.lacks(view, notes.memory, job, room)

    # --- inside -------------------------------------------------------------------------------------------------

    @property
    def _plain(self) -> bool:
        """Whether the rule for pools does it all."""
        return not self.whole and isinstance(self.memory, LocalMemory)

    def _by_pools(self, view: View, job: int) -> bool:
        """Whether the rule for pools chooses nodes, too; first fit is first fit for each task."""
        alone = self.pools is not None and view.asks[TASKS, job] == 1
        return self.place not in FITS or (asks_devices(view, job) and (self.place == "first-fit" or bool(alone)))

    def _by_gpus(self, view: View, notes: MixedNotes, job: int) -> bool:
        if self.place not in FITS and asks_devices(view, job):
            return False
        return self.gpus is not None and isinstance(self.memory, LocalMemory) and self.gpus.serves(view, notes.gpus)

    def _on_gpus(self, view: View, notes: MixedNotes, job: int, now: int, patient: bool = True) -> Lease | None:
        """By the rule for GPUs, where a task finds all else that it asks; by the other rules if all tasks do not."""
        assert self.gpus is not None
        if patient and self.gpus.is_postponed(view, notes.gpus, job, now):
            return None
        more, short = self.gpus.asks_more(view, notes.gpus, job), False
        for claims in ways(view, job) if more else (None,):
            room = self._room(view, notes, job, claims)
            if asks_devices(view, job):
                columns = self.pooled.columns(view, self._ready(view, notes))
                close_unserved(columns.kernel, job, notes.pools.rule, room.cores, notes.pools.answer)
            lease = self.gpus.find(view, notes.gpus, job, room.cores, room.free[1], now, self.whole, patient)
            if lease is not None:
                lease = self.on(view, notes, job, now, lease, notes.gpus.quantities) if more else lease
                if lease is not None:
                    return lease
                short = True
        return self._find(view, notes, job, now) if short else None

    def _ready(self, view: View, notes: MixedNotes) -> PoolNotes:
        """The notes of the rule for pools, up to date."""
        pools = notes.pools
        if isinstance(pools, Urgency):
            pools.count(view)
        if self.pooled.rule == BY_LOAD:
            pools.rule = self.pooled.rule_now(view, pools)
        return pools

    def _room(self, view: View, notes: MixedNotes, job: int, claims: Claiming | None) -> Room:
        room = room_on(view, job, self.whole, self.memory.open_nodes(view, notes.memory))
        room.cores[view.columns.open_to[view.columns.set_of[job], 0] == 0] = -1
        if claims is not None:
            room.cores[~claims.open_nodes(room.seen(local=not self.memory.places))] = -1
        return room

    def _find(self, view: View, notes: MixedNotes, job: int, now: int, chosen: Lease | None = None) -> Lease | None:
        """A lease; on the nodes of ``chosen`` alone, with as many tasks on each, if there is one."""
        if (known := claims_whatever(view, job)) is not None:
            lease = self._within(view, notes, job, now, chosen, None) if known.free else None
            return None if lease is None else lease._replace(claims=known.claims)
        found = (self._within(view, notes, job, now, chosen, claims) for claims in ways(view, job))
        return next((lease for lease in found if lease is not None), None)

    def _within(
        self, view: View, notes: MixedNotes, job: int, now: int, chosen: Lease | None, claims: Claiming | None
    ) -> Lease | None:
        room = self._room(view, notes, job, claims)
        tasks, cores = view.asks[[TASKS, CORES], job].tolist()
        if chosen is not None:
            most = np.full(len(room.cores), -1, np.int64)
            most[nodes_of(chosen.rows)] = cores * np.repeat(chosen.rows[:, LEASE_TASKS], chosen.rows[:, NODES])
            np.minimum(room.cores, most, out=room.cores)
        if cores and int(np.maximum(room.cores // cores, 0).sum()) < tasks:
            return None
        if not asks_devices(view, job):
            found = self._spread(view, notes, job, room, tasks, now)
            if found is None or claims is None:
                return None if found is None else self._lease(view, job, found, ())
            lease = claims.with_claims(self._lease(view, job, found, ()))
            if claims.fits(lease):
                return lease
        spots, left = list[Spot](), tasks
        taking = Taking(self.pooled, view, notes.pools, job, notes.pools.rule, now, claims)
        while left:
            proposed = self._proposed(view, notes, job, room, left, now, taking)
            if proposed is None:
                return None
            for spot in proposed:
                held, part = self._taken(spot, room, taking, cores), [spot]
                if held < spot.tasks:
                    only = on_one_node(room, spot.node)
                    part = self._spread(view, notes, job, only, held, now) or [] if held else []
                    if held and not part:
                        return None
                for one in part:
                    hold(room, one, cores)
                spots, left = spots + part, left - held
                if held < spot.tasks:  # the node has nothing left for the others
                    room.cores[spot.node] = -1
                    break
        lease = self._lease(view, job, spots, tuple(taking.shares))
        return lease if claims is None else claims.with_claims(lease)

    def _proposed(
        self, view: View, notes: MixedNotes, job: int, room: Room, left: int, now: int, taking: Taking
    ) -> list[Spot] | None:
        """Nodes and memory for the tasks that are left, or for the next one if the rule for pools chooses its node."""
        room.cores[~self.memory.open_nodes(view, notes.memory, room.lent)] = -1
        if taking.draws and self.place in FITS:
            close_unserved(taking.columns.kernel, job, notes.pools.rule, room.cores, notes.pools.answer)
        elif taking.draws:
            offers = self.memory.offers(view, notes.memory, job, room)
            nodes = (taking.spot(shown(np.concatenate([room.cores, mb]).reshape(2, -1)))[0] for mb in offers)
            if (node := next((one for one in nodes if one >= 0), -1)) < 0:
                return None
            room, left = on_one_node(room, node), 1
        return self._spread(view, notes, job, room, left, now)

    def _spread(self, view: View, notes: MixedNotes, job: int, room: Room, tasks: int, now: int) -> list[Spot] | None:
        """By the rule for memory; by that for nodes where plans and passes count whole nodes, as no job may borrow."""
        memory, counts = self.memory, self.whole and self.place in FITS and not view.columns.suspended
        if counts and isinstance(memory, LentMemory) and not memory.may_borrow(view, 0):
            cores, mb = view.asks[[CORES, MEMORY], job].tolist()
            return fill(room, tasks, cores, mb, self.place)
        return memory.spread(view, notes.memory, job, room, tasks, now)

    def _taken(self, spot: Spot, room: Room, taking: Taking, cores: int) -> int:
        """How many tasks of a spot find all that they ask beside cores and memory; they hold that from now on."""
        claims = taking.claims
        for held in range(spot.tasks):
            if room.cores[spot.node] < 0:
                return held
            node, shares = spot.node, tuple[Share, ...]()
            if taking.draws:
                free = np.full(room.free.shape, -1, np.int64)
                free[:, node] = room.free[0, node], NEVER_US
                node, shares = taking.spot(shown(free))
            if node < 0:
                return held
            taking.hold(node, shares)
            if claims is not None:
                left = room.seen(local=not self.memory.places)
                left[:, spot.node] -= (cores * (held + 1), spot.mb // spot.tasks * (held + 1))
                room.cores[~claims.open_nodes(left)] = -1
        return spot.tasks

    def _lease(self, view: View, job: int, spots: list[Spot], shares: tuple[Share, ...]) -> Lease:
        cores, total = int(view.asks[CORES, job]), view.columns.total[0]
        tasks, mb = dict[int, int](), dict[int, int]()
        for node, here, own_mb, _ in spots:
            tasks[node], mb[node] = tasks.get(node, 0) + here, mb.get(node, 0) + own_mb
        nodes = sorted(tasks)
        own = [int(total[node]) if self.whole else cores * tasks[node] for node in nodes]
        on_each = [tasks[node] for node in nodes], own, [mb[node] for node in nodes]
        lease = Lease.on(job, nodes, *on_each, joined_loans(spots))
        return lease._replace(rows=in_runs(lease.rows), shares=shares)
