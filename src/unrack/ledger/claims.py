"""Which job claims how much of which place: the part of the ledger that knows no resource by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unrack.errors import RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_MB, ASKED_TASKS, ASKED_US, CPU, grown, room_for
from unrack.ledger.holding import MEETS, PROBLEMS, exchange_leases, stacked
from unrack.ledger.lease import FIRST, NODES, TASKS, Lease, attached, nodes_of, ranges, together
from unrack.resources.contract import NodeSets
from unrack.resources.places import AMOUNT, NO_CLAIMS, PLACE, Places
from unrack.sealed import sealed

if TYPE_CHECKING:
    from unrack.ledger.leases import LeaseLedger
    from unrack.ledger.state import ClusterState


class Claimed:
    """What is free of every place, and what jobs ask.

    Attributes
    ----------
    places
        What there is.
    free : int64[places]
        What no job holds.
    holders : int64[2, places]
        How many jobs hold something of each place, and the sum of their numbers: of one job alone, its number.
    asked : int64[quantities, room]
        What every job asks.
    rows : int64[room, 2]
        The claims of all running jobs, and between them those of jobs that have ended. A draft keeps none.
    used
        How many of ``rows`` are in use, or were.
    held_at : int64[2, room]
        By job, where its claims are in ``rows``: the first, and how many.
    home : int64[devices]
        The node that each pooled device sits in; -1: none.
    asks
        By job, whether it asks for anything.
    replaced
        How often ``rows`` or ``held_at`` have become other arrays.
    asking
        How many jobs in the system (waiting or running) ask for anything.
    then
        ``holders`` of a copy that shows another moment; ``None``: they are as they are.
    """

    def __init__(self, places: Places, asked: Ints, home: Ints) -> None:
        self.places, self.home = places, home
        self.free = places.total.copy()
        self.holders = np.zeros((2, len(places)), np.int64)
        self.asked = asked
        self.asks = bytearray(asked.any(axis=0).tobytes())
        self._anywhere: dict[tuple[bytes, int, int, bytes], Ints | None] = {}
        self.replaced = 0
        self.rows = np.empty((64, 2), np.int64)
        self.held_at = np.zeros((2, max(1, asked.shape[1])), np.int64)
        self.used, self._listed = 0, True
        self.asking = 0
        self.then: Callable[[], Ints] | None = None

    def add_job(self, job: int, asked: Ints | int) -> None:
        """Take in what one more job asks."""
        if job >= self.asked.shape[1]:
            self.asked = grown(self.asked, room_for(job + 1, job))
            self.held_at = grown(self.held_at, self.asked.shape[1])
            self.replaced += 1
        self.asked[:, job] = asked
        self.asks.extend(bytes(job + 1 - len(self.asks)))
        self.asks[job] = bool(self.asked[:, job].any())

    def note(self, job: int, sign: int) -> None:
        """A job has come into the system, or left it."""
        if self.asks[job]:
            self.asking += sign

    def anywhere(self, job: int, tasks: int, on: int = 0, full: Ints | None = None) -> Ints | None:
        """As :meth:`unrack.resources.places.Places.anywhere`, of a job."""
        asked = self.asked[:, job]
        shape = asked[self.places.claiming].tobytes(), tasks, on, b"" if full is None else full.tobytes()
        if shape not in self._anywhere:
            found = self.places.anywhere(asked, tasks, on, full)
            self._anywhere[shape] = None if found is None else sealed(found)
        return self._anywhere[shape]

    def check(self, lease: Lease, held: Ints, what: str) -> None:
        """Refuse a lease that does not claim what its tasks ask where they and their devices are, or what is not free.

        Its devices exist: that was checked before. ``held``: what its job claims already, and gives back for it. A
        refusal is a RefusedError.
        """
        claims = lease.claims
        if claims.dtype != np.int64 or claims.ndim != 2 or claims.shape[1] != 2:
            raise RefusedError(f"{what}: what its lease claims is no int64[claims, 2]")
        if not self.asks[lease.job] and not len(claims):
            return
        rows = lease.rows
        fixed = self.anywhere(lease.job, lease.tasks)
        known = fixed is not None and not len(held) and fixed.tobytes() == claims.tobytes()
        if known and all(amount <= self.free[place] for place, amount in claims.tolist()):
            return
        first, count = rows[:, FIRST], rows[:, NODES]
        if len(rows) and (first.min() < 0 or count.min() < 0 or (first + count).max() > self.places.nodes):
            raise RefusedError(f"{what}: a node of its lease does not exist")
        nodes = nodes_of(rows)
        tasks = np.repeat(rows[:, TASKS], rows[:, NODES])
        asked = self.asked[:, lease.job]
        devices = attached(lease.shares, self.home)
        if not self.places.agree(asked, nodes, tasks, claims, devices):
            wanted = self.places.claims(asked, nodes, tasks, self.places.total, devices)
            raise RefusedError(f"{what}: its lease claims {said(self.places, claims)}, not {said(self.places, wanted)}")
        if len(claims):
            free = self.free[claims[:, PLACE]].copy()
            if len(held):
                mine = np.zeros_like(self.free)
                mine[held[:, PLACE]] = held[:, AMOUNT]
                free += mine[claims[:, PLACE]]
            short = np.flatnonzero(claims[:, AMOUNT] > free)
            if len(short):
                resource, place = self.places.at(int(claims[short[0], PLACE]))
                raise RefusedError(f"{what}: {resource} {place.name} has {free[short[0]]} free, and it claims more")

    def take(self, job: int, claims: Ints) -> None:
        """Claims of a job that were checked are held."""
        self._change(job, claims, 1)
        if not self._listed:
            return
        count = len(claims)
        self.make_room(count)
        self.rows[self.used : self.used + count] = claims
        self.held_at[:, job] = self.used, count
        self.used += count

    def give(self, job: int, claims: Ints) -> None:
        """Claims that a job held are free again."""
        self._change(job, claims, -1)
        if self._listed:
            self.held_at[1, job] = 0

    def _change(self, job: int, claims: Ints, sign: int) -> None:
        """A job holds more (sign 1) or less (-1)."""
        free, (count, jobs) = self.free, self.holders
        for place, amount in claims.tolist():
            free[place] -= sign * amount
            count[place] += sign
            jobs[place] += sign * job

    def make_room(self, count: int) -> None:
        """Make space for ``count`` claims more: drop those of ended jobs, or take more memory."""
        if self.used + count <= len(self.rows):
            return
        jobs = np.flatnonzero(self.held_at[1])
        jobs = jobs[np.argsort(self.held_at[0, jobs])]
        first, counts = self.held_at[:, jobs]
        at = np.cumsum(counts) - counts
        live = int(counts.sum())
        rows = np.empty((max(len(self.rows), 2 * (live + count)), 2), np.int64)
        rows[:live] = self.rows[ranges(first, counts)]
        self.held_at[0, jobs] = at
        self.rows, self.used = rows, live
        self.replaced += 1

    def copy(self) -> Claimed:
        """The same for a draft; what jobs ask is shared."""
        twin = object.__new__(Claimed)
        twin.__dict__.update(self.__dict__)
        twin.free, twin.holders, twin._listed = self.free.copy(), self.holders.copy(), False
        return twin


class ClaimReader:
    """What is claimed, for policies: nothing can be changed through it."""

    __slots__ = ("_claimed", "free", "home", "places")

    def __init__(self, claimed: Claimed) -> None:
        self._claimed = claimed
        self.places, self.home = claimed.places, claimed.home
        self.free: Ints = sealed(claimed.free)

    @property
    def holders(self) -> Ints:
        """int64[2, places]: how many jobs hold something of each place, and the sum of their numbers."""
        return sealed(self._claimed.holders if self._claimed.then is None else self._claimed.then())

    @property
    def replaced(self) -> int:
        """How often :attr:`rows` or :attr:`held_at` have become other arrays."""
        return self._claimed.replaced

    @property
    def rows(self) -> Ints:
        """int64[room, 2]: the claims of running jobs, and others; see :attr:`held_at`."""
        return sealed(self._claimed.rows)

    @property
    def held_at(self) -> Ints:
        """int64[2, room]: by job, the first of its claims in :attr:`rows`, and how many; of a running job."""
        return sealed(self._claimed.held_at)

    @property
    def asking(self) -> bool:
        """Whether a job in the system asks for anything, or nodes are kept for some jobs at times."""
        return self._claimed.asking > 0 or len(self.places.windows) > 0

    def asks(self, job: int) -> bool:
        """Whether a job asks for anything."""
        return bool(self._claimed.asks[job])

    def anywhere(self, job: int, tasks: int, on: int = 0, full: Ints | None = None) -> Ints | None:
        """As :meth:`unrack.resources.places.Places.anywhere`, of a job."""
        return self._claimed.anywhere(job, tasks, on, full)

    def at_least(self, job: int, tasks: int, full: Ints | None = None) -> Ints:
        """int64[claims, 2]: what a job of so many tasks claims at least, wherever it runs; ``full`` as there."""
        found = self.places.anywhere(self._claimed.asked[:, job], tasks, full=full, least=True)
        assert found is not None
        return found

    def asked(self, job: int) -> Ints:
        """int64[quantities]: what a job asks."""
        return self._claimed.asked[:, job].copy()

    def asked_by(self, jobs: Ints) -> Ints:
        """int64[quantities, k]: what some jobs (int64[k]) ask."""
        return self._claimed.asked[:, jobs]


def said(places: Places, claims: Ints) -> str:
    """Claims in words."""
    parts = []
    for place, amount in claims.tolist():
        resource, at = places.at(place) if 0 <= place < len(places) else ("place", None)
        parts.append(f"{amount} of {resource} {place if at is None else at.name}")
    return ", ".join(parts) or "nothing"


class Components(NamedTuple):
    """Heterogeneous jobs: the first component of each stands for it in the queue and among those that run.

    What is asked here is what each component asks by itself.
    """

    of: Mapping[int, tuple[int, ...]]  # the first component → all, itself included
    asks: Ints  # int64[4, jobs]
    set_of: Ints  # int64[jobs]: the set of nodes of each
    claiming: bytearray  # by job, whether it asks for anything of resources
    attaching: bytearray  # by job, whether it asks for pooled devices

    def cores(self, job: int) -> int:
        """How many cores all components of a job ask for."""
        tasks, cores = self.asks[:ASKED_MB, list(self.of[job])]
        return int(tasks @ cores)

    def spread(self, jobs: Ints) -> tuple[Ints, Ints]:
        """int64[k] twice: the components of some jobs (itself, of any other), and which of the jobs each is of."""
        rows = [self.of.get(job, (job,)) for job in jobs.tolist()]
        return np.array([one for some in rows for one in some], np.int64), np.repeat(
            np.arange(len(rows)), [*map(len, rows)]
        )

    def and_job(self, state: ClusterState, job: int) -> Components:
        """With one more job behind the others, which asks for itself; of no heterogeneous jobs nothing is kept."""
        if not self.of:
            return self
        asks, set_of = self.asks, self.set_of
        if job >= asks.shape[1]:
            asks, set_of = (grown(column, state.asks.shape[1]) for column in (asks, set_of))
        asks[:, job], set_of[job] = state.asks[:, job], state.set_of[job]
        if state.claimed is not None:
            self.claiming.append(state.claimed.asks[job])
        if state.devices is not None:
            self.attaching.append(state.devices.asking[job])
        return self._replace(asks=asks, set_of=set_of)


NO_COMPONENTS = Components({}, np.zeros((4, 0), np.int64), np.zeros(0, np.int64), bytearray(), bytearray())


def join(state: ClusterState, of: Mapping[int, tuple[int, ...]]) -> None:
    """Let the first component of each job stand for all.

    It then asks for all their tasks, each with the fewest cores and MB of any: less than that never suffices. It may
    run on the nodes of all of them.
    """
    if not of:
        return
    claimed, devices, own = state.claimed, state.devices, state.components
    if not own.of:
        claiming = bytearray() if claimed is None else bytearray(claimed.asks)
        attaching = bytearray() if devices is None else bytearray(devices.asking)
        own = Components({}, state.asks.copy(), state.set_of.copy(), claiming, attaching)
    claiming, attaching = own.claiming, own.attaching
    masks, owners = [], []
    for first, rows in of.items():
        every = list(rows)
        tasks, cores, mb, _ = own.asks[:, every]
        state.asks[:ASKED_US, first] = tasks.sum(), cores.min(), mb.min()
        state.first_unequal = min(state.first_unequal, first)
        masks.append((state.open_to[own.set_of[every], CPU] > 0).any(axis=0))
        owners.append(int(state.set_owner[own.set_of[first]]))
        if claimed is not None:
            claimed.asks[first] = any(claiming[row] for row in rows)
        if devices is not None:
            devices.asking[first] = any(attaching[row] for row in rows)
            devices.columns.model[:, first] = devices.columns.model[:, every].max(axis=1)
    firsts, alike = np.array(list(of), np.int64), np.arange(len(of))
    state.set_of[firsts] = state.numbered(NodeSets(np.stack(masks), alike, np.array(owners, np.int64)))
    state.components = own._replace(of={**own.of, **of})


def tasks_of(state: ClusterState, job: int) -> dict[int, int]:
    """Component → how many tasks it has; of a job without components itself."""
    rows, asks = state.components.of.get(job, (job,)), state.components.asks
    return {row: int((asks if len(rows) > 1 else state.asks)[ASKED_TASKS, row]) for row in rows}


def check_parts(state: LeaseLedger, lease: Lease, below: bool) -> None:
    """Refuse a lease that is not that of all components, or of which one is not what its component asks.

    Whether their devices are is looked at when these are taken. ``below``: they held it before, and hold it again. A
    refusal is a RefusedError.
    """
    if below:
        return
    job, parts = lease.job, lease.parts
    what, rows = f"start job {job}", state.components.of.get(job, (job,))
    if rows != tuple(part.job for part in parts):
        raise RefusedError(f"{what}: its lease is of jobs {[part.job for part in parts]}, wanted components {rows}")
    for part in parts:
        state.check_rows(part, what)
    whole = together(job, parts)
    same = whole.shares == lease.shares and all(
        np.array_equal(one, other)
        for one, other in zip(
            (whole.rows, whole.borrowed, whole.claims), (lease.rows, lease.borrowed, lease.claims), strict=True
        )
    )
    if not same:
        raise RefusedError(f"{what}: its lease is not what its components hold together")
    for part in parts:
        state.check_claims(part, NO_CLAIMS, f"{what}, component {part.job}", int(state.components.set_of[part.job]))
    own = stacked([part.rows for part in parts], [part.borrowed for part in parts])
    none = stacked([part.rows[:0] for part in parts], [part.borrowed[:0] for part in parts])
    jobs, asks = np.array(rows, np.int64), state.components.asks
    verdict, which, _ = exchange_leases(jobs, own, none, False, state.group, asks, state.free.copy())
    if verdict < MEETS:
        raise RefusedError(f"{what}, component {rows[which]}: {PROBLEMS[verdict]}")
    short = state.claimed is not None and (lease.claims[:, 1] > state.claimed.free[lease.claims[:, 0]]).any()
    if short:
        raise RefusedError(f"{what}: its components claim more of a place than is free")
