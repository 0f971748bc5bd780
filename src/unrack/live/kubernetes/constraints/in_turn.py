"""Pods that may be in each other's way are placed one by one: the next once it is seen where the last one is."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from unrack.live.driver.seen import Seen, Shown
from unrack.live.driver.state.table import KnownJobs
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.constraints.beside import PodTerms
from unrack.live.kubernetes.gangs.gathering import STARTING, members_of

WAITS = "another pod that requires the same of those beside it is placed first"


class InTurn:
    """Of pods that require the same of those beside them, the one, or the gang, that is being placed."""

    def __init__(self) -> None:
        self._first: dict[Hashable, str] = {}

    def begin(self, seen: Seen, table: KnownJobs, pods: Mapping[str, Pod], required: Mapping[str, PodTerms]) -> None:
        """A turn begins: those come first that have a decided place, and that are not seen there yet."""
        self._first = {}
        for entry in table.in_phase(STARTING) if required else ():
            job = seen.jobs.get(entry.key)
            if job is not None and job.shown != Shown.RUNS:
                for key, _ in members_of(entry) or [(entry.key, "")]:
                    if key in pods and key in required:
                        self._first.update(dict.fromkeys(_ways(pods[key], required[key]), entry.key))

    def take(self, key: str, pods: Sequence[tuple[Pod, PodTerms]]) -> bool:
        """True if a pod, or a gang, comes first, from now on until the turn ends."""
        if not self.may_take(key, pods):
            return False
        self._first.update(dict.fromkeys((way for one in pods for way in _ways(*one)), key))
        return True

    def may_take(self, key: str, pods: Sequence[tuple[Pod, PodTerms]]) -> bool:
        """True if no other comes before a pod, or a gang."""
        return all(self._first.get(way, key) == key for one in pods for way in _ways(*one))


def _ways(pod: Pod, terms: PodTerms) -> Iterable[Hashable]:
    for port in terms.ports:
        yield port[:2]
    if any(others := terms[:3]):
        yield pod.metadata.namespace, repr(others)
