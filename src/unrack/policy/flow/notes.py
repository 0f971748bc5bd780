"""What rounds remember from one to the next: times that were promised, and moves of running tasks.

*Promises.* A job that many have passed is told when it will have its place as running jobs end. As in EASY backfill
(Lifka 1995) others may start if they are done by then, or on what will be left beside it. O(running jobs) drafts, each
O(nodes + jobs + devices), when the job is first promised a time, and one a round.

*Migration rounds.* Running tasks are put back into the networks, and move where that costs less than it saves. Every
running job that holds nodes, whole devices and what follows from them takes part. To stay where it is costs a sub-task
what its place costs; anywhere else costs that and ``move`` more. What comes out is done if all of it can be held
together; otherwise everybody stays. A job that moves is stopped with its work kept and starts again at once elsewhere,
with the time that attaching its devices takes. Jobs that share devices, borrow memory, or hold devices of pools that
take time to detach do not move.

*Leases* are made of the hosts that networks gave to sub-tasks, and checked against what is left as they are made.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS, Lease, Share, attached, nodes_of
from unrack.policy.around import RoundCount
from unrack.policy.contract import Decision, Requeue, Start
from unrack.policy.flow.attempt import Beyond, FlowAttempt, FlowTerms, RunningSubTasks, attempted
from unrack.policy.flow.costs import NetworkLoad
from unrack.policy.flow.left import Hosts, Left, Sort, Sorts
from unrack.policy.placement.mixed import Mixed
from unrack.reasons import Code, Reason
from unrack.resources.places import AMOUNT, NO_CLAIMS, PLACE
from unrack.units import NEVER_US
from unrack.view import Draft, View
from unrack.view.windows import kept_from

Taken = list[tuple[int, int]]
"""Kind and place of devices taken."""


def lease_of(
    left: Left, sort: Sort, job: int, rows: Ints | None, nodes: list[int], hosts: dict[int, list[list[int]]]
) -> Lease | None:
    """A lease, taken out of what is left; ``None``: there is too little left, and nothing was taken.

    ``rows``: of :func:`node_rows`; ``nodes``: the node of each task; ``hosts``: kind to the hosts of the devices of
    each task, for kinds that are not built into nodes.
    """
    if rows is None:
        return None
    taken: Taken = []
    shares = taken_shares(left, sort, nodes, hosts, taken)
    claims = None if shares is None else claims_of(left, sort, rows, shares)
    if shares is None or claims is None:
        for kind, at in taken:
            left.devices[kind].set(at, True)
        return None
    lease = Lease(job, rows, shares=tuple(shares), claims=claims)
    left.take_nodes(lease)
    return lease


def node_rows(left: Left, sort: Sort, nodes: list[int]) -> Ints | None:
    """int64[rows, 5]: the nodes of a lease, in order; ``None``: one has too little left."""
    rows: list[list[int]] = []
    for node, tasks in ((node, len(list(same))) for node, same in groupby(sorted(nodes))):
        if left.cores[node] < max(tasks * sort.cores, 0) or left.mb[node] < tasks * sort.mb:
            return None
        cores = int(left.view.total[0, node]) if left.whole else tasks * sort.cores
        amounts = [tasks, cores, tasks * sort.mb]
        if rows and rows[-1][2:] == amounts and rows[-1][0] + rows[-1][1] == node:
            rows[-1][1] += 1
        else:
            rows.append([node, 1, *amounts])
    return np.array(rows, np.int64)


def built_in(left: Left, kind: int, node: int, count: int) -> list[int]:
    """Hosts of devices that only one node can use."""
    hosts, found = left.hosts[kind], list[int]()
    for host in np.flatnonzero(hosts.patterns[hosts.reach[node]]).tolist():
        found += [host] * min(count - len(found), int(left.devices[kind].counts[host]))
    return found


def taken_shares(
    left: Left, sort: Sort, nodes: list[int], hosts: dict[int, list[list[int]]], taken: Taken
) -> list[Share] | None:
    """The shares of a lease as of :func:`lease_of`; ``None``: a host has too few devices. ``taken`` notes what is."""
    shares: list[Share] = []
    for kind, count in (sort.devices or {}).items():
        for task, node in enumerate(nodes):
            own = hosts[kind][task] if kind in hosts else built_in(left, kind, node, count)
            found = [at for host in own if (at := left.devices[kind].pop(host)) is not None]
            taken += [(kind, at) for at in found]
            if len(found) != count:
                return None
            shares += shares_of(left, sort, kind, node, left.hosts[kind].device[found].tolist())
    return shares


def shares_of(left: Left, sort: Sort, kind: int, node: int, devices: list[int]) -> list[Share]:
    """One composition where a pool allows that, else a share of each device."""
    assert left.view.devices is not None
    installed = left.view.devices.installed
    pools = {int(installed.pool[device]) for device in devices}
    names = installed.quantities[kind]
    wants = sort.wants[kind, : len(names)].tolist()
    if len(pools) == 1 and installed.pools[min(pools)].compose >= len(devices):
        return [Share(node, tuple(sorted(devices)), tuple(wants))]
    each = tuple(amount // len(devices) for amount in wants)
    return [Share(node, (device,), each) for device in sorted(devices)]


def claims_of(left: Left, sort: Sort, rows: Ints, shares: list[Share]) -> Ints | None:
    """int64[claims, 2]: what the lease claims of the places of resources; ``None``: that is not left."""
    claimed = left.view.columns.claimed
    if claimed is None or not sort.claims.any():
        return NO_CLAIMS
    nodes, tasks = nodes_of(rows), np.repeat(rows[:, TASKS], rows[:, NODES])
    devices = attached(shares, claimed.home)
    claims = claimed.places.claims(sort.claims, nodes, tasks, left.claims, devices)
    if not claimed.places.agree(sort.claims, nodes, tasks, claims, devices):
        return None
    enough = bool((claims[:, AMOUNT] <= left.claims[claims[:, PLACE]]).all())
    return claims if enough and kept_from(left.view, sort.job, left.claims, claims) is None else None


FEW = 4
"""So many jobs that ask for nodes alone get their leases one by one as fast as all at once."""


def plain_leases(left: Left, sorts: list[Sort], jobs: Ints, of: Ints, task_job: Ints, task_node: Ints) -> list[Lease]:
    """Leases of jobs that ask for nothing but nodes, in order, of all for which there is enough left.

    ``jobs``, ``of``: int64[k], the jobs, and their sorts; ``task_job``, ``task_node``: int64[tasks], which of the jobs
    each task is of (ascending), and its node.
    """
    left.known.clear()
    nodes = len(left.cores)
    pairs, tasks = np.unique(task_job * nodes + task_node, return_counts=True)
    of_job, node = np.divmod(pairs, nodes)
    cores, mb = (np.array([getattr(sort, name) for sort in sorts], np.int64)[of] for name in ("cores", "mb"))
    rows = np.stack([node, np.ones_like(node), tasks, cores[of_job] * tasks, mb[of_job] * tasks], axis=1)
    if left.whole:
        rows[:, CORES] = left.view.total[0, node]
    bounds = np.searchsorted(of_job, np.arange(len(jobs) + 1))
    whole = taken_in_order(left.cores, left.mb, rows, bounds, left.whole)
    ends = bounds.tolist()
    numbers = jobs.tolist()
    return [Lease(numbers[i], rows[ends[i] : ends[i + 1]]) for i in np.flatnonzero(whole).tolist()]


@compiled
def taken_in_order(cores: Ints, mb: Ints, rows: Ints, bounds: Ints, whole: bool) -> Bools:
    """bool[jobs]: those for which there is enough beside the ones before them, which is taken (int64[nodes] each).

    Examples
    --------
    >>> rows = np.array([[0, 1, 1, 3, 0], [0, 1, 1, 2, 0], [0, 1, 1, 1, 0]])
    >>> taken_in_order(np.array([4]), np.array([0]), rows, np.arange(4), False).tolist()
    [True, False, True]
    """
    found = np.ones(len(bounds) - 1, np.bool_)
    for job in range(len(found)):
        for row in range(bounds[job], bounds[job + 1]):
            node = rows[row, FIRST]
            if rows[row, CORES] > max(cores[node], 0) or rows[row, LOCAL_MB] > mb[node]:
                found[job] = False
        for row in range(bounds[job], bounds[job + 1] if found[job] else bounds[job]):
            node = rows[row, FIRST]
            cores[node] = -1 if whole else cores[node] - rows[row, CORES]
            mb[node] -= rows[row, LOCAL_MB]
    return found


class Promise(NamedTuple):
    """The job that is to start next, and when it can at the latest (µs), if no job runs for longer than booked."""

    job: int
    start_us: int


def left_beside(left: Left, view: View, mixed: Mixed, notes: Any, promise: Promise, leases: list[Lease]) -> Left:
    """What is left now and will still be left when a job starts as promised; nothing, if it then has no place."""
    draft = Draft(view, left.now)
    for lease in leases:
        draft.start(lease)
    draft.move_on(promise.start_us)
    found = mixed.find(draft.view, notes, promise.job, promise.start_us)
    then = Left.of(draft.view, left.hosts, left.whole, left.cores >= 0, promise.start_us)
    if found is None:
        then.cores[:] = -1
    else:
        then.take(found)
    return left.meet(then)


def promised(view: View, mixed: Mixed, notes: Any, job: int, leases: list[Lease], now: int) -> Promise:
    """When a job has a place if these leases start now and nothing else does; a time after everything: never."""
    draft = Draft(view, now)
    for lease in leases:
        draft.start(lease)
    while (end := draft.next_end_us()) is not None:
        draft.move_on(end)
        if mixed.find(draft.view, notes, job, end) is not None:
            return Promise(job, end)
    return Promise(job, NEVER_US)


class RoundFate(IntEnum):
    """What became of a job in a round."""

    NOT_SEEN = 0
    TOO_MUCH = 1  # all that it asks together was not left
    WAITS = 2  # a network left one of its sub-tasks waiting
    APART = 3  # its parts had hosts, but could not be held together
    BEHIND = 4  # it would keep what a job is promised that many have passed
    NO_PLACE = 5  # no node has room for one of its tasks


@dataclass(slots=True)
class FlowNotes:
    """What rounds remember."""

    sorts: Sorts  # jobs that are alike, and how often each was left waiting
    hosts: dict[int, Hosts]  # kind to the hosts of its devices
    network: NetworkLoad  # what is known of the network
    beyond: Beyond  # places jobs that ask for more than nodes and whole devices
    version: int = -1  # of the ledger after the last round
    # when a round may bring something though nothing has happened, µs; a time after everything: never
    again_us: int = NEVER_US
    moved_us: int = -1  # when the last migration round was, µs
    idle: int = 0  # how many rounds in a row brought nothing, while nothing happened
    rounds: int = 0
    promise: Promise | None = None  # when a job that many have passed will have its place; ``None``: there is none
    # int64[jobs]: the jobs that waited when the last round began, in their order
    waited: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    # attempts, fate, started: of the last round: its networks, what became of every job (int64[room], as
    # :class:`RoundFate`), and leases
    attempts: list[FlowAttempt] = field(default_factory=list)
    fate: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    started: list[Lease] = field(default_factory=list)
    noted: dict[str, Any] = field(default_factory=dict)  # of orders: a :data:`unrack.policy.orders.Noted`
    # numbers of every round, one round after the other: see :class:`unrack.policy.around.RoundCount`
    counts: array[int] = field(default_factory=lambda: array("q"))

    @property
    def last(self) -> RoundCount | None:
        """Of the last round; ``None``: there was none."""
        return RoundCount(*self.counts[-len(RoundCount._fields) :]) if self.counts else None


class Runs(NamedTuple):
    """A running job that may move: what it asks, what it holds, the node of each task, kind to hosts of its devices."""

    sort: Sort
    lease: Lease
    nodes: list[int]
    hosts: dict[int, list[int]]


def moves(
    view: View, notes: FlowNotes, left: Left, terms: FlowTerms, open_nodes: Bools, move: float, now: int
) -> list[Decision]:
    """Jobs to stop, and then where they start again; nothing: no job moves.

    ``left``: what is free; what the jobs that may move hold is added to it.
    """
    jobs = np.sort(view.running[1, : view.running_count])
    notes.sorts.learn(view, jobs, view.app[None])
    runs = {job: one for job in jobs.tolist() if (one := movable(view, notes, left, job)) is not None}
    if not runs:
        return []
    for one in runs.values():
        left.give(one.lease)
    which = np.array(list(runs), np.int64)
    nodes = np.array([node for one in runs.values() for node in one.nodes], np.int64)
    hosts = {
        kind: np.array([host for one in runs.values() for host in one.hosts.get(kind, [])], np.int64)
        for kind in left.hosts
    }
    held = RunningSubTasks(nodes, hosts, move)
    found = attempted(terms, left, notes.sorts, notes.network, which, open_nodes, now, True, held)
    if (found.lost >= 0).any():
        return []
    places = {job: places_of(found, at) for at, job in enumerate(runs)}
    stay = {job for job, one in runs.items() if same(one, *places[job])}
    for job in sorted(stay):
        left.take(runs[job].lease)
    changed = [job for job in runs if job not in stay]
    ways = ((job, runs[job].sort, *places[job]) for job in changed)
    leases = [lease_of(left, sort, job, node_rows(left, sort, on), on, by_task) for job, sort, on, by_task in ways]
    held_together = [lease for lease in leases if lease is not None]
    if not changed or len(held_together) < len(leases):
        return []
    why = Reason(Code.PREEMPTED, "it goes on elsewhere")
    notes.attempts, notes.waited, notes.started = [found], which, held_together
    starts = [Start(lease, "moved") for lease in held_together]
    return [*(Requeue(job, why, keep_work=True) for job in changed), *starts]


def movable(view: View, notes: FlowNotes, left: Left, job: int) -> Runs | None:
    """A running job as one that may move; ``None``: it may not."""
    sort, lease = notes.sorts.every[int(notes.sorts.of[job])], view.lease(job)
    if notes.beyond.needed(view, job, sort) or len(lease.borrowed) or left.whole:
        return None
    tasks = np.repeat(lease.rows[:, TASKS], lease.rows[:, NODES])
    nodes = np.repeat(lease.nodes, tasks).tolist()
    if len(nodes) != sort.tasks or int(lease.rows[:, CORES] @ lease.rows[:, NODES]) != sort.tasks * sort.cores:
        return None
    hosts: dict[int, list[int]] = {}
    installed = view.cluster.devices
    for share in sorted(lease.shares, key=lambda share: (share.node, share.devices)):
        kind = int(installed.kind[share.devices[0]])
        pool = installed.pools[int(installed.pool[share.devices[0]])]
        if pool.detach_us or kind not in left.hosts:
            return None
        own = left.hosts[kind]
        hosts.setdefault(kind, []).extend(int(own.host[own.at[device]]) for device in share.devices)
    wanted = {kind: sort.tasks * count for kind, count in (sort.devices or {}).items()}
    return Runs(sort, lease, sorted(nodes), hosts) if {k: len(of) for k, of in hosts.items()} == wanted else None


def places_of(found: FlowAttempt, at: int) -> tuple[list[int], dict[int, list[list[int]]]]:
    """The node of each task of one job, and kind to the hosts of the devices of each task."""
    nodes = found.tasks.node[found.tasks.job == at].tolist()
    return nodes, {kind: by_job[at] for kind, by_job in found.hosts.items() if at in by_job}


def same(one: Runs, nodes: list[int], hosts: dict[int, list[list[int]]]) -> bool:
    """Whether that is where a job runs already."""
    return sorted(nodes) == one.nodes and all(
        sorted(one.hosts[kind]) == sorted(host for task in by_task for host in task) for kind, by_task in hosts.items()
    )
