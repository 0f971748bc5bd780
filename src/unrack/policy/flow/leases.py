"""Leases from the hosts that networks gave to sub-tasks, checked against what is left as they are made."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import CORES, LOCAL_MB, NODES, TASKS, Lease, Share, attached, nodes_of
from unrack.policy.flow.left import Left, Sort
from unrack.resources.places import AMOUNT, NO_CLAIMS, PLACE
from unrack.view.windows import kept_from

Taken = list[tuple[int, int]]
"""Kind and place of devices taken."""


def lease_of(left: Left, sort: Sort, job: int, nodes: list[int], hosts: dict[int, list[list[int]]]) -> Lease | None:
    """A lease, taken out of what is left; ``None``: there is too little left, and nothing was taken.

    ``nodes``: the node of each task; ``hosts``: kind to the hosts of the devices of each task, for kinds that are not
    built into nodes.
    """
    rows = node_rows(left, sort, nodes)
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
    order = np.lexsort((of_job, node))
    starts = np.searchsorted(node[order], node[order])
    enough = np.ones(len(rows), np.bool_)
    for column, free in ((CORES, left.cores), (LOCAL_MB, left.mb)):
        running = np.cumsum(rows[order, column])
        before = running[starts] - rows[order[starts], column]
        enough[order] &= running - before <= np.maximum(free[node[order]], 0)
    whole = np.bincount(of_job, ~enough, len(jobs)) == 0
    bounds = np.searchsorted(of_job, np.arange(len(jobs) + 1)).tolist()
    keep = whole[of_job]
    np.subtract.at(left.cores, node[keep], rows[keep, CORES])
    np.subtract.at(left.mb, node[keep], rows[keep, LOCAL_MB])
    if left.whole:
        left.cores[node[keep]] = -1
    numbers = jobs.tolist()
    return [Lease(numbers[i], rows[bounds[i] : bounds[i + 1]]) for i in np.flatnonzero(whole).tolist()]
