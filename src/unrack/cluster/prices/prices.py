"""The ``prices`` of a cluster file: what a node, a core, a GB, a device, a rack cost to buy, to keep and to power."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, FiniteFloat

from unrack.cluster.file import number
from unrack.cluster.presets import Preset
from unrack.errors import ClusterError
from unrack.resources.checked import Strict, validated

HOURS_A_YEAR = 8766
"""Of 365.25 days."""


Amount = Annotated[FiniteFloat, BeforeValidator(number), Field(ge=0)]


class Price(Strict):
    """What one of something costs: a number (what it costs to buy), or a table."""

    capex: Amount = 0.0  # to buy it, once, in the currency
    per_hour: Amount = 0.0  # to keep it: rent, licences, service, floor space; in the currency an hour
    watts: Amount = 0.0  # what it draws, all the time


def _price(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"capex": value}
    if isinstance(value, Mapping | Price):
        return value
    raise ValueError("a price to buy it, or a table such as { capex = 900, per_hour = 0.01, watts = 12 }")


Each = Annotated[Price, BeforeValidator(_price)]
FREE = Price()


class Prices(Strict):
    """The keys of ``prices``, of a cluster file or of ``[plan]``; each price is a number or a table."""

    preset: str = ""  # prices to begin with: ``unrack presets``; what else is said takes the place of its own
    currency: str = Field(default="USD", min_length=1)  # what the numbers are in
    # how long the system is kept: prices an hour and energy count for so long
    years: Annotated[FiniteFloat, BeforeValidator(number), Field(gt=0, le=100)] = 5.0
    kwh: Amount = 0.0  # of a kilowatt-hour
    # power usage effectiveness: what the site draws over what the machines draw
    pue: Annotated[FiniteFloat, BeforeValidator(number), Field(ge=1, le=10)] = 1.0
    node: Each = FREE  # each node with cores, without its memory: board, sockets, network, a share of the switches
    # name of a class of nodes → each of its nodes, in place of ``node``
    classes: dict[str, Each] = Field(default_factory=dict)
    core: Each = FREE  # each core
    memory_gb: Each = FREE  # each GB in nodes with cores
    # memory_pool, memory_pool_gb: each node that is memory alone, and each GB in it (default: as ``memory_gb``)
    memory_pool: Each = FREE
    memory_pool_gb: Each | None = None
    # tier of memory → each GB of it, wherever it is, in place of the two before
    tiers: dict[str, Each] = Field(default_factory=dict)
    # kind of device → each; ``gpu`` counts the GPUs of the resource ``gpus`` too
    devices: dict[str, Each] = Field(default_factory=dict)
    counted: dict[str, Each] = Field(default_factory=dict)  # counted resource, such as a licence → each unit
    rack: Each = FREE  # each rack
    site: Each = FREE  # once for the whole cluster
    source: str = ""  # where the numbers are from, and of when

    @property
    def hours(self) -> float:
        """How long the system is kept, hours."""
        return self.years * HOURS_A_YEAR

    @property
    def example(self) -> bool:
        """True if these are the prices of a preset that stands for no real ones."""
        return self.preset.startswith("example-")

    def total(self, price: Price) -> float:
        """What one of something costs over the years: to buy, to keep and to power, in the currency.

        Examples
        --------
        >>> Prices(years=1, kwh=0.1, pue=1.5).total(Price(capex=1000, per_hour=0.01, watts=100))
        1219.15
        """
        energy = price.watts / 1000 * self.pue * self.kwh
        return round(price.capex + self.hours * (price.per_hour + energy), 6)


def make_prices(given: str | Mapping[str, Any], where: str = "prices") -> Prices:
    """Prices by the name of a preset, or from a table.

    A ClusterError if there is no such preset, a key does not exist, or a number is out of range.

    Examples
    --------
    >>> make_prices({"preset": "zacarias-2023", "rack": 5000}).node.capex
    10154.0
    """
    table: dict[str, Any] = {"preset": given} if isinstance(given, str) else dict(given)
    name = table.get("preset", "")
    if name and name not in PRICES:
        raise ClusterError(where if name == given else f"{where}, preset", repr(name), f"one of {', '.join(PRICES)}")
    base: Mapping[str, Any] = PRICES[str(name)].content if name else {}
    merged = {**base, **table}
    for key in ("classes", "tiers", "devices", "counted"):
        if isinstance(base.get(key), Mapping) and isinstance(table.get(key), Mapping):
            merged[key] = {**base[key], **table[key]}
    return validated(Prices.model_validate, merged, f"{where}, ", Prices.model_fields)


PRICES: dict[str, Preset] = {
    "zacarias-2023": Preset(
        "Vieira Zacarias 2023, Table 5.2: $10 154 a node with network and small storage, $1 280 for 128 GB of memory",
        {
            "node": 10_154,
            "memory_gb": 10,
            "source": "Vieira Zacarias 2023, Table 5.2, of a small-scale HPC cloud platform; to buy, no energy",
        },
    ),
    "example-2026-11": Preset(
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
"""What is taken where no price is given."""
