"""Migration rounds: running tasks are put back into the networks, and move where that costs less than it saves.

Every running job that holds nodes, whole devices and what follows from them takes part. To stay where it is costs a
sub-task what its place costs; anywhere else costs that and ``move`` more. What comes out is done if all of it can be
held together; otherwise everybody stays. A job that moves is stopped with its work kept and starts again at once
elsewhere, with the time that attaching its devices takes. Jobs that share devices, borrow memory, or hold devices of
pools that take time to detach do not move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Bools
from unrack.ledger.lease import CORES, NODES, TASKS, Lease
from unrack.policy.contract import Decision, Requeue, Start
from unrack.policy.flow.attempt import Attempt, Held, Terms, attempted
from unrack.policy.flow.leases import lease_of
from unrack.policy.flow.left import Left, Sort
from unrack.policy.flow.notes import Notes
from unrack.reasons import Code, Reason
from unrack.view import View


class Runs(NamedTuple):
    """A running job that may move: what it asks, what it holds, the node of each task, kind to hosts of its devices."""

    sort: Sort
    lease: Lease
    nodes: list[int]
    hosts: dict[int, list[int]]


def moves(
    view: View, notes: Notes, left: Left, terms: Terms, open_nodes: Bools, move: float, now: int
) -> list[Decision]:
    """Whom to stop, and then where they start again; nothing: nobody moves.

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
    held = Held(nodes, hosts, move)
    found = attempted(terms, left, notes.sorts, notes.network, which, open_nodes, now, True, held)
    if (found.lost >= 0).any():
        return []
    places = {job: places_of(found, at) for at, job in enumerate(runs)}
    stay = {job for job, one in runs.items() if same(one, *places[job])}
    for job in sorted(stay):
        left.take(runs[job].lease)
    changed = [job for job in runs if job not in stay]
    leases = [lease_of(left, runs[job].sort, job, *places[job]) for job in changed]
    held_together = [lease for lease in leases if lease is not None]
    if not changed or len(held_together) < len(leases):
        return []
    why = Reason(Code.PREEMPTED, "it goes on elsewhere")
    notes.attempts, notes.waited, notes.started = [found], which, held_together
    starts = [Start(lease, "moved") for lease in held_together]
    return [*(Requeue(job, why, keep_work=True) for job in changed), *starts]


def movable(view: View, notes: Notes, left: Left, job: int) -> Runs | None:
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


def places_of(found: Attempt, at: int) -> tuple[list[int], dict[int, list[list[int]]]]:
    """The node of each task of one job, and kind to the hosts of the devices of each task."""
    nodes = found.tasks.node[found.tasks.job == at].tolist()
    return nodes, {kind: by_job[at] for kind, by_job in found.hosts.items() if at in by_job}


def same(one: Runs, nodes: list[int], hosts: dict[int, list[list[int]]]) -> bool:
    """Whether that is where a job runs already."""
    return sorted(nodes) == one.nodes and all(
        sorted(one.hosts[kind]) == sorted(host for task in by_task for host in task) for kind, by_task in hosts.items()
    )
