"""Kubernetes' objects as ``kubectl get … -o json`` prints them, and what a pod asks of its node.

There may be one object, a list, or a list of several kinds. Amounts are counted as the scheduler of Kubernetes does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

_QUANTITY = re.compile(
    r"\+?(?=\.?[0-9])([0-9]{0,18})(?:\.([0-9]{0,18}))?(?:([eE][+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)"
)
_FACTOR = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}  # fmt: skip


def objects(content: Any, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The objects of a kind, each with where it is in the document.

    ``content``: the parsed JSON; ``kind``: ``"Node"``, ``"Pod"``. A ValueError if the document is not of Kubernetes.

    Examples
    --------
    >>> [where for where, _ in objects({"kind": "NodeList", "items": [{"metadata": {}}]}, "Node")]
    ['items.0']
    """
    if not isinstance(content, Mapping) or not isinstance(content.get("kind"), str):
        raise ValueError("a document without a kind is not what kubectl get nodes,pods -o json prints")
    of_list = content["kind"].removesuffix("List")
    if of_list == content["kind"]:
        return [("", content)] if content["kind"] == kind else []
    items = content.get("items")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise ValueError("items is not a list of objects, as kubectl get nodes,pods -o json prints it")
    return [(f"items.{place}", item) for place, item in enumerate(items) if item.get("kind", of_list) == kind]


def inside(thing: Any, *path: str) -> Any:
    """What stands at a path of keys; ``None`` where a step is missing or is not a table.

    Examples
    --------
    >>> inside({"spec": {"nodeName": "n1"}}, "spec", "nodeName"), inside({"spec": 3}, "spec", "nodeName")
    ('n1', None)
    """
    for key in path:
        if not isinstance(thing, Mapping):
            return None
        thing = thing.get(key)
    return thing


def table(thing: Any, *path: str) -> Mapping[str, Any]:
    """The table at a path of keys; an empty one where there is none."""
    found = inside(thing, *path)
    return found if isinstance(found, Mapping) else {}


def entries(thing: Any, *path: str) -> list[Mapping[str, Any]]:
    """The tables in the list at a path of keys; none where there is no list."""
    found = inside(thing, *path)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def moment_s(value: object) -> float | None:
    """Seconds since 1970 of a time such as ``2026-01-02T03:04:05Z``; ``None`` where there is none.

    A ValueError if it is not a time.
    """
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{str(value)[:60]!r} is not a time such as 2026-01-02T03:04:05Z") from None


def quantity(value: object) -> Fraction:
    """The number that a quantity stands for: cores, bytes or pieces.

    A ValueError if it is not a quantity, or is 2**62 or more.

    Examples
    --------
    >>> quantity("7910m"), quantity("32Gi") == 32 * 2**30, quantity("1.5"), quantity(4), quantity("1e3")
    (Fraction(791, 100), True, Fraction(3, 2), Fraction(4, 1), Fraction(1000, 1))
    >>> quantity("+.5"), quantity("5."), quantity("0.1Gi") == Fraction(2**30, 10)
    (Fraction(1, 2), Fraction(5, 1), True)
    """
    match = _QUANTITY.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is not None:
        whole, part, power, unit = match.groups()
        number = Fraction(f"{whole or 0}.{part or 0}{power or ''}") * _FACTOR[unit or ""]
        if number < 2**62:
            return number
    raise ValueError(f"{str(value)[:60]!r} is not a quantity such as 500m, 4 or 32Gi")


Amounts = dict[str, Fraction]
_OF_PODS = ("cpu", "memory")
"""What a pod may ask for as a whole; and huge pages."""


def asked_by(pod: Mapping[str, Any], read: Callable[[str, Any], Fraction] | None = None) -> Amounts:
    """Cores, bytes and pieces by resource.

    Containers and sidecars (init containers that go on) ask together. Every other init container asks alone, beside the
    sidecars before it; the most counts. What a container may have counts where it does not say what it asks. What the
    pod asks as a whole is in place of that, for cores, memory and huge pages; its overhead is on top. A ValueError if
    an amount is not a quantity, if ``read`` raises nothing else.

    Parameters
    ----------
    pod
        The object, as JSON.
    read
        (where, quantity) → number, where where is a path inside the pod; ``None``: :func:`quantity`.

    Examples
    --------
    >>> def container(cpu, **keys):
    ...     return {"resources": {"requests": {"cpu": cpu}}, **keys}
    >>> sidecar, first = container("1", restartPolicy="Always"), container("4")
    >>> asked_by({"spec": {"initContainers": [sidecar, first], "containers": [container("500m"), container(2)]}})["cpu"]
    Fraction(5, 1)
    """

    def amounts(of: Mapping[str, Any], at: str) -> Amounts:
        wanted = {**table(of, "limits"), **table(of, "requests")}
        return numbers(wanted, f"{at}.requests")

    def numbers(of: Mapping[str, Any], at: str) -> Amounts:
        return {str(key): read(f"{at}.{key}", value) if read else quantity(value) for key, value in of.items()}

    at = "spec.initContainers.{}.resources"
    first, together, most = entries(pod, "spec", "initContainers"), Amounts(), Amounts()
    for place, container in enumerate(first):
        own = amounts(table(container, "resources"), at.format(place))
        if container.get("restartPolicy") == "Always":
            _add(together, own)
            continue
        for key, amount in own.items():  # of what it does not ask for, the sidecars ask no less together with others
            most[key] = max(most.get(key, Fraction(0)), amount + together.get(key, Fraction(0)))
    for place, container in enumerate(entries(pod, "spec", "containers")):
        _add(together, amounts(table(container, "resources"), f"spec.containers.{place}.resources"))
    found = {key: max(most.get(key, Fraction(0)), together.get(key, Fraction(0))) for key in {**together, **most}}
    whole = amounts(table(pod, "spec", "resources"), "spec.resources")
    found |= {key: amount for key, amount in whole.items() if key in _OF_PODS or key.startswith("hugepages-")}
    _add(found, numbers(table(pod, "spec", "overhead"), "spec.overhead"))
    return found


def _add(to: Amounts, more: Amounts) -> None:
    for key, amount in more.items():
        to[key] = to.get(key, Fraction(0)) + amount
