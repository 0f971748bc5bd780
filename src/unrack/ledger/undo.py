"""Take back what was done of a plan, when a later part of it is refused: a plan is committed whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.devices.columns import copied_columns
from unrack.ledger.lease import Lease
from unrack.ledger.state import QUEUED, RUNNING, ClusterState, Extra

Ints = NDArray[np.int64]


class Held(NamedTuple):
    """What a running job held, until when it was booked, what it was told to ask, and what else is known of it."""

    lease: Lease
    end_us: int
    asks: Ints
    extra: Extra | None
    started_us: int


class Undo:
    """A state as it was before a plan.

    Steps are taken back in reverse order. Who uses a node's memory may be listed in another order afterwards; all
    amounts, the queue, the running jobs and their leases are as before.

    Parameters
    ----------
    state
        Nothing of the plan has been done.
    devices
        Whether the plan touches pooled devices, whose columns are then copied.
    """

    def __init__(self, state: ClusterState, devices: bool = False) -> None:
        self._state = state
        self._versions = state.version, state.releases, state.unforeseen, state.capacity_version
        self._asking = 0 if state.claimed is None else state.claimed.asking
        self._held: dict[int, list[Held]] = {}
        self._devices = state.devices if devices else None
        if self._devices is not None:
            self._columns = copied_columns(self._devices.columns)
            self._leaving, self._detaching = list(self._devices.leaving), dict(self._devices.detaching)
            self._running = state.running[:, : state.running_count].copy()

    def note(self, job: int) -> None:
        """Remember what a running job holds, before a step takes it away or exchanges it; others are passed over."""
        state = self._state
        if 0 <= job < state.jobs and state.condition(job) == RUNNING:
            extra = state.extra.get(job)
            kept = None if extra is None else replace(extra)
            started = -1 if state.runs is None else int(state.runs.started_us[job])
            held = Held(state.lease(job), state.booked_end(job), state.asks[:, job].copy(), kept, started)
            self._held.setdefault(job, []).append(held)

    def start(self, job: int) -> None:
        """A job that was started waits again."""
        state = self._state
        state.take_back(job)
        state.conditions[job] = QUEUED
        state.enter_queue(job)

    def exchange(self, job: int) -> None:
        """A job has again what it held before."""
        self._state.exchange(self._held[job].pop().lease, below=True)

    def requeue(self, job: int) -> None:
        """A job that was stopped runs again."""
        state, held = self._state, self._held[job].pop()
        state.leave_queue(job)
        state.asks[:, job] = held.asks
        state.take_rows(held.lease, held.end_us, below=True)
        if held.extra is not None:
            state.extra[job] = held.extra
        if state.runs is not None:
            state.runs.started_us[job] = held.started_us
        state.conditions[job] = RUNNING

    def reject(self, job: int) -> None:
        """A job that was dropped waits again."""
        state = self._state
        state.conditions[job] = QUEUED
        state.enter_queue(job)

    def finish(self) -> None:
        """All steps are taken back."""
        state = self._state
        state.version, state.releases, state.unforeseen, state.capacity_version = self._versions
        if state.claimed is not None:
            state.claimed.asking = self._asking
        if self._devices is not None:
            self._devices.columns = self._columns
            self._devices.leaving[:], self._devices.detaching = self._leaving, self._detaching
            state.running[:, : state.running_count] = self._running
