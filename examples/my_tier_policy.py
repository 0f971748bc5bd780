"""A policy of one's own on tiers of memory: the cheapest offer wins, whichever cluster makes it.

unrack run examples/my_tier_policy.toml
"""

from __future__ import annotations

from unrack.policy import Lease, OnTiers, View, offer


def cheapest_offer(view: View, job: int, now: int) -> Lease | None:
    """Ask every cluster; of equal prices the cluster with fewest free cores, then the first."""
    assert view.cluster.tiers is not None
    best, key = None, None
    for cluster in range(view.cluster.tiers.clusters):
        made = offer(view, job, cluster)
        if made is not None:
            its_key = made.price_per_h, int(view.free[0, view.cluster.tiers.pools(cluster)[0]])
            if key is None or its_key < key:
                best, key = made.lease, its_key
    return best


CHEAPEST = OnTiers(cheapest_offer, order="fcfs", label="cheapest offer")
