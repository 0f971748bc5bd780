"""Where pods may run by the volumes that they claim: as kube-scheduler has it for claims that are bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from unrack.kubernetes_text import inside
from unrack.live.kubernetes.client.objects import Kind, Node, Pod
from unrack.live.kubernetes.client.others import Other
from unrack.live.kubernetes.places import selected
from unrack.live.kubernetes.volumes.limits import Handle, Limits

CLAIMS = Kind("/api/v1", "persistentvolumeclaims", Other)
VOLUMES = Kind("/api/v1", "persistentvolumes", Other, namespaced=False)
KINDS: tuple[Kind[Other], ...] = CLAIMS, VOLUMES
NAMES = {"PersistentVolumeClaim": CLAIMS, "PersistentVolume": VOLUMES}
ALONE = "ReadWriteOncePod"
"""The access mode of a volume that one pod uses at a time."""
_BOUND = "pv.kubernetes.io/bind-completed"
_GENERAL = {"failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
            "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region"}  # fmt: skip
_ZONES = (*_GENERAL, *_GENERAL.values())


def claimed_by(pod: Pod) -> dict[str, bool]:
    """Name of each claim of a pod → True if it is made for the pod alone."""
    found = {}
    for volume in pod.spec.volumes:
        if "ephemeral" in volume:
            found[f"{pod.metadata.name}-{volume.get('name')}"] = True
        elif "persistentVolumeClaim" in volume:
            found[str(inside(volume, "persistentVolumeClaim", "claimName"))] = False
    return found


class Volumes:
    """The claims and volumes that there are."""

    def __init__(self) -> None:
        self._claims, self._volumes = dict[tuple[str, str], Other](), dict[str, Other]()
        self._lacking: dict[str, str] = {}
        self.limits = Limits(self._handles, self._handle)

    def take(self, kind: Kind[Other], changes: list[tuple[Other | None, Other | None]], lacking: str) -> None:
        """Claims or volumes came, changed or went: each as it was, and as it is; or why they are not known."""
        self._lacking[kind.plural] = lacking
        for before, after in changes:
            at = (after or before or Other()).metadata
            self.limits.forget()
            there: dict[Any, Other] = self._claims if kind is CLAIMS else self._volumes
            name = (at.namespace, at.name) if kind is CLAIMS else at.name
            if after is None:
                there.pop(name, None)
            else:
                there[name] = after

    def objects(self) -> Iterator[tuple[str, Other]]:
        """All of them, each with what its kind is called."""
        every: tuple[dict[Any, Other], ...] = self._claims, self._volumes
        for name, there in zip(NAMES, every, strict=True):
            yield from ((name, one) for one in there.values())

    def keep_off(self, pod: Pod, nodes: Mapping[str, Node], is_used: Callable[[str], bool]) -> set[str] | str:
        """The nodes on which a pod may not run; or why it may run nowhere now.

        ``is_used``: True if another pod of the namespace that has a node uses the claim of a name.
        """
        off = set[str]()
        for name, own in claimed_by(pod).items():
            claim = self._claims.get((pod.metadata.namespace, name))
            if claim is None:
                why = next(filter(None, self._lacking.values()), "")
                return f"its volume claim {name} is not {'known: ' + why if why else 'there'}"
            volume = self._volume_of(pod, claim, own)
            if isinstance(volume, str):
                return f"its volume claim {name} {volume}"
            if ALONE in (claim.spec.get("accessModes") or ()) and is_used(name):
                return f"its volume claim {name} is for one pod at a time ({ALONE}), and another uses it"
            off |= {name for name, node in nodes.items() if not _reaches(volume, node)}
        return off | self.limits.full_for(pod)

    def _handles(self, pod: Pod) -> set[Handle]:
        """The volumes of CSI drivers that a pod uses."""
        claims = (self._claims.get((pod.metadata.namespace, name)) for name in claimed_by(pod))
        found = (self._handle(str(one.spec.get("volumeName"))) for one in claims if one is not None)
        return {one for one in found if one is not None}

    def _handle(self, name: str) -> Handle | None:
        volume = self._volumes.get(name)
        driver, handle = (inside(volume.spec, "csi", key) for key in ("driver", "volumeHandle")) if volume else ("", "")
        return (str(driver), str(handle)) if driver and handle else None

    def _volume_of(self, pod: Pod, claim: Other, own: bool) -> Other | str:
        """The volume of a claim that is bound; or why it cannot be used."""
        at = claim.metadata
        if at.deletion_timestamp or claim.status.get("phase") == "Lost":
            return "is being deleted" if at.deletion_timestamp else "has lost its volume"
        if own and not any(one.uid == pod.metadata.uid and one.controller for one in at.owner_references):
            return "was not made for this pod"
        name = str(claim.spec.get("volumeName") or "")
        if not name or _BOUND not in at.annotations:
            return "is not bound, and this scheduler binds none: kube-scheduler does, or a class of volumes at once"
        return self._volumes.get(name) or f"is bound to the volume {name}, which is not there"


def _reaches(volume: Other, node: Node) -> bool:
    """True if a volume can be used on a node: by its affinity, and by the zones in its labels, as far as nodes say."""
    required = inside(volume.spec, "nodeAffinity", "required")
    if required is not None and not selected(required, node):
        return False
    labels, zones = node.metadata.labels, volume.metadata.labels
    if not any(key in labels for key in _ZONES):
        return True
    return all(
        labels.get(key, labels.get(_GENERAL.get(key, key))) in zones[key].split("__") for key in _ZONES if key in zones
    )


def uses(pod: Pod, claim: str, namespace: str) -> bool:
    """True if a pod uses a claim of a namespace."""
    return pod.metadata.namespace == namespace and claim in claimed_by(pod)
