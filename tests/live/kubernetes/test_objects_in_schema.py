"""The fields that are read are fields of the API, of the same kind: checked against what a real server says of them."""

from __future__ import annotations

import typing
from types import NoneType
from typing import Any

import msgspec
import pytest
from k8s_bed import KubernetesBed

from unrack.live.kubernetes.client import objects
from unrack.live.kubernetes.devices import objects as devices

pytestmark = pytest.mark.live
CORE, META = "io.k8s.api.core.v1", "io.k8s.apimachinery.pkg.apis.meta.v1"
OF = {
    objects.Owner: f"{META}.OwnerReference",
    objects.Metadata: f"{META}.ObjectMeta",
    objects.Resources: f"{CORE}.ResourceRequirements",
    objects.Container: f"{CORE}.Container",
    objects.PodSpec: f"{CORE}.PodSpec",
    objects.PodCondition: f"{CORE}.PodCondition",
    objects.PodStatus: f"{CORE}.PodStatus",
    objects.Pod: f"{CORE}.Pod",
    objects.Taint: f"{CORE}.Taint",
    objects.NodeSpec: f"{CORE}.NodeSpec",
    objects.Condition: f"{CORE}.NodeCondition",
    objects.NodeStatus: f"{CORE}.NodeStatus",
    objects.Node: f"{CORE}.Node",
}

RESOURCE = "io.k8s.api.resource.v1"
OF |= {
    devices.Pool: f"{RESOURCE}.ResourcePool",
    devices.Attribute: f"{RESOURCE}.DeviceAttribute",
    devices.Range: f"{RESOURCE}.CapacityRequestPolicyRange",
    devices.RequestPolicy: f"{RESOURCE}.CapacityRequestPolicy",
    devices.DeviceCapacity: f"{RESOURCE}.DeviceCapacity",
    devices.Counter: f"{RESOURCE}.Counter",
    devices.CounterSet: f"{RESOURCE}.CounterSet",
    devices.Consumption: f"{RESOURCE}.DeviceCounterConsumption",
    devices.DeviceTaint: f"{RESOURCE}.DeviceTaint",
    devices.ListedDevice: f"{RESOURCE}.Device",
    devices.SliceSpec: f"{RESOURCE}.ResourceSliceSpec",
    devices.Slice: f"{RESOURCE}.ResourceSlice",
    devices.ClassSpec: f"{RESOURCE}.DeviceClassSpec",
    devices.DeviceClass: f"{RESOURCE}.DeviceClass",
    devices.RuleSelector: f"{RESOURCE}.DeviceTaintSelector",
    devices.RuleSpec: f"{RESOURCE}.DeviceTaintRuleSpec",
    devices.TaintRule: f"{RESOURCE}.DeviceTaintRule",
    devices.CapacityRequests: f"{RESOURCE}.CapacityRequirements",
    devices.Toleration: f"{RESOURCE}.DeviceToleration",
    devices.DeviceRequest: f"{RESOURCE}.ExactDeviceRequest",
    devices.Request: f"{RESOURCE}.DeviceRequest",
    devices.Constraint: f"{RESOURCE}.DeviceConstraint",
    devices.ClaimDevices: f"{RESOURCE}.DeviceClaim",
    devices.ClaimSpec: f"{RESOURCE}.ResourceClaimSpec",
    devices.AllocatedDevice: f"{RESOURCE}.DeviceRequestAllocationResult",
    devices.AllocatedDevices: f"{RESOURCE}.DeviceAllocationResult",
    devices.Allocation: f"{RESOURCE}.AllocationResult",
    devices.Consumer: f"{RESOURCE}.ResourceClaimConsumerReference",
    devices.DeviceStatus: f"{RESOURCE}.AllocatedDeviceStatus",
    devices.ClaimStatus: f"{RESOURCE}.ResourceClaimStatus",
    devices.Claim: f"{RESOURCE}.ResourceClaim",
}
BESIDE = {devices.DeviceRequest: {"name"}, devices.Request: {"firstAvailable"}, devices.DeviceStatus: {"conditions"}}
"""Fields that are of a sister of the class there: DeviceSubRequest, and conditions of a common kind."""


def ours(hint: Any) -> str:
    """What a field of ours is: the name of a part, ``string``, ``array of string``, ``object``."""
    members = [one for one in typing.get_args(hint) if one is not NoneType]
    origin = typing.get_origin(hint)
    if origin is list:
        return f"array of {ours(members[0])}"
    if origin is dict:
        return "object"
    if members:
        return ours(members[0])
    return OF.get(hint) or {str: "string", int: "integer", bool: "boolean"}[hint]


def theirs(schemas: dict[str, Any], of: dict[str, Any]) -> str:
    """The same of a field of the API; parts of which we take no class are tables."""
    name = next((one["$ref"] for one in [of, *of.get("allOf", ())] if "$ref" in one), "").rpartition("/")[2]
    if name in OF.values():
        return name
    if name:
        return theirs(schemas, schemas[name])
    if of.get("type") == "array":
        return f"array of {theirs(schemas, of['items'])}"
    return "string" if "oneOf" in of else str(of["type"])  # a quantity, which servers write as text


@pytest.fixture(scope="module")
def schemas(whole_kubernetes: KubernetesBed) -> dict[str, Any]:
    """What the server says of all its objects."""
    found: dict[str, Any] = {}
    for group in ("api/v1", "apis/resource.k8s.io/v1"):
        found |= whole_kubernetes.admin.get(f"/openapi/v3/{group}")["components"]["schemas"]
    return found


def test_every_part_is_checked() -> None:
    parts = {
        one
        for one in (*vars(objects).values(), *vars(devices).values())
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and one not in (objects.ObjectPart, msgspec.Struct)
    }
    assert parts == set(OF)


@pytest.mark.parametrize("part", OF, ids=lambda one: one.__name__)
def test_fields_are_in_the_schema(part: type[msgspec.Struct], schemas: dict[str, Any]) -> None:
    properties = schemas[OF[part]]["properties"]
    beside = BESIDE.get(part, set())
    fields = [field for field in msgspec.structs.fields(part) if field.encode_name not in beside]
    read = {field.encode_name: ours(field.type) for field in fields}
    assert read == {name: theirs(schemas, properties[name]) if name in properties else "absent" for name in read}
