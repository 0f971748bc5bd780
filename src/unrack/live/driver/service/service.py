"""The driver as a service: lock, journal, poll with back-off, wake file, signals, metrics, systemd."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Protocol, runtime_checkable

from unrack.errors import InputError
from unrack.live.driver.contract import Orchestrator
from unrack.live.driver.driver import Driver, DriverSettings
from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.service.folders import JOURNAL, WAKE
from unrack.live.driver.service.tables import OnPolicyFault, ServiceTable
from unrack.live.driver.state.kept import KeptDriver, kept_of
from unrack.live.driver.state.stage import NOT_HELD, Phase
from unrack.live.fabric.contract import Fabric, FabricError
from unrack.live.fabric.table import make_fabric
from unrack.live.journal.journal import Journal, JournalError
from unrack.live.journal.lock import Lock
from unrack.live.wake import Wake
from unrack.live.watch.health import Health
from unrack.live.watch.log import Events
from unrack.live.watch.meters import Meters
from unrack.live.watch.server import WatchServer
from unrack.live.watch.systemd import Notifier

SLICE_S = 0.02
"""How often what wakes it is looked at."""
QUIET_S = 60.0
"""After so long without a change it looks less often, step by step."""
SLOWER = 1.1
UNREACHABLE_S = 0.5, 30.0
"""How long it waits when the orchestrator does not answer: at first, and at most."""
FULL_S = 5.0
"""How long it waits when the journal cannot be written to."""


class Stop:
    """Whether the service is asked to end: SIGTERM, SIGINT, or :meth:`ask`."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Ask it to end after the present turn."""
        self._asked.set()

    @property
    def asked(self) -> bool:
        """True if it is to end."""
        return self._asked.is_set()

    def listen(self) -> None:
        """End on SIGTERM and SIGINT; only in the main thread."""
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, self.ask)


@runtime_checkable
class Wakes(Protocol):
    """What says that something has happened: :class:`unrack.live.wake.Wake`, or an adapter that watches."""

    def changed(self) -> bool:
        """True if something has happened since it was looked at; it costs nothing to ask."""
        ...


def waited(seconds: float, wakes: Sequence[Wakes], stop: Stop) -> bool:
    """Wait so long, or until something has happened or the service is to end; True if something has."""
    until = time.monotonic() + seconds
    while not stop.asked:
        touched = [wake.changed() for wake in wakes]  # all of them are looked at: none is left for the next wait
        if any(touched):
            return True
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(SLICE_S, left))
    return False


def serve(
    site: ServiceTable, orchestrator: Orchestrator, meters: Meters, stop: Stop | None = None,
    ready: Callable[[Driver], None] | None = None, fabric: Fabric | None = None,
) -> None:  # fmt: skip
    """Schedule the jobs of an orchestrator until it is asked to end.

    Where the journal cannot be written to, as the disk is full, nothing is decided or ordered. It goes on from what is
    written when there is room again, as if it had been started anew.

    Parameters
    ----------
    site
        The site file.
    orchestrator, meters
        Where the jobs are; what counts what is done.
    stop
        How it is asked to end; default: signals.
    ready
        Called when it has begun, and when it goes on after the journal could not be written to.
    fabric
        What attaches devices; default: what the site file names.

    Raises
    ------
    InputError
        Another one runs; or the state, the fabric or the cluster is not as the site file says.
    PolicyFaultError
        The policy failed, and the site wants it to end then.
    """
    if stop is None:
        stop = Stop()
        stop.listen()
    site.state.mkdir(parents=True, exist_ok=True)
    attaches = make_fabric(site.fabric) if fabric is None else fabric
    notifier, address = Notifier(), site.metrics.address
    health = Health(site.metrics.stalled_after_us / 1e6, orchestrator.name.lower())
    settings = DriverSettings(site.on_policy_fault == OnPolicyFault.STOP, site.journal.snapshot_every_mb * 2**20)

    def drive(again: bool) -> None:
        with _opened(site, again) as journal:
            kept = kept_of([record.value for record in journal.read(from_newest_snapshot=True)])
            driver = Driver(orchestrator, attaches, journal, settings, kept, meters)
            try:
                _settled(driver, kept)
                _loop(driver, site, stop, meters, health, notifier, ready)
            finally:
                driver.acting.close()

    with Lock.take(site.state):
        server = None
        try:
            if address is not None:
                server = WatchServer(address, meters, health, site.metrics.allow_remote)
            _until_the_end(drive, Events(orchestrator.name.lower()), health, notifier, stop)
        except Exception as error:
            health.failed(str(error))
            raise
        finally:
            notifier.stopping()
            if server is not None:
                server.close()


