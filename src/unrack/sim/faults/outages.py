"""Nodes that go down together and come back, while a run goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unrack.events import FAIL, REPAIR, Drained, Failed, Repaired
from unrack.sim.faults.failure import failure_of
from unrack.sim.faults.fault import Fault

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel


class Outages:
    """The faults of a run; each is known by its number.

    Attributes
    ----------
    capacity
        When nodes went down or came back (µs), and the cores online since.
    """

    def __init__(self, kernel: Kernel, faults: Sequence[Fault]) -> None:
        self.kernel, self.faults = kernel, faults
        cluster = kernel.core.state.cluster
        self.capacity: list[tuple[int, int]] = []
        self._down = [0] * len(cluster)  # how many faults keep each node down
        self._domains = {name: cluster.domain(name) for name in {fault.domain for fault in faults}}
        for number, fault in enumerate(faults):
            kernel.push(fault.at_us, FAIL, number, 0)
            kernel.push(fault.at_us + fault.repair_us, REPAIR, number, 0)

    def begin(self, number: int, now: int) -> bool:
        """The nodes of a domain go down, unless they are down already for another reason."""
        fault, kernel, cluster = self.faults[number], self.kernel, self.kernel.core.state.cluster
        nodes = self._domains[fault.domain]
        falling = tuple(node for node in nodes if self._down[node] == 0)
        for node in nodes:
            self._down[node] += 1
        stopped = kernel.core.handle(Failed(falling, fault.domain), now)
        before = len(kernel.recorder.job)
        kernel.carry_out(stopped, now)
        if kernel.switched is not None:
            kernel.switched.switching.down(falling, now)
        repaired = now + fault.repair_us
        failure = failure_of(cluster, fault.domain, now, repaired, len(nodes), falling)
        kernel.recorder.failure(failure, len(kernel.recorder.job) - before)
        return self._note_capacity(now)

    def end(self, number: int, now: int) -> bool:
        """Nodes come back, unless another fault still keeps them down."""
        nodes, core = self._domains[self.faults[number].domain], self.kernel.core
        for node in nodes:
            self._down[node] -= 1
        rising = tuple(node for node in nodes if self._down[node] == 0)
        core.handle(Repaired(rising), now)
        if self.kernel.switched is not None:
            self.kernel.switched.switching.up(rising, now)
        if drained := tuple(node for node in core.state.cluster.drained if node in rising):
            core.handle(Drained(drained), now)
        return self._note_capacity(now)

    def _note_capacity(self, now: int) -> bool:
        """Record the cores online from now on; those of nodes that drain are."""
        cores = self.kernel.core.state.cluster.cores
        self.capacity.append((now, int(cores[np.array(self._down) == 0].sum())))
        return True
