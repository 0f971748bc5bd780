"""Profiles of network links from the axis ``network``: shares of the run time, alone and beside a full link."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.profile.axes.network import NetworkFile
from unrack.profile.profile import Profile
from unrack.resources.links.resource import COLUMNS


def link_files(profiles: Sequence[Profile]) -> dict[str, str]:
    """The CSV that ``links.profiles`` of a cluster reads, of applications with the axis; none: no file."""
    rows = []
    for profile in profiles:
        axis = next((axis for axis in profile.application.axes if isinstance(axis, NetworkFile)), None)
        if axis is not None:
            alone, beside = link_shares(profile, axis)
            rows.append(f"{profile.name},{alone:.4f},{beside:.4f}")
    return {"links.csv": "\n".join([",".join(COLUMNS), *rows, ""])} if rows else {}


def link_shares(profile: Profile, axis: NetworkFile) -> tuple[float, float]:
    """Per cent of its run time in the network: alone, and beside a neighbour that fills the link, which leaves half.

    Of time = a + b / share of the link, b is the network's.
    """
    curve = profile.fit(axis).curve("parts")
    whole, half = 1 / curve(1.0), 1 / curve(0.5)
    network = max(0.0, half - whole)  # b: what half of the link costs more is what the whole takes
    alone = min(1.0, network / whole)
    return 100 * alone, 100 * (1 - (1 - alone) * whole / half)
