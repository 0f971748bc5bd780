"""A fabric of server pods: what a client attaches are GPUs of nodes, each served by a pod on its node."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from unrack.errors import RunError
from unrack.live.fabric.contract import Attachment, FabricError
from unrack.live.kubernetes.adapter.picture import Picture, is_usable, key_of
from unrack.live.kubernetes.adapter.watching import Watching
from unrack.live.kubernetes.client.answers import AbsentError, ConflictError
from unrack.live.kubernetes.client.objects import PODS, Pod
from unrack.live.kubernetes.client.orders import create, delete, patch
from unrack.live.kubernetes.remote.pool import SERVER, Taken, node_of
from unrack.live.kubernetes.remote.table import ServerPods
from unrack.live.printable import printable

T = TypeVar("T")
OPERATION = "unrack.io/operation"
"""The label of a server pod that says which operation made it, and the annotation that says all of it."""
CLIENT = "unrack.io/client"
"""The annotation of a server pod with the key of its client."""
SERVERS, GPUS = "unrack.io/gpu-servers", "unrack.io/gpus"
"""The annotations in which a client reads where its GPUs are, and how many they are in all."""
OVER = ("Succeeded", "Failed")
_GONE_S = 60.0
_LOOK_S = 0.05


class Lost(NamedTuple):
    """A client that runs and a server of which is gone or has failed."""

    client: Pod
    why: str


class ServerFabric:
    """Attaches GPUs of nodes to pods of other nodes, or of the same: see :class:`unrack.live.fabric.contract.Fabric`.

    What is attached is what server pods there are; nothing is kept beside them.

    Parameters
    ----------
    options
        The table of the site file.
    watching, picture
        The server, and what is known of its pods.
    scheduler
        The scheduler of the server pods.
    """

    def __init__(self, options: ServerPods, watching: Watching, picture: Picture, scheduler: str) -> None:
        self.options, self.watching, self.picture, self.scheduler = options, watching, picture, scheduler

    # --- the contract of fabrics ----------------------------------------------------------------------------------

    def attach(self, wanted: Attachment) -> None:
        """Start the servers, wait until they are ready, and tell the client where they are."""
        self._do(self._attach(wanted))

    def detach(self, operation: str) -> None:
        """End the servers of an operation, and wait until they are gone."""
        self._do(self._detach(operation))

    def state(self) -> list[Attachment]:
        """What is attached, by the server pods that there are; but for those with a client that runs."""
        try:
            self.watching.check()
        except RunError as error:
            raise FabricError(str(error)[:300]) from error
        return self._do(self._state())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self.watching.do(work)
        except FabricError:
            raise
        except RunError as error:
            raise FabricError(str(error)[:300]) from error

    async def _attach(self, wanted: Attachment) -> None:
        client = self.picture.pods.get(wanted.job)
        if client is None or client.metadata.deletion_timestamp:
            raise FabricError("the pod is gone")
        gpus = Counter(map(node_of, wanted.devices))
        for name in sorted(gpus):
            node = self.picture.nodes.get(name)
            if node is None or not is_usable(node):
                raise FabricError(f"node {name} is not there, not ready or cordoned")
        made = [
            await self._server(manifest_of(self.options, wanted, client, name, count, self.scheduler))
            for name, count in sorted(gpus.items())
        ]
        addresses = [(await self._ready(pod), gpus[pod.spec.node_name]) for pod in made]
        told = {SERVERS: self.options.words(addresses), GPUS: str(gpus.total())}
        at = client.metadata
        await patch(
            self.watching.connection, PODS, {"metadata": {"uid": at.uid, "annotations": told}}, at.name, at.namespace
        )

    async def _server(self, manifest: dict[str, Any]) -> Pod:
        """The server pod of a manifest; one that is there already, if it is the same one's."""
        at = manifest["metadata"]
        try:
            return await create(self.watching.connection, PODS, manifest, at["namespace"])
        except ConflictError:
            found = await self.watching.connection.read(PODS, at["name"], at["namespace"])
        if found.metadata.annotations.get(OPERATION) != at["annotations"][OPERATION]:
            raise FabricError(f"there is another pod {at['namespace']}/{at['name']}")
        return found

    async def _ready(self, pod: Pod) -> str:
        """The address of a server, once it is ready."""
        left_s = self.options.ready_us / 1e6
        while True:
            known = self.picture.pods.get(key_of(pod), pod)
            if why := _problem(known):
                raise FabricError(f"server {pod.metadata.name} {why}")
            ready = any(one.type == "Ready" and one.status == "True" for one in known.status.conditions)
            if ready and known.status.pod_ip:
                return known.status.pod_ip
            if left_s <= 0:
                raise FabricError(f"server {pod.metadata.name} is not ready after {self.options.ready_us / 1e6:g} s")
            await asyncio.sleep(_LOOK_S)
            left_s -= _LOOK_S

    async def _detach(self, operation: str) -> None:
        left_s = _GONE_S
        while pods := await self._pods(f"{SERVER}={self.scheduler},{OPERATION}={short(operation)}"):
            for pod in pods:
                await self._end(pod)
            if left_s <= 0:
                raise FabricError(f"server {pods[0].metadata.name} does not end")
            await asyncio.sleep(4 * _LOOK_S)
            left_s -= 4 * _LOOK_S

    async def _end(self, pod: Pod) -> None:
        if not pod.metadata.deletion_timestamp:
            with suppress(AbsentError, ConflictError):
                await delete(self.watching.connection, PODS, pod)

    async def _state(self) -> list[Attachment]:
        found: dict[str, Attachment] = {}
        for pod in await self._pods(f"{SERVER}={self.scheduler}"):
            attachment = attachment_of(pod)
            if attachment is not None and not self._has_client(pod):
                found[attachment.operation] = attachment
        return [one for _, one in sorted(found.items())]

    async def _pods(self, selector: str) -> list[Pod]:
        return [*(await self.watching.connection.list(PODS, {"labelSelector": selector})).objects]

    # --- what becomes of servers ----------------------------------------------------------------------------------

    def taken(self, known: Iterable[str]) -> Taken:
        """What pods hold that asked for it by themselves, and servers of operations that are not ``known``."""
        count, devices, ours = Counter[str](), set[str](), set(map(short, known))
        for pod, node, asks in self.picture.holding():
            if pod.metadata.labels.get(OPERATION) not in ours and asks.get(self.options.resource):
                count[node] += asks[self.options.resource]
                old = attachment_of(pod)
                devices |= {device for device in old.devices if node_of(device) == node} if old else set()
        return Taken(dict(count), frozenset(devices))

    def lost(self, running: Iterable[tuple[Pod, Sequence[str]]]) -> list[Lost]:
        """Of clients that run, each with its operations, those a server of which is gone or has failed."""
        found = []
        servers: dict[str, list[Pod]] = {}
        for pod in self._servers():
            servers.setdefault(pod.metadata.labels.get(OPERATION, ""), []).append(pod)
        for client, operations in running:
            mine = [pod for operation in operations for pod in servers.get(short(operation), ())]
            why = next(filter(None, map(_problem, mine)), "")
            if why or len(mine) < self._wanted(mine, operations):
                found.append(Lost(client, f"its server {why}" if why else "its server is gone"))
        return found

    def _wanted(self, mine: Sequence[Pod], operations: Sequence[str]) -> int:
        """How many servers some operations have, as those that are left say."""
        said = {one.operation: one for one in filter(None, map(attachment_of, mine))}
        return sum(len({*map(node_of, said[name].devices)}) if name in said else 1 for name in operations)

    def clear(self, known: Iterable[str]) -> None:
        """Begin to end servers of unknown operations, unless their client runs."""
        ours = set(map(short, known))
        for pod in self._servers():
            if pod.metadata.labels.get(OPERATION) not in ours and not self._has_client(pod):
                self._do(self._end(pod))

    def _servers(self) -> list[Pod]:
        with self.picture.lock:
            pods = [*self.picture.pods.values()]
        return [pod for pod in pods if pod.metadata.labels.get(SERVER) == self.scheduler]

    def _has_client(self, server: Pod) -> bool:
        """True if the client of a server runs."""
        client = self.picture.pods.get(server.metadata.annotations.get(CLIENT, ""))
        return client is not None and bool(client.spec.node_name) and client.status.phase not in OVER


