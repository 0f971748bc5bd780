"""The ledger as a component of a heterogeneous job finds it: what those before it have chosen is not free."""

from __future__ import annotations

import numpy as np

from unrack.ledger.claims import NO_COMPONENTS
from unrack.ledger.columns import ASKED_US, CPU, MEM
from unrack.ledger.copies.draft import Shown, copied_devices, twin_of
from unrack.ledger.devices.sharing import TAKEN
from unrack.ledger.devices.state import DeviceReader
from unrack.ledger.lease import CORES, LENDER, LOAN_MB, LOCAL_MB, NODES, Lease
from unrack.ledger.state import ClusterState
from unrack.resources.places import AMOUNT, PLACE


def assumed(state: ClusterState) -> ClusterState:
    """A state with its own columns of what is free, which may be set; nothing may be started on it: O(nodes)."""
    twin = twin_of(state)
    twin.free = state.free.copy()
    if state.claimed is not None:
        twin.claimed = twin_of(state.claimed)
        twin.claimed.free = state.claimed.free.copy()
    if state.memory is not None:
        twin.memory = state.memory._replace(lent=state.memory.lent.copy())
    twin.seen = Shown(twin)
    return twin


def apart(state: ClusterState, job: int) -> ClusterState:
    """A state on which the components of a job, if any, ask each for itself; what is free may be taken: O(nodes)."""
    own, twin = state.components, assumed(state)
    if state.devices is not None:
        twin.devices = copied_devices(state.devices)
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
