"""A Slurm that is scheduled, by its site file; and what would be decided now."""

from __future__ import annotations

from collections.abc import Callable

from unrack.live.driver.driver import Driver
from unrack.live.driver.service import rehearsal, service
from unrack.live.driver.service.rehearsal import Rehearsal
from unrack.live.driver.service.service import Stop
from unrack.live.slurm.adapter.adapter import SlurmAdapter
from unrack.live.slurm.agreed import Agreed
from unrack.live.slurm.client import Client
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.site.site import Site
from unrack.live.watch.meters import Meters


def serve(
    site: Site, client: Client | None = None, stop: Stop | None = None, ready: Callable[[Driver], None] | None = None
) -> None:
    """Schedule the jobs of a site's partitions until it is asked to end.

    Parameters and errors are those of :func:`unrack.live.driver.service.service.serve`; ``client``: how Slurm is
    reached, by default by its commands.
    """
    meters = Meters(site.policy_spec.label, site.partitions, site.metrics.address is not None)
    service.serve(site, _adapter(site, client), meters, stop, ready)


def rehearse(site: Site, client: Client) -> Rehearsal:
    """Read a Slurm, and say what the driver would decide; errors are those of the driver's own rehearsal."""
    return rehearsal.rehearse(_adapter(site, client))


def _adapter(site: Site, client: Client | None) -> SlurmAdapter:
    return SlurmAdapter(client or CommandClient(site.command_timeout_us / 1e6), Agreed(site))
