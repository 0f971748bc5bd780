"""On which nodes a pod may run: its node selector, what it requires of nodes, and the taints that it tolerates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from unrack.kubernetes_text import entries, inside
from unrack.live.kubernetes.client.objects import Node, Pod, Taint

KEEPING_OUT = ("NoSchedule", "NoExecute")
"""Effects of taints that keep pods away; PreferNoSchedule is a wish."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_REQUIRED = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def may_run(pod: Pod, node: Node) -> bool:
    """True if nothing but what is free keeps the pod from the node.

    A node that is cordoned is for pods that tolerate the taint ``node.kubernetes.io/unschedulable``, which it has.
    """
    return is_wanted(pod, node) and is_tolerated(pod, node)


def is_wanted(pod: Pod, node: Node) -> bool:
    """True if it is one of the nodes that a pod selects, and requires."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    required = inside(pod.spec.affinity, *_REQUIRED)
    return required is None or any(_holds(term, node) for term in entries(required, "nodeSelectorTerms"))


def is_tolerated(pod: Pod, node: Node) -> bool:
    """True if a pod tolerates the taints of a node that keep pods out."""
    return all(tolerated(taint, pod.spec.tolerations) for taint in node.spec.taints if taint.effect in KEEPING_OUT)


def asks_where(pod: Pod) -> str:
    """The same text for pods that may run on the same nodes by what they say."""
    return repr((pod.spec.node_selector, inside(pod.spec.affinity, *_REQUIRED), pod.spec.tolerations))


def tolerated(taint: Taint, tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """True if one of the tolerations is for the taint; one without a key, or an effect, is for all."""
    return any(
        said.get("effect") in (None, "", taint.effect)
        and said.get("key") in (None, "", taint.key)
        and _meant(taint, str(said.get("operator") or "Equal"), said)
        for said in tolerations
    )


def _meant(taint: Taint, operator: str, said: Mapping[str, Any]) -> bool:
    value = str(said.get("value") or "")
    if operator == "Exists":
        return True
    if operator in ("Lt", "Gt"):
        return _compared(operator, taint.value, value)
    return operator == "Equal" and bool(said.get("key")) and taint.value == value


def _holds(term: Mapping[str, Any], node: Node) -> bool:
    """True if all that a term says holds; a term that says nothing holds nowhere."""
    of_labels, of_fields = entries(term, "matchExpressions"), entries(term, "matchFields")
    fields = {"metadata.name": node.metadata.name}
    return bool(of_labels or of_fields) and (
        all(labels_hold(said, node.metadata.labels) for said in of_labels)
        and all(labels_hold(said, fields) for said in of_fields)
    )


def labels_hold(said: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """True if an expression of a selector holds of labels."""
    key, operator, values = str(said.get("key")), said.get("operator"), said.get("values") or []
    match operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt":
            return key in labels and len(values) == 1 and _compared(operator, labels[key], str(values[0]))
        case _:
            return False


def _compared(operator: str, one: str, other: str) -> bool:
    if not _NUMBER.fullmatch(one) or not _NUMBER.fullmatch(other):
        return False
    return int(one) > int(other) if operator == "Gt" else int(one) < int(other)


def selected(selector: Mapping[str, Any], node: Node) -> bool:
    """True if one of the terms of a selector of nodes holds."""
    return any(_holds(term, node) for term in entries(selector, "nodeSelectorTerms"))
