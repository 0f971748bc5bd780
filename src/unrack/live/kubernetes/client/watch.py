"""All objects of a kind as they change: listed once, then watched, through whatever breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from unrack.live.kubernetes.client.answers import (
    ApiStatus,
    BusyError,
    ForbiddenError,
    GoneError,
    UnreachableError,
    denied,
)
from unrack.live.kubernetes.client.backoff import Backoff
from unrack.live.kubernetes.client.connection import Connection, Listed, not_understood
from unrack.live.kubernetes.client.objects import Kind, Thing

T = TypeVar("T", bound=Thing)
LONGEST_S = 300
"""How long one watch goes on before it is asked for again, s; a third less at random."""
_GRACE_S = 30.0
"""How much longer than it was to take a watch may take, s, before the server counts as hung."""
_MOST_AFTER_S = 60.0
"""How long a server may have us wait, s."""
_SHORT_S = 1.0
"""A watch that is shorter, and says nothing, is a fault."""
_MOST_LINE = 64 * 2**20
"""Bytes of a line beyond which an answer counts as damaged: objects have 1.5 MiB at most."""


class Changed(NamedTuple, Generic[T]):
    """Objects that came, changed or went, in order, and the version of the list after them.

    Each with what happened: ADDED, MODIFIED or DELETED.
    """

    events: tuple[tuple[str, T], ...]
    version: str


class Interrupted(NamedTuple):
    """What is known may be out of date from now on: why, and when it is tried again."""

    why: str
    wait_s: float


class WatchLine(msgspec.Struct, Generic[T]):
    """A line of a watch."""

    type: str
    object: T


class Mark(msgspec.Struct):
    """A line of a watch that says how far it is, or why it ends."""

    type: str
    object: ApiStatus


_MARKS = msgspec.json.Decoder(Mark)


async def watch(
    connection: Connection,
    kind: Kind[T],
    selectors: Mapping[str, str] | None = None,
    *,
    namespace: str = "",
    backoff: Backoff | None = None,
) -> AsyncGenerator[Listed[T] | Changed[T] | Interrupted]:
    """All objects of a kind first, then every change, without end.

    A watch that ends goes on from where it was. After a break, an :class:`Interrupted` comes first and what is there
    next, be it a change or nothing new, an empty :class:`Changed`, says that it works again. If the server does not
    remember that long ago, all is listed again.

    Parameters
    ----------
    connection
        The server.
    kind, namespace
        What is watched; ``""``: in all namespaces.
    selectors
        ``fieldSelector`` and ``labelSelector``; an object that they no longer select is DELETED.
    backoff
        How long is waited after a break.

    Raises
    ------
    DeniedError
        The first list was refused.
    """
    waits, random = backoff or Backoff(connection.seed), Random(connection.seed)
    version, interrupted = "", False
    while True:
        try:
            if not version:
                listed = await connection.list(kind, selectors, namespace)
                version, interrupted = listed.version, False
                yield listed
            began, since = asyncio.get_running_loop().time(), version
            async with aclosing(_once(connection, kind, selectors or {}, namespace, version, random)) as changes:
                async for changed in changes:
                    version = changed.version
                    if changed.events:
                        waits.reset()
                    if changed.events or interrupted:
                        interrupted = False
                        yield changed
            if version == since and asyncio.get_running_loop().time() - began < _SHORT_S:
                raise UnreachableError(f"GET {kind.path(namespace)}: a watch that ended at once")
            waits.reset()  # it ended as it was to end
        except GoneError as error:
            version, why, least_s = "", str(error), 0.0
        except (UnreachableError, BusyError, ForbiddenError) as error:
            # A server that has just begun knows no roles yet, and forbids what it will allow.
            if not version and not interrupted and not isinstance(error, UnreachableError):
                raise
            why, least_s = str(error), min(getattr(error, "after_s", 0.0), _MOST_AFTER_S)
        else:
            continue
        wait_s = waits.next_s(least_s)
        interrupted = True
        yield Interrupted(why, wait_s)
        await asyncio.sleep(wait_s)


async def _once(
    connection: Connection, kind: Kind[T], selectors: Mapping[str, str], namespace: str, version: str, random: Random
) -> AsyncGenerator[Changed[T]]:
    """The changes of one watch after a version, as many at a time as came together; its errors are raised."""
    path, limit_s = kind.path(namespace), int(LONGEST_S * random.uniform(2 / 3, 1))
    query = {
        **selectors, "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version,
        "timeoutSeconds": str(limit_s),
    }  # fmt: skip
    decoder: msgspec.json.Decoder[WatchLine[T]] = msgspec.json.Decoder(WatchLine[kind.type])  # type: ignore[name-defined]
    async with connection.stream(path, query, limit_s + _GRACE_S) as pieces:
        yield Changed((), version)  # the server has taken it
        async for lines in _lines(pieces, path):
            events = list[tuple[str, T]]()
            for line in lines:
                told = _told(decoder, line, path)  # if that is an error, those before it come again
                version = told.object.metadata.resource_version or version
                if isinstance(told, WatchLine) and told.type != "BOOKMARK":
                    events.append((told.type, told.object))
            yield Changed(tuple(events), version)


async def _lines(pieces: AsyncIterator[bytes], path: str) -> AsyncIterator[list[bytes]]:
    """The whole lines, those together that came together; what comes after the last of them is cut off."""
    rest, size = list[bytes](), 0
    async for piece in pieces:
        *lines, last = piece.split(b"\n")
        if lines:
            lines[0] = b"".join((*rest, lines[0]))
            rest, size = [], 0
            whole = [line for line in lines if line.strip()]
            if whole:
                yield whole
        rest.append(last)
        size += len(last)
        if size > _MOST_LINE:
            raise UnreachableError(f"GET {path}: a line of more than {_MOST_LINE} bytes")


def _told(decoder: msgspec.json.Decoder[WatchLine[T]], line: bytes, path: str) -> WatchLine[T] | Mark:
    """What a line says; an error if that is why the server ends the watch, or is not understood."""
    try:
        told = decoder.decode(line)
        if told.type != "ERROR":
            return told
        problem = ""
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = str(error)
    try:
        mark = _MARKS.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        mark = Mark("", ApiStatus())
    if mark.type == "ERROR":
        raise denied(f"GET {path}", mark.object.code, msgspec.json.encode(mark.object))
    if mark.type == "BOOKMARK":  # a pod of which no container is said, which no pod may be
        return mark
    raise not_understood(path, problem)


class Known(Generic[T]):
    """The objects of a kind as they were last seen, by namespace and name.

    Attributes
    ----------
    objects
        (namespace, name) → object.
    current
        True unless a watch was interrupted and has said nothing since.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], T] = {}
        self.current = False

    def take(self, seen: Listed[T] | Changed[T] | Interrupted) -> list[tuple[T | None, T | None]]:
        """What changed, in order: each as it was, and as it is; ``None``: it was, or is, not there.

        An object that was deleted and made again goes and comes: it has another uid.
        """
        self.current = not isinstance(seen, Interrupted)
        if isinstance(seen, Interrupted):
            return []
        changes: list[tuple[T | None, T | None]] = []
        if isinstance(seen, Changed):
            for what, thing in seen.events:
                self._put(thing, what == "DELETED", changes)
            return changes
        there = {_key(thing) for thing in seen.objects}
        changes.extend((self.objects.pop(key), None) for key in list(self.objects) if key not in there)
        for thing in seen.objects:
            before = self.objects.get(_key(thing))
            if before is None or before.metadata.resource_version != thing.metadata.resource_version:
                self._put(thing, False, changes)
        return changes

    def _put(self, thing: T, gone: bool, changes: list[tuple[T | None, T | None]]) -> None:
        key = _key(thing)
        before = self.objects.pop(key, None)
        if before is not None and before.metadata.uid != thing.metadata.uid:
            changes.append((before, None))
            before = None
        if not gone:
            self.objects[key] = thing
            changes.append((before, thing))
        elif before is not None:
            changes.append((before, None))


def _key(thing: Any) -> tuple[str, str]:
    return thing.metadata.namespace, thing.metadata.name
