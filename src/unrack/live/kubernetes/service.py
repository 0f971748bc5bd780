"""A Kubernetes that is scheduled, by its site file; and what would be decided now."""

from __future__ import annotations

from collections.abc import Callable

from unrack.live.driver.driver import Driver
from unrack.live.driver.service import rehearsal, service
from unrack.live.driver.service.rehearsal import Rehearsal
from unrack.live.driver.service.service import Stop
from unrack.live.kubernetes.adapter.adapter import KubernetesAdapter
from unrack.live.kubernetes.client.access import access_here
from unrack.live.kubernetes.leading import Leadership, Standby, Term
from unrack.live.kubernetes.site import KubernetesSite
from unrack.live.watch.log import Events
from unrack.live.watch.meters import Meters
from unrack.live.watch.server import WatchServer


def serve(site: KubernetesSite, stop: Stop | None = None, ready: Callable[[Driver], None] | None = None) -> None:
    """Schedule the pods that name a site's scheduler until it is asked to end.

    Of several replicas that share a Lease one does at a time; the others wait until it ends, or does not renew it.
    Parameters and errors are those of :func:`unrack.live.driver.service.service.serve`.
    """
    if site.election is None:
        _serve(site, stop, ready)
        return
    if stop is None:
        stop = Stop()
        stop.listen()
    log = Events("kubernetes")
    with Leadership(access_here(site.kubeconfig, site.context), site.election.of) as leadership:
        log.info("waiting for the lease", lease=site.election.lease, identity=leadership.identity)
        while _waited(site, stop, leadership):
            log.info("leading", lease=site.election.lease)
            _serve(site, Term(stop, leadership), ready, lambda: leadership.leads)
            if not stop.asked:
                log.warning("leading no longer: the lease could not be renewed", lease=site.election.lease)


def _waited(site: KubernetesSite, stop: Stop, leadership: Leadership) -> bool:
    """Wait until it leads, and say meanwhile that another does; False: it is to end."""
    metrics = site.metrics
    if metrics.address is None or leadership.leads:
        return leadership.wait(stop)
    server = WatchServer(metrics.address, _meters(site), Standby(0, "kubernetes"), metrics.allow_remote)
    try:
        return leadership.wait(stop)
    finally:
        server.close()


def _meters(site: KubernetesSite) -> Meters:
    return Meters(site.policy_spec.label, [site.scheduler], site.metrics.address is not None, "Kubernetes")


def _serve(
    site: KubernetesSite, stop: Stop | None, ready: Callable[[Driver], None] | None,
    leads: Callable[[], bool] | None = None,
) -> None:  # fmt: skip
    adapter = _adapter(site, leads=leads)
    try:
        service.serve(site, adapter, _meters(site), stop, ready, adapter.servers)
    finally:
        adapter.close()


def rehearse(site: KubernetesSite) -> Rehearsal:
    """Read a Kubernetes, and say what the driver would decide; errors are those of the driver's own rehearsal."""
    adapter = _adapter(site, events=False)
    try:
        return rehearsal.rehearse(adapter)
    finally:
        adapter.close()


def _adapter(
    site: KubernetesSite, *, events: bool = True, leads: Callable[[], bool] | None = None
) -> KubernetesAdapter:  # fmt: skip
    return KubernetesAdapter(
        access_here(site.kubeconfig, site.context), site.scheduler, site.spec, added=site.added,
        start_timeout_us=site.start_timeout_us, timeout_s=site.timeout_us / 1e6, events=events,
        leads=leads,
    )  # fmt: skip
