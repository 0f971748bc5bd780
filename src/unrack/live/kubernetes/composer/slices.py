"""The slices that say what there is, and what has to be written so that the API server has these and no others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from unrack.live.kubernetes.client.others import Other
from unrack.live.kubernetes.composer.catalogue import TAINT, Catalogue, PublishedPool

MOST_DEVICES = 64
"""Of a slice: with taints no more are allowed."""
Avoided = Mapping[tuple[str, str], str]
"""Devices that are not to be given for a while: pool and name → since when, as the API server writes it."""
Spec = dict[str, Any]


class Changes(NamedTuple):
    """What makes the slices those that are wanted: first these are written, then those ended."""

    write: tuple[tuple[str, Spec], ...]
    end: tuple[Other, ...]


class Publisher:
    """Knows what the API server makes of what it is told, so that it is not told the same again and again.

    Parameters
    ----------
    driver, node_label
        The name of the driver; the label of nodes that has their names.
    """

    def __init__(self, driver: str, node_label: str) -> None:
        self.driver, self.node_label = driver, node_label
        self._taken: dict[str, tuple[Spec, Spec]] = {}

    def took(self, name: str, told: Spec, made: Other) -> None:
        """The API server made this of what it was told."""
        self._taken[name] = told, made.spec

    def changes(self, catalogue: Catalogue, avoided: Avoided, there: Iterable[Other]) -> Changes:
        """What has to be written.

        A pool of which anything differs gets a new generation, in all of its slices: those of an older one count as
        gone, and the new one as not there yet until all of them are written.
        """
        by_pool = dict[str, list[Other]]()
        for one in there:
            by_pool.setdefault(_pool_of(one).get("name", ""), []).append(one)
        write, end = list[tuple[str, Spec]](), list[Other]()
        for name, pool in sorted(catalogue.pools.items()):
            known = {one.metadata.name: one for one in by_pool.pop(name, [])}
            generations = [_generation(one) for one in known.values()]
            specs = self._specs(pool, avoided, max(generations, default=1))
            if all(name in known and self._is_same(name, spec, known[name]) for name, spec in specs.items()):
                end += [one for name, one in known.items() if name not in specs]
                continue
            new = self._specs(pool, avoided, max(generations, default=0) + 1)
            write += new.items()
            end += [one for name, one in known.items() if name not in new]
        end += [one for pool in by_pool.values() for one in pool]
        return Changes(tuple(write), tuple(sorted(end, key=lambda one: one.metadata.name)))

    def _is_same(self, name: str, spec: Spec, one: Other) -> bool:
        return one.spec == spec or self._taken.get(name) == (spec, one.spec)

    def _specs(self, pool: PublishedPool, avoided: Avoided, generation: int) -> dict[str, Spec]:
        """Names and specifications of the slices of a pool."""
        devices = [_tainted(one.content, avoided.get((pool.name, one.name))) for one in pool.devices]
        parts = [devices[first : first + MOST_DEVICES] for first in range(0, len(devices), MOST_DEVICES)]
        where: Spec = {"allNodes": True}
        if pool.nodes is not None:
            named = {"key": self.node_label, "operator": "In", "values": list(pool.nodes)}
            where = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [named]}]}}
        of = {"name": pool.name, "generation": generation, "resourceSliceCount": len(parts)}
        mark = hashlib.blake2b(self.driver.encode(), digest_size=5).hexdigest()  # no two drivers have the same names
        return {
            f"unrack-{mark}-{pool.name}-{number}": {"driver": self.driver, "pool": of, **where, "devices": part}
            for number, part in enumerate(parts)
        }


def avoided_in(there: Iterable[Other]) -> dict[tuple[str, str], str]:
    """The devices that slices say are to be avoided, and since when."""
    found = dict[tuple[str, str], tuple[int, str]]()
    for one in there:
        generation, pool = _generation(one), _pool_of(one).get("name", "")
        for device in one.spec.get("devices") or ():
            for taint in device.get("taints") or ():
                if taint.get("key") == TAINT:
                    kept = found.get((pool, device["name"]), (-1, ""))
                    found[pool, device["name"]] = max(kept, (generation, taint.get("timeAdded", "")))
    return {key: since for key, (_, since) in found.items()}


def _tainted(content: Mapping[str, Any], since: str | None) -> Spec:
    if since is None:
        return dict(content)
    return {**content, "taints": [{"key": TAINT, "effect": "NoSchedule", "timeAdded": since}]}


def _pool_of(one: Other) -> Mapping[str, Any]:
    return one.spec.get("pool") or {}


def _generation(one: Other) -> int:
    return int(_pool_of(one).get("generation", 0))
