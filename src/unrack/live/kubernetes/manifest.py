"""Pods that a manifest makes: a Pod, or what makes pods: a Job, a Deployment and the like; YAML or JSON."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from unrack.errors import InputError
from unrack.kubernetes_text import inside, table
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.client.others import Other
from unrack.live.kubernetes.snapshot import Reading
from unrack.live.kubernetes.volumes.claims import NAMES, Volumes

REPLICAS = {
    "Deployment": "replicas", "ReplicaSet": "replicas", "StatefulSet": "replicas", "ReplicationController": "replicas",
    "Job": "parallelism",
}  # fmt: skip
"""Kind of what makes pods → how many at a time."""
MOST_PODS = 1000
MOST_BYTES = 2**30


def pods_of(path: Path) -> list[Pod]:
    """The pods of a manifest, which wait.

    Raises
    ------
    InputError
        It cannot be read, or has no pod, or an object that makes none.
    """
    found = [pod for content in _documents(path) for pod in _pods(content, path)]
    if not found:
        raise InputError(str(path), "no pod", "a Pod, Job, Deployment, ReplicaSet or StatefulSet")
    if len(found) > MOST_PODS:
        raise InputError(str(path), f"{len(found)} pods", f"at most {MOST_PODS}")
    return found


def reading_of_file(path: Path, at_s: float) -> Reading:
    """The nodes and pods of what ``kubectl get nodes,pods --all-namespaces -o json`` printed, or a snapshot wrote.

    Claims of volumes and volumes are read if they are in it.

    Raises
    ------
    InputError
        It cannot be read, or is something else.
    """
    (content,) = _documents(path) or [{}]
    nodes, pods, volumes = list[Node](), list[Pod](), Volumes()
    items = content.get("items")
    for place, item in enumerate(items if isinstance(items, list) else ()):
        kind = item.get("kind") if isinstance(item, Mapping) else None
        try:
            if kind == "Node":
                nodes.append(msgspec.convert(item, Node))
            elif kind == "Pod":
                pods.append(msgspec.convert(item, Pod))
            elif kind in NAMES:
                volumes.take(NAMES[kind], [(None, msgspec.convert(item, Other))], "")
        except msgspec.ValidationError as error:
            raise InputError(f"{path}, items.{place}", str(error), f"a {kind}") from None
    if not nodes:
        want = "what kubectl get nodes,pods --all-namespaces -o json prints"
        raise InputError(str(path), "no nodes", want)
    said = content.get("at_s")
    return Reading(float(said) if isinstance(said, int | float) else at_s, nodes, pods, volumes)


def written(reading: Reading) -> bytes:
    """A reading as :func:`reading_of_file` reads it."""
    items = [{"kind": "Node", **msgspec.to_builtins(node)} for node in reading.nodes]
    items += [{"kind": "Pod", **msgspec.to_builtins(pod)} for pod in reading.pods]
    items += [{"kind": kind, **msgspec.to_builtins(one)} for kind, one in reading.volumes.objects()]
    return msgspec.json.encode({"kind": "List", "apiVersion": "v1", "at_s": reading.at_s, "items": items})


def _documents(path: Path) -> list[dict[str, Any]]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(str(path), f"over {MOST_BYTES >> 20} MB", "a smaller file")
        content = path.read_bytes().removeprefix(BOM_UTF8)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a file that can be read") from None
    try:
        if path.suffix == ".json" or content.lstrip()[:1] in (b"{", b"["):
            found = [msgspec.json.decode(content)]
        else:
            parts = re.split(rb"(?m)^---[ \t\r]*(?:#.*)?$", content)
            found = [one for one in map(msgspec.yaml.decode, parts) if one is not None]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(str(path), str(error).split("\n")[0][:200], "YAML or JSON") from None
    for one in found:
        if not isinstance(one, dict):
            raise InputError(str(path), f"{one!r:.60}", "objects of Kubernetes, with a kind each")
    return found


def _pods(content: Mapping[str, Any], path: Path) -> Iterator[Pod]:
    kind = content.get("kind")
    if kind in ("List", "PodList"):
        for item in content.get("items") or ():
            yield from _pods({"kind": "Pod", **item} if kind == "PodList" else item, path)
        return
    name = str(inside(content, "metadata", "name") or inside(content, "metadata", "generateName") or "asked")
    where = f"{path}, {kind} {name}"
    if kind == "CronJob":
        job = table(content, "spec", "jobTemplate")
        yield from _pods(
            {**job, "kind": "Job", "metadata": {**table(job, "metadata"), **table(content, "metadata")}}, path
        )
        return
    if kind != "Pod" and kind not in REPLICAS:
        if kind in ("Namespace", "Service", "ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim"):
            return
        want = "a Pod, Job, Deployment, ReplicaSet, StatefulSet or CronJob"
        raise InputError(str(path), f"a {kind}" if kind else "an object without a kind", want)
    template = content if kind == "Pod" else table(content, "spec", "template")
    count = 1 if kind == "Pod" else inside(content, "spec", REPLICAS[kind])
    count = 1 if count is None else count
    if type(count) is not int or not 0 <= count <= MOST_PODS:
        raise InputError(f"{where}, spec.{REPLICAS[kind]}", repr(count), f"0 to {MOST_PODS}")
    if not isinstance(template.get("spec"), Mapping) or not table(template, "spec").get("containers"):
        raise InputError(where, "no containers", "a pod with containers")
    namespace = str(inside(content, "metadata", "namespace") or "default")
    for number in range(count):
        own = name if kind == "Pod" else f"{name}-{number}"
        metadata = {**table(template, "metadata"), "name": own, "namespace": namespace, "uid": own}
        spec = {key: _as_text(value) for key, value in table(template, "spec").items() if key != "nodeName"}
        deadline = inside(content, "spec", "activeDeadlineSeconds")
        if deadline is not None and kind == "Job":
            spec.setdefault("activeDeadlineSeconds", deadline)
        try:
            yield msgspec.convert(
                {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}, Pod, strict=False
            )
        except msgspec.ValidationError as error:
            raise InputError(where, str(error), "a pod") from None


def _as_text(value: Any, amounts: bool = False) -> Any:
    """The same with amounts as text, which YAML may take for numbers."""
    if isinstance(value, Mapping):
        return {
            str(key): _as_text(one, amounts or key in ("requests", "limits", "overhead")) for key, one in value.items()
        }
    if isinstance(value, list):
        return [_as_text(one, amounts) for one in value]
    return str(value) if amounts and type(value) in (int, float) else value
