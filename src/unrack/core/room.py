"""How many tasks of a job the empty cluster could hold at most, each with all that it asks at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unrack.cluster.pools.pool import UNLIMITED, Devices, Pace
from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.resources.contract import tasks_on
from unrack.resources.places import Places, ResourcePart
from unrack.resources.site.installed import COUNTS, WHERE, Site
from unrack.workload.job import JobTable

CELLS = 1_000_000
"""Numbers in a table of nodes, or pools, by jobs that is looked at in one go."""


def most_tasks(cluster: Cluster, jobs: JobTable, pace: Pace, elsewhere: bool = False) -> Ints:
    """int64[jobs]: a bound that no policy beats; UNLIMITED where demands need not be looked at together.

    A node holds tasks that find on it cores, memory (unless that may be ``elsewhere``), all that they ask of resources,
    and a pool of every kind that they ask for. The devices of a pool serve as many tasks as they have of what these
    ask, in compositions of which each serves one node, unless the pool may be attached to several. Pools that have a
    node in common serve no more tasks than all their nodes hold. What else may stand in the way is not looked at.
    """
    found = np.full(len(jobs), UNLIMITED, np.int64)
    devices, places, nodes = cluster.devices, cluster.places, cluster.cores > 0
    wants = devices.wanted(jobs.devices, len(jobs))
    asked, claimed = np.any(wants, axis=1), places.asked(jobs.devices, len(jobs))
    several, unlike = asked.sum(axis=0), list[ResourcePart]()
    matters = np.zeros(len(claimed), np.bool_)
    for part in places.parts:
        own, site = claimed[part.quantities], part.installed
        if isinstance(site, Site):
            narrow = np.isin(own[WHERE], [number for number in np.unique(own[WHERE]).tolist() if site.narrows(number)])
            few = np.isin(own[COUNTS], [n for n, row in enumerate(site.counts, 1) if any(one[1] < 0 for one in row)])
            several += narrow + 1 * few
            own[WHERE], own[COUNTS] = own[WHERE] * (narrow | few), own[COUNTS] * few
            matters[part.quantities.start + np.array([WHERE, COUNTS])] = True
        elif part.by_place:
            several += (own[[name in part.amounts for name in site.quantities]] > 0).sum(axis=0)
            matters[part.quantities] = True
            unlike.append(part)
    every = np.flatnonzero(devices.reach[:, nodes].all(axis=1))
    serves = _Served.of(devices, every, wants, pace).serves
    for kind, name in enumerate(devices.kinds):  # one task finds all of it wherever it runs, or on no node at all
        own = np.array([devices.pools[p].kind == name for p in every.tolist()], np.bool_)
        several += 2 * (asked[kind] & ((jobs.tasks > 1) | ~np.any(serves[own], axis=0)))
    rows = np.flatnonzero(several > 1)
    if not len(rows):
        return found
    kinds_of_claims, of = np.unique(claimed[:, rows] * matters[:, None], axis=1, return_inverse=True)
    # sets of nodes, on how many of them a job may be, and the kinds of claims that are found there
    alike: dict[tuple[bytes, int], tuple[Bools, list[int]]] = {}
    for i, own in enumerate(kinds_of_claims.T):
        for within in _within(places, unlike, own, nodes):
            on = places.most_nodes(own, places.total, within)
            alike.setdefault((within.tobytes(), on), (within, []))[1].append(i)
    found[rows] = 0
    for (_, on), (within, kinds) in alike.items():
        mine = rows[np.isin(of.ravel(), kinds)]
        found[mine] = np.maximum(found[mine], _among(cluster, within, on, jobs, wants, mine, pace, elsewhere))
    return found


def _within(places: Places, unlike: Sequence[ResourcePart], asked: Ints, nodes: Bools) -> list[Bools]:
    """Sets of nodes of which all tasks of a job must be in one: those on which one of them finds what it claims."""
    none, sets = np.zeros(0, np.int64), places.sets(asked[:, None])
    if sets is not None:
        nodes = nodes & sets.masks[sets.of[0]]
    for part in unlike:
        if (own := asked[part.quantities]).any():
            nodes = nodes & part.installed.open_nodes(own, part.total, none, none)
    return [nodes & one for one in places.choices(asked)]


class _Served(NamedTuple):
    """What some pools (rows) could do for tasks of some jobs (columns), int64[pools, jobs] each."""

    least: Ints  # devices in the smallest composition that serves one task
    most: Ints  # tasks that the largest composition serves
    together: Ints  # tasks that all devices serve
    serves: Bools

    @classmethod
    def of(cls, devices: Devices, pools: Ints, wants: Ints, pace: Pace) -> _Served:
        """Of some pools; ``wants``: int64[kinds, quantities, jobs]."""
        shape = len(pools), wants.shape[2]
        least, most, together = np.ones(shape, np.int64), np.full(shape, UNLIMITED), np.full(shape, UNLIMITED)
        for at, p in enumerate(pools.tolist()):
            pool = devices.pools[p]
            kind = devices.kinds.index(pool.kind)
            model = pace.model[kind]
            for q in range(len(devices.quantities[kind])):
                governed = (model >= 0) & pace.governed[model, q] & (pool.split == 1)
                amount, has = np.where(governed, 0, wants[kind, q]), int(devices.capacity[q, pool.first])
                some = amount > 0
                part = np.maximum(amount, 1)
                least[at] = np.maximum(least[at], np.where(some, -(-part // has) if has else UNLIMITED, 1))
                most[at] = np.minimum(most[at], np.where(some, pool.compose * has // part, UNLIMITED))
                together[at] = np.minimum(together[at], np.where(some, pool.count * has // part, UNLIMITED))
            share = min(pool.share, pool.split) if pool.split > 1 else pool.share
            one_more = pace.speeds[:, 1 : pool.compose + 1, 1:] > 0  # whether a model admits it, on so many devices
            admitted = np.minimum(np.logical_and.accumulate(one_more, axis=2).sum(axis=2), share)
            size = np.arange(1, admitted.shape[1] + 1)
            on_all, enough = (pool.count * admitted // size).max(axis=1), np.where(admitted > 0, size, UNLIMITED)
            enough = np.minimum.accumulate(enough[:, ::-1], axis=1)[:, ::-1]  # the next larger size that it admits
            fewest = np.maximum(least[at], enough[model, np.minimum(least[at], len(size)) - 1])
            least[at] = np.where(model >= 0, fewest, least[at])
            most[at] = np.minimum(most[at], np.where(model >= 0, admitted.max(axis=1)[model], share))
            most[at] *= least[at] <= pool.compose
            together[at] = np.minimum(together[at], np.where(model >= 0, on_all[model], UNLIMITED))
            together[at] = np.minimum(together[at], pool.count // least[at] * most[at])
        return cls(least, most, together, most > 0)


def _among(
    cluster: Cluster, within: Bools, on: int, jobs: JobTable, wants: Ints, rows: Ints, pace: Pace, elsewhere: bool
) -> Ints:
    """int64[rows]: how many tasks of some jobs so many of some nodes could hold at most."""
    found = np.zeros(len(rows), np.int64)
    if not within.any():
        return found
    devices, cores, mb = cluster.devices, cluster.cores[within], cluster.memory_mb[within]
    node_of, pool_of = _alike(devices, np.stack([cores, mb], axis=1), devices.reach[:, within])
    _, node, count = np.unique(node_of, return_index=True, return_counts=True)
    _, look, times = np.unique(pool_of, return_index=True, return_counts=True)
    near = np.zeros((len(look), len(node)), np.bool_)
    near[pool_of[:, None], node_of] |= devices.reach[:, within]
    kind_of = np.array([devices.kinds.index(devices.pools[p].kind) for p in look.tolist()], np.int64)
    joined = {kind: _joined(near[kind_of == kind]) for kind in np.unique(kind_of).tolist()}
    built_in = devices.reach[look].sum(axis=1) == 1
    step = max(1, CELLS // max(1, len(count), int(near.sum())))
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        own_mb = jobs.memory_mb[some] * (not elsewhere)
        fit = tasks_on(cores[node][:, None], mb[node][:, None], jobs.cores[some], own_mb)
        mine, own = wants[:, :, some], pace._replace(model=pace.model[:, some])
        served = _Served.of(devices, look, mine, own)
        asked = np.any(mine, axis=1)
        kinds = np.flatnonzero(np.any(asked, axis=1)).tolist()
        for kind in kinds:
            serves = served.serves[kind_of == kind]
            reached = [np.any(serves[near[kind_of == kind, g]], axis=0) for g in range(len(count))]
            fit = np.where(asked[kind] & ~np.array(reached, np.bool_).reshape(fit.shape), 0, fit)
            for g, those in enumerate((near & (kind_of == kind)[:, None]).T):
                if built_in[those].all():
                    own_tasks = np.minimum(served.together[those], fit[g]) * (times[those] // count[g])[:, None]
                    fit[g] = np.where(asked[kind], np.minimum(fit[g], own_tasks.sum(axis=0)), fit[g])
        held = fit * count[:, None]
        order = np.argsort(-fit, axis=0)
        before = np.cumsum(count[order], axis=0) - count[order]
        most = (np.take_along_axis(fit, order, 0) * np.clip(on - before, 0, count[order])).sum(axis=0)
        for kind in kinds:
            pools = np.flatnonzero(kind_of == kind)
            total = np.zeros(len(some), np.int64)
            for its_pools, its_nodes in joined.get(kind, ()):
                supply = np.zeros(len(some), np.int64)
                for at in pools[its_pools].tolist():
                    pool, tasks = devices.pools[int(look[at])], served.together[at]
                    if pool.single:
                        fullest = fit[near[at]].max(axis=0, initial=0)
                        tasks = np.minimum(tasks, pool.count // served.least[at] * fullest)
                    supply += tasks * times[at]
                total += np.minimum(supply, held[its_nodes].sum(axis=0))
            most = np.where(asked[kind], np.minimum(most, total), most)
        found[first : first + step] = most
    return found


def _alike(devices: Devices, sizes: Ints, reach: Bools) -> tuple[Ints, Ints]:
    """int64[nodes], int64[pools]: numbers of kinds: those of one kind reach as many of every kind of the others."""
    rows = [
        (devices.kinds.index(pool.kind), pool.count, pool.single, pool.compose, pool.share, pool.split)
        for pool in devices.pools
    ]
    nodes = _numbered(sizes)
    pools = _numbered(
        np.hstack(
            [np.array(rows, np.int64).reshape(-1, 6), devices.capacity[:, [pool.first for pool in devices.pools]].T]
        )
    )
    kinds = 0
    while (more := nodes.max() + pools.max(initial=0) + 2) > kinds:
        kinds = more
        nodes = _numbered(np.column_stack([nodes, reach.T.astype(float) @ (pools[:, None] == np.arange(kinds))]))
        pools = _numbered(np.column_stack([pools, reach.astype(float) @ (nodes[:, None] == np.arange(kinds))]))
    return nodes, pools


def _numbered(rows: Ints) -> Ints:
    """int64[rows]: equal rows have equal numbers, from 0."""
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def _joined(near: Bools) -> list[tuple[Ints, Ints]]:
    """Pools and kinds of nodes that reach one another; ``near``: bool[pools, kinds of nodes]."""
    found, left = [], set(range(len(near)))
    while left:
        pools, nodes = np.zeros(len(near), np.bool_), np.zeros(near.shape[1], np.bool_)
        pools[min(left)] = True
        while not np.array_equal(more := np.any(near[pools], axis=0), nodes):
            nodes = more
            pools = np.any(near[:, nodes], axis=1)
        found.append((np.flatnonzero(pools), np.flatnonzero(nodes)))
        left -= set(found[-1][0].tolist())
    return found
