"""Speeds of jobs on GPUs: slower when these are at several sockets needlessly, and beside neighbours at the same."""

from __future__ import annotations

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import Lease
from unrack.ledger.state import RUNNING
from unrack.resources.gpus.choice import Neighbours, gpus_at, interference, members
from unrack.resources.gpus.columns import WHOLE, Gpus
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.places import AMOUNT, PLACE
from unrack.view import View
from unrack.workload.job import JobTable


def rows_of(fleet: Fleet, jobs: JobTable) -> Ints:
    """int64[jobs]: the row of each job's application in the tables of profiles; 0: not known."""
    rows = np.array([*(fleet.profiles.rows.get(name, 0) for name in jobs.app_names), 0], np.int64)
    return rows[jobs.app]


class GpuSpeeds:
    """How jobs slow each other down on the GPUs of a cluster; see :class:`unrack.slowdown.combined.Slowdown`.

    The factor of a job is that of its application when its GPUs are at several sockets (or machines), times the worst
    of those beside its neighbours. Where no machine that it is on holds so many GPUs at one socket, its run time is
    that of GPUs at several already, and the first counts only if it was measured for just so many. A job on parts of
    GPUs has no neighbours in this sense, and is none.
    """

    def __init__(self, cluster: Cluster, fleet: Fleet, jobs: JobTable) -> None:
        self._fleet = fleet
        self._part = next(part for part in cluster.places.parts if part.installed is fleet)
        self._at = self._part.places
        self._profile = rows_of(fleet, jobs)
        self._apart, self._beside = fleet.profiles.tables

    @staticmethod
    def of(cluster: Cluster, jobs: JobTable) -> GpuSpeeds | None:
        """The speeds on the GPUs of a cluster; ``None``: it has none, or no application of the jobs has a profile."""
        fleet = next((one for one in cluster.places.installed.values() if isinstance(one, Fleet)), None)
        if fleet is None or not any(name in fleet.profiles.rows for name in jobs.app_names):
            return None
        return GpuSpeeds(cluster, fleet, jobs)

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the job of the lease, and all that have GPUs to themselves on its machines."""
        claims = self._part.own(lease.claims)
        if not len(claims):
            return np.empty(0, np.int64)
        first, own = self._fleet.gpus.first, np.array([lease.job] * int(view.status[lease.job] == RUNNING), np.int64)
        holders = self._peers(view).holders
        found = [own]
        for node in np.unique(self._fleet.node[claims[:, PLACE]]).tolist():
            here = slice(first[node], first[node + 1])
            found.append(holders[1, here][holders[0, here] == 1])
        return np.unique(np.concatenate(found))

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        return np.array([self._speed(view, view.lease(job)) for job in jobs.tolist()], np.float64)

    def feels(self, before: Lease, after: Lease) -> bool:
        """Whether it claims other GPUs."""
        return not np.array_equal(before.claims, after.claims)

    def _speed(self, view: View, lease: Lease) -> float:
        claims = self._part.own(lease.claims)
        if not len(claims):
            return 1.0
        peers = self._peers(view)
        return float(gpu_speed(self._fleet.gpus, peers, self._apart, lease.job, claims, self._fleet.node))

    def _peers(self, view: View) -> Neighbours:
        seen = view.columns.claimed
        assert seen is not None
        return Neighbours(np.ascontiguousarray(seen.holders[:, self._at]), self._profile, self._beside)


@compiled
def gpu_speed(gpus: Gpus, peers: Neighbours, apart: Floats, job: int, claims: Ints, node_of: Ints) -> float:
    """The speed of a job on what it claims; ``apart`` as in :attr:`unrack.resources.gpus.profiles.Profiles.tables`."""
    profile, count = peers.profile[job], claims.shape[0]
    worst, first_node, first_socket, several = 1.0, -1, -1, False
    row, at_one = 0, 0
    while row < count:
        node, sockets = node_of[claims[row, PLACE]], 0
        kind = gpus.kind[node]
        at_one = max(at_one, most_at_a_socket(gpus, kind))
        while row < count and node_of[claims[row, PLACE]] == node:
            if gpus.slices[kind] or claims[row, AMOUNT] < WHOLE:
                return 1.0
            socket = gpus.socket[kind, claims[row, PLACE] - gpus.first[node]]
            sockets |= 1 << socket
            if first_node < 0:
                first_node, first_socket = node, socket
            several = several or node != first_node or socket != first_socket
            row += 1
        most, _, _ = interference(gpus, peers, node, sockets, job, profile)
        worst = max(worst, most)
    if not several:
        return 1.0 / worst
    factor = float(apart[profile, 0]) if count <= at_one else 1.0
    if count < apart.shape[1] and apart[profile, count] > 0.0:
        factor = float(apart[profile, count])
    return 1.0 / (worst * factor)


@inlined
def most_at_a_socket(gpus: Gpus, kind: int) -> int:
    """The GPUs of the socket of a machine that has most of them."""
    most = 0
    for socket in range(gpus.sockets[kind]):
        most = max(most, members(gpus_at(gpus, kind, 1 << socket)))
    return most
