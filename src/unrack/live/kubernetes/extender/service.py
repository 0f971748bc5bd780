"""An extender as a service: signals, metrics, health."""

from __future__ import annotations

import asyncio

from aiohttp import web

from unrack.errors import InputError
from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.service.service import Stop
from unrack.live.kubernetes.adapter.picture import Picture, has_said
from unrack.live.kubernetes.adapter.watching import Watching
from unrack.live.kubernetes.client.access import access_here
from unrack.live.kubernetes.client.objects import Container, Pod, PodSpec, Resources
from unrack.live.kubernetes.extender.judging import Judge
from unrack.live.kubernetes.extender.server import Extender
from unrack.live.kubernetes.extender.site import ExtenderSite
from unrack.live.watch.health import Health
from unrack.live.watch.log import Events
from unrack.live.watch.meters import Meters
from unrack.live.watch.server import WatchServer
from unrack.live.watch.systemd import Notifier

NONE = ""
"""The schedulerName of no pod: what others bind is all that it sees."""
TURN_S = 0.2


def serve(site: ExtenderSite, stop: Stop | None = None) -> None:
    """Answer kube-scheduler until asked to end. Nothing is kept: what pods hold is seen anew.

    Raises
    ------
    InputError
        The server does not let us look; nothing can listen at an address; or the nodes are none that can be.
    """
    if stop is None:
        stop = Stop()
        stop.listen()
    health = Health(site.metrics.stalled_after_us / 1e6, "kubernetes")
    meters = Meters(site.policy_spec.label, ["extender"], site.metrics.address is not None, "Kubernetes")
    watching = Watching(access_here(site.kubeconfig, site.context), Picture(NONE), site.timeout_us / 1e6, claims=())
    server = None
    try:
        if site.metrics.address is not None:
            server = WatchServer(site.metrics.address, meters, health, site.metrics.allow_remote)
        asyncio.run(_serve(site, watching, meters, health, stop))
    finally:
        watching.close()
        if server is not None:
            server.close()


async def _serve(site: ExtenderSite, watching: Watching, meters: Meters, health: Health, stop: Stop) -> None:
    log, notifier, judge = Events("extender"), Notifier(), Judge(watching.picture, site.spec, site.added)
    runner = web.AppRunner(Extender(watching, judge, meters).application(), access_log=None)
    await runner.setup()
    listens = False
    try:
        while not stop.asked:
            why = await asyncio.to_thread(_known, watching)
            if not why and not listens:
                await asyncio.to_thread(judge.ranked, _FIRST, list(watching.picture.nodes))
                await _listen(runner, site)
                listens = True
                log.info("listening", address=str(site.address), nodes=len(watching.picture.nodes))
                notifier.ready()
            if why:
                meters.unreachable()
            health.reached(not why)
            health.turned()
            notifier.alive()
            await asyncio.sleep(TURN_S)
    finally:
        notifier.stopping()
        await runner.cleanup()


def _known(watching: Watching) -> str:
    """Why what is known may be out of date; an InputError if the server does not let us look."""
    try:
        watching.check()
    except UnreachableError as error:
        return str(error)
    return "" if any(map(has_said, watching.picture.nodes.values())) else "there are no nodes"


async def _listen(runner: web.AppRunner, site: ExtenderSite) -> None:
    assert site.address is not None
    try:
        await web.TCPSite(runner, site.address.host, site.address.port, ssl_context=site.tls()).start()
    except OSError as error:
        raise InputError("address", f"'{site.address}': {error.strerror}", "one that is free") from None


_FIRST = Pod(spec=PodSpec(containers=[Container(resources=Resources({"cpu": "1m"}))]))
"""A pod that is placed before any is asked about, so that kernels are compiled by then."""
