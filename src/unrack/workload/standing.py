"""Leases of the jobs that run when a run begins: from the nodes that they are said to be on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from unrack.cluster.node_names import numbers_of
from unrack.cluster.spec import Cluster
from unrack.ledger.lease import Lease
from unrack.resources.places import AMOUNT, NO_CLAIMS, PLACE, is_resource
from unrack.resources.site.installed import QUANTITIES, Site
from unrack.workload.job import JobTable


def standing_leases(cluster: Cluster, jobs: JobTable) -> list[Lease]:
    """What the jobs hold that run when a run begins, in order of their numbers.

    Each of their tasks has the cores and the memory that it asks for, on the nodes that the table says. Where a
    resource leaves a choice, as of the GPUs of a node, it is made for one job after the other. Refused, with file and
    line where these are known, are nodes that do not exist or cannot hold what is said to run there; and pooled
    devices, as nothing says which they are.
    """
    under_way = jobs.under_way
    if under_way is None:
        return []
    free = np.stack([cluster.cores, cluster.memory_mb])
    free_places = cluster.places.total.copy()
    asked = cluster.places.asked(jobs.devices, len(jobs))
    leases = []
    for job in np.flatnonzero(under_way.runs).tolist():
        tasks = tasks_on(cluster, jobs, job)
        each = jobs.cores[job], jobs.memory_mb[job]
        _no_pooled_devices(jobs, job)
        for node, count in tasks.items():
            for row, (what, amount) in enumerate(zip(("cores", "MB"), each, strict=True)):
                needs = int(count * amount)
                if needs > free[row, node]:
                    has = int((cluster.cores, cluster.memory_mb)[row][node])
                    taken = f", of which {has - free[row, node]} are taken" if free[row, node] < has else ""
                    called = cluster.names[node] if cluster.names else node
                    got = f"{needs} {what} on node {called}, which has {has}{taken}"
                    raise under_way.fault(job, jobs.ids[job], "on", got, "nodes that can hold what runs on them")
                free[row, node] -= needs
        nodes = sorted(tasks)
        counts = [tasks[node] for node in nodes]
        cores, mb = ([count * int(one) for count in counts] for one in each)
        lease = Lease.on(job, nodes, counts, cores, mb)
        claims = NO_CLAIMS
        if asked[:, job].any():
            claims = cluster.places.claims(asked[:, job], np.array(nodes), np.array(counts), free_places)
            if not cluster.places.agree(asked[:, job], np.array(nodes), np.array(counts), claims):
                if why := _barred(cluster, jobs, job):
                    raise under_way.fault(job, jobs.ids[job], "on", why, "jobs that may run where they do")
                got = f"nodes on which the job cannot have all that it asks for ({under_way.on[job]})"
                raise under_way.fault(job, jobs.ids[job], "on", got, "nodes that have it free")
            short = np.flatnonzero(claims[:, AMOUNT] > free_places[claims[:, PLACE]])
            if len(short):
                resource, place = cluster.places.at(int(claims[short[0], PLACE]))
                got = f"{claims[short[0], AMOUNT]} of {resource} {place.name}, of which others have taken too much"
                raise under_way.fault(job, jobs.ids[job], "on", got, "jobs that can run at the same time")
            free_places[claims[:, PLACE]] -= claims[:, AMOUNT]
        leases.append(lease if claims is NO_CLAIMS else lease._replace(claims=claims))
    return leases


def _barred(cluster: Cluster, jobs: JobTable, job: int) -> str:
    """Why a job may run nowhere on its site; ``""``: it may."""
    site, numbers = cluster.places.installed.get("site"), jobs.devices.get(("site", QUANTITIES[0]))
    number = 0 if numbers is None else int(numbers[job])
    return site.wheres[number - 1].why if isinstance(site, Site) and number else ""


def tasks_on(cluster: Cluster, jobs: JobTable, job: int) -> dict[int, int]:
    """Node → how many tasks a job has there; nodes that the tasks cannot be shared out over are refused."""
    under_way, tasks = jobs.standing, int(jobs.tasks[job])
    text = str(under_way.on[job])
    try:
        nodes = numbers_of(text, cluster.number_of, len(cluster))
    except ValueError as error:
        got, _, want = str(error).rpartition(" is not ")
        raise under_way.fault(job, jobs.ids[job], "on", got or repr(text[:80]), want) from None
    counts = Counter(nodes)
    if len(nodes) == tasks:
        return dict(counts)
    if len(counts) == len(nodes) and tasks % len(nodes) == 0:
        return dict.fromkeys(nodes, tasks // len(nodes))
    got = f"{text[:80]} ({len(nodes)} nodes) for {tasks} tasks"
    want = "different nodes, of a number that divides the tasks, or a node for each task"
    raise under_way.fault(job, jobs.ids[job], "on", got, want)


def said_on(names: Sequence[str], tasks: Sequence[int]) -> list[str]:
    """The nodes of a job as the column ``on`` has them: each once if all have as many tasks, else once a task.

    Examples
    --------
    >>> said_on(["n3", "n4"], [2, 2]), said_on(["n3", "n4"], [2, 1])
    (['n3', 'n4'], ['n3', 'n3', 'n4'])
    """
    if len(set(tasks)) <= 1:
        return list(names)
    return [name for name, count in zip(names, tasks, strict=True) for _ in range(count)]


def _no_pooled_devices(jobs: JobTable, job: int) -> None:
    for (kind, quantity), amounts in jobs.devices.items():
        if amounts[job] and not is_resource(kind):
            got = f"a job that runs when the run begins and holds {kind}.{quantity}"
            want = "none of pooled devices, as nothing says which it holds"
            raise jobs.standing.fault(job, jobs.ids[job], "on", got, want)
