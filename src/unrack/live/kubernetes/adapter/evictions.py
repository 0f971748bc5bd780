"""Pods that are evicted for others, and devices that are about to be free; no pod is evicted if that were no use.

The core counts devices, and what is counted is never less than what could be given. So before a pod is evicted for one
with claims, it is tried whether devices could be given to this one then; if not, the other runs on. And the
core takes a job that it stops to wait again, and may stop others for that; but a pod that is evicted is gone.
"""

from __future__ import annotations

from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Phase
from unrack.live.driver.state.table import KnownJobs, ranked
from unrack.live.kubernetes.adapter.picture import Picture
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.devices.devices import Devices
from unrack.live.kubernetes.gangs.gathering import STARTING, members_of

FOR = "for job "
"""What a reason says before the job for which another is stopped."""


class Evictions:
    """What is known of them.

    Parameters
    ----------
    picture, devices
        What is known of nodes and pods, and of devices that are claimed.

    Attributes
    ----------
    table
        The jobs.
    """

    def __init__(self, picture: Picture, devices: Devices) -> None:
        self._picture, self._devices = picture, devices
        self.table: KnownJobs | None = None

    def look(self) -> dict[str, str]:
        """Note which pods are ending for others; by key of a job that is not to be stopped after all, why."""
        table, giving = self.table, self._devices.giving
        stopping = [] if table is None else ranked(table.in_phase((Phase.STOPPING,)))
        if table is None or not stopping:
            giving.end(frozenset())
            return {}
        with self._picture.lock:
            of = {victim.key: self._pods(victim) for victim in stopping}
            for_which = {one.key: one.why.partition(FOR)[2] for one in stopping if FOR in one.why}  # else for no other
            starting = ranked(entry for entry in map(table.get, set(for_which.values())) if entry is not None)
            claiming = {entry.key: pods for entry in starting if (pods := self._claiming(entry))}
            vain = {key: why for key in set(for_which.values()) if (why := _never(table.get(key)))}
            while True:
                going = [key for key in of if for_which.get(key, "") not in vain or self._is_going(of[key])]
                ending = frozenset(pod.metadata.uid for key in going for pod in of[key])
                left = [key for key in claiming if key not in vain]
                whys = giving.in_vain([claiming[key] for key in left], ending) if left else []
                if not any(whys):
                    break
                vain |= {key: why for key, why in zip(left, whys, strict=True) if why}
            giving.end(ending)
        text = "it would be in vain, as pod {} could not start even then: {}"
        stays = {key: for_which[key] for key in of if key not in going}
        return {key: text.format(other.rpartition("/")[0], vain[other]) for key, other in stays.items()}

    def _pods(self, entry: Entry) -> list[Pod]:
        keys = [key for key, _ in members_of(entry)] or [entry.key]
        return [self._picture.pods[key] for key in keys if key in self._picture.pods]

    def _claiming(self, entry: Entry) -> list[tuple[Pod, Node]]:
        """The pods of a job that starts which claim devices and have no node, each with that which it is to have."""
        picture, nodes = self._picture, entry.nodes
        if entry.phase not in STARTING or not nodes:
            return []
        found = [
            (picture.pods[key], picture.nodes[node])
            for key, node in members_of(entry) or [(entry.key, nodes[0])]
            if key in picture.pods and node in picture.nodes
        ]
        return [one for one in found if self._devices.claims(one[0]) and not one[0].spec.node_name]

    def _is_going(self, pods: list[Pod]) -> bool:
        """Whether some have been evicted already."""
        return any(pod.metadata.deletion_timestamp for pod in pods)


def _never(entry: Entry | None) -> str:
    """Why a job does not start that others are to be stopped for; ``""``: it does."""
    if entry is None:
        return "it is gone"
    return "it is being evicted, too" if entry.phase in (Phase.STOPPING, Phase.HOLDING) else ""
