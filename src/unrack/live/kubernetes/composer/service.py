"""A composer as a service: one at a time, signals, metrics, health; and what it would do now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from unrack.errors import InputError
from unrack.live.driver.service.service import Stop
from unrack.live.fabric.table import make_fabric
from unrack.live.journal.lock import Lock
from unrack.live.kubernetes.client.access import access_here
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.composer.catalogue import Catalogue
from unrack.live.kubernetes.composer.composer import Composer, ComposerSettings
from unrack.live.kubernetes.composer.site import ComposerSite
from unrack.live.watch.health import Health
from unrack.live.watch.log import Events
from unrack.live.watch.meters import Meters
from unrack.live.watch.server import WatchServer
from unrack.live.watch.systemd import Notifier


def serve(site: ComposerSite, stop: Stop | None = None) -> None:
    """Publish, attach and detach until asked to end.

    Raises
    ------
    InputError
        Another one has the same state; or the fabric or the rights are not as they have to be.
    """
    if stop is None:
        stop = Stop()
        stop.listen()
    health, notifier = Health(site.metrics.stalled_after_us / 1e6, "kubernetes"), Notifier()
    meters = Meters("composer", [site.driver], site.metrics.address is not None, "Kubernetes")

    def turned(is_current: bool) -> None:
        health.reached(is_current)
        health.turned()
        if is_current:
            notifier.ready()
        else:
            meters.unreachable()
        notifier.alive()

    with Lock.take(site.state):
        server = None
        if site.metrics.address is not None:
            server = WatchServer(site.metrics.address, meters, health, site.metrics.allow_remote)
        try:
            asyncio.run(_compose(site, meters, stop, turned))
        finally:
            notifier.stopping()
            if server is not None:
                server.close()


async def _compose(site: ComposerSite, meters: Meters, stop: Stop, turned: Callable[[bool], None]) -> None:
    async with _connected(site) as connection:
        await _composer(site, connection, meters).run(lambda: stop.asked, turned)


def rehearse(site: ComposerSite) -> dict[str, Any]:
    """What would be published, attached, detached and told now; it only reads.

    Raises
    ------
    UnreachableError, DeniedError
        The API server does not answer, or does not let us look.
    """

    async def found() -> dict[str, Any]:
        async with _connected(site) as connection:
            composer = _composer(site, connection, Meters(wanted=False))
            steps, changes = await composer.rehearse()
            return {
                "driver": site.driver,
                "pools": {name: len(pool.devices) for name, pool in composer.catalogue.pools.items()},
                "write": [name for name, _ in changes.write],
                "end": [one.metadata.name for one in changes.end],
                "attach": [_words(one.claim, one.result.device, one.attachment) for one in steps.attach],
                "detach": list(steps.detach),
                "tell": [
                    _words(one.claim, one.result.device, one.attachment)
                    | {"failed": "" if problem is None else problem.message}
                    for one, problem in steps.tell
                ],
            }

    return asyncio.run(found())


def _words(claim: tuple[str, str], device: str, attachment: Any) -> dict[str, str]:
    return {"claim": "/".join(claim), "device": device, "node": "" if attachment is None else attachment.node}


def _connected(site: ComposerSite) -> Connection:
    return Connection(access_here(site.kubeconfig, site.context), timeout_s=site.timeout_us / 1e6)


def _composer(site: ComposerSite, connection: Connection, meters: Meters) -> Composer:
    settings = ComposerSettings(
        site.driver, site.node_label, site.at_once, site.give_up_us / 1e6, site.avoid_us / 1e6, site.look_us / 1e6
    )
    newest = _catalogues(site)
    return Composer(connection, make_fabric(site.fabric), settings, lambda: next(newest), meters)


def _catalogues(site: ComposerSite) -> Iterator[Catalogue]:
    """The catalogue of now, again and again: read once more when its file is another."""
    log, seen = Events("composer"), _seen(site.cluster)
    catalogue = site.read_catalogue()
    while True:
        yield catalogue
        if (now := _seen(site.cluster)) != seen:
            seen = now
            try:
                catalogue = site.read_catalogue()
                log.info("the cluster file is read again", pools=len(catalogue.pools), devices=len(catalogue.devices))
            except InputError as error:
                log.error("the cluster file is not as it should be: what was published stays", why=str(error))


def _seen(path: Path) -> Any:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
