"""To which gang a pod belongs, and how many of it start together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from unrack.kubernetes_text import entries, inside
from unrack.live.kubernetes.client.objects import Kind, Pod
from unrack.live.kubernetes.client.others import JOB_SETS, PLUGINS_POD_GROUPS, POD_GROUPS, Other
from unrack.live.kubernetes.gangs.job_sets import ATTEMPT_LABEL, JOB_SET_LABEL, part_of, size_of

PLUGINS_LABEL, KUEUE_LABEL = "scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name"
KUEUE_COUNT = "kueue.x-k8s.io/pod-group-total-count"
"""Labels that name the gang of a pod; and the annotation in which pods of Kueue say how many there are of it."""
KINDS: tuple[Kind[Other], ...] = POD_GROUPS, PLUGINS_POD_GROUPS, JOB_SETS
_MOST = 100_000


class GangName(NamedTuple):
    """What a gang is called: what says how large it is (the group of the API), its namespace and its name."""

    by: str
    namespace: str
    name: str
    attempt: str = ""  # of a JobSet: how often it was restarted, each time as another gang

    @property
    def kind(self) -> Kind[Other] | None:
        """The kind of object that says how large it is; ``None``: its pods do."""
        return next((kind for kind in KINDS if _group(kind) == self.by), None)


class Groups:
    """The PodGroups and JobSets that there are.

    Attributes
    ----------
    lacking
        Why those of a kind are not known, by the path of all of them; ``""``: they are.
    """

    def __init__(self) -> None:
        self.lacking: dict[str, str] = {}
        self._of: dict[GangName, Other] = {}

    def take(self, kind: Kind[Other], changes: list[tuple[Other | None, Other | None]], lacking: str) -> None:
        """Objects of a kind came, changed or went: each as it was, and as it is; or why they are not known."""
        self.lacking[kind.path()] = f": {lacking}" if lacking else ""
        for before, after in changes:
            at = (after or before or Other()).metadata
            name = GangName(_group(kind), at.namespace, at.name)
            if after is None:
                self._of.pop(name, None)
            else:
                self._of[name] = after

    def least(self, name: GangName, pod: Pod) -> int | str:
        """How many pods of a gang start together, one of which is given: 1 if each may start alone; or why not now."""
        if (kind := name.kind) is None:
            return _count(pod.metadata.annotations.get(KUEUE_COUNT), f"its annotation {KUEUE_COUNT}")
        found, lacking = self._of.get(name._replace(attempt="")), self.lacking.get(kind.path(), "")
        if kind is JOB_SETS:
            if found is None:
                return 1 if lacking else f"its JobSet {name.name} is not there"
            return size_of(found, pod)
        what = f"its PodGroup {name.name} ({name.by})"
        if found is None:
            return f"{what} is not there{lacking}"
        if kind is PLUGINS_POD_GROUPS:
            return _count(found.spec.get("minMember"), f"spec.minMember of {what}")
        constraints: Mapping[str, Any] = found.spec.get("schedulingConstraints") or {}
        unkept = [
            f"schedulingConstraints.{one}" for one in sorted(constraints) if one != "topology" and constraints[one]
        ]
        for beside in (*unkept, "parentCompositePodGroupName", "resourceClaims"):
            if beside in unkept or found.spec.get(beside):
                return f"{what} asks for {beside}: not kept by this scheduler"
        policy: Mapping[str, Any] = found.spec.get("schedulingPolicy") or {}
        return _count(inside(policy, "gang", "minCount"), f"gang.minCount of {what}") if policy.get("gang") else 1

    def alike(self, name: GangName) -> tuple[str, ...]:
        """Labels of which the nodes of all its pods have the same values: the topology that a PodGroup says."""
        if name.kind is not POD_GROUPS or (found := self._of.get(name)) is None:
            return ()
        topology = entries(found.spec, "schedulingConstraints", "topology")
        return tuple(dict.fromkeys(str(one.get("key")) for one in topology))

    def part(self, name: GangName, pod: Pod) -> str:
        """With which of its gang a pod starts: what those have in common; ``""``: with all that have nothing."""
        found = self._of.get(name._replace(attempt="")) if name.kind is JOB_SETS else None
        return "" if found is None else part_of(found, pod)

    @property
    def lacks_job_sets(self) -> str:
        """Why JobSets are not known, so that their pods start one by one; ``""``: they are."""
        return self.lacking.get(JOB_SETS.path(), "")


def gang_of(pod: Pod) -> GangName | None:
    """The gang to which a pod says that it belongs; ``None``: it says nothing."""
    at = pod.metadata
    if pod.spec.scheduling_group is not None:
        return GangName(_group(POD_GROUPS), at.namespace, str(pod.spec.scheduling_group.get("podGroupName")))
    if PLUGINS_LABEL in at.labels:
        return GangName(_group(PLUGINS_POD_GROUPS), at.namespace, at.labels[PLUGINS_LABEL])
    if KUEUE_LABEL in at.labels:
        return GangName("kueue.x-k8s.io", at.namespace, at.labels[KUEUE_LABEL])
    if JOB_SET_LABEL in at.labels:
        return GangName(_group(JOB_SETS), at.namespace, at.labels[JOB_SET_LABEL], at.labels.get(ATTEMPT_LABEL, ""))
    return None


def _group(kind: Kind[Other]) -> str:
    return kind.prefix.split("/")[2]


def _count(said: Any, what: str) -> int | str:
    """A number of pods; or that it is none."""
    text = str(said)
    if text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= _MOST:
        return int(text)
    return f"{what} is {text[:40]!r}, not a number of pods"
