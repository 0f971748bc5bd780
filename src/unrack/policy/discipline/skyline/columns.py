"""What a plan is made of: how nodes are grouped, what jobs ask, and the columns that its kernel reads and writes.

Columns have room for more than is there, and are replaced by larger ones once it is used up.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.kernels.structs import InKernels
from unrack.ledger.columns import ASKED_US, CPU, grown, grown_rows
from unrack.ledger.memory_use import with_loans
from unrack.ledger.nodes import SIZE
from unrack.policy.discipline.walk import WALK
from unrack.sealed import sealed, shown
from unrack.view import PLENTY, View


class Grain(IntEnum):
    """What a group of a plan is: the finest thing that has to be told apart.

    * ``NODES``: a node, cores and MB. A reservation then names its nodes.
    * ``WHOLE``: all nodes of a kind, counted in nodes. Exact for jobs that have nodes to themselves.
    * ``CORES``: all nodes that no waiting job tells apart, counted in cores. Exact where every task of their jobs
      asks one core and no memory, since then any free core serves as well as any other; each of the others is a group.
    """

    NODES = 0
    WHOLE = 1
    CORES = 2


class Wants(IntEnum):
    """What decides whether a job has a place in a plan."""

    NODES = 0  # nodes and their memory
    CLAIMS = 1  # these, and claims that are the same wherever it runs
    CHOICE = 2  # a choice that is made outside of the kernel
    DEVICES = 3  # nodes and pooled devices are chosen, and claims are the same wherever it runs
    ELSEWHERE = 4  # as CHOICE, and memory may be that of other nodes
    LENT = 5  # nodes and memory alone are chosen, and claims are the same wherever it runs
    LENT_DEVICES = 6  # as DEVICES, and memory may be that of other nodes


class PlanRule(NamedTuple):
    """How a plan is made."""

    grain: int  # a :class:`Grain`
    whole: bool  # whether a node serves one job at a time
    fit: int  # which nodes are filled first, as of :mod:`unrack.policy.placement.node_kernel`


class PlanRound(NamedTuple):
    """What one round does."""

    compress: int  # how often reservations may move forward, one by one in order
    # whether a job with a booked end of now counts as ended, so that a reservation for now stays although its end has
    # not been seen yet; what needs its room starts in a later round of this moment
    trust: bool
    # whether only jobs count that start now: behind the last that may, none is given a reservation
    brief: bool = False


CHOICE, DEVICES, ELSEWHERE, LENT, LENT_DEVICES = (int(wants) for wants in list(Wants)[Wants.CHOICE :])
START, FIRST_ROW, END_ROW, FIRST_CLAIM, END_CLAIM, LENGTH = range(6)
"""Rows of ``turn``: the reserved start of a job, µs (-1: none), and its rows and claims in ``new_rows``,
``new_claims``; and for how long it holds them, µs. All but the first are those of ``where`` as well."""
JOB, ROW, ROW_END, CLAIM, CLAIM_END, UNTIL = range(6)
"""Rows of ``started``: a job that starts; its rows in ``out``, and its claims in ``new_claims``: first and end; in a
pass over the queue also when it ends, µs."""
STAGE, AT, STEP, STEPS, ROWS, CLAIMS, SLOTS, ROWS_CHOSEN, CLAIMS_CHOSEN, LENGTH_CHOSEN, SHORT, LAST = range(12)
"""Entries of ``cursor``: how far a round has come; at which job, and at which step for it; how many steps there are,
how many of ``new_rows``, ``new_claims`` and ``place_of`` are used; how much was chosen for the job (-1: nothing), and
for how long; what there was too little room for; and how many jobs of the order are looked at."""
KEPT, CARRIED, FROM, WAS, COUNT, STAMP, MOST = range(12, 19)
"""More of them, of levels that are kept (:mod:`unrack.policy.discipline.skyline.kept`): whether they are; whether they
have been carried on to this round; the first step that is not past; how many jobs ``was`` has; how many reservations
there are; the number of the last look at running jobs; and how many steps, rows, claims and slots there may be until
all is made anew."""
COARSE = MOST + 4
"""One more: the cores that reservations for later keep of each of their nodes, whatever is asked; 0: what is asked.
Not 0, they keep nothing of limits, and are not made for jobs for which a limit has no room now; a job that ends just
when they begin is in their way."""
REACH = COARSE + 1
"""One more: before which time (µs) a plan has to end, as windows that begin then do not divide its groups."""
SEARCHES = REACH + 1
"""One more: 1: places of jobs are searched as Slurm does (:mod:`unrack.policy.discipline.slurm_search`)."""
SLOTS_SEEN = SEARCHES + 1
"""One more: how many slots there were when a choice was asked for."""
GRAIN, WHOLE, FIT, COMPRESS, TRUST, BRIEF = range(SLOTS_SEEN + 1, SLOTS_SEEN + 7)
"""And how the round goes: a :class:`PlanRule` and a :class:`PlanRound`."""
CURSOR = BRIEF + 1
BOOKED_US, UNTIL_US, CHECK, ASKS, SEEN = range(5)
"""Rows of ``held``, by job: from when it is in the levels if it waits, until when if it runs (-1: not), and sums over
what it then holds and asks; when it was last seen running."""
BEGIN, PLAN, CHOSEN = range(3)
"""Stages: nothing is done; jobs are being given reservations; a choice has been made."""
TURNS, MOMENTS, LEASES, CLAIMED, CLAIMABLE, STARTS, BOOKED, SHARERS, HEADS, FURTHER = range(10)
"""What there may be too little room for: ``turn``, steps, rows, claims, slots, ``out``; leases of devices, and jobs on
one device; heads of a pass; the time until ``cursor[REACH]``, which then says until when it is to be."""
NO_ROOM, CHOOSE = -1, -2
"""Answers of a round that is not over: the columns are too small; a choice is to be made."""


class _PlanColumns(NamedTuple):
    """The fields of :class:`PlanColumns`."""

    # the ledger, read-only: as of :class:`unrack.ledger.state.ClusterState` and :class:`unrack.ledger.claims.Claimed`
    asks: Ints
    limit_us: Ints  # int64[jobs]: how long jobs may run, where a policy expects something else in ``asks``
    free: Ints
    set_of: Ints
    running: Ints
    pool: Ints
    lease_at: Ints
    free_places: Ints
    claimed: Ints
    claimed_at: Ints
    growth: Ints  # as ``grows`` of :class:`unrack.view.View`
    growth_at: Ints
    # what is installed, and when which jobs may use it
    installed: Ints  # int64[sets, 2, nodes]: on the nodes of each set; the first set is of all nodes
    spans: Ints  # int64[sets, 2]: the first of the nodes of each set, and the one behind the last
    stays: Ints  # int64[sets]: 1: nothing was given back of which their jobs could have a part: no reservation moves
    set_free: Ints  # int64[sets]: of a pass: how many cores of each set are free at most; -1: not looked at yet
    # int64[sets]: in which windows jobs of a set run, by the number of their owner; 0: outside; below 0: also outside
    set_owner: Ints
    # int64[k, 7]: when windows begin and end, µs; their owner; their first and last of `window_rows`, and of
    # `window_groups`
    windows: Ints
    window_claims: Ints  # int64[k, 2]: the place of which each keeps an amount, and that; -1: of none
    window_rows: Ints  # int64[room, 5]: their nodes, each whole
    window_groups: Ints  # int64[room, 5]: their groups, each whole
    # int64[k, 6], by when they begin: windows that keep cores of nodes: when they begin and end, µs; row of `kept_at`
    # and node; the place, and how much of it
    kept: Ints
    kept_at: Ints  # int64[rows, nodes]: places in which jobs claim the cores of their tasks on a node; -1: none
    beside: Ints  # int64[2, nodes]: what is free beside kept cores for the job that is looked at
    back: Ints  # int64[places]: what is left of the places of `kept_at` at the moment that is looked at
    usable: Ints  # int64[2, nodes]: what is installed on the nodes that a job may use at a time
    # groups of nodes
    of: Ints  # int64[nodes]: the group of each node
    total: Ints  # int64[sets, 2, groups]: cores and MB of a node of each group that is of the set; else 0
    group_spans: Ints  # int64[sets, 2]: the first of the groups of each set, and the one behind the last
    rank: Ints  # int64[groups]: in which order groups are filled
    named: Ints  # int64[groups]: 1: a node, told apart by its name
    may_lend: Ints  # int64[nodes]: how many MB a node may lend and run tasks; none, where no memory is lent like that
    # the skyline
    times: Ints  # int64[steps]: when each step begins, µs
    at: Ints  # int64[steps]: where in `level` each step is
    looked: Ints  # int64[2, steps]: the numbers of the steps; those that the last search looked at
    level: Ints  # int64[steps, 2, groups + slots]: cores or nodes and MB of groups; what is free of places
    low: Ints  # int64[2, 2, groups + slots]: the least of the levels over the time looked at last; and to work with
    slot: Ints  # int64[places]: the slot of each place; -1: it has none
    place_of: Ints  # int64[slots]: the place of each slot
    # reservations by job, as they were after the last round
    start: Ints  # int64[jobs]: reserved start, µs; -1: none
    where: Ints  # int64[5, jobs]: first and last of its rows and claims, and for how long, as of `turn`
    rows: Ints  # int64[room, 5]: of groups, as of :attr:`unrack.ledger.lease.Lease.rows`
    claims: Ints  # int64[room, 2]
    # what is asked by job, beside nodes
    wants: Ints  # int64[jobs]: a :class:`Wants` each
    fixed_at: Ints  # int64[2, jobs]: first and last of its claims in `fixed`, of jobs that want CLAIMS
    fixed: Ints  # int64[room, 2]
    kept_of: Ints  # int64[jobs]: in which rows of `kept_at` each claims, a bit each; 0: in none, or that is a choice
    # the round
    turn: Ints  # int64[6, room]: by place in the order: what has been reserved so far
    new_rows: Ints
    new_claims: Ints
    started: Ints  # int64[6, room]: the jobs that start now
    out: Ints  # int64[room, 5]: their rows, of nodes
    cursor: Ints  # int64[CURSOR]
    # levels that are kept
    held: Ints  # int64[5, jobs]
    was: Ints  # int64[room]: the jobs that ran after the last round
    # int64[2, sets + places]: until when more is free, of the nodes of a set and of a place, than a job saw when it was
    # given the earliest place, µs; second row: than those saw that have been looked at in this round
    grown: Ints
    # a pass over the queue, see :mod:`unrack.policy.discipline.queue_kernel`
    kind: Ints  # int64[jobs]: a number of those that have no place where one of them has none; -1: not known yet
    refused: Ints  # int64[kinds]: why jobs of this kind have no place now, as of :mod:`unrack.policy.discipline.walk`
    due: Ints  # int64[2, jobs]: deadlines of jobs whose kind is known, as of that module
    late: Ints  # int64[5, kinds]: as of that module
    now: Ints  # int64[2, nodes]: what is free now, beside the jobs that start in this pass
    heads: Ints  # int64[room, 4]: the heads: jobs without a place, with no node in common between their sets of nodes
    meets: Ints  # int64[sets, sets]: 1: two sets of nodes have a node in common
    aside: Ints  # int64[2]: the first and the last of the places that are limits, which hold up none but their own
    then: Ints  # int64[heads, 2, nodes]: what is free when each head is to start
    most: Ints  # int64[blocks + groups]: the summary of `now` (:mod:`unrack.ledger.nodes`)
    left: Ints  # int64[1 + heads, 1, slots]: of places: what is free now, and then
    moments: Ints  # int64[k]: when more is free though no job ends, µs
    walk: Ints  # int64[WALK]: how far the pass has come


class PlanColumns(InKernels, _PlanColumns):
    """The columns of a plan.

    Between ``times[i]`` and ``times[i + 1]`` the amounts ``level[at[i]]`` are free, by the booked ends of running jobs
    and the reservations made so far. The first columns of a level are groups of nodes, the others places of resources:
    those of which anything is held or reserved, each in a slot of its own.
    """


LEDGER = PlanColumns._fields[: PlanColumns._fields.index("installed")]
"""Columns that are the ledger's."""


