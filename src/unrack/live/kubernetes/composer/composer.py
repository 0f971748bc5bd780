"""Brings together what claims want and what the fabric has, again and again, and remembers nothing that these know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from unrack.errors import InputError, RunError
from unrack.live.fabric.contract import Fabric
from unrack.live.kubernetes.client.answers import AbsentError, ConflictError, DeniedError, ForbiddenError
from unrack.live.kubernetes.client.backoff import Backoff
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import Kind
from unrack.live.kubernetes.client.others import NAMESPACES, SLICES, Other
from unrack.live.kubernetes.client.watch import Interrupted, Known, watch
from unrack.live.kubernetes.composer.catalogue import Catalogue
from unrack.live.kubernetes.composer.hands import Hands
from unrack.live.kubernetes.composer.slices import Changes, Publisher, avoided_in
from unrack.live.kubernetes.composer.steps import Situation, Steps, next_steps
from unrack.live.kubernetes.composer.telling import Told, publish, tell_claim
from unrack.live.kubernetes.composer.wanted import AttachProblem, Sight, WantedDevice, owner_of, wanted_by
from unrack.live.kubernetes.devices.objects import CLAIMS, Claim
from unrack.live.watch.log import Events
from unrack.live.watch.meters import Meters

TURN_S, IDLE_S = 0.01, 0.25
"""How long what comes together is collected; how often time is looked at when nothing comes."""
AGAIN_S, SILENT_S = 0.2, 2.0
"""How long it waits before it tells again what was refused, or not answered."""
NEW_SERVER_S = 10.0
"""So long after it has begun a refusal may be one of a server that has just begun, too."""
RIGHTS = "the rights of a composer: docs/kubernetes-rights.yaml"


class ComposerSettings(NamedTuple):
    """How it works."""

    driver: str
    node_label: str  # the label of nodes that has their names
    at_once: int  # operations of a switch
    give_up_s: float  # a device that is not there after so long has failed
    avoid_s: float  # for so long it is given to no claim then; 0: it is not kept back
    look_s: float  # how often the fabric is asked what it has


class Composer:
    """Attaches what claims were given, and detaches what they have given back.

    Parameters
    ----------
    connection, fabric
        The API server, and what brings devices to nodes.
    settings
        How.
    catalogue
        The devices as they are now: another one once they have changed.
    meters
        What counts what is done.
    """

    def __init__(
        self, connection: Connection, fabric: Fabric, settings: ComposerSettings, catalogue: Callable[[], Catalogue],
        meters: Meters,
    ) -> None:  # fmt: skip
        self.connection, self.settings, self.log = connection, settings, Events("composer")
        self._catalogue_now, self.catalogue = catalogue, catalogue()
        self.hands = Hands(fabric, meters, self.log)
        self.publisher = Publisher(settings.driver, settings.node_label)
        self.owner = ""
        self.wanted: dict[str, WantedDevice] = {}
        self._claims, self._slices = Known[Claim](), Known[Other]()
        self._of_claim: dict[tuple[str, str], list[str]] = {}
        self._since: dict[str, float] = {}
        self._telling = set[tuple[str, str]]()
        self._told: dict[tuple[str, str], str] = {}  # claim → its version when it was told; it is another soon
        self._avoided: dict[tuple[str, str], str] | None = None
        self._to_publish, self._publishing = True, False
        self._news, self._faults = asyncio.Event(), list[Exception]()
        self._tasks = set[asyncio.Task[None]]()

    @property
    def current(self) -> bool:
        """True while nothing says that what is known is out of date, and once the fabric has answered."""
        return self._claims.current and self._slices.current and self.hands.attached is not None

    async def run(self, stop: Callable[[], bool], turned: Callable[[bool], None]) -> None:
        """Work until ``stop`` says so; ``turned`` is told at each turn whether what is known is current.

        Raises
        ------
        InputError
            The API server does not let us do what has to be done.
        """
        only = {"fieldSelector": f"spec.driver={self.settings.driver}"}
        await self._begin(stop, turned)
        claims = self._follow(CLAIMS, self._claims, {}, self._take_claims)
        slices = self._follow(SLICES, self._slices, only, self._take_slices)
        works = [self._spawn(work) for work in (claims, slices, self._look())]
        try:
            while not stop():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), IDLE_S)
                await asyncio.sleep(TURN_S)
                self._news.clear()
                if self._faults:
                    raise self._faults[0]
                if (catalogue := self._catalogue_now()) is not self.catalogue:
                    self._take_catalogue(catalogue)
                if self.current:
                    self._act()
                turned(self.current)
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.hands.close()

    async def rehearse(self) -> tuple[Steps, Changes]:
        """What would be done now; it only reads. Errors are those of the connection, and RunError of the fabric."""
        system = await self.connection.read(NAMESPACES, "kube-system")
        self.owner = owner_of(system.metadata.uid, self.settings.driver)
        self._take_claims(self._claims.take(await self.connection.list(CLAIMS)))
        only = {"fieldSelector": f"spec.driver={self.settings.driver}"}
        self._slices.take(await self.connection.list(SLICES, only))
        if not await self.hands.look(self.owner):
            raise RunError("the fabric does not answer: it is said above why")
        return self.steps(), self._changes()

    def steps(self) -> Steps:
        """What is to be done now."""
        now_s, hands = asyncio.get_running_loop().time(), self.hands
        attached, overdue = hands.attached or {}, dict[str, AttachProblem]()
        whole = set(hands.whole)
        for operation, one in self.wanted.items():
            why = hands.why.get(operation, "")
            if one.sight == Sight.ATTACHED and operation in attached and not why:
                whole.add(operation)  # it was told when it was whole
            elif one.sight == Sight.ATTACHED and why:
                overdue[operation] = AttachProblem("AttachFailed", why)
            elif (waited_s := now_s - self._since.get(operation, now_s)) > self.settings.give_up_s:
                why = why or "it is not free yet: an earlier claim's attachment to it has not come to its end"
                overdue[operation] = AttachProblem("AttachFailed", f"not attached in {waited_s:.0f} s: {why}")
        steps = next_steps(
            Situation(
                self.wanted, attached, whole, hands.busy, hands.resting(now_s), overdue, self.catalogue.switches
            ),
            self.settings.at_once,
        )  # fmt: skip
        # What waits for its turn at a switch has all the time in the world.
        troubled = [*steps.held_up, *overdue, *(operation for operation in hands.why if operation in self.wanted)]
        self._since = {operation: self._since.get(operation, now_s) for operation in troubled}
        return steps

    # What is done

    def _act(self) -> None:
        steps, attached = self.steps(), self.hands.attached or {}
        for operation in steps.detach:
            device = attached[operation].devices[0]
            self.hands.take(operation, self.catalogue.switches.get(device, device))
            self._spawn(self.hands.detach(operation))
        for one in steps.attach:
            self.hands.take(one.operation, one.switch)
            self._spawn(self.hands.attach(one))
        by_claim = dict[tuple[str, str], list[tuple[WantedDevice, AttachProblem | None]]]()
        for one, problem in steps.tell:
            by_claim.setdefault(one.claim, []).append((one, problem))
        for claim, told in by_claim.items():
            version = self._claims.objects[claim].metadata.resource_version
            if claim not in self._telling and self._told.get(claim) != version:
                self._telling.add(claim)
                self._spawn(self._tell(claim, version, told))
        if not self._publishing and (self._to_publish or self._is_over()):
            self._to_publish = False
            changes = self._changes()
            if changes.write or changes.end:
                self._publishing = True
                self._spawn(self._publish(changes))

    async def _tell(self, claim: tuple[str, str], version: str, told: Told) -> None:
        pause_s = AGAIN_S
        try:
            if await tell_claim(self.connection, told, self.catalogue, self.settings.driver, self.owner):
                self._told[claim] = version
                pause_s = 0.0
                for one, problem in told:
                    if problem is not None:
                        where = {"claim": "/".join(claim), "device": one.result.device}
                        self.log.warning("a device is told as failed", why=problem.message, **where)
                        if one.problem is None and one.sight == Sight.NEW and self.settings.avoid_s:
                            self._avoid(one)
        except ForbiddenError as error:
            self._faults.append(InputError("the API server", str(error), RIGHTS))
        except ConflictError:
            pass  # it is known soon how it is now
        except RunError as error:
            pause_s = SILENT_S
            self.log.warning("a claim could not be told", claim="/".join(claim), why=str(error))
        await asyncio.sleep(pause_s)
        self._telling.discard(claim)

    async def _publish(self, changes: Changes) -> None:
        try:
            await publish(self.connection, changes, self.publisher, self._slices.objects)
            self.log.info("published", slices=len(changes.write), ended=len(changes.end))
        except InputError as error:
            self._faults.append(error)
        except ForbiddenError as error:
            self._faults.append(InputError("the API server", str(error), RIGHTS))
        except RunError as error:
            if isinstance(error, DeniedError) and not isinstance(error, ConflictError):
                self.log.error("the API server takes no slice", why=str(error))
            await asyncio.sleep(SILENT_S)
            self._to_publish = True
        self._publishing = False

    # What is known

    async def _begin(self, stop: Callable[[], bool], turned: Callable[[bool], None]) -> None:
        """Learn which Kubernetes it is: others may have the same fabric."""
        backoff, loop = Backoff(), asyncio.get_running_loop()
        begun_s = loop.time()
        while not self.owner and not stop():
            try:
                system = await self.connection.read(NAMESPACES, "kube-system")
                self.owner = owner_of(system.metadata.uid, self.settings.driver)
            except RunError as error:
                # A server that has just begun knows no roles yet, and forbids what it will allow.
                is_final = isinstance(error, ForbiddenError | AbsentError) and loop.time() - begun_s > NEW_SERVER_S
                if is_final:
                    raise InputError("the API server", str(error), f"{RIGHTS}, and a namespace kube-system") from None
                self.log.warning("Kubernetes does not answer", why=str(error))
                turned(False)
                await asyncio.sleep(min(backoff.next_s(), SILENT_S))

    async def _follow(
        self, kind: Kind[Any], known: Known[Any], only: Mapping[str, str], take: Callable[[Any], None]
    ) -> None:
        try:
            async for seen in watch(self.connection, kind, only):
                if isinstance(seen, Interrupted):
                    self.log.warning("Kubernetes does not answer", why=seen.why, again_s=round(seen.wait_s, 1))
                take(known.take(seen))
                self._news.set()
        except ForbiddenError as error:
            self._faults.append(InputError("the API server", str(error), RIGHTS))
        except Exception as error:
            self._faults.append(error)
        self._news.set()

    async def _look(self) -> None:
        while True:
            if await self.hands.look(self.owner):
                self.hands.forget({*self.wanted, *(self.hands.attached or ())})
                self._told = {key: version for key, version in self._told.items() if key in self._of_claim}
            self._news.set()
            await asyncio.sleep(self.settings.look_s)

    def _take_claims(self, changes: list[tuple[Claim | None, Claim | None]]) -> None:
        for before, after in changes:
            one = after or before
            assert one is not None
            key = one.metadata.namespace, one.metadata.name
            gone = self._of_claim.pop(key, [])
            found = () if after is None else wanted_by(after, self.catalogue, self.settings.driver, self.owner)
            for operation in gone:
                self.wanted.pop(operation, None)
            for each in found:
                self.wanted[each.operation] = each
                self._of_claim.setdefault(key, []).append(each.operation)

    def _take_slices(self, changes: list[tuple[Other | None, Other | None]]) -> None:
        self._to_publish = self._to_publish or bool(changes)

    def _take_catalogue(self, catalogue: Catalogue) -> None:
        self.catalogue, self._to_publish = catalogue, True
        self._take_claims([(claim, claim) for claim in self._claims.objects.values()])

    def _changes(self) -> Changes:
        there = self._slices.objects.values()
        if self._avoided is None:
            self._avoided = avoided_in(there)
        least = (datetime.now(UTC) - timedelta(seconds=self.settings.avoid_s)).isoformat()
        self._avoided = {key: since for key, since in self._avoided.items() if since > least}
        return self.publisher.changes(self.catalogue, self._avoided, there)

    def _avoid(self, one: WantedDevice) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._avoided = {**(self._avoided or {}), (one.result.pool, one.result.device): now}
        self._to_publish = True

    def _is_over(self) -> bool:
        """Whether a device need not be avoided any more."""
        least = (datetime.now(UTC) - timedelta(seconds=self.settings.avoid_s)).isoformat()
        return any(since <= least for since in (self._avoided or {}).values())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._faults.append(error if isinstance(error, Exception) else RuntimeError(str(error)))
        self._news.set()
