"""A private copy of the ledger: the same writers, and time that can be moved on to what is booked to end.

A component of a heterogeneous job is placed on one on which what those before it have chosen is not free.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from unrack.ledger.claims import NO_COMPONENTS
from unrack.ledger.columns import ASKED_US, CPU, MEM
from unrack.ledger.copies.seen import Seen
from unrack.ledger.devices.sharing import TAKEN
from unrack.ledger.devices.state import DeviceReader
from unrack.ledger.jobs import Runs
from unrack.ledger.lease import CORES, LENDER, LOAN_MB, LOCAL_MB, NODES, Lease
from unrack.ledger.state import ClusterState
from unrack.resources.places import AMOUNT, PLACE
from unrack.sealed import shown
from unrack.units import NEVER_US

SPARE_ROWS = 256
"""Room for further rows of leases on a copy."""


def copied(state: ClusterState) -> ClusterState:
    """A state that can be changed without changing the one it is made from: O(nodes + jobs + devices).

    What is installed and what is asked is shared; no job may be added to either while both are in use. The copy can be
    seen (``seen``) after :func:`show` only.
    """
    twin = copy(state)
    for name in ("free", "online", "queue", "running", "lease_at"):
        setattr(twin, name, getattr(state, name).copy())
    twin.pool = np.empty((state.pool_used + SPARE_ROWS, 5), np.int64)
    twin.pool[: state.pool_used] = state.pool[: state.pool_used]
    if state.runs is not None:
        twin.runs = Runs(*(column.copy() for column in state.runs))
    twin.conditions = bytearray(state.conditions)
    twin.status = np.frombuffer(twin.conditions, np.int8)
    for name in ("wanted", "suspended", "extended_us"):
        setattr(twin, name, getattr(state, name).copy())
    twin.extra = state.extra.copy()  # nothing on a draft changes an entry: jobs start and end
    if state.memory is not None:
        twin.memory = state.memory._replace(**{name: column.copy() for name, column in state.memory._asdict().items()})
    if state.devices is not None:
        twin.devices = state.devices.copied()
    if state.claimed is not None:
        twin.claimed = state.claimed.copy()
    twin.seen = Unseen()
    return twin


class Unseen(Seen):
    """Of a copy that is not looked at: nothing is kept up to date."""

    __slots__ = ()

    def __init__(self) -> None:
        """Nothing to show yet."""

    def again(self, name: str) -> None:
        """The column will be shown as it is then."""

    def show_columns(self) -> None:
        """They will be shown as they are then."""


def show(twin: ClusterState, state: ClusterState) -> None:
    """Let a copy be seen: its columns as arrays that cannot be written, by ``seen`` and by its devices' reader."""
    if twin.devices is not None and state.devices is not None:
        twin.devices.reader = DeviceReader(twin.devices, state.devices.reader)
    twin.seen = Shown(twin)


class Shown(Seen):
    """Of a private copy: its columns cannot be written by mistake."""

    __slots__ = ()

    def again(self, name: str) -> None:
        """Show a column that the copy has replaced."""
        setattr(self, name, shown(getattr(self._state, name)))
        self.replaced += 1


def next_end_us(state: ClusterState) -> int:
    """When the first running job is booked to end or the first device is detached, µs; a time after everything: never.

    It may have passed: a job may run for longer than booked.
    """
    first = int(state.running[0, 0]) if state.running_count else NEVER_US
    if state.devices is not None and state.devices.detaching:
        first = min(first, *state.devices.detaching.values())
    return first


def move_on(state: ClusterState, since: int, until: int) -> None:
    """Let everything end that is booked to end by ``until`` (µs), as booked; what is overdue ends at ``since``."""
    while (first := next_end_us(state)) <= until:
        at = max(first, since)
        while state.running_count and state.running[0, 0] <= first:
            state.release(int(state.running[1, 0]), at)
        if state.devices is not None:
            over = [device for device, end in state.devices.detaching.items() if end <= first]
            state.devices.detached(tuple(over))
            state.devices.leaving.clear()


def assumed(state: ClusterState) -> ClusterState:
    """A state with its own columns of what is free, which may be set; nothing may be started on it: O(nodes)."""
    twin = copy(state)
    twin.free = state.free.copy()
    if state.claimed is not None:
        twin.claimed = copy(state.claimed)
        twin.claimed.free = state.claimed.free.copy()
    if state.memory is not None:
        twin.memory = state.memory._replace(lent=state.memory.lent.copy())
    twin.seen = Shown(twin)
    return twin


def apart(state: ClusterState, job: int) -> ClusterState:
    """A state on which the components of a job, if any, ask each for itself; what is free may be taken: O(nodes)."""
    own, twin = state.components, assumed(state)
    if state.devices is not None:
        twin.devices = state.devices.copied()
        twin.devices.asking = bytearray(own.attaching) if job in own.of else twin.devices.asking
        twin.devices.reader = DeviceReader(twin.devices, state.devices.reader)
        twin.seen.devices = twin.devices.reader
    if job not in own.of:
        return twin
    own.asks[ASKED_US, list(own.of[job])] = state.asks[ASKED_US, job]
    twin.known = max(state.known, 1 + max(own.of[job]))
    twin.components, twin.asks, twin.set_of = NO_COMPONENTS, own.asks, own.set_of
    if twin.claimed is not None:
        twin.claimed.asks = bytearray(own.claiming)
    twin.seen.again("asks")
    twin.seen.again("set_of")
    return twin


def hold(state: ClusterState, lease: Lease, now: int) -> None:
    """A component has chosen a lease: on such a state that is not free any more."""
    held = np.repeat(lease.rows, lease.rows[:, NODES], axis=0)
    state.free[CPU, lease.nodes] -= held[:, CORES]
    state.free[MEM, lease.nodes] -= held[:, LOCAL_MB]
    state.free_cores -= int(held[:, CORES].sum())
    for lender, mb in lease.borrowed[:, [LENDER, LOAN_MB]].tolist():
        state.free[MEM, lender] -= mb
        if state.memory is not None:
            state.memory.lent[lender] += mb
    if state.claimed is not None:
        state.claimed.free[lease.claims[:, PLACE]] -= lease.claims[:, AMOUNT]
    for share in lease.shares:
        assert state.devices is not None
        verdict = state.devices.try_share(lease.job, share, now)
        assert verdict == TAKEN
    if lease.shares and state.devices is not None:  # jobs that share with it ask when it ends
        state.devices.end_us(lease.job, int(state.asks[ASKED_US, lease.job]), now)
