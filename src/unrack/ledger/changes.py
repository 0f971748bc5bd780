"""Changes of jobs: another size, more time, suspended and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from unrack.errors import RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_TASKS, CPU, FIRST_ROW, ROW_COUNT
from unrack.ledger.devices.columns import LEFT, SINCE_US
from unrack.ledger.holding import rebook_job
from unrack.ledger.lease import CORES, FIRST, NODES, Lease, Sizes, Suspended, by_node, nodes_of
from unrack.ledger.memory_use import NO_PEAKS, drop_uses, note_uses
from unrack.ledger.state import QUEUED, RUNNING, ClusterState


def reshape(state: ClusterState, job: int, tasks: int) -> None:
    """Let a queued job have another of its sizes. A RefusedError if it is not queued, or that is none of its sizes."""
    if state.condition(job) != QUEUED:
        raise RefusedError(f"reshape job {job}: it is not queued")
    _sizes_with(state, job, tasks, "reshape")
    state.ask_for(job, tasks)
    state.version += 1
    state.releases += 1
    state.unforeseen += 1


def change_size(state: ClusterState, lease: Lease, now: int) -> None:
    """Give a running job a lease of another of its sizes; the end that it is booked to have moves with its speed.

    A RefusedError if it is not running, its size may not change while it runs, or something is not free; nothing has
    changed.
    """
    job, tasks = lease.job, lease.tasks
    if state.condition(job) != RUNNING:
        raise RefusedError(f"resize job {job}: it is not running")
    sizes = _sizes_with(state, job, tasks, "resize")
    if not sizes.changes or lease.shares:
        raise RefusedError(f"resize job {job}: its size cannot change while it runs")
    told, left_us = state.told(job), state.left_us(job, now)
    if state.before is not None:
        state.before.held(job)
    state.ask_for(job, tasks)
    try:
        state.exchange([lease], below=False)
    except RefusedError:
        state.ask_for(job, int(told[0][ASKED_TASKS]))
        state.tell_again(job, told)
        raise
    if state.wanted.get(job) == tasks:
        del state.wanted[job]
    ratio = sizes.speed_at(int(told[0][ASKED_TASKS])) / sizes.speed_at(tasks)
    state.rebook(job, now + ceil(left_us * ratio) + state.change_us(job, now))


def ask(state: ClusterState, job: int, tasks: int) -> None:
    """Note which of its sizes a running job asks for; what it asked for before is forgotten.

    A RefusedError if it is not running, or that is none of its sizes.
    """
    if state.condition(job) != RUNNING:
        raise RefusedError(f"size of job {job}: it is not running")
    _sizes_with(state, job, tasks, "size of")
    state.wanted.pop(job, None)
    if tasks != int(state.asks[ASKED_TASKS, job]):
        state.wanted[job] = tasks
    state.version += 1


def _sizes_with(state: ClusterState, job: int, tasks: int, what: str) -> Sizes:
    found = state.sizes.get(job)
    if found is None or tasks not in found.tasks:
        raise RefusedError(f"{what} job {job}: {tasks} tasks is none of its sizes")
    return found


def extend(state: ClusterState, job: int, until_us: int, now: int) -> None:
    """Let a running job run until a time, µs; until it is stopped it is expected to run for as much longer.

    A RefusedError if it is not running, is suspended, holds pooled devices (the models of which say when it ends), or
    the time has passed.
    """
    if state.condition(job) != RUNNING or job in state.suspended:
        raise RefusedError(f"extend job {job}: it is not running")
    if state.devices is not None and state.devices.asking[job]:
        raise RefusedError(f"extend job {job}: it holds pooled devices")
    ends_us = max(now, state.booked_end(job))
    if until_us <= ends_us:
        raise RefusedError(f"extend job {job}: it may run until then, or that is over")
    if state.before is not None:
        state.before.held(job)
    state.extended_us[job] = state.extended_us.get(job, 0) + until_us - ends_us
    state.limit(job, state.expected_us[job] + until_us - state.booked_end(job))
    state.rebook(job, until_us)


UNUSED_MB: Ints = np.zeros(1, np.int64)
"""What stopped processes use of the memory that they hold."""


def suspend(state: ClusterState, job: int, now: int) -> None:
    """Take back the cores of a running job, and nothing else.

    A RefusedError if it is not running, or is suspended already.
    """
    if state.condition(job) != RUNNING or job in state.suspended:
        raise RefusedError(f"suspend job {job}: it is not running")
    if state.before is not None:
        state.before.held(job)
    rows, left_us = state.lease(job).rows, state.left_us(job, now)
    lead_us = state.begins_us(job, now) - now if state.devices is not None else 0
    _give(state, job, rows, -1)
    state.suspended[job] = Suspended(rows, now, left_us, lead_us)
    if state.memory is not None:
        _uses(state, job)
    state.version += 1
    state.releases += 1
    state.unforeseen += 1


def resume(state: ClusterState, job: int, now: int) -> None:
    """Give a suspended job its cores again, on its nodes; it is booked to end later by the time for which it stood.

    A RefusedError if it is not suspended, or its cores are not free; nothing has changed.
    """
    stood = state.suspended.get(job)
    if stood is None:
        raise RefusedError(f"resume job {job}: it is not suspended")
    need = by_node(stood.rows)
    if (state.free[CPU, need[:, FIRST]] < need[:, CORES]).any():
        raise RefusedError(f"resume job {job}: its cores are not free")
    if state.before is not None:
        state.before.held(job)
    _give(state, job, stood.rows, 1)
    del state.suspended[job]
    if state.memory is not None:
        _uses(state, job)
    if state.devices is not None and state.devices.asking[job]:
        state.devices.columns.progress[LEFT, job] = stood.left_us
        state.devices.columns.clock[SINCE_US, job] = now + stood.lead_us
    if state.runs is not None:
        state.runs.started_us[job] += now - stood.since_us
    ends_us = now + stood.lead_us + stood.left_us
    rebook_job(state.running, state.running_count, state.booked_end(job), ends_us, job)
    state.version += 1
    state.unforeseen += 1


def _give(state: ClusterState, job: int, rows: Ints, sign: int) -> None:
    """Let a job hold the cores of these rows (sign 1), or none of them (-1)."""
    own = _rows(state, job)
    own[:, CORES] = rows[:, CORES] if sign > 0 else 0
    np.subtract.at(state.free[CPU], nodes_of(rows), sign * np.repeat(rows[:, CORES], rows[:, NODES]))
    state.free_cores -= sign * int(rows[:, NODES] @ rows[:, CORES])


def _uses(state: ClusterState, job: int) -> None:
    """Note anew which nodes use what of the memory that a job holds: none while it is suspended."""
    assert state.memory is not None
    drop_uses(state.memory.kernel, job)  # which leaves room for as many
    lease, peaks = state.lease(job), NO_PEAKS if state.peaks is None else state.peaks.of(job)
    peaks = UNUSED_MB if job in state.suspended else peaks
    note_uses(state.memory.kernel, job, lease.rows, lease.borrowed, peaks)


def _rows(state: ClusterState, job: int) -> Ints:
    """int64[rows, 5]: the rows of a running job, as they are kept."""
    first = state.lease_at[FIRST_ROW, job]
    return state.pool[first : first + state.lease_at[ROW_COUNT, job]]


def keep_cores(state: ClusterState, jobs: Sequence[int], now: int) -> None:
    """Of a copy: let suspended jobs, in order, hold the cores that they go on with, and others end as much sooner.

    Each has what is free of its cores, and then those that other jobs give back first: these are shown as held by it,
    and no more by them. So plans know that they are taken again, from when they come free, until the job ends,
    which is booked accordingly. Nothing else changes, and nothing may be stopped or resumed on the copy any more.

    O(running + nodes of the jobs).
    """
    if not jobs:
        return
    wanted = np.zeros(len(state.online), np.bool_)
    for job in jobs:
        wanted[nodes_of(state.suspended[job].rows)] = True
    holders: dict[int, list[tuple[int, int, int]]] = {}
    shown: dict[int, Ints] = {}
    for end_us, job in state.running[:, : state.running_count].T.tolist():
        if job in state.suspended:
            continue
        each = by_node(_rows(state, job))
        for i in np.flatnonzero(wanted[each[:, FIRST]] & (each[:, CORES] > 0)).tolist():
            shown[job] = each
            holders.setdefault(int(each[i, FIRST]), []).append((max(end_us, now + 1), job, i))
    changed = set[int]()
    for job in jobs:
        stood, from_us = state.suspended[job], now
        each = by_node(stood.rows)
        for i, (node, lacking) in enumerate(each[:, [FIRST, CORES]].tolist()):
            free = min(lacking, int(state.free[CPU, node]))
            state.free[CPU, node] -= free
            state.free_cores -= free
            lacking -= free
            for end_us, other, row in sorted(holders.get(node, [])):
                taken = min(lacking, int(shown[other][row, CORES]))
                if taken:
                    shown[other][row, CORES] -= taken
                    lacking -= taken
                    changed.add(other)
                    from_us = max(from_us, end_us)
            each[i, CORES] -= lacking  # of a node that drains
        end_us = from_us + stood.lead_us + stood.left_us
        if state.runs is not None:
            state.runs.started_us[job] += from_us - stood.since_us
        rebook_job(state.running, state.running_count, state.booked_end(job), end_us, job)
        shown[job] = each
        changed.add(job)
        for i, node in enumerate(each[:, FIRST].tolist()):
            holders.setdefault(node, []).append((end_us, job, i))
    for job in sorted(changed):
        rows = shown[job]
        state.make_room(len(rows), 0)
        state.pool[state.pool_used : state.pool_used + len(rows)] = rows
        state.pool_dead += int(state.lease_at[ROW_COUNT, job])
        state.lease_at[:, job] = state.pool_used, len(rows)
        state.pool_used += len(rows)
