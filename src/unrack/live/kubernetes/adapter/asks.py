"""What a pod asks of its node in whole amounts, how long it may run, and what of it is not kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from unrack.kubernetes_text import asked_by, moment_s
from unrack.live.kubernetes.client.objects import Node, Pod, PodSpec
from unrack.live.kubernetes.constraints.beside import says_too_much
from unrack.live.kubernetes.machines import PODS_OF_NODE, Machines, amounts_of, counted

OLD_LABEL = "pod-group.scheduling.sigs.k8s.io"
OVER = ("Succeeded", "Failed")
MOST_KEPT = 4000
"""Characters of what pods ask up to which it is remembered: most pods are made from few templates."""
_REFUSED: tuple[tuple[str, Callable[[Pod], Any]], ...] = (
    ("a gang by the label pod-group.scheduling.sigs.k8s.io", lambda pod: OLD_LABEL in pod.metadata.labels),
    ("more affinity, spread or ports than can be looked up for all pods", says_too_much),
)
"""What a pod may require and is not kept; and how it is seen."""
Amounts = Mapping[str, int]
"""By resource: thousandths of cores, MB, and pieces; one pod among them."""


def asked_of(pod: Pod) -> Amounts:
    """What a pod asks for, rounded up.

    Raises
    ------
    ValueError
        An amount is no quantity.
    """
    of = pod.spec
    part = PodSpec(
        containers=of.containers, init_containers=of.init_containers, overhead=of.overhead, resources=of.resources
    )  # fmt: skip
    said = msgspec.json.encode(part)
    return _asked(said) if len(said) <= MOST_KEPT else _asked.__wrapped__(said)


@lru_cache(1000)
def _asked(spec: bytes) -> Amounts:
    asked = asked_by({"spec": msgspec.json.decode(spec)})
    return MappingProxyType(_whole({**asked, PODS_OF_NODE: Fraction(1)}, math.ceil))


def room_of(node: Node) -> Amounts:
    """What pods may have of a node, rounded down.

    Raises
    ------
    ClusterError
        An amount is no quantity.
    """
    return _whole(amounts_of(node), math.floor)


def _whole(amounts: Mapping[str, Fraction], whole: Callable[[Fraction], int]) -> Amounts:
    found = {
        key: whole(amount * 1000) if key == "cpu" else counted(key, amount, whole) for key, amount in amounts.items()
    }
    return {key: amount for key, amount in found.items() if amount > 0}


def beyond(asks: Amounts, room: Amounts) -> str:
    """The first resource of which more is asked than there is, in numbers; ``""``: none."""
    for key in sorted(asks):
        if asks[key] > room.get(key, 0):
            return f"{asks[key]} {_unit(key)}, of which there are {room.get(key, 0)}"
    return ""


def _unit(resource: str) -> str:
    return {"cpu": "thousandths of a core", "memory": "MB of memory", PODS_OF_NODE: "pod"}.get(resource, resource)


def devices_of(asks: Amounts, machines: Machines) -> dict[str, dict[str, int]]:
    """What it asks beside cores and memory, as jobs ask for it."""
    gpus = asks.get(machines.gpu, 0) if machines.gpu else 0
    claims = {name: asks[resource] for resource, name in machines.counters.items() if asks.get(resource)}
    return ({"gpus": {"count": gpus}} if gpus else {}) | ({"counted": claims} if claims else {})


def required(pod: Pod) -> str:
    """What a pod requires that is not kept; ``""``: nothing."""
    return ", ".join(what for what, sees in _REFUSED if sees(pod))


def moment(text: str | None) -> float:
    """Seconds since 1970; 0: it is no time."""
    try:
        return moment_s(text) or 0.0
    except ValueError:
        return 0.0
