"""The reservations of all epochs as windows of one site: each until it was gone, or had become another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.live.driver.state.epoch import Beginning
from unrack.units import SECOND_US
from unrack.workload.job import Job

Keys = Mapping[str, Any]


class Windows(NamedTuple):
    """What jobs of before meant by reservations, and how many there were that the last cluster cannot have."""

    # what jobs call a reservation → until when they meant which of the site's, µs, in order; then that of the name
    meant: Mapping[str, Sequence[tuple[int, str]]] = {}
    lost: int = 0

    def asks(self, job: Job, at_us: int) -> Job:
        """A job that started at a time, µs, with its components, and with the reservation that its word meant then."""
        called = job.said.get("reservation", "") if self.meant else ""
        name = next((name for until_us, name in self.meant.get(called, ()) if at_us < until_us), called)
        said = {**job.said, "reservation": name} if name != called else job.said
        return replace(job, said=said, components=tuple(self.asks(one, at_us) for one in job.components))


def reservations_of(beginning: Beginning) -> Sequence[Keys]:
    """The reservations of an epoch."""
    found: Sequence[Keys] = beginning.cluster.get("site", {}).get("reservations", ())
    return found


def joined(last: Beginning, begun: Sequence[tuple[int, Sequence[Keys]]]) -> tuple[Beginning, Windows]:
    """The last beginning with the reservations of all; ``begun``: when each epoch began, µs, and those of it.

    The latest of a name keeps it. One that was made or changed while it was to be in force is so from the epoch on
    that has it as it is. Plans know from the first when a window is over, which was not known then.
    """
    own = [_since(one, begun, len(begun) - 1) for one in reservations_of(last)]
    names, more, meant = {one["name"] for one in own}, list[Keys](), dict[str, list[tuple[int, str]]]()
    for place in range(len(begun) - 2, -1, -1):
        before, (at_us, after) = begun[place][1], begun[place + 1]
        for one in (_since(one, begun, place) if one not in after else one for one in before):
            if one in after or one["start"] * SECOND_US >= at_us:  # it goes on, or had not begun
                continue
            name, at_s = one["name"], at_us / SECOND_US
            called = f"{name} until {at_s:g} s" if name in names else name
            names.add(called)
            ends = ("until", at_s) if "every" in one else ("duration", at_s - one["start"])
            more.append({**one, "name": called, ends[0]: min(one[ends[0]], ends[1])})
            if called != name:
                meant.setdefault(name, []).insert(0, (at_us, called))
    if not more and own == list(reservations_of(last)):
        return last, Windows()
    site = last.cluster.get("site", {})
    site = {**site, "reservations": [*own, *more]}
    found = last._replace(cluster={**last.cluster, "site": site})
    try:
        Cluster.from_dict(found.cluster, "cluster")
    except InputError:  # nodes or counted places of theirs are gone
        return last, Windows({}, len(more))
    return found, Windows(meant)


def _since(one: Keys, begun: Sequence[tuple[int, Sequence[Keys]]], place: int) -> Keys:
    """A reservation of an epoch, from the first epoch on that has it as it is; all but those that come again."""
    while place and one in begun[place - 1][1]:
        place -= 1
    at_s = begun[place][0] / SECOND_US
    if not place or "every" in one or one["start"] >= at_s:
        return one
    return {**one, "start": at_s, "duration": max(one["start"] + one["duration"] - at_s, 0.0)}
