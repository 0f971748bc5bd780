"""A composer as a process of its own on a real API server; a plain allocator; and an auditor."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api_admin import AdminError, Content
from k8s_bed import COMPOSER, KubernetesBed

from unrack.live.fabric.contract import Attachment
from unrack.live.fabric.files.fabric import FileFabric

DRIVER = "fabric.unrack.io"
API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
ATTACHED, FAILED = "unrack.io/Attached", "unrack.io/AttachFailed"
CLUSTER = """
nodes = [{ count = 4, cores = 8, names = "n[0-3]" }]
nodes_per_rack = 2

[[pools]]
name = "nvme"
kind = "nvme"
per = "rack"
count = 3
quantities = { bandwidth_mb_s = "2 GB/s", capacity_mb = "600 GB" }

[[pools]]
name = "box"
kind = "memory"
count = 1
quantities = { capacity_mb = "1 TB" }
attach = "multi"
share = 3
"""


class Composed:
    """A composer of the fabric in a folder; kill it, or use it in a ``with``."""

    def __init__(self, bed: KubernetesBed, folder: Path, cluster: str = CLUSTER, **keys: Any) -> None:
        self.bed, self.folder, self.process = bed, folder, None
        self.fabric_folder = keys.pop("fabric_folder", folder / "fabric")
        inner = {"kind": "files", "folder": str(self.fabric_folder)}
        drill = keys.pop("fabric", {})
        self.set_cluster(cluster)
        table = {
            "cluster": "cluster.toml", "state": "state", "kubeconfig": str(bed.kubeconfig(COMPOSER)), "timeout": 5,
            "give_up": 3, "avoid": 1, "look": 0.5, "metrics": {"address": ""}, "log": {"form": "json"},
            "fabric": {"kind": "drill", "inner": inner, **drill} if drill else inner, **keys,
        }  # fmt: skip
        self.site = folder / "site.toml"
        self.site.write_text("".join(f"{key} = {inline(value)}\n" for key, value in table.items()))

    process: subprocess.Popen[bytes] | None

    def set_cluster(self, text: str) -> None:
        """Another cluster file in place of that which is there, at once."""
        new = self.folder / "cluster.new"
        new.write_text(text)
        new.replace(self.folder / "cluster.toml")

    def start(self) -> Composed:
        words = [sys.executable, "-m", "unrack", "kubernetes", "compose", "--config", str(self.site)]
        with open(self.folder / "composer.log", "ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True, env=os.environ)
        return self

    def kill(self) -> None:
        """As by kill -9."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stop(self) -> int:
        """As by kill; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def __enter__(self) -> Composed:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def logged(self) -> str:
        return (self.folder / "composer.log").read_text()

    def attached(self) -> dict[str, Attachment]:
        """What the fabric has, read anew."""
        folder = self.fabric_folder
        if not (folder / "fabric.json").exists():
            return {}
        found = dict[str, Attachment]()
        paths = [Path(at, name) for at, _, names in os.walk(folder / "attached") for name in names]  # folders may go
        for path in paths:
            if path.name.startswith(".") or path.suffix != ".json":
                continue
            try:
                content = json.loads(path.read_text())
            except FileNotFoundError:
                continue
            own = {key: content[key] for key in ("operation", "job", "node", "amounts")}
            found[content["operation"]] = Attachment(devices=tuple(content["devices"]), **own)
        return found

    def foreign(self, operation: str, device: str) -> None:
        """Another program attaches a device."""
        FileFabric(self.fabric_folder).attach(Attachment(operation, "17", "n0", (device,)))

    def until(self, holds: Callable[[], bool], timeout_s: float = 20, what: str = "it holds") -> None:
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain until {what}\n{self.logged()[-3000:]}")
            time.sleep(0.05)


def inline(value: Any) -> str:
    """A value as TOML has it, a table on one line."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{ " + ", ".join(f"{json.dumps(key)} = {inline(one)}" for key, one in value.items()) + " }"


# Claims


def slices(bed: KubernetesBed) -> list[Content]:
    return [one for one in bed.admin.get(f"{API}/resourceslices")["items"] if one["spec"]["driver"] == DRIVER]


def published(bed: KubernetesBed) -> dict[str, Content]:
    """Devices of pools that are whole, by name, each with its slice's pool."""
    found, pools = dict[str, Content](), dict[str, list[Content]]()
    for one in slices(bed):
        pools.setdefault(one["spec"]["pool"]["name"], []).append(one["spec"])
    for name, specs in pools.items():
        newest = max(spec["pool"]["generation"] for spec in specs)
        whole = [spec for spec in specs if spec["pool"]["generation"] == newest]
        if len(whole) == whole[0]["pool"]["resourceSliceCount"]:
            found |= {device["name"]: {**device, "pool": name} for spec in whole for device in spec["devices"]}
    return found


