"""Words for what sub-tasks ask, and for hosts."""

from __future__ import annotations

import numpy as np

from unrack.ledger.lease import NODES, Lease
from unrack.policy.flow.costs import Phase
from unrack.policy.flow.notes import Notes
from unrack.policy.flow.sorts import Sort
from unrack.resources.gpus.machines.machine import text_of
from unrack.view import View

ON_NODES = "nodes"
"""The group of resources of the first network of an attempt."""


def host_name(view: View, notes: Notes, phase: Phase, host: int) -> str:
    """A host of a network: a node, or a pool that is in none."""
    node = int(phase.node[host])
    if phase.group == ON_NODES:
        return f"node {node}"
    own = next(hosts for hosts in notes.hosts.values() if hosts.name == phase.group)
    pool = f"pool {view.cluster.devices.pools[int(own.pool[host])].name}"
    if node < 0:
        return pool
    return f"node {node}" if (own.home == node).sum() == 1 else f"{pool} at node {node}"


def hosts_name(view: View, notes: Notes, phase: Phase, hosts: list[int]) -> str:
    """Several hosts that are alike."""
    if len(hosts) == 1:
        return host_name(view, notes, phase, hosts[0])
    names = [host_name(view, notes, phase, host) for host in hosts]
    if all(name == f"node {phase.node[host]}" for name, host in zip(names, hosts, strict=True)):
        return f"nodes {text_of([int(phase.node[host]) for host in hosts])}"
    return ", ".join(names)


def asked_text(sort: Sort) -> str:
    """What a task of a sort asks: cores, memory, devices."""
    parts = [f"{sort.cores:,} core{'' if sort.cores == 1 else 's'}"] if sort.cores else []
    parts += [f"{sort.mb:,} MB"] if sort.mb else []
    for names, wants in zip(sort.names, sort.wants, strict=False):
        if sort.devices is None and wants.any():
            parts += [f"{name} {amount:,}" for name, amount in zip(names, wants.tolist(), strict=False) if amount]
    return ", ".join(parts) or "nothing but a place"


def task_text(notes: Notes, sort: Sort) -> str:
    """The same with whole devices, by kind."""
    devices = [f"{count} {notes.hosts[kind].name}" for kind, count in (sort.devices or {}).items()]
    return ", ".join([asked_text(sort), *devices])


def job_text(notes: Notes, sort: Sort) -> str:
    """What a whole job asks."""
    return f"{sort.tasks} task{'' if sort.tasks == 1 else 's'} of {task_text(notes, sort)}"


def lease_text(view: View, notes: Notes, lease: Lease) -> str:
    """Where a job runs, and of which hosts its devices are."""
    nodes = [node for row in lease.rows.tolist() for node in range(row[0], row[0] + row[NODES])]
    words = [f"node{'' if len(nodes) == 1 else 's'} {text_of(nodes)}"]
    devices = view.cluster.devices
    counts: dict[tuple[str, str], int] = {}
    for share in lease.shares:
        for device in share.devices:
            home, pool = int(devices.home[device]), devices.pools[int(devices.pool[device])]
            at = f"node {home}" if home >= 0 else f"pool {pool.name}"
            key = devices.kinds[int(devices.kind[device])], at
            counts[key] = counts.get(key, 0) + 1
    words += [f"{count} {kind} of {at}" for (kind, at), count in sorted(counts.items())]
    borrowed = sum(int(row[2]) for row in lease.borrowed.tolist())
    lenders = np.unique(lease.borrowed[:, 1]).tolist() if borrowed else []
    words += [f"{borrowed:,} MB of node{'' if len(lenders) == 1 else 's'} {text_of(lenders)}"] if borrowed else []
    return ", ".join(words)
