"""What a job finds of the places of resources while its tasks are placed one after the other.

The components of a heterogeneous job also go one after the other, each on what those before it leave. They choose in
their order in the trace. One that has no place leaves the job without one: all start together, or none. Any placement
chooses for a component as for a job by itself, now and for times to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.claims import ClaimReader
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.devices.columns import HELD
from unrack.ledger.devices.sharing import TAKEN
from unrack.ledger.devices.state import draft_of
from unrack.ledger.lease import NODES, TASKS, Lease, Share, attached, nodes_of, summed, together
from unrack.reasons import Code, Reason
from unrack.resources.contract import tasks_on
from unrack.resources.places import AMOUNT, NO_CLAIMS, PLACE
from unrack.sealed import sealed, shown
from unrack.view import View
from unrack.view.draft import Apart
from unrack.view.windows import beside_kept, kept_from
from unrack.workload.job import CORES, ESTIMATE, MEMORY
from unrack.workload.job import TASKS as ALL_TASKS

NONE = slice(0)
"""No quantities."""


class Claiming:
    """A job that asks for something of resources, and where its tasks are so far."""

    def __init__(self, seen: ClaimReader, asked: Ints, tasks: int, cores: int, mb: int) -> None:
        self._seen, self._asked, self._tasks, self._cores, self._mb = seen, asked, tasks, cores, mb
        self._placed: dict[int, int] = {}
        self._within: Bools | None = None  # of which nodes all tasks must be, and which are kept for others now
        self._shares: tuple[Share, ...] = ()
        self._short: Reason | None = None  # what windows leave too little of
        self._free: Ints = seen.free  # of each place, while the job runs

    def put(self, node: int, shares: tuple[Share, ...] = ()) -> None:
        """A task has a place, and its devices."""
        self._placed[node] = self._placed.get(node, 0) + 1
        self._shares += shares

    def open_nodes(self, free: Ints) -> Bools:
        """bool[nodes]: where the next task finds what the job then claims; ``free``, int64[2, nodes]: cores and MB.

        Of a job that may be on so many nodes: where all that are left then find these on so many.
        """
        nodes, tasks = self._where(self._placed)
        left, devices = self._tasks - int(tasks.sum()), attached(self._shares, self._seen.home)
        found = self._seen.places.open_nodes(self._asked, self._free, nodes, tasks, left, devices)
        found = found if self._within is None else found & self._within
        if (most := self.most_nodes) >= min(len(found), len(nodes) + left):
            return found
        there: Ints = np.maximum(free, 0)
        room = np.where(found, tasks_on(there[CPU], there[MEM], self._cores, self._mb), 0)
        return found & completed(room, nodes, left, most - len(nodes))

    @cached_property
    def most_nodes(self) -> int:
        """On how many nodes it may be."""
        return self._seen.places.most_nodes(self._asked, self._free, self._within)

    def narrowed(self, free: Ints) -> Ints:
        """int64[2, nodes]: free cores and MB, and cores below 0 where the next task finds too little else."""
        left = free.copy()
        left[0, ~self.open_nodes(free)] = -1
        return sealed(left)

    def nearest(
        self, node: int, shares: Sequence[Share], wanted: tuple[int, ...], others: Ints
    ) -> tuple[int, ...] | None:
        """As many devices as the ``wanted`` ones for a task on a node; ``None``: what the job then claims is not free.

        One after the other is taken with which the job claims least, so that one at home comes first; of equal ones
        first those that are wanted, then ``others`` in their order. ``shares``: the devices of other kinds that the
        task has already.
        """
        choice = np.concatenate([np.array(wanted, np.int64), others])
        homes, found = self._seen.home[choice], np.zeros(len(choice), np.bool_)
        given = (*self._shares, *shares)
        for _ in wanted:
            devices = tuple(choice[found].tolist())
            left = self._left(node, (*given, Share(node, devices, ())))
            costs = self._seen.places.device_costs(self._asked, left, np.array([node]), homes)[0]
            costs[found] = -1
            if not (costs >= 0).any():
                return None
            found[np.flatnonzero(costs == costs[costs >= 0].min())[0]] = True
        return tuple(sorted(choice[found].tolist()))

    def reaching(self, nodes: Ints, devices: Ints, wanted: int) -> Bools:
        """bool[nodes]: for a task on which of them so many of these devices may be had, each looked at by itself."""
        homes, count = np.unique(self._seen.home[devices], return_counts=True)
        found, on_each = self._where(self._placed)
        left, so_far = self._free.copy(), attached(self._shares, self._seen.home)
        claims = self._seen.places.claims(self._asked, found, on_each, self._free, so_far)
        left[claims[:, PLACE]] -= claims[:, AMOUNT]
        costs = self._seen.places.device_costs(self._asked, left, nodes, homes)
        return ((costs >= 0) @ count) >= wanted

    def with_claims(self, lease: Lease, chosen: slice = NONE) -> Lease:
        """The lease with what the job claims there, beside claims that it has of ``chosen`` quantities."""
        tasks, devices = np.repeat(lease.rows[:, TASKS], lease.rows[:, NODES]), attached(lease.shares, self._seen.home)
        asked = self._asked.copy()
        asked[chosen] = 0
        claims = self._seen.places.claims(asked, nodes_of(lease.rows), tasks, self._free, devices)
        return lease._replace(claims=summed(np.concatenate([lease.claims, claims])) if len(lease.claims) else claims)

    def fits(self, lease: Lease) -> bool:
        """Whether what a lease claims is free, and all that the job asks there; less means that there was no choice."""
        nodes, tasks = nodes_of(lease.rows), np.repeat(lease.rows[:, TASKS], lease.rows[:, NODES])
        devices = attached(lease.shares, self._seen.home)
        if not self._seen.places.agree(self._asked, nodes, tasks, lease.claims, devices):
            return False
        place, amount = lease.claims.T
        return bool((amount <= self._free[place]).all())

    def lacks(self) -> Reason | None:
        """What there is too little of now for the job, wherever it runs."""
        places, asked, tasks = self._seen.places, self._asked, self._tasks
        return places.lacks(asked, self._seen.free, tasks) or self._short or places.lacks(asked, self._free, tasks)

    def short(self, node: int, shares: Sequence[Share]) -> Reason | None:
        """The first place that has too little for a task on a node with these devices."""
        claims = self._claims(node, shares)
        for place, amount in claims.tolist():
            if amount > (free := int(self._free[place])):
                resource, at = self._seen.places.at(place)
                return Reason(Code.NO_ROOM, f"{resource}: {at.name}", amount, free)
        return None

    def choices(self) -> list[Bools]:
        """As of :meth:`unrack.resources.places.Places.choices`."""
        return self._seen.places.choices(self._asked)

    # --- inside -------------------------------------------------------------------------------------------------

    def _where(self, placed: dict[int, int]) -> tuple[Ints, Ints]:
        """int64[k] twice: nodes, ascending, and how many tasks are on each."""
        nodes = sorted(placed)
        return np.array(nodes, np.int64), np.array([placed[node] for node in nodes], np.int64)

    def _claims(self, node: int, shares: Sequence[Share]) -> Ints:
        """int64[claims, 2]: of the tasks so far and one more, with all these devices."""
        nodes, tasks = self._where({**self._placed, node: self._placed.get(node, 0) + 1})
        devices = attached(shares, self._seen.home)
        return self._seen.places.claims(self._asked, nodes, tasks, self._free, devices)

    def _left(self, node: int, shares: Sequence[Share]) -> Ints:
        left, claims = self._free.copy(), self._claims(node, shares)
        left[claims[:, PLACE]] -= claims[:, AMOUNT]
        return left


def completed(room: Ints, nodes: Ints, left: int, more: int) -> Bools:
    """bool[nodes]: on which of them the next of ``left`` tasks leaves room for all others on few nodes.

    Parameters
    ----------
    room : int64[nodes]
        How many tasks each has room for.
    nodes : int64[k]
        Those that have tasks already.
    more
        On how many others tasks may be.

    Examples
    --------
    >>> completed(np.array([1, 3, 2]), np.array([], np.int64), 5, 2)
    array([False,  True,  True])
    >>> completed(np.array([1, 3, 2]), np.array([0]), 4, 1)
    array([ True,  True, False])
    """
    fresh = room.copy()
    fresh[nodes] = 0
    best = np.argsort(-fresh, kind="stable")[: max(more, 0)]
    held = int(room[nodes].sum())
    others = int(fresh[best].sum()) - (fresh[best[-1:]].sum() if more > 0 else 0)
    found = (held + others + fresh >= left) & (more > 0)
    found[best] = held + int(fresh[best].sum()) >= left
    found[nodes] = held + int(fresh[best].sum()) >= left
    return np.asarray(found & (room > 0), np.bool_)


class Taking:
    """What the tasks of a job take beside cores and memory by a rule, one after the other on what is left."""

    def __init__(
        self, made: Any, view: View, memory: Any, job: int, rule: int, now: int, claims: Claiming | None
    ) -> None:  # fmt: skip
        self._made, self._view, self._how, self.claims = made, view, (memory, job, rule, now), claims
        self.draws, devices = asks_devices(view, job), view.columns.devices  # whether these are devices
        self.columns, self.shares = memory.plain if devices is None else devices.columns, list[Share]()
        self._draft: Any = None
        self._shown: Any = None

    def spot(self, free: Ints) -> tuple[int, tuple[Share, ...]]:
        """As of :meth:`unrack.policy.pools.pool_placement.PoolPlacement.spot`, on what is left of devices."""
        found: tuple[int, tuple[Share, ...]]
        found = self._made.spot(self._view, *self._how, self.columns, free, self.claims)
        return found

    def hold(self, node: int, shares: tuple[Share, ...]) -> None:
        """A task has a place, and its devices."""
        _, job, _, now = self._how
        if self.claims is not None:
            self.claims.put(node, shares)
        if shares and self._draft is None:
            assert self._view.columns.devices is not None
            self._draft = draft_of(self._view.columns.devices, (job,))
        for share in shares:
            verdict = self._draft.try_share(job, share, now)
            assert verdict == TAKEN
        if shares and self._shown is not self._draft.columns:  # what jobs hold is as in the ledger
            self._shown = self._draft.columns
            self.columns = self.columns._replace(**{name: shown(getattr(self._shown, name)) for name in HELD})
        self.shares += shares


def asks_devices(view: View, job: int) -> bool:
    """Whether a job asks for pooled devices."""
    devices = view.columns.devices
    return devices is not None and devices.asks(job)


def claiming(view: View, job: int, within: Bools | None = None) -> Claiming | None:
    """A job as one that claims, ``within`` some nodes; ``None``: resources do not say where it runs."""
    seen = view.columns.claimed
    if seen is None or not ((asked := seen.asked(job)).any() or seen.places.windows):
        return None
    found = Claiming(seen, asked, *view.asks[[ALL_TASKS, CORES, MEMORY], job].tolist())
    found._within = within
    if seen.places.windows:
        found._free, short = sealed(beside_kept(view, job, seen.free)), kept_from(view, job)
        found._short = None if short is None else short.reason(view)
        open_now = view.outside_windows(job) if short is None else np.zeros(len(view.cluster), np.bool_)
        found._within = open_now if within is None else within & open_now
    return found


def ways(view: View, job: int) -> Iterator[Claiming | None]:
    """As :func:`claiming`, once for each set of nodes of which all tasks must be in one."""
    first = claiming(view, job)
    choices = [] if first is None else first.choices()
    if len(choices) < 2:
        yield first
        return
    for nodes in choices:
        yield claiming(view, job, nodes)


def claims_anywhere(view: View, job: int, whole: bool = False) -> Ints | None:
    """int64[claims, 2]: what a job claims wherever it runs; ``None``: that matters.

    ``whole``: it has nodes to itself, and their own memory.
    """
    seen = view.columns.claimed
    if seen is None or not seen.asks(job):
        return NO_CLAIMS
    components = view.components
    if job in components.of:
        found = [seen.anywhere(one, int(components.asks[ALL_TASKS, one])) for one in components.of[job]]
        fixed = [own for own in found if own is not None]
        return summed(np.concatenate(fixed)) if len(fixed) == len(found) else None
    return seen.anywhere(job, int(view.asks[ALL_TASKS, job]), nodes_of_its_own(view, job) if whole else 0)


class FixedClaims(NamedTuple):
    """What a job claims, int64[claims, 2], and whether that is free."""

    claims: Ints
    free: bool


def claims_whatever(view: View, job: int) -> FixedClaims | None:
    """What a job with devices claims, whichever they are, wherever it runs; ``None``: that matters, or it has none."""
    seen = view.columns.claimed
    if seen is None or seen.places.windows or not asks_devices(view, job):
        return None
    if (claims := claims_anywhere(view, job)) is None:
        return None
    return FixedClaims(claims, bool((claims[:, AMOUNT] <= seen.free[claims[:, PLACE]]).all()))


def nodes_of_its_own(view: View, job: int) -> int:
    """How many nodes a job has that shares none; 0: it depends on which."""
    tasks, cores, mb = view.asks[:ESTIMATE, job].tolist()
    total = view.columns.open_to[view.columns.set_of[job]]
    each = np.unique(np.minimum(total[CPU] // max(1, cores), total[MEM] // mb if mb else tasks).clip(max=tasks))
    each = each[each > 0]
    return -(-tasks // int(each[0])) if cores and len(each) == 1 else 0


def claims_at_least(view: View, job: int) -> Ints:
    """int64[claims, 2]: what a job claims at least, wherever it runs."""
    seen = view.columns.claimed
    if seen is None or not seen.asks(job):
        return NO_CLAIMS
    components = view.components
    rows = components.of.get(job, (job,))
    asks = components.asks if job in components.of else view.asks
    return summed(np.concatenate([seen.at_least(one, int(asks[ALL_TASKS, one])) for one in rows]))


def claims_asked(view: View) -> bool:
    """Whether a job in the system asks for anything of resources."""
    seen = view.columns.claimed
    return seen is not None and seen.asking


def _before_lacking(placement: Any, view: View, notes: Any, job: int, now: int) -> tuple[list[Lease], View, int]:
    """The leases of the components before the first without a place, what they leave, and that one; -1: all have one.

    ``placement``: chooses for one on what is free, as of :class:`unrack.policy.placement.contract.Placement`.
    """
    left, parts = Apart(view, job), list[Lease]()
    for component in view.components.of[job]:
        lease = placement.find(left.view, notes, component, now)
        if lease is None:
            return parts, left.view, component
        left.hold(lease)
        parts.append(lease)
    return parts, left.view, -1


def found_together(placement: Any, view: View, notes: Any, job: int, now: int) -> Lease | None:
    """The lease of all components; ``None``: one of them has no place."""
    parts, _, lacking_one = _before_lacking(placement, view, notes, job, now)
    return together(job, parts) if lacking_one < 0 else None


def why_not_together(placement: Any, view: View, notes: Any, job: int, now: int) -> Reason | None:
    """Why the first component without a place has none; ``None``: all have one."""
    _, left, component = _before_lacking(placement, view, notes, job, now)
    if component < 0:
        return None
    reason: Reason = placement.why(left, notes, component, now) or Reason(Code.NOT_YET)
    return reason._replace(what=f"{reason.what}, component {view.job(component).id}".strip())


def kind_together(placement: Any, view: View, notes: Any, job: int) -> object:
    """What decides whether a job has a place: the kinds of its components."""
    left = Apart(view, job)
    return tuple(placement.kind(left.view, notes, component) for component in view.components.of[job])


def lacking_of(view: View, job: int) -> Reason | None:
    """What a job, or one of its components, lacks wherever it runs; ``None``: nothing."""
    components = view.components.of.get(job, ())
    left = Apart(view, job).view if components else view
    found = (claiming(left, one) for one in components or (job,))
    return next((reason for claims in found if claims is not None and (reason := claims.lacks())), None)
