"""What there is at one moment, and which jobs are to be looked at because they may be another than in the last reading.

A pod that waits asks what it did as long as neither it nor the nodes change, if nothing else matters to it: not claims
of devices or volumes, not the pods beside it, not a gang. What a turn costs grows with how many pods changed, not with
how many there are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from unrack.live.driver.seen import Seen, SeenJob
from unrack.live.driver.state.table import KnownJobs
from unrack.live.kubernetes.adapter.picture import Picture
from unrack.live.kubernetes.adapter.tiers import Tier
from unrack.live.kubernetes.client.objects import Node
from unrack.live.kubernetes.devices.devices import Devices
from unrack.live.kubernetes.gangs.gathering import OPEN, Gang, members_of
from unrack.live.kubernetes.remote.pool import NONE_TAKEN, Taken
from unrack.live.kubernetes.remote.servers import ServerFabric


class ReadNodes(NamedTuple):
    """The nodes of a reading, which pods may preempt which there, and a number that is another once any of that is."""

    version: int
    of: Mapping[str, Node]
    tiers: frozenset[Tier]
    offer: int  # another number once other devices are offered to claims
    # taken, held: of the GPUs that are served those that are not for clients, and those that clients have
    taken: Taken = NONE_TAKEN
    held: frozenset[str] = frozenset()

    @property
    def terms(self) -> tuple[int, int, Taken]:
        """Another one once pods may ask otherwise because of the nodes."""
        return self.version, self.offer, self.taken


class _Last(NamedTuple):
    """What of a reading says which jobs are to be looked at in the next."""

    terms: tuple[int, int, Taken]
    beside: int  # the version of what is beside pods
    taken: set[str]  # pods that are no jobs by themselves
    behind: Mapping[str, str]
    gangs: Mapping[str, SeenJob]


class Readings:
    """Reads a picture, again and again.

    Parameters
    ----------
    picture, devices
        What is known of nodes and pods, and of devices that are claimed.
    servers
        Of GPUs of other nodes; ``None``: they are not served.
    """

    def __init__(self, picture: Picture, devices: Devices, servers: ServerFabric | None) -> None:
        self._picture, self._devices, self._servers = picture, devices, servers
        self._last: _Last | None = None

    def read(self, table: KnownJobs) -> Seen:
        """All that there is now; pods that are gone as long as they are in the table."""
        picture = self._picture
        with picture.lock:
            picture.read_version = picture.version
            known = {key for entry in table.keeping.values() for key, _ in members_of(entry)}
            picture.gone = {key: job for key, job in picture.gone.items() if key in known or table.get(key) is not None}
            taken, gangs = picture.gangs.gathered(table, picture.gone)
            found = {**picture.shown, **picture.gone}
            for key in taken:
                found.pop(key, None)
            given, held = NONE_TAKEN, frozenset[str]()
            if self._servers is not None:
                given = self._servers.taken(operations_of(table))
                held = frozenset(device for entry in table for device in entry.devices)
            offer, unreadable = self._devices.store.offer, (*picture.unreadable.values(), *picture.gangs.unknown())
            nodes = ReadNodes(picture.nodes_version, dict(picture.nodes), picture.tiers, offer, given, held)
            now = _Last(nodes.terms, picture.beside.version, taken, picture.gangs.behind, gangs)
            changed, self._last = self._changed(now, table), now
            return Seen(time.time(), picture.seen_nodes(), found | gangs, nodes, unreadable, changed=changed)

    def _changed(self, now: _Last, table: KnownJobs) -> frozenset[str] | None:
        """Keys of the jobs that may be seen or ask otherwise than at the last reading; ``None``: all may."""
        picture, before = self._picture, self._last
        found, picture.changed = picture.changed, set()
        if before is None or before.terms != now.terms:
            return None
        found |= picture.claiming | picture.beside.requiring.keys() | (now.taken ^ before.taken)
        if picture.beside.repels and now.beside != before.beside:
            found.update(entry.key for entry in table.in_phase(OPEN))
        found.update(key for key, _ in now.behind.items() ^ before.behind.items())
        gangs, were = now.gangs, before.gangs
        found.update(key for key, job in gangs.items() if isinstance(job.own, Gang) or job != were.get(key))
        return frozenset(found | (were.keys() - gangs.keys()))


def operations_of(table: KnownJobs) -> list[str]:
    """The attachments of all jobs, by id."""
    return [operation for entry in table for operation in entry.operations]
