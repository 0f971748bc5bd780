"""Leases by names of nodes, devices and places, which mean the same after nodes were added or the driver began anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.ledger.lease import Lease, Share
from unrack.resources.places import NO_CLAIMS

Portable = dict[str, Any]
"""``rows``: node, tasks, cores, MB; ``borrowed``: node, lender, MB; ``shares``: node, devices, amounts, parts;
``claims``: resource, place, amount; ``parts``: what each part of a job of several has of it."""


def devices_in(lease: Portable) -> list[str]:
    """The devices of a lease, by name, one share after the other."""
    return [device for _, devices, _, _ in lease.get("shares", ()) for device in devices]


def nodes_in(lease: Portable) -> list[str]:
    """The nodes of a lease, by name, in ascending order."""
    return sorted({row[0] for row in lease["rows"]})


class Names:
    """What the nodes and devices of a cluster are called.

    Parameters
    ----------
    cluster
        The cluster.
    nodes
        Name of each node, in its order.
    devices
        Names of the first pooled devices; others are called as their pool, and a number.
    """

    def __init__(self, cluster: Cluster, nodes: Sequence[str], devices: Sequence[str] = ()) -> None:
        self.cluster, self.nodes = cluster, tuple(nodes)
        self.node_of = {name: number for number, name in enumerate(nodes)}
        numbered = [f"{pool.name}-{number}" for pool in cluster.devices.pools for number in range(pool.count)]
        self.devices = (*devices, *numbered[len(devices) :])
        self.device_of = {name: number for number, name in enumerate(self.devices)}

    def portable(self, lease: Lease) -> Portable:
        """A lease by names."""
        rows = [
            [self.nodes[node], tasks, cores, mb]
            for first, count, tasks, cores, mb in lease.rows.tolist()
            for node in range(first, first + count)
        ]
        found: Portable = {"rows": rows}
        if len(lease.borrowed):
            pairs = np.asarray(lease.borrowed).tolist()
            found["borrowed"] = [[self.nodes[node], self._lender(lender), mb] for node, lender, mb in pairs]
        if lease.shares:
            found["shares"] = [
                [self.nodes[share.node], [self.devices[d] for d in share.devices], list(share.amounts), share.parts]
                for share in lease.shares
            ]
        if len(lease.claims):
            places = self.cluster.places
            found["claims"] = [
                [name, place.name, amount]
                for number, amount in lease.claims.tolist()
                for name, place in [places.at(number)]
            ]
        if lease.parts:
            found["parts"] = list(map(self.portable, lease.parts))
        return found

    def lease(self, portable: Mapping[str, Any], job: int = -1) -> Lease:
        """The lease that :meth:`portable` wrote; what is not there any more is left out of it."""
        rows = [
            [self.node_of[name], 1, tasks, cores, mb]
            for name, tasks, cores, mb in portable["rows"]
            if name in self.node_of
        ]
        borrowed = [
            [self.node_of[node], self._lender_of(lender), mb]
            for node, lender, mb in portable.get("borrowed", ())
            if node in self.node_of and self._lender_of(lender) >= 0
        ]
        shares = tuple(
            Share(self.node_of[node], tuple(self.device_of[name] for name in devices), tuple(amounts), parts)
            for node, devices, amounts, parts in portable.get("shares", ())
            if node in self.node_of and all(name in self.device_of for name in devices)
        )
        found = [
            [number, amount]
            for resource, place, amount in portable.get("claims", ())
            if (number := self.cluster.places.number(resource, place)) >= 0
        ]
        claims = np.array(sorted(found), np.int64).reshape(-1, 2) if found else NO_CLAIMS
        return Lease(
            job, np.array(rows, np.int64).reshape(-1, 5), np.array(borrowed, np.int64).reshape(-1, 3), shares, claims,
            tuple(self.lease(part, job + i) for i, part in enumerate(portable.get("parts", ()))),
        )  # fmt: skip

    def _lender(self, number: int) -> str:
        """Memory pools are nodes without a name."""
        return self.nodes[number] if number < len(self.nodes) else f"*{number - len(self.nodes)}"

    def _lender_of(self, name: str) -> int:
        if name.startswith("*"):
            number = len(self.nodes) + int(name[1:])
            return number if number < len(self.cluster) else -1
        return self.node_of.get(name, -1)
