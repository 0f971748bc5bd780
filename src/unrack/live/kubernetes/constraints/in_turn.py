"""Pods that may be in each other's way are placed one by one: the next once it is seen where the last one is."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from unrack.live.driver.seen import Seen, Shown
from unrack.live.driver.state.table import Table
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.constraints.beside import Terms
from unrack.live.kubernetes.gangs.gathering import STARTING

WAITS = "another pod that requires the same of those beside it is placed first"


class InTurn:
    """Of pods that require the same of those beside them, the one that is being placed."""

    def __init__(self) -> None:
        self._first: dict[Hashable, str] = {}

    def begin(self, seen: Seen, table: Table, required: dict[str, Terms]) -> None:
        """A turn begins: those come first that have a decided place, and that are not seen there yet."""
        self._first = {}
        for entry in table.in_phase(STARTING) if required else ():
            job = seen.jobs.get(entry.key)
            if job is not None and job.shown != Shown.RUNS and isinstance(job.own, Pod) and entry.key in required:
                for way in _ways(job.own, required[entry.key]):
                    self._first[way] = entry.key

    def take(self, key: str, pod: Pod, terms: Terms) -> bool:
        """True if a pod comes first, from now on until the turn ends."""
        ways = tuple(_ways(pod, terms))
        if any(self._first.get(way, key) != key for way in ways):
            return False
        self._first.update(dict.fromkeys(ways, key))
        return True


def _ways(pod: Pod, terms: Terms) -> Iterable[Hashable]:
    for port in terms.ports:
        yield port[:2]
    if any(others := terms[:3]):
        yield pod.metadata.namespace, repr(others)
