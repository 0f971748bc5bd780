"""The server, watched and told in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from unrack.errors import InputError, RunError
from unrack.live.driver.seen import UnreachableError
from unrack.live.kubernetes.adapter.picture import Picture
from unrack.live.kubernetes.client.access import Access
from unrack.live.kubernetes.client.answers import AbsentError, DeniedError, ForbiddenError
from unrack.live.kubernetes.client.connection import Connection, Listed
from unrack.live.kubernetes.client.objects import NODES, PODS, Kind, Pod
from unrack.live.kubernetes.client.orders import tell
from unrack.live.kubernetes.client.others import Other
from unrack.live.kubernetes.client.watch import Interrupted, Known, watch
from unrack.live.kubernetes.devices.devices import KINDS, NOT_NEEDED, Devices
from unrack.live.printable import printable
from unrack.live.watch.log import Events

T = TypeVar("T")
MOST_EVENTS = 1000
"""Events that wait to be written; of more, the last are not."""
AGAIN_S = 10.0
"""After how long it looks again for a kind that the server does not have, s."""
BY = "unrack.io/driver"


class Watching:
    """Keeps a picture up to date until :meth:`close`.

    Parameters
    ----------
    access, picture
        How the server is reached, and what is kept up to date.
    timeout_s
        How long an answer may take, s.
    also, claims
        Other kinds that are watched if the server has them and lets us look; and those of claims of devices.
    """

    def __init__(
        self, access: Access, picture: Picture, timeout_s: float, also: Sequence[Kind[Other]] = (),
        claims: Sequence[Kind[Any]] = KINDS,
    ) -> None:  # fmt: skip
        self.picture, self._timeout_s, self._access = picture, timeout_s, access
        self._also, self._claims = also, claims
        self.devices = Devices(picture.lock, lambda: self.connection, picture.live, self.begin)
        self.devices.store.counts_requests = picture.preempts
        self._log, self._missing = Events("kubernetes"), dict[Kind[Any], str]()  # why nothing is known of devices
        kinds: list[Kind[Any]] = [NODES, PODS, *also, *claims]
        self._why = {kind.path(): "nothing is known yet" for kind in kinds}  # why what is known may be old
        self._failed: Exception | None = None
        self._told, self._ready = threading.Event(), threading.Event()
        self._loop = asyncio.new_event_loop()
        self._events: asyncio.Queue[tuple[Pod, str, str]] = asyncio.Queue(MOST_EVENTS)
        self._connection: Connection | None = None
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="kubernetes", daemon=True)
        self._thread.start()
        self._ready.wait()

    def check(self) -> None:
        """Wait until something is known.

        Raises
        ------
        UnreachableError
            What is known may be out of date.
        InputError
            The server does not let us look.
        """
        self._told.wait(self._timeout_s)
        if self._failed is not None:
            raise self._failed
        if why := self.behind:
            raise UnreachableError(why)

    @property
    def behind(self) -> str:
        """Why what is known may be out of date; ``""``: it is current."""
        return next((f"{what}: {why}" for what, why in self._why.items() if why), "")

    def changed(self) -> bool:
        """True if anything was told that has not been read, and what is known is current: it is worth a look."""
        return self.picture.version != self.picture.read_version and not any(self._why.values())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in its loop, and wait for it."""
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin something in its loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def connection(self) -> Connection:
        """The server."""
        assert self._connection is not None
        return self._connection

    def say(self, pod: Pod, reason: str, note: str) -> None:
        """Write an event about a pod some time, if the server takes it."""

        def put() -> None:
            with suppress(asyncio.QueueFull):
                self._events.put_nowait((pod, reason, printable(note, 900)))

        self._loop.call_soon_threadsafe(put)

    def close(self) -> None:
        """End it."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(10)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # which ends what is still under way
                runner.run(self._work())
        except Exception as error:
            self._failed = error
        finally:
            self._ready.set()
            self._told.set()

    async def _work(self) -> None:
        async with Connection(self._access, timeout_s=self._timeout_s) as self._connection:
            works = [
                self._follow(NODES, self.picture.take_nodes), self._follow(PODS, self.picture.take_pods), self._write(),
                *(self._follow_if_there(kind, partial(self.picture.take_others, kind)) for kind in self._also),
                *(self._follow_if_there(kind, partial(self._take_devices, kind)) for kind in self._claims),
            ]  # fmt: skip
            tasks = [asyncio.create_task(work) for work in works]
            self._ready.set()
            await self._ended.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _take_devices(self, kind: Kind[Any], changes: Any, why: str) -> None:
        said, before = f"the server does not show {kind.plural}: {why}"[:300] if why else "", self._missing.get(kind)
        self._missing[kind] = said
        if said and said != before:
            self._log.warning("devices are not wholly known", why=said)
        self.devices.store.why = next(
            (said for one, said in self._missing.items() if said and one not in NOT_NEEDED), ""
        )
        self.devices.take(changes)
        self.picture.take_classes(self.devices.store.mapped)
        self.picture.version += 1

    async def _follow(self, kind: Kind[Any], take: Callable[[Any], None]) -> None:
        try:
            await self._take(kind, Known(), take)
        except ForbiddenError as error:
            want = "the rights to list and watch pods and nodes: docs/kubernetes-rights.yaml"
            self._failed = InputError("the API server", str(error), want)
        except Exception as error:
            self._failed = error
        self._told.set()

    async def _follow_if_there(self, kind: Kind[Any], take: Callable[[Any, str], None]) -> None:
        known: Known[Any] = Known()
        while True:
            why = ""
            try:
                await self._take(kind, known, lambda changes: take(changes, ""))
            except AbsentError:
                why = "the server has none of that kind"
            except DeniedError as error:
                why = str(error)
            except Exception as error:
                self._failed = error
            with self.picture.lock:
                take(known.take(Listed[Any]([], "")), why)
                self._why[kind.path()] = ""
            self._check_known()
            await asyncio.sleep(AGAIN_S)

    async def _take(self, kind: Kind[Any], known: Known[Any], take: Callable[[Any], None]) -> None:
        async for seen in watch(self.connection, kind):
            with self.picture.lock:
                take(known.take(seen))
                self._why[kind.path()] = seen.why if isinstance(seen, Interrupted) else ""
            self._check_known()

    def _check_known(self) -> None:
        if not any(self._why.values()):
            self._told.set()

    async def _write(self) -> None:
        while True:
            pod, reason, note = await self._events.get()
            try:
                await tell(self.connection, pod, reason, note, action="Scheduling", by=BY, warning=True)
            except ForbiddenError:
                return  # events are not for us
            except RunError:
                continue  # it is not waited for
