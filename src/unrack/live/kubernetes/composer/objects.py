"""Claims and slices of ``resource.k8s.io/v1`` with the few fields that a composer reads."""

from __future__ import annotations

from typing import Any

from msgspec import field

from unrack.live.kubernetes.client.objects import Kind, Metadata, Part


class Condition(Part, frozen=True):
    """What holds of a device of a claim: its type, and ``"True"``, ``"False"`` or ``"Unknown"``."""

    type: str = ""
    status: str = ""
    reason: str = ""


class DeviceStatus(Part, frozen=True):
    """What a driver says of a device that is allocated."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share: str = field(default="", name="shareID")
    conditions: list[Condition] = field(default_factory=list)


class Result(Part, frozen=True):
    """A device that is allocated, or a share of it."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    share: str = field(default="", name="shareID")
    admin_access: bool = False
    consumed_capacity: dict[str, str] = field(default_factory=dict)


class Results(Part, frozen=True):
    """All devices of an allocation."""

    results: list[Result] = field(default_factory=list)


class Allocation(Part, frozen=True):
    """What a scheduler has given to a claim, and for which nodes."""

    devices: Results = Results()
    node_selector: dict[str, Any] | None = None
    allocation_timestamp: str | None = None


class ClaimStatus(Part, frozen=True):
    """What became of a claim."""

    allocation: Allocation | None = None
    devices: list[DeviceStatus] = field(default_factory=list)


class ResourceClaim(Part, frozen=True):
    """A claim of devices."""

    metadata: Metadata = Metadata()
    status: ClaimStatus = ClaimStatus()


class ResourceSlice(Part, frozen=True):
    """Devices of a pool, as published; its specification as it came."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = field(default_factory=dict)


class Namespace(Part, frozen=True):
    """A namespace."""

    metadata: Metadata = Metadata()


GROUP = "resource.k8s.io/v1"
CLAIMS = Kind(f"/apis/{GROUP}", "resourceclaims", ResourceClaim)
SLICES = Kind(f"/apis/{GROUP}", "resourceslices", ResourceSlice, namespaced=False)
NAMESPACES = Kind("/api/v1", "namespaces", Namespace, namespaced=False)