def _opened(site: ServiceTable, again: bool) -> Journal:
    """The journal; ``again``: what keeps it from being opened, as it was before, may pass."""
    try:
        return Journal.open(site.state / JOURNAL, keep=site.journal.keep)
    except InputError as error:
        if not again:
            raise
        raise JournalError(str(error)) from error


def _until_the_end(drive: Callable[[bool], None], log: Events, health: Health, notifier: Notifier, stop: Stop) -> None:
    """Drive until that ends; where the journal cannot be written to, again and again from what is written."""
    again = False
    while True:
        try:
            return drive(again)
        except JournalError as error:
            again = True
            health.failed(str(error))
            log.error("nothing is decided until the journal can be written to", why=str(error), again_s=FULL_S)
        notifier.alive()
        waited(FULL_S, (), stop)
        if stop.asked:
            return None


def _settled(driver: Driver, kept: KeptDriver | None) -> None:
    """Detach what an earlier run left attached for no job."""
    try:
        driver.acting.settle()
    except FabricError as error:
        driver.log.error("the fabric does not answer", why=str(error))
    if kept is not None:
        driver.log.info("going on from the journal", jobs=len(kept.entries))


def _loop(
    driver: Driver, site: ServiceTable, stop: Stop, meters: Meters, health: Health, notifier: Notifier,
    ready: Callable[[Driver], None] | None,
) -> None:  # fmt: skip
    wakes: list[Wakes] = [Wake(site.wake or site.state / WAKE)]
    if isinstance(of_theirs := getattr(driver.orchestrator, "wake", None), Wakes):  # it is told what changes
        wakes.append(of_theirs)
    if isinstance(of_nodes := getattr(driver.acting.attachments.fabric, "wake", None), Wake):  # touched by epilogs
        wakes.append(of_nodes)
    least_s, most_s = site.poll_us / 1e6, site.poll_slowest_us / 1e6
    wait_s, silent_s, quiet_since = least_s, UNREACHABLE_S[0], time.monotonic()
    begun = False
    while not stop.asked:
        try:
            happened = driver.step()
        except UnreachableError as error:
            meters.unreachable()
            health.reached(False)
            health.turned()
            silent = f"{driver.orchestrator.name} does not answer"
            driver.log.warning(silent, why=str(error), again_s=round(silent_s, 1))
            notifier.alive()
            waited(silent_s, wakes, stop)
            silent_s = min(2 * silent_s, UNREACHABLE_S[1])
            continue
        silent_s = UNREACHABLE_S[0]
        health.reached(True)
        health.turned()
        notifier.alive()
        if not begun:
            begun = True
            notifier.ready()
            if ready is not None:
                ready(driver)
        _measure(driver, meters)
        now = time.monotonic()
        if happened or driver.acting.attachments.busy:
            wait_s, quiet_since = least_s, now
        elif now - quiet_since > QUIET_S:
            wait_s = min(wait_s * SLOWER, most_s)
        pause = _pause_s(driver, wait_s)
        if waited(pause, wakes, stop):
            wait_s, quiet_since = least_s, time.monotonic()


def _pause_s(driver: Driver, wait_s: float) -> float:
    """How long to wait: less where the policy wants to be asked sooner, or a fabric is at work."""
    pause = min(wait_s, SLICE_S) if driver.acting.attachments.busy else wait_s
    if driver.wanted_us is not None:
        pause = min(pause, max(0.0, (driver.wanted_us - driver.clock.now()) / 1e6))
    return pause


def _measure(driver: Driver, meters: Meters) -> None:
    if not meters.counts:
        return
    counts = driver.table.counts()
    waiting = sum(counts.get(phase, 0) for phase in NOT_HELD | {Phase.WAITING})
    foreign = counts.get(Phase.FOREIGN, 0)
    ours = sum(counts.values()) - waiting - foreign - counts.get(Phase.ASIDE, 0)
    meters.queue(waiting, ours, foreign)
    meters.journal(driver.journal.size_bytes)
