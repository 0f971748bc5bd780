"""The cost models by name, and one's own from a file."""

from __future__ import annotations

from unrack.policy.flow.costs.contract import CostModel
from unrack.policy.flow.costs.fragmentation import least_left
from unrack.policy.flow.costs.locality import image_locality
from unrack.policy.flow.costs.network import network_load
from unrack.policy.flow.costs.utility import lost_utility

COSTS: dict[str, CostModel] = {
    "utility": lost_utility,
    "network": network_load,
    "locality": image_locality,
    "fragmentation": least_left,
}
"""Name → model."""
