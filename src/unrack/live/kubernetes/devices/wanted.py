"""What claims ask for, as it is looked for: requests, each with its alternatives, and what devices have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from unrack.kubernetes_text import entries, inside, quantity
from unrack.live.kubernetes.devices.objects import (
    Claim,
    Constraint,
    DeviceClass,
    DeviceRequest,
    DeviceTaint,
    Request,
    Toleration,
)

MOST_DEVICES = 32
"""Devices that a claim may have; the API server takes no more either."""


class WantedError(ValueError):
    """A claim that cannot be had, whatever is free: for what reason."""


@dataclass(frozen=True)
class Alternative:
    """A way in which a request may be met; alike where two requests take the same devices."""

    name: str  # of the request, with that of the alternative where there are several: ``main/sub``
    device_class: str
    selectors: tuple[str, ...]  # of the class, and its own
    count: int  # 0: all that there are
    tolerations: tuple[Toleration, ...]
    capacity: tuple[tuple[str, Fraction], ...]

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Whether a taint does not matter."""
        return any(
            one.effect in ("", taint.effect)
            and one.key in ("", taint.key)
            and (one.operator == "Exists" or (one.operator in ("", "Equal") and one.value == taint.value))
            for one in self.tolerations
        )


class Shared(NamedTuple):
    """An attribute in which the devices of some requests are all alike, or all different."""

    attribute: str
    alike: bool
    requests: frozenset[str]  # by name; empty: all

    def binds(self, name: str) -> bool:
        """Whether it is about a request, or an alternative of one."""
        return not self.requests or name in self.requests or name.partition("/")[0] in self.requests


@dataclass(frozen=True)
class Wanted:
    """What a claim asks for."""

    claim: str  # its uid
    requests: tuple[tuple[Alternative, ...], ...]
    shared: tuple[Shared, ...]


def wanted(claim: Claim, classes: Mapping[str, DeviceClass]) -> Wanted:
    """What a claim asks for.

    Raises
    ------
    WantedError
        It asks for what is not given here, or names a class that is not there.
    """
    spec = claim.spec.devices
    requests = tuple(_request(one, classes) for one in spec.requests)
    shared = tuple(_shared(one) for one in spec.constraints)
    least = sum(min(max(one.count, 1) for one in request) for request in requests)
    if least > MOST_DEVICES:
        raise WantedError(f"it asks for {least} devices, of {MOST_DEVICES} at most")
    return Wanted(claim.metadata.uid, requests, shared)


def _request(one: Request, classes: Mapping[str, DeviceClass]) -> tuple[Alternative, ...]:
    if one.exactly is not None:
        return (_alternative(one.name, one.exactly, classes),)
    if not one.first_available:
        raise WantedError(f"request {one.name} says nothing that is understood")
    return tuple(_alternative(f"{one.name}/{sub.name}", sub, classes) for sub in one.first_available)


def _alternative(name: str, one: DeviceRequest, classes: Mapping[str, DeviceClass]) -> Alternative:
    if one.admin_access:
        raise WantedError(f"request {name} wants access as an administrator: not given by this scheduler")
    if one.derived_attributes:
        raise WantedError(f"request {name} derives attributes: not kept by this scheduler")
    if one.allocation_mode not in ("", "ExactCount", "All"):
        raise WantedError(f"request {name}: an allocation mode {one.allocation_mode!r} that is not known")
    if one.device_class_name not in classes:
        raise WantedError(f"request {name}: there is no device class {one.device_class_name}")
    try:
        capacity = tuple(sorted((key, quantity(value)) for key, value in one.capacity.requests.items()))
    except ValueError as error:
        raise WantedError(f"request {name}: {error}") from None
    its = classes[one.device_class_name].spec.selectors
    selectors = tuple(_expression(of, name) for of in (*its, *one.selectors))
    count = 0 if one.allocation_mode == "All" else max(one.count, 1)
    return Alternative(name, one.device_class_name, selectors, count, tuple(one.tolerations), capacity)


def _expression(selector: Mapping[str, object], name: str) -> str:
    found = inside(selector, "cel", "expression")
    if not isinstance(found, str):
        raise WantedError(f"request {name} has a selector that is not in CEL")
    return found


def _shared(one: Constraint) -> Shared:
    attribute = one.match_attribute or one.distinct_attribute
    if not attribute:
        raise WantedError("it has a constraint that is not known")
    return Shared(attribute, bool(one.match_attribute), frozenset(one.requests))


def configuration(
    claim: Claim, chosen: Sequence[Alternative], classes: Mapping[str, DeviceClass]
) -> list[dict[str, object]]:
    """How the devices of a claim are to be set up: what its classes say, and then what it says itself."""
    found, names = list[dict[str, object]](), {one.name for one in chosen}
    mains = {name.partition("/")[0] for name in names}
    for device_class in dict.fromkeys(one.device_class for one in chosen):
        of = [one.name for one in chosen if one.device_class == device_class]
        whole = {"requests": of} if len(of) < len(chosen) else {}
        found += [{"source": "FromClass", **whole, **config} for config in classes[device_class].spec.config]
    for config in entries({"of": claim.spec.devices.config}, "of"):
        requests = config.get("requests") or []
        if not requests or names.intersection(requests) or mains.intersection(requests):
            found.append({"source": "FromClaim", **config})
    return found