def met(open_to: Ints) -> Ints:
    """int64[sets, sets]: which sets of nodes have a node in common."""
    inside = (open_to[:, CPU] > 0).astype(np.float32)
    return np.ones((1, 1), np.int64) if len(inside) == 1 else ((inside @ inside.T) > 0).astype(np.int64)


OPENS_US, CLOSES_US, OWNER, FIRST_OF, LAST_OF, FIRST_GROUP, LAST_GROUP = range(7)
"""Columns of ``windows``."""


def windows_of(view: View) -> tuple[Ints, Ints, Ints]:
    """The windows of a cluster that are not over, their nodes, and what they keep of places.

    Those that keep nodes come first; the others, of which there may be one a node, in order of their beginnings.
    """
    windows, rows, claims = list[tuple[int, ...]](), list[list[int]](), list[tuple[int, int]]()
    cores, mb = view.total.tolist()
    known = view.cluster.places.windows
    for window in sorted(known, key=lambda one: (one.place >= 0, one.start_us if one.place >= 0 else 0)):
        if window.end_us > view.now:
            first = len(rows)
            rows += [[node, 1, 1, cores[node], mb[node]] for node in np.flatnonzero(window.nodes).tolist()]
            windows.append((window.start_us, window.end_us, window.owner, first, len(rows), first, len(rows)))
            claims.append((window.place, window.amount))
    shapes = ((windows, 7), (rows, 5), (claims, 2))
    found, of, kept = (np.array(one, np.int64).reshape(-1, width) for one, width in shapes)
    return found, of, kept


