"""What a pod asks of its node in whole amounts, how long it may run, and what of it is not kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from unrack.kubernetes_text.asked import asked_by
from unrack.kubernetes_text.objects import entries, moment_s
from unrack.live.kubernetes.client.objects import Container, Node, Pod
from unrack.live.kubernetes.machines import PODS_OF_NODE, Machines, amounts_of, counted
from unrack.live.kubernetes.snapshot import GANG, is_claimed
from unrack.units import SECOND_US, time_us

RUN_TIME = "unrack.io/run-time"
"""The annotation in which a pod says how long it is expected to run: seconds, or text such as ``30 min``."""
OVER = ("Succeeded", "Failed")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_REFUSED: tuple[tuple[str, Callable[[Pod], Any]], ...] = (
    ("affinity to other pods", lambda pod: entries(pod.spec.affinity, "podAffinity", _REQUIRED)),
    ("anti-affinity to other pods", lambda pod: entries(pod.spec.affinity, "podAntiAffinity", _REQUIRED)),
    ("topology spread", lambda pod: any(map(_spreads, pod.spec.topology_spread_constraints))),
    ("a gang", lambda pod: pod.spec.scheduling_group or GANG & set(pod.metadata.labels)),
    ("volumes, which may be on some nodes only", lambda pod: any(map(is_claimed, pod.spec.volumes))),
    ("ports of its node", lambda pod: any(map(_has_ports, (*pod.spec.containers, *pod.spec.init_containers)))),
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
    return _whole({**asked_by(msgspec.to_builtins(pod)), PODS_OF_NODE: Fraction(1)}, math.ceil)


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


def limit_s(pod: Pod) -> int | None:
    """How long a pod is expected to run, s: what it says in an annotation, and its deadline at most; ``None``: neither.

    Raises
    ------
    ValueError
        The annotation is no time above 0.
    """
    said, deadline_s = pod.metadata.annotations.get(RUN_TIME), pod.spec.active_deadline_seconds
    if said is None:
        return deadline_s
    run_us = time_us(said[:80])
    if run_us <= 0:
        raise ValueError(f"{said[:80]!r} is not a time above 0")
    run_s = -(-run_us // SECOND_US)
    return run_s if deadline_s is None else min(run_s, deadline_s)


def required(pod: Pod) -> str:
    """What a pod requires that is not kept; ``""``: nothing."""
    return ", ".join(what for what, sees in _REFUSED if sees(pod))


def moment(text: str | None) -> float:
    """Seconds since 1970; 0: it is no time."""
    try:
        return moment_s(text) or 0.0
    except ValueError:
        return 0.0


def _spreads(constraint: Mapping[str, Any]) -> bool:
    return str(constraint.get("whenUnsatisfiable")) != "ScheduleAnyway"


def _has_ports(container: Container) -> bool:
    return any(bool(port.get("hostPort")) for port in container.ports)
