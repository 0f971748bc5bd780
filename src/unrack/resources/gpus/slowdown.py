"""Speeds of jobs on GPUs: slower when these are at several sockets needlessly, and beside neighbours at the same."""

from __future__ import annotations

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import Lease
from unrack.ledger.state import RUNNING
from unrack.resources.gpus.choice import Neighbours, gpus_at, interference, members
from unrack.resources.gpus.columns import GPUS, WHOLE, Gpus
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.places import PLACE
from unrack.sealed import shown
from unrack.view import View
from unrack.workload.job import JobTable


def rows_of(fleet: Fleet, jobs: JobTable) -> Ints:
    """int64[jobs]: the row of each job's application in the tables of profiles; 0: not known."""
    rows = np.array([*(fleet.profiles.rows.get(name, 0) for name in jobs.app_names), 0], np.int64)
    return rows[jobs.app]


class GpuSpeeds:
    """How jobs slow each other down on the GPUs of a cluster; see :class:`unrack.resources.contract.Slowdown`.

    The factor of a job is that of its application when its GPUs are at several sockets (or machines), times the worst
    of those beside its neighbours. Where no machine that it is on holds so many GPUs at one socket, its run time is
    that of GPUs at several already, and the first counts only if it was measured for just so many. A job on parts of
    GPUs has no neighbours in this sense, and is none.
    """

    def __init__(self, cluster: Cluster, fleet: Fleet, jobs: JobTable) -> None:
        self._fleet = fleet
        self._at = next(part.places for part in cluster.places.parts if part.installed is fleet)
        self._profile = rows_of(fleet, jobs)
        milli = jobs.devices.get((GPUS, "milli"), np.zeros(len(jobs), np.int64))
        self._whole = (milli % WHOLE == 0).astype(np.int64)
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
        own = lease.job if view.status[lease.job] == RUNNING else -1
        peers, claims = self._peers(view), shown(lease.claims)
        return np.unique(on_machines(self._fleet.gpus, peers, claims, self._at.start, self._fleet.node, own))

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        seen = view.columns.claimed
        assert seen is not None
        peers, held = self._peers(view), (seen.rows, seen.held_at)
        return speeds_of(self._fleet.gpus, peers, self._apart, jobs, *held, self._at.start, self._fleet.node)

    def feels(self, before: Lease, after: Lease) -> bool:
        """Whether it claims other GPUs."""
        return not np.array_equal(before.claims, after.claims)

    def _peers(self, view: View) -> Neighbours:
        seen = view.columns.claimed
        assert seen is not None
        holders = np.ascontiguousarray(seen.holders[:, self._at])
        if view.columns.suspended:  # those that stand disturb nobody
            holders = np.where(np.isin(holders[1], list(view.columns.suspended)), 0, holders)
        return Neighbours(shown(holders), self._whole, self._profile, self._beside)


@compiled
def on_machines(gpus: Gpus, peers: Neighbours, claims: Ints, first: int, node_of: Ints, own: int) -> Ints:
    """int64[k]: jobs that have GPUs to themselves on machines where some are claimed; and ``own``, unless it is -1."""
    found, count = np.empty(node_of.shape[0] + 1, np.int64), 0
    last = -1
    for row in range(claims.shape[0]):
        place = claims[row, PLACE] - first
        if 0 <= place < node_of.shape[0] and node_of[place] != last:
            if own >= 0 and last < 0:
                found[count] = own
                count += 1
            last = node_of[place]
            for here in range(gpus.first[last], gpus.first[last + 1]):
                if peers.holders[0, here] == 1:
                    found[count] = peers.holders[1, here]
                    count += 1
    return found[:count]


@compiled
def speeds_of(
    gpus: Gpus, peers: Neighbours, apart: Floats, jobs: Ints, claims: Ints, held_at: Ints, first: int, node_of: Ints
) -> Floats:
    """float64[jobs]: speeds on what jobs claim; ``apart`` as in :attr:`unrack.resources.gpus.profiles.Profiles.tables`.

    ``claims`` and ``held_at``: as :attr:`unrack.ledger.claims.Claimed.rows` has them.
    """
    found = np.ones(jobs.shape[0])
    for i in range(jobs.shape[0]):
        row, end = held_at[0, jobs[i]], held_at[0, jobs[i]] + held_at[1, jobs[i]]
        while row < end and claims[row, PLACE] < first:
            row += 1
        while row < end and claims[end - 1, PLACE] >= first + node_of.shape[0]:
            end -= 1
        if row < end:
            found[i] = gpu_speed(gpus, peers, apart, jobs[i], claims[row:end], first, node_of)
    return found


@inlined
def gpu_speed(gpus: Gpus, peers: Neighbours, apart: Floats, job: int, claims: Ints, at: int, node_of: Ints) -> float:
    """The speed of a job on what it claims of the GPUs, which are counted from ``at`` on."""
    profile, count = peers.profile[job], claims.shape[0]
    worst, first_node, first_socket, several = 1.0, -1, -1, False
    row, at_one = 0, 0
    while row < count:
        node, sockets = node_of[claims[row, PLACE] - at], 0
        kind = gpus.kind[node]
        at_one = max(at_one, most_at_a_socket(gpus, kind))
        while row < count and node_of[claims[row, PLACE] - at] == node:
            if gpus.slices[kind] or not peers.whole[job]:
                return 1.0
            socket = gpus.socket[kind, claims[row, PLACE] - at - gpus.first[node]]
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
