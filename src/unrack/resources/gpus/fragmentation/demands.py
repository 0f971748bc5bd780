"""Compiled: fragmentation of GPUs over what jobs usually ask (Weng et al., ATC 2023).

``F(node) = sum over demands of their share x the GPUs of the node that such a task cannot use``: all that is free where
it finds too few cores or GPUs there, or asks for none; else what is free of GPUs that have too little for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import inlined
from unrack.resources.gpus.asks import WHOLE

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Demand = tuple[int, int, int, int]
"""Cores, MB, GPUs, and 1/1000 of each."""
TYPICAL = 0.95
"""The most frequent demands that make up so much of all are the typical ones."""


class Demands(NamedTuple):
    """What tasks usually ask.

    Attributes
    ----------
    cores, gpus, milli : int64[demands]
        Of a task; ``milli`` of each of its GPUs.
    share : float64[demands]
        Of all tasks; they add up to 1.
    per_gpu : float64[2]
        Cores and MB that all tasks together ask for every GPU that they ask for.
    kinds : int64[jobs]
        A number for what each job asks of a GPU: equal ones ask the same.
    """

    cores: Ints
    gpus: Ints
    milli: Ints
    share: Floats
    per_gpu: Floats
    kinds: Ints


def demands_of(counts: Mapping[Demand, float], part: float = TYPICAL) -> Demands:
    """The most frequent demands with their shares, most frequent first, of demands with how often each is asked."""
    order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    total, kept, reached = sum(counts.values()), [], 0.0
    for demand, count in order:
        kept.append((demand, count))
        reached += count
        if reached >= part * total:
            break
    cores, gpus, milli = (np.array([demand[i] for demand, _ in kept], np.int64) for i in (0, 2, 3))
    share = np.array([count for _, count in kept], np.float64)
    asked = sum(count * gpus * milli / WHOLE for (_, _, gpus, milli), count in order)
    per_gpu = [sum(count * demand[i] for demand, count in order) / max(asked, 1e-300) for i in range(2)]
    none = np.zeros(1, np.int64)
    return Demands(cores, gpus, milli, share / max(share.sum(), 1e-300), np.array(per_gpu), none)


def no_demands() -> Demands:
    """Nothing is known of them."""
    none = np.zeros(0, np.int64)
    return Demands(none, none, none, np.zeros(0), np.zeros(2), np.zeros(1, np.int64))


@inlined
def fragments(left: Ints, cores: int, demands: Demands) -> float:
    """F of a machine with so much left of each GPU and so many free cores, in 1/1000 of a GPU."""
    total = 0
    for i in range(left.shape[0]):
        total += left[i]
    found = 0.0
    for k in range(demands.share.shape[0]):
        lost = total
        if demands.gpus[k] > 0 and demands.cores[k] <= cores:
            enough, short = 0, 0
            for i in range(left.shape[0]):
                if left[i] >= demands.milli[k]:
                    enough += 1
                else:
                    short += left[i]
            if enough >= demands.gpus[k]:
                lost = short
        found += demands.share[k] * lost
    return found
