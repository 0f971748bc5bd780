"""Failures: which nodes go down when, and for how long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.cluster.domains import NODE
from unrack.cluster.spec import Cluster


class Fault(NamedTuple):
    """Nodes that go down together.

    Attributes
    ----------
    domain
        A failure domain of the cluster: a rack, a domain of another level, a named set, or ``node<id>``.
    at_us
        When, on the trace's clock.
    repair_us
        How long they are down.
    """

    domain: str
    at_us: int
    repair_us: int


def random_faults(
    cluster: Cluster, mtbf_us: int, mttr_us: int, until_us: int, seed: int, level: str = NODE
) -> tuple[Fault, ...]:
    """Independent failures of the domains of a level, with exponential times between failures and to repair.

    Parameters
    ----------
    mtbf_us, mttr_us
        Mean time between failures of one domain while it is up, and mean time to repair it.
    until_us
        No failure starts later.
    seed
        Of the generator. Every level has random numbers of its own: failures drawn for another level change nothing.
    level
        One of ``cluster.levels``: what fails as a whole.

    Raises
    ------
    ClusterError
        The cluster has no such level.

    Examples
    --------
    >>> cluster = Cluster.homogeneous(nodes=8, cores=1, nodes_per_rack=4)
    >>> hour_us = 3_600_000_000
    >>> faults = random_faults(cluster, 100 * hour_us, hour_us, 300 * hour_us, seed=3, level="rack")
    >>> [fault.domain for fault in faults]
    ['rack1', 'rack0']
    """
    entropy = seed if level == NODE else np.random.SeedSequence([seed, *level.encode()])
    random = np.random.Generator(np.random.PCG64(entropy))
    faults = []
    for domain in cluster.domain_names(level):
        at = int(random.exponential(mtbf_us))
        while at < until_us:
            repair = max(1, int(random.exponential(mttr_us)))
            faults.append(Fault(domain, at, repair))
            at += repair + max(1, int(random.exponential(mtbf_us)))
    return tuple(sorted(faults, key=lambda fault: (fault.at_us, fault.domain)))
