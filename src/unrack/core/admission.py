"""Which jobs may come in: what a policy needs of jobs and cluster, and which the empty cluster could never hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, le
from typing import Any, cast

import numpy as np

from unrack.cluster.pools.pool import WHOLE, Pace
from unrack.cluster.spec import Cluster
from unrack.core.room import most_tasks
from unrack.errors import PolicyError
from unrack.kernels.arrays import Bools, Ints
from unrack.policy.around import traits_of
from unrack.policy.contract import Ability, Policy, Traits
from unrack.reasons import Code, Reason
from unrack.resources.contract import Gangs, tasks_on
from unrack.resources.places import is_resource
from unrack.resources.site.installed import Site
from unrack.view import Draft, View
from unrack.vocabulary import Need
from unrack.workload.job import CORES, MEMORY, JobTable
from unrack.workload.site.sessions import components_of
from unrack.workload.site.settled import numbered
from unrack.workload.standing import standing_leases
from unrack.workload.store import JobStore, one_row


def check(policy: Policy[Any], cluster: Cluster, jobs: JobTable) -> None:
    """Refuse a policy that needs what the jobs do not say, or does not go with what they ask and the cluster has.

    A PolicyError names the first thing that is missing. An InputError if a job names a tier or a level that the cluster
    does not have, or runs when the run begins where it cannot.
    """
    standing_leases(cluster, jobs)
    needs = traits_of(policy).needs
    for need in sorted(needs - jobs.says) if needs and len(jobs) else ():
        raise PolicyError(f"policy {policy.name}", f"a workload without {need.words}", f"a workload with {need.words}")
    check_asks(policy, cluster, jobs)


def check_asks(policy: Policy[Any], cluster: Cluster, jobs: JobTable, together: bool = False) -> None:
    """As :func:`check`, of what the jobs ask alone; ``together``: they are components of a heterogeneous job."""
    traits, name = traits_of(policy), f"policy {policy.name}"
    kinds = sorted({kind for (kind, _), amounts in jobs.devices.items() if bool((amounts > 0).any())})
    claimed = [kind for kind in kinds if is_resource(kind)]
    if claimed and Need.COUNTED not in traits.places:
        want = "a policy that claims them for jobs, as the built-in ones do by every rule with a name"
        raise PolicyError(name, f"a workload that asks for {', '.join(claimed)}", want)
    kinds = [kind for kind in kinds if not is_resource(kind)]
    if kinds and Need.DEVICES not in traits.places:
        want = "a policy that places devices: a built-in one or your own with devices = True"
        raise PolicyError(name, f"a workload that asks for devices ({', '.join(kinds)})", want)
    if Ability.HOLDS not in traits.does and (together or components_of(jobs)):
        want = "a policy that starts their components together: a list, EASY, conservative or Slurm-like one"
        raise PolicyError(name, "a workload with heterogeneous jobs", want)
    site = cluster.places.installed.get("site")
    if traits.whole_nodes and isinstance(site, Site) and site.by_node:
        kept = next(name for name, cores in site.cores_of.items() if cores)
        raise PolicyError(name, f"reservation {kept} of some cores of nodes", "a policy under which jobs share nodes")
    if traits.tiers:
        from unrack.policy.tiers.own_policy import refuse_others

        refuse_others(policy.name, cluster, jobs)
    elif traits.lends and Need.TIERS in cluster.offers:
        want = f"slo, slo-first-fit, slo-best-fit or an OnTiers: cluster {cluster.name!r} has tiers of memory"
        raise PolicyError(name, "one that lends among all nodes", want)


Joint = tuple[bytes, tuple[int, ...]]
"""What a job asks of several resources, and its tasks, their cores and MB: one that asks for less has room, too."""


class Admission:
    """Which jobs the empty cluster could never hold under a policy, and why; jobs may be added.

    ``pace_of``: how any jobs run on devices: what a model governs, a device need not have; ``pace``: how these jobs do.
    """

    def __init__(
        self, cluster: Cluster, policy: Policy[Any], pace_of: Callable[[JobTable], Pace], jobs: JobTable, pace: Pace
    ) -> None:
        self.cluster, self.policy, self._pace_of = cluster, policy, pace_of
        self.traits = traits_of(policy)
        self._impossible = bytearray(self._too_big(jobs, pace))
        self.culprit: dict[int, int] = {}  # heterogeneous job → the component that can never start; -1: all together
        self._room: dict[bytes, tuple[set[tuple[int, ...]], set[tuple[int, ...]]]] = {}  # sizes with room, and without
        self._known: dict[tuple[bytes, tuple[object, ...], bytes], bytes] = {}  # of those added, by what they ask
        self._apart: set[int] = set()  # jobs that have room by each of these, and none by all

    def joint(self, jobs: JobTable) -> dict[int, Joint]:
        """Jobs that ask for nodes of a site and for what some nodes alone have; what decides whether some have both.

        Each resource looks at what is asked of itself alone. Jobs for which any nodes will do, and any number of them,
        are not looked at, as without a site. A policy that does not say whether a job has a place is taken to have one
        where conservative plans do, and not looked at if it lends memory. Of devices nothing is asked: rules that
        choose for one task after the other may find too few on the empty cluster, and enough on another.
        """
        places, where = self.cluster.places.installed, jobs.devices.get(("site", "where"))
        told = Ability.HOLDS in self.traits.does
        if where is None or not (told or not self.traits.lends):
            return {}
        unlike = {part.name for part in self.cluster.places.parts if part.name != "site" and part.by_place}
        names = [key for key in jobs.devices if key[0] in unlike]
        others = [jobs.devices[key] for key in names]
        site = cast(Site, places["site"])
        narrow, counts = [n for n in np.unique(where).tolist() if site.narrows(n)], jobs.devices["site", "counts"]
        few = [n for n, row in enumerate(site.counts, 1) if any(amount < 0 for _, amount, _ in row)]
        bounded = np.isin(where, narrow) | np.isin(counts, few)
        rows = np.flatnonzero(bounded & np.any([amounts > 0 for amounts in others] or [where < 0], axis=0))
        several = [n for n in np.unique(where[rows]).tolist() if site.choices(np.array([n]))]
        counts = np.where(np.isin(where, several) | np.isin(counts, few), counts, 0)
        us = jobs.request_us * bool(self.cluster.places.windows)
        rest, sizes = np.stack([where, counts, us, *others])[:, rows], jobs.asks[: MEMORY + 1, rows]
        said, order = repr(names).encode(), np.lexsort(-sizes)  # the largest first: with room for them all others have
        return {int(rows[i]): (said + rest[:, i].tobytes(), tuple(sizes[:, i].tolist())) for i in order.tolist()}

    def join(self, view: View, joint: Mapping[int, Joint], before: int = 0) -> None:
        """Components of heterogeneous jobs can start if all can, on the empty ledger that a view shows.

        ``joint``: as of :meth:`joint`; they can start if there is room for all that they ask. ``before``: how many jobs
        there were before those of the view.
        """
        components = {row for rows in view.components.of.values() for row in rows}
        for job, (what, size) in joint.items():
            if job not in components and not self.never(job + before) and not self._room_for(view, job, what, size):
                self._impossible[job + before] = True
                self._apart.add(job + before)
        known: dict[tuple[bytes, ...], bool] = {}
        for first, rows in view.components.of.items():
            found = next((row + before for row in rows if self.never(row + before)), None)
            if found is None:
                shape = self._shape(view, list(rows))
                if shape not in known:
                    known[shape] = any(self._holds(view, first, now) for now in self._moments(view, first))
                found = None if known[shape] else -1
            for row in (row + before for row in rows):
                self._impossible[row] = False
            if found is not None:
                self._impossible[first + before], self.culprit[first + before] = True, found

    def _room_for(self, view: View, job: int, what: bytes, size: tuple[int, ...]) -> bool:
        """Whether the empty ledger of a view has room for a job; of a larger or smaller one that may be known."""
        room, none = self._room.setdefault(what, (set(), set()))
        if any(all(map(ge, one, size)) for one in room):
            return True
        if any(all(map(le, one, size)) for one in none):
            return False
        found = any(self._holds(view, job, now, devices=False) for now in self._moments(view, job))
        (room if found else none).add(size)
        return found

    def _shape(self, view: View, rows: list[int]) -> tuple[bytes, ...]:
        """What decides whether components have a place."""
        claimed, devices, own = view.columns.claimed, view.columns.devices, view.components
        asked = [own.asks[:, rows], own.set_of[rows]]
        asked += [] if claimed is None else [claimed.asked_by(np.array(rows))]
        asked += [] if devices is None else [devices.columns.wants[:, :, rows], devices.columns.model[:, rows]]
        return tuple(amounts.tobytes() for amounts in asked)

    def _moments(self, view: View, job: int) -> list[int]:
        """When it is to have a place, µs: as its windows open, as others end in these, or when all are over."""
        windows, seen = self.cluster.places.windows, view.columns
        rows, ends = view.components.of.get(job), {one.end_us for one in windows}
        mine = np.abs(seen.set_owner[seen.set_of[[job]] if rows is None else view.components.set_of[[*rows]]])
        own = [window for window in windows if window.owner in mine]
        inside = {end for end in ends for window in own if window.start_us < end < window.end_us}
        return [window.start_us for window in own] + sorted(inside) or [max(ends, default=0)]

    def _holds(self, view: View, job: int, now: int, devices: bool = True) -> bool:
        draft = Draft(view, now)
        draft.submit(job, devices)
        judge: Any = self.policy
        if Ability.HOLDS not in self.traits.does:
            from unrack.policy.discipline.reservations import Conservative

            judge = Conservative()
        return bool(judge.holds(draft.view, job))

    def _too_big(self, jobs: JobTable, pace: Pace) -> bytes:
        """Which jobs the empty cluster could never hold, each by itself."""
        cluster, elsewhere = self.cluster, self.traits.elsewhere
        if Ability.POSSIBLE in self.traits.does:
            found = ~np.asarray(cast(Any, self.policy).possible(cluster, jobs))
        else:
            found = impossible(cluster, jobs, self.traits.lends)
        most = most_tasks(cluster, jobs, self._seen(pace), elsewhere)
        found |= (unmet(cluster, jobs, elsewhere) >= 0) | (most < jobs.tasks)
        return np.asarray(found, np.bool_).tobytes()

    def _seen(self, pace: Pace) -> Pace:
        """How jobs run, as the policy sees it: one that looks at no models takes every amount as a hard limit."""
        return pace if self.traits.by_models else pace._replace(governed=np.zeros_like(pace.governed))

    def add(self, row: JobTable, pace: Pace) -> None:
        """Look at one more job, the only row, and how it runs on devices."""
        asked = tuple((key, int(amounts[0])) for key, amounts in row.devices.items())
        alike = row.asks[: MEMORY + 1].tobytes(), asked, pace.model.tobytes()
        if alike not in self._known or Ability.POSSIBLE in self.traits.does:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[alike] = self._too_big(row, pace)
        self._impossible += self._known[alike]

    def never(self, job: int) -> bool:
        """Whether a job can never start."""
        return bool(self._impossible[job])

    def all_never(self) -> Bools:
        """bool[jobs]: which jobs can never start."""
        return np.frombuffer(self._impossible, np.bool_)

    def too_big(self, job: int, store: JobStore, mb: int) -> Reason | None:
        """In what a job is bigger than the whole cluster if its tasks are given so many MB; ``None``: in nothing."""
        row = numbered(self.cluster, one_row(store.job(job), None))
        row.asks[MEMORY] = mb
        return self.reason(job, row) if self._too_big(row, self._pace_of(row))[0] else None

    def reason_of(self, job: int, store: JobStore) -> Reason:
        """As :meth:`reason`; of a heterogeneous job of the first component that is."""
        one = self.culprit.get(job, job)
        if one < 0:
            return Reason(Code.TOO_BIG, "an empty cluster for all of its components at once")
        reason = self.reason(one, numbered(self.cluster, one_row(store.job(one), None)))
        return reason._replace(what=f"{reason.what}, component {store.job(one).id}") if job in self.culprit else reason

    def reason(self, job: int, row: JobTable) -> Reason:
        """In what a job (the only row of ``row``) is bigger than the whole cluster."""
        cluster, traits, pace = self.cluster, self.traits, self._seen(self._pace_of(row))
        tasks, cores, mb = int(row.tasks[0]), int(row.cores[0]), int(row.memory_mb[0])
        most = 0 if job in self._apart else int(most_tasks(cluster, row, pace, traits.elsewhere)[0])
        if (reason := lacking(cluster, row, pace, traits, most)) is not None:
            return reason
        if tasks * cores > cluster.total_cores:
            return Reason(Code.TOO_BIG, "cores", tasks * cores, cluster.total_cores)
        if cores > int(cluster.cores.max()):
            return Reason(Code.TOO_BIG, "cores on one node", cores, int(cluster.cores.max()))
        if traits.tiers:
            return Reason(Code.TOO_BIG, f"an empty cluster for {cores} cores and {mb} MB, within the server's SLOs")
        room = int(places(cluster, np.array([cores]), np.array([0 if traits.lends else mb]))[0])
        if traits.lends:
            most = int(cluster.memory_mb.sum())
            if room < tasks:
                return Reason(Code.TOO_BIG, f"places for tasks of {cores} cores", tasks, room)
            if tasks * mb > most:
                return Reason(Code.TOO_BIG, "MB, local and borrowed", tasks * mb, most)
            return Reason(Code.TOO_BIG, f"nodes for {tasks} tasks of {mb} MB, with lenders for them")
        most = int(cluster.memory_mb[cluster.cores > 0].max())
        if mb > most:
            return Reason(Code.TOO_BIG, "MB on one node", mb, most)
        if room >= tasks:
            return Reason(Code.TOO_BIG, f"{self.policy.name} has no place for it")
        return Reason(Code.TOO_BIG, f"places for tasks of {cores} cores and {mb} MB", tasks, room)


MOST_KNOWN = 1000
"""Of how many added jobs that ask for different things it is kept whether they could never start."""
FEW_KINDS = 8
"""Kinds of nodes up to which every job is looked at by itself: finding those that ask alike would take longer."""


def places(cluster: Cluster, cores: Ints, mb: Ints) -> Ints:
    """int64[asks]: how many tasks of so many cores and MB the whole cluster, empty, can hold."""
    kinds, counts = cluster.sizes
    room = np.zeros(len(cores), np.int64)
    for (node_cores, node_mb), count in zip(kinds.T.tolist(), counts.tolist(), strict=True):
        room += count * tasks_on(node_cores, node_mb, cores, mb)
    return room


def unmet(cluster: Cluster, jobs: JobTable, elsewhere: bool = False) -> Ints:
    """int64[jobs]: which demand (its place in ``jobs.devices``) alone could never be met; -1: all can be met.

    Of devices only whether there are such: see :func:`unrack.core.room.most_tasks`. ``elsewhere``: memory may be that
    of other nodes, so that a node needs the cores only.
    """
    found = np.full(len(jobs), -1, np.int64)
    for place, ((kind, name), amounts) in enumerate(jobs.devices.items()):
        if (amounts > 0).any() and (kind, name) not in cluster.devices.named:
            never = cluster.places.never((kind, name), amounts, gangs_of(cluster, jobs, elsewhere, kind))
            found = np.where((found < 0) & never, place, found)
    return found


def lacking(cluster: Cluster, row: JobTable, pace: Pace, traits: Traits, most: int) -> Reason | None:
    """What beside cores and memory the empty cluster lacks for a job, the only row; ``None``: nothing.

    ``most`` tasks find nodes with all that they ask.
    """
    if (short := int(unmet(cluster, row, traits.elsewhere)[0])) >= 0:
        key = [*row.devices][short]
        return cluster.places.too_big(key, int(row.devices[key][0]), gangs_of(cluster, row, traits.elsewhere, key[0]))
    for key, amounts in row.devices.items():
        if amounts[0] and key in cluster.devices.named:
            reason = lacking_devices(cluster, row, key, pace, traits.elsewhere)
            if reason is not None:
                return reason
    if most >= row.tasks[0]:
        return None
    asked = [".".join(key) for key, own in row.devices.items() if key[0] not in ("site", "power") and own[0]]
    where, what = int(row.devices.get(("site", "where"), [0])[0]), "places for tasks"
    if where:
        said = cluster.places.too_big(("site", "where"), where, gangs_of(cluster, row, traits.lends, "site")).what
        what = said if said.startswith(what) else f"{what} within the limit of {said}"
    return Reason(Code.TOO_BIG, f"{what}, each with what it asks of {', '.join(asked)}", int(row.tasks[0]), most)


def lacking_devices(
    cluster: Cluster, row: JobTable, key: tuple[str, str], pace: Pace, elsewhere: bool
) -> Reason | None:
    """What there is too little of for one demand of a job for devices; ``None``: there is enough for one task."""
    (kind, name), devices = key, cluster.devices
    asked, what = int(row.devices[key][0]), f"{kind}.{name}"
    which, nodes = devices.kinds.index(kind), np.zeros(len(cluster.cores), np.bool_)
    of, model, best, governed = devices.quantities[which].index(name), int(pace.model[which, 0]), 0, False
    for pool, reached in zip(devices.pools, devices.reach & (cluster.cores > 0), strict=True):
        if pool.kind == kind and reached.any():
            free = model >= 0 and bool(pace.governed[model, of]) and pool.split == 1
            most = pool.compose * int(devices.capacity[of, pool.first])
            best, governed = max(best, most), governed or free
            nodes |= reached & (free or asked <= most)
    if not nodes.any():
        return Reason(Code.TOO_BIG, f"{what} on devices that one node can attach", asked, best)
    gang, most = int(row.tasks[0]) * asked, devices.installed(kind, name)
    if gang > most and not governed:
        return Reason(Code.TOO_BIG, f"{what} of all devices", gang, most)
    cores, mb = int(row.cores[0]), int(row.memory_mb[0])
    if cores > (most := int(cluster.cores[nodes].max())):
        return Reason(Code.TOO_BIG, f"cores on one node that can attach {what}", cores, most)
    most = int(cluster.memory_mb[nodes & (cluster.cores >= cores)].max())
    return None if elsewhere or mb <= most else Reason(Code.TOO_BIG, f"MB on one node that can attach {what}", mb, most)


def gangs_of(cluster: Cluster, jobs: JobTable, elsewhere: bool, resource: str) -> Gangs:
    """Jobs as a resource sees them."""
    asked = {quantity: amounts for (kind, quantity), amounts in jobs.devices.items() if kind == resource}
    return Gangs(jobs.tasks, jobs.cores, jobs.memory_mb, elsewhere, asked, remote_devices(cluster, jobs))


def remote_devices(cluster: Cluster, jobs: JobTable) -> Ints | None:
    """int64[jobs]: how many whole devices a task has on other nodes at least; ``None``: no job asks for whole ones."""
    devices, found = cluster.devices, None
    for kind in devices.kinds:
        asked = jobs.devices.get((kind, WHOLE))
        if asked is not None:
            homes = devices.home[devices.of_kind(kind)]
            most = int(np.bincount(homes[homes >= 0], minlength=1).max())
            found = np.maximum(asked - most, 0) + (0 if found is None else found)
    return found


def impossible(cluster: Cluster, jobs: JobTable, lends: bool = False) -> Bools:
    """bool[jobs]: which jobs the whole cluster, empty, could not hold, on shared or on whole nodes.

    Where nodes lend memory, only the sum of it counts.
    """
    if lends:
        cores = places(cluster, jobs.cores, np.zeros(len(jobs), np.int64))
        return np.asarray((cores < jobs.tasks) | (jobs.tasks * jobs.memory_mb > cluster.memory_mb.sum()))
    if len(jobs) == 1 or len(cluster.sizes[1]) <= FEW_KINDS:
        return places(cluster, jobs.cores, jobs.memory_mb) < jobs.tasks
    asks, inverse = np.unique(jobs.asks[[CORES, MEMORY]], axis=1, return_inverse=True)
    return np.asarray(places(cluster, asks[0], asks[1])[inverse.ravel()] < jobs.tasks)
