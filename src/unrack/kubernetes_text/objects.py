"""Objects in what ``kubectl get … -o json`` printed: one, a list, or a list of several kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

_QUANTITY = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?(?:([eE][+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)")
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
    """
    match = _QUANTITY.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is not None:
        whole, part, power, unit = match.groups()
        number = Fraction(f"{whole}.{part or 0}{power or ''}") * _FACTOR[unit or ""]
        if number < 2**62:
            return number
    raise ValueError(f"{str(value)[:60]!r} is not a quantity such as 500m, 4 or 32Gi")
