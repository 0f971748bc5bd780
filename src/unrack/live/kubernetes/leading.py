"""Which of several replicas schedules: the one that holds a Lease, as other parts of Kubernetes elect theirs.

A replica takes a Lease that is free, or that has not been renewed for its duration, as seen by this machine's own clock
since it was last seen to change. It renews it five times as often, and counts as leading for two thirds of that time
after the last renewal that came through: it has stopped before another may begin.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from unrack.errors import InputError, RunError
from unrack.live.driver.service.service import Stop
from unrack.live.kubernetes.client.access import Access
from unrack.live.kubernetes.client.answers import AbsentError, ForbiddenError
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import Kind
from unrack.live.kubernetes.client.others import Other
from unrack.live.machine.processes import process
from unrack.live.watch.health import Health

LEASES = Kind("/apis/coordination.k8s.io/v1", "leases", Other)
SLICE_S = 0.1
Content = dict[str, Any]


class Lease(NamedTuple):
    """Which Lease it is, and for how long it is held without being renewed, s."""

    namespace: str
    name: str
    duration_s: int


class Leadership:
    """Strives for a Lease in a thread of its own, and gives it back in the end; use it in a ``with``.

    Parameters
    ----------
    access, lease
        How the server is reached; what is held.
    identity
        What this replica is called; default: after its machine and process.
    """

    def __init__(self, access: Access, lease: Lease, identity: str = "") -> None:
        started = getattr(process(os.getpid()), "started", 0)
        self.identity = identity or f"{socket.gethostname()}_{os.getpid()}_{started}"
        self._access, self._lease = access, lease
        self._until = float("-inf")
        self._seen: tuple[object, float] = (None, 0.0)  # what was said of its renewal, and since when that is known
        self._failed: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    def __enter__(self) -> Leadership:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)

    @property
    def leads(self) -> bool:
        """True if no other replica may schedule now.

        Raises
        ------
        InputError
            The server does not let it have a Lease.
        """
        if self._failed is not None:
            raise self._failed
        return time.monotonic() < self._until

    def wait(self, stop: Stop) -> bool:
        """Wait until it leads; False: it is to end."""
        while not stop.asked:
            if self.leads:
                return True
            time.sleep(SLICE_S)
        return False

    def _run(self) -> None:
        try:
            asyncio.run(self._strive())
        except Exception as error:
            self._failed = error
            self._until = float("-inf")

    async def _strive(self) -> None:
        pause_s = self._lease.duration_s / 5
        async with Connection(self._access, timeout_s=pause_s * 2) as connection:
            while not self._ended.is_set():
                began = time.monotonic()
                try:
                    if await self._take(connection):
                        self._until = began + self._lease.duration_s * 2 / 3
                    else:
                        self._until = float("-inf")
                except ForbiddenError as error:
                    want = "the rights of docs/kubernetes-rights.yaml"
                    raise InputError(
                        f"the Lease {self._lease.namespace}/{self._lease.name}", str(error), want
                    ) from error
                except RunError:
                    pass  # no answer, or another was faster: what was held is held until it expires
                while time.monotonic() - began < pause_s and not self._ended.is_set():
                    await asyncio.sleep(SLICE_S)
            if time.monotonic() < self._until:
                self._until = float("-inf")
                with suppress(RunError):
                    await self._give_back(connection)

    async def _take(self, connection: Connection) -> bool:
        """Take or renew it; False: another has it."""
        path, now = LEASES.path(self._lease.namespace, self._lease.name), datetime.now(UTC)
        text = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
        try:
            found: Content = msgspec.json.decode(await connection.ask("GET", path))
        except AbsentError:
            at = {"name": self._lease.name, "namespace": self._lease.namespace}
            found = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": at, "spec": {}}
        spec: Content = found.setdefault("spec", {})
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self.identity) and not self._expired(spec):
            return False
        if holder != self.identity:
            spec |= {"acquireTime": text, "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        spec |= {
            "holderIdentity": self.identity, "renewTime": text, "leaseDurationSeconds": self._lease.duration_s,
        }  # fmt: skip
        await self._write(connection, found)
        return True

    def _expired(self, spec: Content) -> bool:
        """Whether another has not renewed it for as long as it says."""
        said, now = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions")), time.monotonic()
        if said != self._seen[0]:
            self._seen = said, now
        return now - self._seen[1] > int(spec.get("leaseDurationSeconds") or self._lease.duration_s)

    async def _give_back(self, connection: Connection) -> None:
        path = LEASES.path(self._lease.namespace, self._lease.name)
        found: Content = msgspec.json.decode(await connection.ask("GET", path))
        if found["spec"].get("holderIdentity") == self.identity:
            found["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._write(connection, found)

    async def _write(self, connection: Connection, content: Content) -> None:
        """A ConflictError if another was faster: its version is that which was read."""
        new = "resourceVersion" not in content["metadata"]
        names = () if new else (self._lease.name,)
        path = LEASES.path(self._lease.namespace, *names)
        await connection.ask("POST" if new else "PUT", path, body=msgspec.json.encode(content))


class Standby(Health):
    """What is told of a replica that waits: it is well, and not ready."""

    def told(self, is_ready: bool = False) -> tuple[bool, dict[str, Any]]:
        """As of :class:`Health`."""
        return not is_ready, {"status": "standby", "reason": "another replica leads"}


class Term(Stop):
    """Asks a service to end when it is to, or when it does not lead any more."""

    def __init__(self, stop: Stop, leadership: Leadership) -> None:
        super().__init__()
        self._stop, self._leadership = stop, leadership

    @property
    def asked(self) -> bool:
        """True if it is to end."""
        return self._stop.asked or not self._leadership.leads
