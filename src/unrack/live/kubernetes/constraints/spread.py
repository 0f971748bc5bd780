"""Topology spread with ``DoNotSchedule``: no place has more pods than another by more than so many."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.constraints.selecting import selects
from unrack.live.kubernetes.places import is_tolerated, is_wanted

HONOR = "Honor"
_WORDS = "matchExpressions"


class Spread(NamedTuple):
    """One constraint of a pod."""

    key: str
    most: int  # how many more a place may have than the one that has fewest
    selector: Mapping[str, Any] | None
    least: int  # with fewer places than that, the fewest is 0
    same: Mapping[str, str]  # labels that the pods that count must have, too
    wanted: bool  # only nodes count that the pod wants to run on
    tolerated: bool  # and with taints that it tolerates

    def counts(self, pod: Pod, namespace: str) -> bool:
        """True if a pod that has a node counts; one that is being deleted does not, and of all, no pod does."""
        at = pod.metadata
        said = self.selector or {}
        if at.deletion_timestamp or at.namespace != namespace or not any(map(said.get, ("matchLabels", _WORDS))):
            return False
        return selects(self.selector, at.labels) and self.same.items() <= at.labels.items()


def spreads_of(pod: Pod) -> tuple[Spread, ...]:
    """The constraints of a pod that must hold."""
    found = []
    for said in pod.spec.topology_spread_constraints:
        if str(said.get("whenUnsatisfiable")) == "ScheduleAnyway":
            continue
        labels = pod.metadata.labels
        same = {key: labels[key] for key in said.get("matchLabelKeys") or () if key in labels}
        wanted = said.get("nodeAffinityPolicy") in (None, HONOR)
        found.append(
            Spread(
                str(said.get("topologyKey")), int(said.get("maxSkew") or 1), said.get("labelSelector"),
                int(said.get("minDomains") or 1), same, wanted, said.get("nodeTaintsPolicy") == HONOR,
            )
        )  # fmt: skip
    return tuple(found)


def too_many(
    pod: Pod, spreads: Collection[Spread], nodes: Mapping[str, Node], on: Mapping[str, Mapping[str, Pod]]
) -> set[str]:
    """The nodes on which a pod would make a place have too many; ``on``: the pods that each of them has."""
    labelled = {name: node for name, node in nodes.items() if all(one.key in node.metadata.labels for one in spreads)}
    found, namespace = set(nodes) - set(labelled), pod.metadata.namespace
    for one in spreads:
        has: dict[str, int] = {}
        for name, node in labelled.items():
            if (one.wanted and not is_wanted(pod, node)) or (one.tolerated and not is_tolerated(pod, node)):
                continue
            place = node.metadata.labels[one.key]
            own = sum(one.counts(other, namespace) for other in on.get(name, {}).values())
            has[place] = has.get(place, 0) + own
        fewest = min(has.values(), default=0) if len(has) >= one.least else 0
        itself = int(selects(one.selector, pod.metadata.labels) and one.same.items() <= pod.metadata.labels.items())
        full = {place for place, own in has.items() if own + itself - fewest > one.most}
        none_yet = itself - fewest > one.most  # a place that does not count has none
        found |= {
            name
            for name, node in labelled.items()
            if (place := node.metadata.labels[one.key]) in full or (none_yet and place not in has)
        }
    return found
