"""The ledger's columns as policies and slowdowns see them: arrays that cannot be written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.claims import ClaimReader
from unrack.ledger.devices.state import DeviceReader
from unrack.ledger.jobs import Runs
from unrack.ledger.lease import Suspended
from unrack.ledger.memory_use import MemoryUse
from unrack.sealed import sealed, sealed_columns

if TYPE_CHECKING:
    from unrack.ledger.state import ClusterState


COLUMNS = (
    "asks", "free", "total", "open_to", "set_owner", "set_of", "online", "status", "queue", "running", "pool",
    "lease_at",
)  # fmt: skip


class Seen:
    """A state's columns as arrays that cannot be written; counts are those of the moment."""

    __slots__ = (
        "_state", "asks", "claimed", "devices", "free", "lease_at", "memory", "online", "open_to", "pool", "queue",
        "replaced", "running", "runs", "set_of", "set_owner", "status", "total",
    )  # fmt: skip

    # asks, free, total, open_to, set_owner, set_of, online, status, queue, running, pool, lease_at, memory, runs: as in
    # :class:`ClusterState`, read-only
    asks: Ints
    free: Ints
    total: Ints
    open_to: Ints
    set_owner: Ints
    set_of: Ints
    online: Bools
    status: NDArray[np.int8]
    queue: Ints
    running: Ints
    pool: Ints
    lease_at: Ints
    memory: MemoryUse | None
    runs: Runs | None
    devices: DeviceReader | None  # which job holds which pooled devices; ``None`` on a cluster without pools
    replaced: int  # grows whenever one of the columns is another array
    claimed: ClaimReader | None  # what is claimed of the places of resources; ``None`` on a cluster without any

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.replaced = 0
        for name in COLUMNS:
            self.again(name)
        self.show_columns()
        self.devices = None if state.devices is None else state.devices.reader
        self.claimed = None if state.claimed is None else ClaimReader(state.claimed)

    def again(self, name: str) -> None:
        """Show a column that the state has replaced."""
        setattr(self, name, sealed(getattr(self._state, name)))
        self.replaced += 1

    def show_columns(self) -> None:
        """Show which jobs use which node's memory, and past runs, after the state has replaced them."""
        self.memory = None if self._state.memory is None else sealed_columns(self._state.memory)
        self.runs = None if self._state.runs is None else sealed_columns(self._state.runs)

    @property
    def suspended(self) -> Mapping[int, Suspended]:
        """Running job → what it goes on with, of those that are suspended."""
        return MappingProxyType(self._state.suspended)

    @property
    def least_us(self) -> Mapping[int, int]:
        """Job → the shortest limit that it accepts, µs; ask it about jobs that were submitted."""
        return self._state.least_us

    @property
    def extended_us(self) -> Mapping[int, int]:
        """Running job → for how long it may run beyond the limit that it had at first, µs."""
        return MappingProxyType(self._state.extended_us)

    @property
    def draining(self) -> frozenset[int]:
        """The nodes on which jobs go on, and what they give back is kept from others."""
        return frozenset(self._state.withheld)

    @property
    def running_count(self) -> int:
        """How many jobs run."""
        return self._state.running_count

    @property
    def free_cores(self) -> int:
        """Free cores on all nodes together."""
        return self._state.free_cores
