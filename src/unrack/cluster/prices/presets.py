"""Prices by name: a publication's, and round numbers that stand for nobody's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class PricePreset(NamedTuple):
    """Prices by name: one line of words and the keys."""

    summary: str
    content: Mapping[str, Any]


PRICES: dict[str, PricePreset] = {
    "zacarias-2023": PricePreset(
        "Vieira Zacarias 2023, Table 5.2: $10 154 a node with network and small storage, $1 280 for 128 GB of memory",
        {
            "node": 10_154,
            "memory_gb": 10,
            "source": "Vieira Zacarias 2023, Table 5.2, of a small-scale HPC cloud platform; to buy, no energy",
        },
    ),
    "example-2026-11": PricePreset(
        "EXAMPLES of November 2026, round numbers of no vendor: put in your own",
        {
            "kwh": 0.15,
            "pue": 1.3,
            "node": {"capex": 5_000, "per_hour": 0.02, "watts": 120},
            "core": {"capex": 60, "watts": 3},
            "memory_gb": {"capex": 8, "watts": 0.3},
            "memory_pool": {"capex": 3_000, "watts": 80},
            "memory_pool_gb": {"capex": 6, "watts": 0.25},
            "devices": {
                "nvme": {"capex": 700, "watts": 12},
                "gpu": {"capex": 20_000, "watts": 500},
                "fpga": {"capex": 6_000, "watts": 75},
            },
            "rack": {"capex": 10_000, "per_hour": 0.3},
            "source": "examples of November 2026: round numbers that belong to no vendor",
        },
    ),
}
EXAMPLE = "example-2026-11"
"""What is taken where nobody says a price."""
