"""Jobs whose nodes are switched off wait until they are on: the part of a kernel that knows when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.ledger.lease import LENDER, Lease, nodes_of
from unrack.resources.power.resource import Power
from unrack.resources.power.switching import Switching
from unrack.slowdown.combined import Undisturbed

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel


class Switched:
    """The nodes of a run of which idle ones are switched off."""

    def __init__(self, kernel: Kernel, power: Power) -> None:
        submit = kernel.submit
        self.kernel, self.switching = kernel, Switching(power, submit[0] if len(submit) else 0)
        kernel.slowdown = kernel.slowdown or Undisturbed()  # then the work of jobs is kept, which may begin late

    @classmethod
    def of(cls, kernel: Kernel) -> Switched | None:
        """``None``: all nodes stay on."""
        power = kernel.core.state.cluster.places.installed.get("power")
        return cls(kernel, power) if isinstance(power, Power) and power.file.switch_off is not None else None

    def ready_us(self, lease: Lease, now: int) -> int:
        """When the nodes of a job that starts now are on, µs."""
        return self.switching.take(self._nodes(lease), now)

    def exchanged(self, before: Lease, lease: Lease, now: int) -> None:
        """A job holds another lease: it stands still until all nodes of it are on."""
        kernel, job = self.kernel, lease.job
        ready_us = self.switching.take(self._nodes(lease), now)
        self.switching.give(self._nodes(before), now)
        if ready_us > now and (kernel.following is None or job not in kernel.following.held):
            kernel.works.stall(job, ready_us - now, now)
            kernel.version[job] += 1
            kernel.plan_end(job, kernel.works.end_us(job), now)

    def ended(self, lease: Lease, now: int) -> None:
        """A job holds nothing any more."""
        self.switching.give(self._nodes(lease), now)

    def _nodes(self, lease: Lease) -> list[int]:
        home = self.kernel.core.state.cluster.devices.home
        found = set(nodes_of(lease.rows).tolist()) | set(lease.borrowed[:, LENDER].tolist())
        found |= {int(home[device]) for share in lease.shares for device in share.devices if home[device] >= 0}
        return sorted(found)
