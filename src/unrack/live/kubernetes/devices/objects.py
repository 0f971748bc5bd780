"""Slices of pools, device classes and claims with the fields that are read, as those of pods and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import field

from unrack.live.kubernetes.client.objects import Condition, Kind, Metadata, ObjectPart
from unrack.live.kubernetes.client.others import RESOURCE


class Pool(ObjectPart, frozen=True):
    """Which pool a slice is of, and of how many slices its newest generation is."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class Attribute(ObjectPart, frozen=True):
    """A value of a device; lists of values are not read, so an attribute of which nothing is read is one of them."""

    whole: int | None = field(default=None, name="int")
    truth: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class Range(ObjectPart, frozen=True):
    """Amounts from ``min`` in steps."""

    min: str = ""
    max: str = ""
    step: str = ""


class RequestPolicy(ObjectPart, frozen=True):
    """Which amounts of a capacity may be consumed."""

    default: str = ""
    valid_range: Range | None = None
    valid_values: list[str] = []


class DeviceCapacity(ObjectPart, frozen=True):
    """How much a device has of something."""

    value: str = ""
    request_policy: RequestPolicy | None = None


class Counter(ObjectPart, frozen=True):
    """An amount of a counter."""

    value: str = ""


class CounterSet(ObjectPart, frozen=True):
    """What devices that are parts of one thing consume together."""

    name: str = ""
    counters: dict[str, Counter] = {}


class Consumption(ObjectPart, frozen=True):
    """What a device consumes of a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: list[str] = []


class DeviceTaint(ObjectPart, frozen=True):
    """What keeps claims away from a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class ListedDevice(ObjectPart, frozen=True):
    """A device of a slice."""

    name: str = ""
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: list[Consumption] = []
    node_name: str = ""
    node_selector: dict[str, Any] | None = None
    all_nodes: bool = False
    taints: list[DeviceTaint] = []
    binds_to_node: bool = False
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    allow_multiple_allocations: bool = False
    node_allocatable_resources: dict[str, Any] = {}


class SliceSpec(ObjectPart, frozen=True):
    """What a slice has, and from which nodes it is reached."""

    driver: str = ""
    pool: Pool = Pool()
    node_name: str = ""
    node_selector: dict[str, Any] | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: list[ListedDevice] = []
    shared_counters: list[CounterSet] = []


class Slice(ObjectPart, frozen=True):
    """A part of a pool of devices."""

    metadata: Metadata = Metadata()
    spec: SliceSpec = SliceSpec()


class ClassSpec(ObjectPart, frozen=True):
    """Which devices are of a class."""

    selectors: list[dict[str, Any]] = []
    config: list[dict[str, Any]] = []
    extended_resource_name: str = ""


class DeviceClass(ObjectPart, frozen=True):
    """A class of devices that claims name."""

    metadata: Metadata = Metadata()
    spec: ClassSpec = ClassSpec()


class RuleSelector(ObjectPart, frozen=True):
    """Which devices a rule is for: what it does not name is any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class RuleSpec(ObjectPart, frozen=True):
    """The devices of a rule, none if it does not say which, and their taint."""

    device_selector: RuleSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class TaintRule(ObjectPart, frozen=True):
    """A taint that an administrator, or a program, gives to devices beside those that their driver gives them."""

    metadata: Metadata = Metadata()
    spec: RuleSpec = RuleSpec()


class CapacityRequests(ObjectPart, frozen=True):
    """How much of capacities is asked for."""

    requests: dict[str, str] = {}


class Toleration(ObjectPart, frozen=True):
    """Which taints do not matter."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class DeviceRequest(ObjectPart, frozen=True):
    """What is asked for: ``exactly``, or the first that is to be had."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[dict[str, Any]] = []
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool = False
    tolerations: list[Toleration] = []
    capacity: CapacityRequests = CapacityRequests()
    derived_attributes: list[dict[str, Any]] = []


class Request(ObjectPart, frozen=True):
    """A request of a claim."""

    name: str = ""
    exactly: DeviceRequest | None = None
    first_available: list[DeviceRequest] = []


class Constraint(ObjectPart, frozen=True):
    """What devices of a claim are to have in common, or not to have in common."""

    requests: list[str] = []
    match_attribute: str = ""
    distinct_attribute: str = ""


class ClaimDevices(ObjectPart, frozen=True):
    """What a claim asks for."""

    requests: list[Request] = []
    constraints: list[Constraint] = []
    config: list[dict[str, Any]] = []


class ClaimSpec(ObjectPart, frozen=True):
    """What a claim asks for."""

    devices: ClaimDevices = ClaimDevices()


class AllocatedDevice(ObjectPart, frozen=True):
    """A device that a claim has, or a part of one."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    tolerations: list[Toleration] = []
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    share_id: str = field(default="", name="shareID")
    consumed_capacity: dict[str, str] = {}


class AllocatedDevices(ObjectPart, frozen=True):
    """The devices that a claim has, and how they are to be set up."""

    results: list[AllocatedDevice] = []
    config: list[dict[str, Any]] = []


class Allocation(ObjectPart, frozen=True):
    """What a claim has, and from where it may be used."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: dict[str, Any] | None = None
    allocation_timestamp: str | None = None


class Consumer(ObjectPart, frozen=True):
    """What may use a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceStatus(ObjectPart, frozen=True):
    """What a driver says of a device that a claim has."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str = field(default="", name="shareID")
    conditions: list[Condition] = []


class ClaimStatus(ObjectPart, frozen=True):
    """What a claim has."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] = []
    devices: list[DeviceStatus] = []


class Claim(ObjectPart, frozen=True):
    """A claim of devices."""

    metadata: Metadata = Metadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


SLICES = Kind(RESOURCE, "resourceslices", Slice, namespaced=False)
CLASSES = Kind(RESOURCE, "deviceclasses", DeviceClass, namespaced=False)
CLAIMS = Kind(RESOURCE, "resourceclaims", Claim)
RULES = Kind(RESOURCE, "devicetaintrules", TaintRule, namespaced=False)


def said_of(told: Sequence[DeviceStatus], one: AllocatedDevice) -> set[str]:
    """Which conditions hold of a device."""
    name = one.driver, one.pool, one.device, one.share_id
    return {
        condition.type
        for status in told
        if (status.driver, status.pool, status.device, status.share_id) == name
        for condition in status.conditions
        if condition.status == "True"
    }
