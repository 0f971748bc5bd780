"""What reservations keep in number – licences, pooled devices, cores of nodes – as places that all others claim.

Of jobs that do not run in a reservation no more may be held while it lasts than is installed less what it keeps.
So it is a place of all that is installed, of which they claim what they ask and a window takes what is kept. Where
several reservations keep some of one counter at a time, each set of them is such a place: a sum of parts that are not
below 0 (what is kept less what their own jobs hold) is the largest sum over any set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Bools
from unrack.resources.checked import NOBODY
from unrack.resources.contract import Nodes, Place, Window
from unrack.resources.site.keys import ReservationFile, SiteFile

MOST_SETS = 64
"""How many sets of reservations, of one or several at a time, may keep something of one counter."""
OUTSIDE, INSIDE = " outside of reservation", " in reservation"
"""In the names of these places, before the names of reservations."""
COUNTED, DEVICES = "counted.", ".devices"
"""How what is kept of counters begins, and of pooled devices ends."""
_WHOLE = "counters of the whole cluster"
Spans = list[tuple[int, int]]


class Keep(NamedTuple):
    """A place that is claimed by the jobs of all others than some reservations; ``inside``: by those of one alone."""

    of: str | int  # what is kept: ``counted.NAME``, ``KIND.devices``, or the number of a node of which it is cores
    owners: tuple[str, ...]  # the reservations
    spans: Spans  # when all of them keep something, µs
    kept: int  # how much they keep together
    installed: int
    inside: bool = False

    @property
    def measure(self) -> str:
        """What jobs ask of it."""
        return "cores" if isinstance(self.of, int) else self.of

    @property
    def place(self) -> Place:
        """The place."""
        owners = f"{'s' * (len(self.owners) > 1)} {' and '.join(self.owners)}"
        name = f"cores of node {self.of}" if isinstance(self.of, int) else self.of
        return Place(f"{name}{INSIDE if self.inside else OUTSIDE}{owners}", self.measure, self.installed)


Kept = Mapping[str, Mapping[str | int, int]]
"""Reservation → what it keeps, as of :attr:`Keep.of` → how much."""


def amounts_of(one: ReservationFile) -> dict[str | int, int]:
    """What a reservation keeps of counters and pooled devices, as jobs ask for them."""
    licences: dict[str | int, int] = {f"{COUNTED}{name}": amount for name, amount in one.licences.items()}
    return licences | {f"{kind}{DEVICES}": amount for kind, amount in one.devices.items()}


def keeps_of(reservations: Sequence[ReservationFile], kept: Kept, installed: Mapping[str | int, int]) -> list[Keep]:
    """What reservations keep of what is installed so much of.

    Raises
    ------
    ValueError
        There is no such counter, or less than they keep; its text is what was got, ``", not "`` and that.
    """
    found = list[Keep]()
    for of in dict.fromkeys(of for one in reservations for of in kept[one.name]):
        name = f"the cores of node {of}" if isinstance(of, int) else of.removeprefix(COUNTED)
        if of not in installed:
            pooled = isinstance(of, str) and of.endswith(DEVICES) and not of.startswith(COUNTED)
            alike = [one for one in installed if isinstance(one, str) and one.startswith(COUNTED) != pooled]
            known = ", ".join(one.removeprefix(COUNTED).removesuffix(DEVICES) for one in alike) or "none"
            what = "kinds of whole devices alone, in one pool that all nodes reach" if pooled else _WHOLE
            raise ValueError(f"{what}, of which there are {known}, not {name.removesuffix(DEVICES)!r}")
        by_set = list[Keep]()
        for one in reservations:
            if not (own := kept[one.name].get(of, 0)):
                continue
            alone = Keep(of, (one.name,), sorted(one.windows_us), own, installed[of])
            by_set += [
                keep._replace(owners=(*keep.owners, one.name), spans=spans, kept=keep.kept + own)
                for keep in by_set
                if (spans := _both(keep.spans, alone.spans))
            ]
            by_set.append(alone)
            if len(by_set) > MOST_SETS:
                raise ValueError(
                    f"at most {MOST_SETS} sets of reservations at a time that keep {name}, not {len(by_set)}"
                )
            if isinstance(of, int) and not one.flex and not one.maintenance:
                found.append(Keep(of, (one.name,), [], own, own, inside=True))
        for keep in by_set:
            if keep.kept > keep.installed:
                owners = " and ".join(keep.owners)
                raise ValueError(f"at most {keep.installed} of {name} kept at a time, not {keep.kept} for {owners}")
        found += by_set
    return found


def windows_of(
    file: SiteFile, owners: Mapping[str, int], reserved: Mapping[str, Bools], hours: Mapping[int, Spans],
    keeps: Sequence[Keep], nodes: Nodes,
) -> tuple[Window, ...]:  # fmt: skip
    """When jobs of reservations and of partitions with hours run, and nodes and the places of ``keeps`` are kept.

    ``owners``: the numbers of their windows; ``reserved``: bool[nodes], by reservation; ``hours``: by number, when.
    """
    nowhere = np.zeros(len(nodes.cores), np.bool_)  # hours keep no nodes from others
    timed = [(abs(owners[one.name]), one.windows_us, reserved.get(one.name, nowhere)) for one in file.reservations]
    timed += [(number, times, nowhere) for number, times in hours.items()]
    found = [Window(start, end, number, mask) for number, times, mask in timed for start, end in times]
    for place, keep in enumerate(keeps):
        found += [Window(start, end, NOBODY, nowhere, place, keep.kept) for start, end in keep.spans]
    return tuple(found)


def _both(first: Spans, second: Spans) -> Spans:
    """When both last; each is in order, and its spans are apart."""
    found, i, j = Spans(), 0, 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            found.append((start, end))
        i, j = (i + 1, j) if first[i][1] < second[j][1] else (i, j + 1)
    return found
