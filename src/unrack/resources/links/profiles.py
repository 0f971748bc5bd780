"""How applications feel the load of a link: shares of their run time that they spend in the network.

An application that spends the share a of its run time in the network when it is alone, and b beside a neighbour that
fills the link, computes for the same time in both. A run of length 1 alone is one of (1 - a) / (1 - b) there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unrack.errors import ClusterError
from unrack.resources.use import csv_of

COLUMNS = ("application", "alone", "beside")
"""Columns of a file of profiles: a name, and two shares of the run time in per cent."""
RODINIA: Mapping[str, tuple[float, float]] = {
    "b+tree": (0.2, 1), "nw": (17, 49), "backprop": (5, 6), "gaussian": (1, 9), "lavamd": (2, 3),
    "pathfinder": (2, 11), "srad": (3, 8),
}  # fmt: skip
"""Rodinia over remote GPUs, alone and beside Iperf (paper 001, §3.3.3, fig. 14); of hotspot it gives no numbers."""
BUILT_IN = {"rodinia": RODINIA}
"""Profiles that come with unrack, by name."""


@dataclass(frozen=True)
class Profiles:
    """Shares of applications by name: in per cent of the run time, alone and beside a full link."""

    shares: Mapping[str, tuple[float, float]]

    def full_factor(self, application: str) -> float:
        """How many times as long a run takes beside a full link; 1 for an application without a profile.

        Examples
        --------
        >>> profiles = Profiles(RODINIA)
        >>> round(profiles.full_factor("nw"), 3), profiles.full_factor("hotspot")
        (1.627, 1.0)
        """
        alone, beside = self.shares.get(application, (0.0, 0.0))
        return (100.0 - alone) / (100.0 - beside)


def read_profiles(given: str | Mapping[str, tuple[float, float]], where: str) -> Profiles:
    """Profiles by name, from a CSV file, or as a table says.

    A ClusterError if there is no such name or file, or it says something impossible.
    """
    if not isinstance(given, str):
        return Profiles({name: _checked(shares, f"{where}.{name}", "") for name, shares in given.items()})
    if given == "":
        return Profiles({})
    if given in BUILT_IN:
        return Profiles(BUILT_IN[given])
    table = csv_of(given, BUILT_IN, where, as_text=True)
    if set(table.columns) != set(COLUMNS):
        raise ClusterError(where, f"{given} with the columns {', '.join(table.columns)}", ", ".join(COLUMNS))
    found: dict[str, tuple[float, float]] = {}
    for number, (name, *texts) in enumerate(table.select(COLUMNS).rows()):
        row = f"{given}, row {number + 2}: "
        if not name or name in found:
            raise ClusterError(where, f"{row}{name!r}", "an application that no other row has")
        try:
            alone, beside = (float(text) for text in texts)
        except (TypeError, ValueError):
            raise ClusterError(where, f"{row}{texts[0]!r}, {texts[1]!r}", "two shares in per cent") from None
        found[name] = _checked((alone, beside), where, row)
    return Profiles(found)


def _checked(shares: tuple[float, float], where: str, row: str) -> tuple[float, float]:
    alone, beside = shares
    if not 0 <= alone <= beside < 100:
        want = "shares of the run time in per cent, from 0 to below 100, beside a full link no less than alone"
        raise ClusterError(where, f"{row}{alone:g}, {beside:g}", want)
    return alone, beside
