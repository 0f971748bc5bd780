"""Pools of devices, classes and claims on a real API server; and an auditor that believes that server alone."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from api_admin import AdminError
from driven_pods import amount
from k8s_bed import KubernetesBed

API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
DRIVER = "dra.example.com"


def add_slice(
    bed: KubernetesBed, name: str, devices: list[dict[str, Any]], *, pool: str = "", count: int = 1, **where: Any
) -> None:
    """A slice of a pool of devices; ``where``: nodeName, allNodes, sharedCounters and the like."""
    spec = {"driver": DRIVER, "pool": {"name": pool or name, "generation": 1, "resourceSliceCount": count}, **where}
    spec |= {"devices": devices} if devices else {}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
    bed.admin.post(f"{API}/resourceslices", body)


def add_class(
    bed: KubernetesBed, name: str, expression: str = f'device.driver == "{DRIVER}"', *, resource: str = ""
) -> None:
    """A class of devices, which stands for an extended ``resource``."""
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
    spec |= {"extendedResourceName": resource} if resource else {}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
    bed.admin.post(f"{API}/deviceclasses", body)


def add_rule(bed: KubernetesBed, name: str, taint: dict[str, Any], **selector: str) -> None:
    """A taint for the devices of a driver, a pool, or of a name."""
    spec = {"deviceSelector": selector, "taint": taint}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}
    bed.admin.post(f"{API}/devicetaintrules", body)


def wants(device_class: str, name: str = "one", **keys: Any) -> dict[str, Any]:
    """A request."""
    return {"name": name, "exactly": {"deviceClassName": device_class, **keys}}


def add_template(bed: KubernetesBed, name: str, *requests: dict[str, Any], **keys: Any) -> None:
    body = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(requests), **keys}}},
    }  # fmt: skip
    bed.admin.post(f"{API}/namespaces/default/resourceclaimtemplates", body)


def add_claim(bed: KubernetesBed, name: str, *requests: dict[str, Any], **keys: Any) -> None:
    body = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests), **keys}},
    }  # fmt: skip
    bed.admin.post(CLAIMS, body)


def add_claiming(bed: KubernetesBed, name: str, *, template: str = "", claim: str = "", **keys: Any) -> None:
    """A pod with a claim of its own, from a template, or one that is there."""
    of = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    asks = keys.pop("requests", {"cpu": "10m"})
    bed.add_pod(name, asks, resourceClaims=[{"name": "devices", **of}], **keys)


def clear(bed: KubernetesBed) -> None:
    """Without pods, nodes, claims, templates, slices, classes and rules."""
    bed.clear()
    for claim in bed.admin.get(f"{API}/resourceclaims")["items"]:
        at = claim["metadata"]
        path = f"{API}/namespaces/{at['namespace']}/resourceclaims/{at['name']}"
        try:
            bed.admin.patch(path, {"metadata": {"finalizers": None}})
        except AdminError:  # the controller was faster
            continue
    for kind in ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"):
        bed.admin.delete_all(f"{API}/{kind}")


def given(bed: KubernetesBed) -> dict[str, list[str]]:
    """Name of each claim that has devices → their names."""
    return {
        claim["metadata"]["name"]: [one["device"] for one in claim["status"]["allocation"]["devices"]["results"]]
        for claim in bed.admin.get(f"{API}/resourceclaims")["items"]
        if claim.get("status", {}).get("allocation")
    }


def _runs(pod: dict[str, Any] | None) -> bool:
    return (
        pod is not None and bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in ("Succeeded", "Failed")
    )


def _lacks_devices(pod: dict[str, Any], claims: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    """What is wrong with the claim that a pod says it has for its extended resources."""
    said = pod["status"].get("extendedResourceClaimStatus")
    if said is None:
        return []
    name, of = said["resourceClaimName"], pod["metadata"]
    claim = claims.get((of["namespace"], name))
    if claim is None or [one["uid"] for one in claim["status"].get("reservedFor", ())] != [of["uid"]]:
        return [f"{of['name']} runs without its claim {name} for extended resources on {pod['spec']['nodeName']}"]
    given = {one["request"] for one in claim["status"]["allocation"]["devices"]["results"]}
    used = {one["requestName"] for one in said["requestMappings"]}
    return [] if given == used else [f"{of['name']} uses {sorted(used)} of {name}, which has {sorted(given)}"]


def audit(bed: KubernetesBed) -> list[str]:
    """What is given beyond what there is, and pods that run without what they claim, by the API server alone."""
    slices = bed.admin.get(f"{API}/resourceslices")["items"]
    before = {one["metadata"]["uid"]: one for one in bed.admin.get("/api/v1/pods")["items"]}
    claims = bed.admin.get(f"{API}/resourceclaims")["items"]
    # lists are not of one moment: only a pod that holds its node before and after has to have its claims between them
    pods = [one for one in bed.admin.get("/api/v1/pods")["items"] if _runs(before.get(one["metadata"]["uid"]))]
    devices, counters = dict[Any, Any](), Counter[Any]()
    for one in slices:
        spec = one["spec"]
        key = spec["driver"], spec["pool"]["name"]
        for device in spec.get("devices", ()):
            devices[*key, device["name"]] = device, spec
        for group in spec.get("sharedCounters", ()):
            for name, counter in group["counters"].items():
                counters[*key, group["name"], name] += amount(counter["value"])  # type: ignore[assignment]
    whole, consumed, problems = Counter[Any](), dict[Any, Counter[str]](), list[str]()
    by_name = {(claim["metadata"]["namespace"], claim["metadata"]["name"]): claim for claim in claims}
    for claim in claims:
        for result in (claim.get("status", {}).get("allocation") or {}).get("devices", {}).get("results", ()):
            key = result["driver"], result["pool"], result["device"]
            if key not in devices:
                problems.append(f"{claim['metadata']['name']} has {key}, which is not there")
            elif result.get("shareID"):
                of = consumed.setdefault(key, Counter())
                of.update({name: amount(text) for name, text in result["consumedCapacity"].items()})  # type: ignore[arg-type]
            else:
                whole[key] += 1
    problems += [f"{key} is given {count} times" for key, count in whole.items() if count > 1]
    for key, of in consumed.items():
        for name, taken in of.items():
            there = amount(devices[key][0]["capacity"][name]["value"])
            if taken > there:
                problems.append(f"{float(taken)} {name} of {key} are given, of {float(there)}")
    for key in {*whole, *consumed}:
        for one in devices[key][0].get("consumesCounters", ()):
            for name, counter in one["counters"].items():
                counters[*key[:2], one["counterSet"], name] -= amount(counter["value"])  # type: ignore[assignment]
    problems += [f"{key} is {float(Fraction(left))} after all" for key, left in counters.items() if left < 0]
    for pod in pods:
        if not _runs(pod):
            continue
        problems += _lacks_devices(pod, by_name)
        made = {one["name"]: one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses", ())}
        for said in pod["spec"].get("resourceClaims", ()):
            name = said.get("resourceClaimName") or made.get(said["name"])
            claim = by_name.get((pod["metadata"]["namespace"], name))
            uids = [one["uid"] for one in (claim or {}).get("status", {}).get("reservedFor", ())]
            if claim is None or not claim["status"].get("allocation") or pod["metadata"]["uid"] not in uids:
                problems.append(f"{pod['metadata']['name']} runs without its claim {name}")
                continue
            for result in claim["status"]["allocation"]["devices"]["results"]:
                at = devices.get((result["driver"], result["pool"], result["device"]))
                where = at and (at[1].get("nodeName") or at[0].get("nodeName"))
                if where and where != pod["spec"]["nodeName"]:
                    problems.append(f"{pod['metadata']['name']} runs on a node other than {where}, as its device")
    return problems
