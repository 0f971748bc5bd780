"""Speeds of jobs on network links: slower by the load that others put on the links that a job uses.

An application that spends the share a of its run time in the network when it is alone, and b beside a neighbour that
fills the link, takes ``1 + load x ((1 - a) / (1 - b) - 1)`` times as long at a load between. The load is what others
claim over what the link carries, of the job's links the largest; of oversubscribed links it may be above 1. The thesis
(paper 001, §3.3) measured one load; that the factor grows in a straight line is assumed here.
"""

from __future__ import annotations

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import Lease
from unrack.ledger.state import RUNNING
from unrack.resources.links.resource import Links
from unrack.resources.places import PLACE
from unrack.view import View
from unrack.workload.job import JobTable


class LinkSpeeds:
    """How jobs slow each other down on the links of a cluster; see :class:`unrack.resources.contract.Slowdown`.

    Which job is on which link is noted as leases come and go, and noted anew where that is not what the ledger says.
    """

    def __init__(self, cluster: Cluster, links: Links, jobs: JobTable) -> None:
        self._part = next(part for part in cluster.places.parts if part.installed is links)
        self._at, self._capacity = self._part.places, links.capacity
        factors = [*(links.profiles.full_factor(name) for name in jobs.app_names), 1.0]
        self._excess: Floats = (np.array(factors) - 1.0)[jobs.app]
        self._on: list[dict[int, None]] = [{} for _ in links.places]

    @staticmethod
    def of(cluster: Cluster, jobs: JobTable) -> LinkSpeeds | None:
        """The speeds on the links of a cluster; ``None``: it has none, or none of the applications feels their load."""
        links = next((one for one in cluster.places.installed.values() if isinstance(one, Links)), None)
        if links is None or all(links.profiles.full_factor(name) <= 1.0 for name in jobs.app_names):
            return None
        return LinkSpeeds(cluster, links, jobs)

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the jobs on the links of the lease, its own among them, that feel load."""
        places = self._part.own(lease.claims)[:, PLACE].tolist()
        runs = view.status[lease.job] == RUNNING
        for place in places:
            self._on[place].pop(lease.job, None)
            if runs:
                self._on[place][lease.job] = None
        seen = view.columns.claimed
        assert seen is not None
        holders = seen.holders[0, self._at]
        gone = any(view.status[job] != RUNNING for place in places for job in self._on[place])
        if gone or any(len(self._on[place]) != holders[place] for place in places):
            self._note_all(view)
        found = np.array(sorted({job: None for place in places for job in self._on[place]}), np.int64)
        return found[self._excess[found] > 0.0]

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        return np.array([self._speed(view, view.lease(i)) if self._excess[i] > 0.0 else 1.0 for i in jobs.tolist()])

    def feels(self, before: Lease, after: Lease) -> bool:
        """Whether it claims more or less of links."""
        return not np.array_equal(before.claims, after.claims)

    def _speed(self, view: View, lease: Lease) -> float:
        claims, excess = self._part.own(lease.claims), float(self._excess[lease.job])
        if not len(claims) or excess <= 0.0:
            return 1.0
        seen, place = view.columns.claimed, claims[:, PLACE]
        assert seen is not None
        others = self._part.total[place] - seen.free[self._at][place]
        for job in dict.fromkeys((lease.job, *view.columns.suspended)):  # those that stand send nothing
            own = dict(self._part.own(view.lease(job).claims).tolist()) if view.status[job] == RUNNING else {}
            others = others - [own.get(one, 0) for one in place.tolist()]
        load = float((others / self._capacity[place]).max())
        return 1.0 / (1.0 + load * excess)

    def _note_all(self, view: View) -> None:
        self._on = [{} for _ in self._on]
        for job in view.running[1, : view.running_count].tolist():
            for place in self._part.own(view.lease(job).claims)[:, PLACE].tolist():
                self._on[place][job] = None