def short(operation: str) -> str:
    """A label for an operation; its id may be too long for one."""
    return hashlib.sha256(operation.encode()).hexdigest()[:40]


def attachment_of(pod: Pod) -> Attachment | None:
    """The attachment that a server pod is a part of; ``None``: it does not say."""
    try:
        said = json.loads(pod.metadata.annotations[OPERATION])
        return Attachment(said["operation"], said["job"], said["node"], tuple(said["devices"]))
    except (KeyError, ValueError, TypeError):
        return None


def manifest_of(
    options: ServerPods, wanted: Attachment, client: Pod, node: str, gpus: int, scheduler: str
) -> dict[str, Any]:
    """The server pod of an attachment on a node; it ends with its client, however that ends."""
    made, at = copy.deepcopy(options.manifest), client.metadata
    said = {"operation": wanted.operation, "job": wanted.job, "node": wanted.node, "devices": list(wanted.devices)}
    given: dict[str, Any] = made.get("metadata") or {}
    name = f"unrack-server-{short(f'{wanted.operation} {node}')[:24]}"
    made["apiVersion"] = "v1"
    made["metadata"] = {
        "name": name,
        "namespace": at.namespace,
        "labels": {**given.get("labels", {}), SERVER: scheduler, OPERATION: short(wanted.operation)},
        "annotations": {**given.get("annotations", {}), OPERATION: json.dumps(said), CLIENT: key_of(client)},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": at.name, "uid": at.uid}],
    }
    spec = made["spec"]
    spec["nodeName"] = node
    limits = spec["containers"][0].setdefault("resources", {}).setdefault("limits", {})
    limits[options.resource] = str(gpus)
    return made


def _problem(pod: Pod) -> str:
    """Why a server will not serve; ``""``: it does, or will."""
    if pod.status.phase in OVER:
        return printable(f"has ended: {pod.status.phase} {pod.status.reason}".rstrip(), 120)
    return "is being ended" if pod.metadata.deletion_timestamp else ""