def kept_of(view: View) -> tuple[Ints, Ints]:
    """Windows that are not over and keep cores of nodes, and the places of these, as of :class:`PlanColumns`."""
    at = view.cluster.places.by_node
    known = {place: (row, node) for row, own in enumerate(at.tolist()) for node, place in enumerate(own) if place >= 0}
    rows = [
        (window.start_us, window.end_us, *known[window.place], window.place, window.amount)
        for window in view.cluster.places.windows
        if window.place in known and window.end_us > view.now
    ]
    return np.array(sorted(rows), np.int64).reshape(-1, 6), at


def spans_of(open_to: Ints) -> Ints:
    """int64[sets, 2]: the first of the nodes of each set, and the one behind the last."""
    inside = open_to[:, CPU] > 0
    last = inside.shape[1] - np.argmax(inside[:, ::-1], axis=1)
    return np.stack([np.argmax(inside, axis=1), np.where(inside.any(axis=1), last, 0)], axis=1).astype(np.int64)


def limits_of(view: View) -> Ints:
    """int64[2]: the first and the last of the places that are limits."""
    places = view.cluster.places
    found = [(part.places.stop, part.installed.limits) for part in places.parts if part.installed.limits]
    return np.array([found[0][0] - found[0][1], found[0][0]] if found else [0, 0], np.int64)


