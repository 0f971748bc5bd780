"""What an API server is told to do. A ConflictError says that another was faster, and that nothing was done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import msgspec

from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import PODS, Kind, Pod, Thing

T = TypeVar("T", bound=Thing)
Content = Mapping[str, Any]
_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_MOST_NOTE = 1024


async def bind(connection: Connection, pod: Pod, node: str) -> None:
    """Give a pod its node, once and for all.

    Raises
    ------
    ConflictError
        It has one already, is gated, or is another pod of the same name.
    AbsentError
        It is gone.
    """
    at = pod.metadata
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": at.name, "namespace": at.namespace, "uid": at.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await _send(connection, "POST", PODS.path(at.namespace, at.name, "binding"), binding)


async def create(connection: Connection, kind: Kind[T], content: Content, namespace: str = "") -> T:
    """Make an object; as the server made it. A ConflictError if one of its name is there."""
    answer = await _send(connection, "POST", kind.path(namespace), content)
    return msgspec.json.decode(answer, type=kind.type)


async def replace(
    connection: Connection, kind: Kind[T], content: Content, name: str, namespace: str = "", part: str = ""
) -> T:
    """Put an object, or a part such as its ``status``, in place of what is there.

    ``content`` is the whole object as the server gave it, changed, with its resourceVersion: what is left out is lost.

    Raises
    ------
    ConflictError
        It was changed since it was read.
    """
    path = kind.path(namespace, name, *[part] * bool(part))
    return msgspec.json.decode(await _send(connection, "PUT", path, content), type=kind.type)


async def patch(
    connection: Connection,
    kind: Kind[T],
    changes: Content | list[Content],
    name: str,
    namespace: str = "",
    part: str = "",
    *,
    how: Literal["merge", "json", "strategic"] = "merge",
) -> T:
    """Change an object, or a part such as its ``status``.

    Raises
    ------
    ConflictError
        ``changes`` has the resourceVersion that it was read with, and it was changed since.
    """
    path = kind.path(namespace, name, *[part] * bool(part))
    answer = await connection.ask("PATCH", path, body=msgspec.json.encode(changes), content_type=_PATCHES[how])
    return msgspec.json.decode(answer, type=kind.type)


async def delete(connection: Connection, kind: Kind[T], thing: T, *, grace_s: int | None = None) -> None:
    """End an object, but no other that has its name by now (a ConflictError); ``grace_s``: how long a pod may take."""
    at = thing.metadata
    options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if at.uid:
        options["preconditions"] = {"uid": at.uid}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    await _send(connection, "DELETE", kind.path(at.namespace, at.name), options)


async def evict(connection: Connection, pod: Pod) -> None:
    """End a pod with its own grace, if its budgets of disruptions allow that, but no other that has its name by now.

    Raises
    ------
    BusyError
        They do not.
    ConflictError, AbsentError
        It is another; or it is gone.
    """
    at = pod.metadata
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": at.name, "namespace": at.namespace},
        "deleteOptions": {"preconditions": {"uid": at.uid}},
    }
    await _send(connection, "POST", PODS.path(at.namespace, at.name, "eviction"), eviction)


async def tell(
    connection: Connection, pod: Pod, reason: str, note: str, *, action: str, by: str, warning: bool = False
) -> None:
    """Write an event, which ``kubectl describe pod`` shows.

    Parameters
    ----------
    connection, pod
        The server, and what it is about.
    reason, action
        One word each, as ``FailedScheduling`` and ``Scheduling``.
    note
        In words; cut at 1024 bytes.
    by
        What says it, as ``unrack.example/unrack-0``: a controller and an instance of it.
    warning
        Whether it is one; otherwise it is as it should be.
    """
    at, now = pod.metadata, datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    controller, _, instance = by.rpartition("/")
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{at.name[:50].rstrip('.-')}-", "namespace": at.namespace},
        "eventTime": now,
        "reportingController": controller,
        "reportingInstance": instance,
        "action": action,
        "reason": reason,
        "regarding": {
            "apiVersion": "v1", "kind": "Pod", "namespace": at.namespace, "name": at.name, "uid": at.uid,
            "resourceVersion": at.resource_version,
        },
        "note": note.encode()[:_MOST_NOTE].decode(errors="ignore"),
        "type": "Warning" if warning else "Normal",
    }  # fmt: skip
    await _send(connection, "POST", f"/apis/events.k8s.io/v1/namespaces/{at.namespace}/events", event)


async def _send(connection: Connection, method: str, path: str, content: Content) -> bytes:
    return await connection.ask(method, path, body=msgspec.json.encode(content))
