"""A private copy of the ledger: the same writers, and time that can be moved on to what is booked to end."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from unrack.cluster.columns import copied_columns
from unrack.cluster.device_reader import DeviceReader
from unrack.cluster.device_state import DeviceState
from unrack.cluster.state import ClusterState, Seen
from unrack.units import NEVER_US


def copied(state: ClusterState) -> ClusterState:
    """A state that can be changed without changing the one it is made from: O(nodes + jobs + devices).

    What is installed and what is asked is shared; no job may be added to either while both are in use.
    """
    twin = copy(state)
    for name in ("free", "online", "queue", "running", "lease_at"):
        setattr(twin, name, getattr(state, name).copy())
    twin.pool = state.pool[: max(state.pool_used, 1)].copy()
    twin.conditions = bytearray(state.conditions)
    twin.status = np.frombuffer(twin.conditions, np.int8)
    twin.extra = {job: replace(extra) for job, extra in state.extra.items()}
    if state.memory is not None:
        twin.memory = state.memory._replace(**{name: column.copy() for name, column in state.memory._asdict().items()})
    if state.devices is not None:
        twin.devices = _copied_devices(state.devices)
    twin.seen = Seen(twin)
    return twin


def _copied_devices(devices: DeviceState) -> DeviceState:
    twin = copy(devices)
    twin.columns = copied_columns(devices.columns)
    twin.leaving, twin.detaching = [], dict(devices.detaching)
    twin.reader = DeviceReader(twin)
    return twin


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
