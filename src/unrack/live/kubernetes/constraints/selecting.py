"""Which pods are meant: label selectors, and terms of affinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from unrack.kubernetes_text import entries
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.places import labels_hold

Labels = Mapping[str, str]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """True if a label selector means these labels; an empty one means all, and none (``None``) means nothing."""
    if selector is None:
        return False
    same = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in same.items()) and all(
        labels_hold(said, labels) for said in entries(selector, "matchExpressions")
    )


class Term(NamedTuple):
    """A required term of affinity or anti-affinity to other pods."""

    key: str  # the label of nodes that says which of them are one place
    selector: Mapping[str, Any] | None
    namespaces: frozenset[str]  # those of the pods that are meant
    of: Mapping[str, Any] | None  # and those of namespaces with these labels; ``None``: of no others

    def means(self, pod: Pod, namespaces: Mapping[str, Labels]) -> bool:
        """True if it means a pod; ``namespaces``: their labels."""
        at = pod.metadata
        inside = at.namespace in self.namespaces or selects(self.of, namespaces.get(at.namespace, {}))
        return inside and selects(self.selector, at.labels)


def terms_of(pod: Pod, kind: str) -> tuple[Term, ...]:
    """What a pod requires of other pods; ``kind``: ``podAffinity`` or ``podAntiAffinity``."""
    found = []
    for said in entries(pod.spec.affinity, kind, REQUIRED):
        of, listed = said.get("namespaceSelector"), said.get("namespaces") or []
        own = [pod.metadata.namespace] if not listed and of is None else listed
        found.append(Term(str(said.get("topologyKey")), said.get("labelSelector"), frozenset(map(str, own)), of))
    return tuple(found)
