"""What a pod asks of its node, as the scheduler of Kubernetes counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from unrack.kubernetes_text.objects import entries, quantity, table

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