NOTHING_CLAIMED = tuple(map(sealed, (np.zeros(0, np.int64), np.zeros((0, 2), np.int64), np.zeros((2, 0), np.int64))))


class Ledger:
    """The columns of the ledger that a view shows; those that are made for it stay the same while they have room."""

    def __init__(self) -> None:
        self._made, self._shown = [NOTHING_CLAIMED[0]] * 5, list[Ints]()  # places, rows and whose, claims and whose
        self._asks = self._limit_us = NOTHING_CLAIMED[0]

    def __deepcopy__(self, memo: Any) -> Ledger:
        """Another, with columns of its own."""
        return Ledger()

    def of(self, view: View, lends: bool, later: bool = True) -> tuple[Ints, ...]:
        """The columns, in the order of :data:`LEDGER`.

        Where memory is lent, loans are among the rows and claims (:mod:`unrack.ledger.memory_use`): of the place of a
        node ``PLENTY`` less what it lends is free. ``later``: whether what running jobs hold is looked at.
        """
        seen = view.columns
        if seen.asks is not self._asks:
            self._asks, self._limit_us = seen.asks, seen.asks[ASKED_US]
        claimed, nodes = seen.claimed, (seen.asks, self._limit_us, seen.free, seen.set_of)
        free, held, held_at = NOTHING_CLAIMED if claimed is None else (claimed.free, claimed.rows, claimed.held_at)
        grows = NOTHING_CLAIMED[1:] if view.grows is None else view.grows
        if not lends:
            return *nodes, seen.running, seen.pool, seen.lease_at, free, held, held_at, *grows
        places, by_job = len(free), seen.lease_at.shape
        more = 0 if seen.memory is None else seen.memory.use.shape[1]
        shapes = (places + len(view.lent),), (len(seen.pool) + more, 5), by_job, (len(held) + more, 2), by_job
        if any(own.shape != shape for own, shape in zip(self._made, shapes, strict=True)):
            self._made = [np.empty(shape, np.int64) for shape in shapes]
            self._shown = [*map(shown, (*self._made, np.zeros(by_job, np.int64)))]
        self._made[0][:places], self._made[0][places:] = free, PLENTY - view.lent
        room, rows, at, *own, none = self._shown
        if seen.memory is None or not later:
            return *nodes, seen.running, seen.pool, seen.lease_at, room, held, held_at, *grows
        held_at, uses = none if claimed is None else shown(held_at), seen.memory.kernel
        how = seen.running, seen.running_count, seen.pool, seen.lease_at, held, held_at, places, uses
        with_loans(*how, *self._made[1:])
        return *nodes, seen.running, rows, at, room, *own, *grows


