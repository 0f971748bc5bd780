"""Failures: which nodes go down when, and for how long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.cluster.spec import Cluster


class Fault(NamedTuple):
    """Nodes that go down together.

    Attributes
    ----------
    domain
        A failure domain of the cluster: a rack, a named domain, or ``node<id>``.
    at_us
        When, on the trace's clock.
    repair_us
        How long they are down.
    """

    domain: str
    at_us: int
    repair_us: int


def random_faults(cluster: Cluster, mtbf_us: int, mttr_us: int, until_us: int, seed: int) -> tuple[Fault, ...]:
    """Independent failures of single nodes, with exponential times between failures and to repair.

    Parameters
    ----------
    mtbf_us, mttr_us
        Mean time between failures of one node while it is up, and mean time to repair it.
    until_us
        No failure starts later.
    seed
        Of the generator.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    faults = []
    for node in range(len(cluster)):
        at = int(random.exponential(mtbf_us))
        while at < until_us:
            repair = max(1, int(random.exponential(mttr_us)))
            faults.append(Fault(f"node{node}", at, repair))
            at += repair + max(1, int(random.exponential(mtbf_us)))
    return tuple(sorted(faults, key=lambda fault: (fault.at_us, fault.domain)))
