"""The ledger as it was before a plan: a plan that is refused changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from unrack.errors import RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES
from unrack.ledger.devices.columns import copied_columns
from unrack.ledger.lease import Lease, Suspended
from unrack.ledger.state import QUEUED, RUNNING, ClusterState, Extra


class BookedJob(NamedTuple):
    """What a running job held, until when it was booked, and since when it ran."""

    lease: Lease
    end_us: int
    extra: Extra | None
    started_us: int
    suspended: Suspended | None  # if it stood


@contextmanager
def all_or_nothing(state: ClusterState) -> Iterator[None]:
    """All that is done to a ledger inside is done; or, if one step of it is refused, nothing.

    Jobs that use a node's memory may be listed in another order after a refusal; all else is as before.
    """
    before = BeforeImages(state)
    state.before = before
    try:
        yield
    except RefusedError:
        state.before = None
        before.restore()
        raise
    finally:
        state.before = None


class BeforeImages:
    """What a ledger was, as far as a plan has changed it: its writers note what they are about to change.

    Devices are copied whole, as a change of one share changes the speeds of others.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._versions = state.version, state.releases, state.unforeseen, state.local
        self._asking = 0 if state.claimed is None else state.claimed.asking
        self._held: dict[int, BookedJob | None] = {}
        self._told: dict[int, tuple[Ints, int | None, int | None]] = {}
        self._devices = state.devices
        if self._devices is not None:
            self._columns = copied_columns(self._devices.columns, 0, None)
            self._leaving, self._detaching = list(self._devices.leaving), dict(self._devices.detaching)
            self._running = state.running[:, : state.running_count].copy()

    def held(self, job: int) -> None:
        """Note what a job holds, or that it waits, unless that was noted before."""
        if job in self._held:
            return
        state = self._state
        if state.conditions[job] != RUNNING:
            self._held[job] = None
            return
        extra = state.extra.get(job)
        started_us = -1 if state.runs is None else int(state.runs.started_us[job])
        kept = None if extra is None else replace(extra)
        stood = state.suspended.get(job)
        self._held[job] = BookedJob(state.lease(job), state.booked_end(job), kept, started_us, stood)

    def asked(self, job: int) -> None:
        """Note what a job is told to ask, unless that was noted before."""
        if job not in self._told:
            self._told[job] = self._state.told(job)

    def restore(self) -> None:
        """Take back from all of these jobs what they hold now, then give them what they held."""
        state = self._state
        for job in self._held:
            if state.conditions[job] == RUNNING:
                state.take_back(job)
                state.suspended.pop(job, None)
            elif state.conditions[job] == QUEUED:
                state.leave_queue(job)
        for job, told in self._told.items():
            state.tell_again(job, told)
        for job, held in self._held.items():
            if held is None:
                state.conditions[job] = QUEUED
                state.enter_queue(job)
                continue
            if held.suspended is None:
                state.take_rows(held.lease, held.end_us, below=True)
            else:
                self._stood(job, held, held.suspended)
            state.conditions[job] = RUNNING
            if held.extra is not None:
                state.extra[job] = held.extra
            if state.runs is not None:
                state.runs.started_us[job] = held.started_us
        state.version, state.releases, state.unforeseen, state.local = self._versions
        if state.claimed is not None:
            state.claimed.asking = self._asking
        if self._devices is not None:
            self._devices.columns = self._columns
            self._devices.leaving[:], self._devices.detaching = self._leaving, self._detaching
            state.running[:, : state.running_count] = self._running

    def _stood(self, job: int, held: BookedJob, stood: Suspended) -> None:
        """Give a job that was suspended all but cores, which it is not told to ask meanwhile."""
        asks = self._state.asks
        cores, asks[ASKED_CORES, job] = int(asks[ASKED_CORES, job]), 0
        self._state.take_rows(held.lease, held.end_us, below=True)
        asks[ASKED_CORES, job] = cores
        self._state.suspended[job] = stood