def steps_to_look_at(steps: int) -> Ints:
    """``looked`` of so many steps."""
    return np.stack([np.arange(steps), np.zeros(steps, np.int64)])


def more_room(c: PlanColumns, jobs: int, running: int) -> dict[str, Ints]:
    """Larger columns for what the kernel had too little room for, with what so many jobs need at least."""
    short, width, slots = int(c.cursor[SHORT]), c.total.shape[2], len(c.place_of)
    if short in (MOMENTS, CLAIMABLE):
        steps = len(c.times) if short == CLAIMABLE else max(2 * len(c.times), running + 4 * jobs + 8)
        slots += (16 + slots // 4) * (short == CLAIMABLE)
        level, low = np.zeros((steps, 2, width + slots), np.int64), np.zeros((2, 2, width + slots), np.int64)
        left = np.zeros((len(c.left), 1, slots), np.int64)
        left[:, :, : len(c.place_of)] = c.left
        place_of = grown(c.place_of, slots)
        times, at, was = np.zeros(steps, np.int64), np.zeros(steps, np.int64), grown(c.was, steps)
        by_step = {"times": times, "at": at, "looked": steps_to_look_at(steps), "level": level, "was": was}
        return {**by_step, "low": low, "place_of": place_of, "left": left}
    if short == HEADS:
        more = 2 * len(c.heads)
        then, left = np.zeros((more, *c.then.shape[1:]), np.int64), np.zeros((1 + more, *c.left.shape[1:]), np.int64)
        then[: len(c.then)], left[: len(c.left)] = c.then, c.left
        return {"heads": grown_rows(c.heads, more), "then": then, "left": left}
    if short == TURNS:
        return {"turn": np.zeros((6, 2 * jobs), np.int64)}
    if short == STARTS:
        nodes = c.now.shape[1]
        return {
            "out": grown_rows(c.out, len(c.out) + jobs + nodes),
            "started": grown(c.started, 2 * c.started.shape[1]),
        }
    return room_for_reserved(c, short, 2 * len(c.rows if short == LEASES else c.claims) + jobs)


def room_for_reserved(c: PlanColumns, what: int, count: int) -> dict[str, Ints]:
    """Columns with room for so many rows (LEASES) or claims of reservations; none if they have it.

    What is kept has as much room as what is made anew at least, which the kernel copies there.
    """
    made, kept = ("new_rows", "rows") if what == LEASES else ("new_claims", "claims")
    if count <= len(getattr(c, made)):
        return {}
    larger = grown_rows(getattr(c, made), count)
    return {made: larger, kept: grown_rows(getattr(c, kept), len(larger))}


def columns_for(ledger: tuple[Ints, ...], nodes: int, jobs: int) -> PlanColumns:
    """Columns of a plan in which nothing is reserved, with the least room."""
    places = len(ledger[LEDGER.index("free_places")])
    slots = 16 if places else 0
    blocks = -(-nodes // SIZE)
    none, two = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    return PlanColumns(
        **dict(zip(LEDGER, ledger, strict=True)), installed=np.zeros((1, 2, nodes), np.int64),
        spans=np.array([[0, nodes]]), stays=np.zeros(1, np.int64),
        set_free=np.zeros(1, np.int64),
        set_owner=np.zeros(1, np.int64), windows=np.zeros((0, 7), np.int64), window_claims=two,
        window_rows=np.zeros((0, 5), np.int64), window_groups=np.zeros((0, 5), np.int64),
        kept=np.zeros((0, 6), np.int64), kept_at=np.zeros((0, nodes), np.int64), kept_of=np.zeros(jobs, np.int64),
        beside=np.zeros((2, nodes), np.int64), back=np.zeros(places, np.int64),
        usable=np.zeros((2, nodes), np.int64), of=none, total=np.zeros((1, 2, 0), np.int64),
        group_spans=np.zeros((1, 2), np.int64), rank=none, named=none,
        may_lend=none, times=none, at=none, looked=steps_to_look_at(0), level=np.zeros((0, 2, 0), np.int64),
        low=np.zeros((2, 2, 0), np.int64),
        slot=np.full(places, -1, np.int64), place_of=np.zeros(slots, np.int64),
        start=np.full(jobs, -1, np.int64), where=np.zeros((5, jobs), np.int64),
        rows=np.zeros((0, 5), np.int64), claims=two,
        wants=np.zeros(jobs, np.int64), fixed_at=np.zeros((2, jobs), np.int64), fixed=two,
        turn=np.zeros((6, 0), np.int64), new_rows=np.zeros((0, 5), np.int64), new_claims=two,
        started=np.zeros((6, 64), np.int64), out=np.zeros((256, 5), np.int64), cursor=np.zeros(CURSOR, np.int64),
        held=np.full((5, jobs), -1, np.int64), was=none, grown=np.zeros((2, 1 + places), np.int64),
        kind=np.full(jobs, -1, np.int64), refused=np.zeros(16, np.int64), due=np.full((2, jobs), -1, np.int64),
        late=np.zeros((5, 16), np.int64),
        now=np.zeros((2, nodes), np.int64), heads=np.zeros((1, 4), np.int64),
        meets=np.ones((1, 1), np.int64), aside=np.zeros(2, np.int64), then=np.zeros((1, 2, nodes), np.int64),
        most=np.zeros(blocks - (-blocks // SIZE), np.int64),
        left=np.zeros((2, 1, slots), np.int64), moments=none, walk=np.zeros(WALK, np.int64),
    )  # fmt: skip
