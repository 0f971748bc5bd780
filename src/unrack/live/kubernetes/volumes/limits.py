"""How many volumes of a driver may be attached to a node: as kube-scheduler has it for volumes of CSI drivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from unrack.kubernetes_text import entries, inside
from unrack.live.kubernetes.client.objects import Kind, Pod
from unrack.live.kubernetes.client.others import Other

CSI_NODES = Kind("/apis/storage.k8s.io/v1", "csinodes", Other, namespaced=False)
ATTACHMENTS = Kind("/apis/storage.k8s.io/v1", "volumeattachments", Other, namespaced=False)
KINDS: tuple[Kind[Other], ...] = CSI_NODES, ATTACHMENTS
Handle = tuple[str, str]
"""A volume: its driver, and what that calls it."""


class Limits:
    """What nodes say of that, and what is attached to them.

    Parameters
    ----------
    of_pod, of_volume
        The volumes of CSI drivers that a pod claims; the one that a PersistentVolume of a name is, if it is one.
    """

    def __init__(self, of_pod: Callable[[Pod], set[Handle]], of_volume: Callable[[str], Handle | None]) -> None:
        self._of_pod, self._of_volume = of_pod, of_volume
        self._most: dict[str, dict[str, int]] = {}  # node → driver → how many
        self._attachments: dict[str, dict[str, dict[str, Any]]] = {}  # node → name → what is said of it
        self._pods: dict[str, dict[str, Pod]] = {}  # node → key → pods with claims
        self._there: dict[str, tuple[set[Handle], Counter[str]]] = {}

    def take(self, kind: Kind[Other], changes: list[tuple[Other | None, Other | None]]) -> None:
        """Nodes or attachments came, changed or went."""
        for before, after in changes:
            for one in (before, after) if kind is ATTACHMENTS else ():
                if one is not None:
                    node = str(one.spec.get("nodeName"))
                    self._attachments.setdefault(node, {}).pop(one.metadata.name, None)
                    self._there.pop(node, None)
            if after is None:
                if kind is CSI_NODES and before is not None:
                    self._most.pop(before.metadata.name, None)
            elif kind is ATTACHMENTS:
                self._attachments[str(after.spec.get("nodeName"))][after.metadata.name] = after.spec
            else:
                counts = {
                    str(one.get("name")): inside(one, "allocatable", "count") for one in entries(after.spec, "drivers")
                }
                self._most[after.metadata.name] = {key: of for key, of in counts.items() if isinstance(of, int)}

    def forget(self) -> None:
        """Claims or volumes are others: what was counted is counted anew."""
        self._there.clear()

    def hold(self, key: str, pod: Pod | None, node: str, before: str) -> None:
        """A pod with claims has a node, or is being bound to it; ``before``: the one that it had so far."""
        if before and self._pods.get(before, {}).pop(key, None) is not None:
            self._there.pop(before, None)
        if node and pod is not None:
            self._pods.setdefault(node, {})[key] = pod
            self._there.pop(node, None)

    def full_for(self, pod: Pod) -> set[str]:
        """The nodes to which not all volumes of a pod can be attached beside those that are there."""
        found = set[str]()
        if not self._most or not (wanted := self._of_pod(pod)):
            return found
        drivers = {driver for driver, _ in wanted}
        for node, most in self._most.items():
            if drivers.isdisjoint(most):
                continue
            used, count = self._on(node)
            more = Counter(driver for driver, _ in wanted - used)
            if any(count[driver] + more[driver] > most[driver] for driver in more.keys() & most.keys()):
                found.add(node)
        return found

    def _on(self, node: str) -> tuple[set[Handle], Counter[str]]:
        """The volumes that pods of a node use; and how many of each driver there are, with those that no pod uses."""
        if node not in self._there:
            used = set[Handle]().union(*map(self._of_pod, self._pods.get(node, {}).values()))
            attached = set[Handle]()
            for said in self._attachments.get(node, {}).values():
                attacher, name = said.get("attacher"), inside(said, "source", "persistentVolumeName")
                if attacher and name and (volume := self._of_volume(str(name))) is not None:
                    attached.add((str(attacher), volume[1]))
            self._there[node] = used, Counter(driver for driver, _ in used | attached)
        return self._there[node]
