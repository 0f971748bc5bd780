"""In which order servers come where they come one after the other.

The paper takes them as they are in the request. The authors' program first sorts them by the ratio of their SLOs, the
floor over the ceiling in whole numbers, largest first; on their published servers every ratio is 0, so that nothing
changes, and the paper does not mention it.
"""

from __future__ import annotations

import numpy as np

from unrack.jit import Ints
from unrack.solver import Asked

REQUEST, SLO_RATIO = ORDERS = ("request", "slo-ratio")


def slo_ratios(asks: Asked, cost_scale: int) -> Ints:
    """int64[servers]: floor in MB // ceiling in weighted MB; a ceiling of 0 is above all, no ceiling counts as 0.

    ``asks``: servers, ceilings in units of 1 / ``cost_scale``; ``cost_scale``: units of weight for each MB of a tier of
    cost 1.

    Examples
    --------
    >>> from unrack.solver import asked
    >>> ones = np.ones(4, np.int64)
    >>> servers = asked(ones, 90 * ones, np.array([0, 50, 40, 90]), np.array([9, 20, 100, 0]), tiers=2)
    >>> slo_ratios(servers, 1)[:3].tolist()
    [0, 2, 0]
    """
    ratios = asks.floor * cost_scale // np.maximum(asks.ceiling, 1)
    return np.where(asks.ceiling == 0, np.iinfo(np.int64).max, ratios)


def servers_in_order(which: Ints, asks: Asked, order: str, cost_scale: int) -> Ints:
    """int64[any]: some servers in an order of ``ORDERS``; those of one ratio stay as they were."""
    if order == REQUEST:
        return which
    return which[np.argsort(-slo_ratios(asks, cost_scale)[which], kind="stable")]
