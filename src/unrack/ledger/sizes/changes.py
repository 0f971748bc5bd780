"""Give a job another of its sizes: while it waits, or while it runs."""

from __future__ import annotations

from math import ceil

from unrack.errors import RefusedError
from unrack.ledger.lease import Lease
from unrack.ledger.names import ASKED_TASKS
from unrack.ledger.sizes import Sizes
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