def add_class(bed: KubernetesBed) -> None:
    """Device classes of all kinds of ours."""
    for kind in ("nvme", "memory"):
        test = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].kind == "{kind}"'
        body = {
            "kind": "DeviceClass",
            "metadata": {"name": kind},
            "spec": {"selectors": [{"cel": {"expression": test}}]},
        }
        try:
            bed.admin.post(f"{API}/deviceclasses", {"apiVersion": "resource.k8s.io/v1", **body})
        except AdminError as error:
            if error.code != 409:
                raise


def add_claim(
    bed: KubernetesBed, name: str, kind: str = "nvme", count: int = 1, capacity: Content | None = None
) -> Content:
    exactly: Content = {"deviceClassName": kind, "count": count}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    spec = {"devices": {"requests": [{"name": "main", "exactly": exactly}]}}
    return bed.admin.post(
        CLAIMS, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}
    )


def allocate(bed: KubernetesBed, name: str, node: str, devices: list[tuple[str, str]], **more: Any) -> Content:
    """Give a claim devices of pools, as kube-scheduler would; other keys are of each result."""
    claim = bed.admin.get(f"{CLAIMS}/{name}")
    results = [
        {
            "request": "main", "driver": DRIVER, "pool": pool, "device": device, "bindingConditions": [ATTACHED],
            "bindingFailureConditions": [FAILED], **more,
        }
        for pool, device in devices
    ]  # fmt: skip
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]} if node else None
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    allocation = {"devices": {"results": results}, "nodeSelector": selector, "allocationTimestamp": now}
    claim["status"] = {"allocation": allocation}
    return bed.admin.ask("PUT", f"{CLAIMS}/{name}/status", claim)


def deallocate(bed: KubernetesBed, name: str) -> None:
    claim = bed.admin.get(f"{CLAIMS}/{name}")
    claim["status"] = {}
    bed.admin.ask("PUT", f"{CLAIMS}/{name}/status", claim)


def said(claim: Content, kind: str = ATTACHED) -> list[str]:
    """What is said of each device of a claim: ``True``, or ``False`` with its reason; ``""``: nothing."""
    found = []
    for result in (claim.get("status", {}).get("allocation") or {}).get("devices", {}).get("results", ()):
        if result["driver"] != DRIVER:
            continue
        key = [result.get(name) for name in ("pool", "device", "shareID")]
        entry: Content = next(
            (
                one
                for one in claim["status"].get("devices", ())
                if [one.get(name) for name in ("pool", "device", "shareID")] == key
            ),
            {},
        )
        condition = next((one for one in entry.get("conditions") or () if one["type"] == kind), None)
        found.append(
            "" if condition is None else condition["status"] if condition["status"] == "True" else condition["reason"]
        )
    return found


def claim_said(bed: KubernetesBed, name: str, kind: str = ATTACHED) -> list[str]:
    return said(bed.admin.get(f"{CLAIMS}/{name}"), kind)


# The auditor


def audit(composed: Composed, *, at_rest: bool = False) -> list[str]:
    """What is wrong, by the API server and the fabric alone.

    Of claims that are the same before and after the fabric is read, each device that they are told is there has to be
    there, on their node. Nothing is given twice. At rest, nothing is attached that no claim has.
    """
    before = claims_of(composed.bed)
    attached = composed.attached()
    after = claims_of(composed.bed)
    found, held = list[str](), dict[tuple[str, str, str], Attachment]()
    ours = {name: one for name, one in attached.items() if name.startswith("k8s.")}
    for operation, one in attached.items():
        for device in one.devices:
            others = [o for o, other in attached.items() if o != operation and device in other.devices]
            if others and not (one.amounts and all(attached[o].amounts for o in others)):
                found.append(f"{device} is given twice: {operation}, {others}")
            held[one.job, one.node, device] = one
    wanted = set[tuple[str, str, str]]()
    for uid, claim in after.items():
        allocation = claim.get("status", {}).get("allocation")
        same = uid in before and before[uid]["metadata"]["resourceVersion"] == claim["metadata"]["resourceVersion"]
        for state, result in zip(said(claim), (allocation or {}).get("devices", {}).get("results", ()), strict=False):
            terms = (allocation["nodeSelector"] or {"nodeSelectorTerms": [{}]})["nodeSelectorTerms"]
            node = terms[0].get("matchFields", [{"values": [""]}])[0]["values"][0]
            wanted.add((uid, node, result["device"]))
            if same and state == "True" and (uid, node, result["device"]) not in held:
                found.append(
                    f"{claim['metadata']['name']} was told that it has {result['device']} on {node}: it has not"
                )
    if at_rest:
        found += [
            f"{name} is left: {one}"
            for name, one in ours.items()
            if not wanted & {(one.job, one.node, d) for d in one.devices}
        ]
    return found


def claims_of(bed: KubernetesBed) -> dict[str, Content]:
    return {one["metadata"]["uid"]: one for one in bed.admin.get(f"{API}/resourceclaims")["items"]}


def away(error: Exception) -> bool:
    """Whether the server is only away for a moment."""
    return isinstance(error, OSError | http.client.HTTPException) or (
        isinstance(error, AdminError) and error.code >= 500
    )
