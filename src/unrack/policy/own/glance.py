"""A view in words: what a policy was given when something went wrong."""

from __future__ import annotations

import numpy as np

from unrack.ledger.lease import CORES as HELD_CORES
from unrack.ledger.lease import FIRST, LOCAL_MB, NODES, Lease
from unrack.ledger.lease import TASKS as HELD_TASKS
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, MEMORY, TASKS

SHOWN = 3
"""So many waiting jobs, and rows of a lease, are told one by one."""


def seconds(us: int) -> str:
    """A time in seconds, exact where it is whole."""
    return f"{us // 1_000_000:,} s" if us % 1_000_000 == 0 else f"{us / 1e6:,.6g} s"


def job_in_words(view: View, job: int) -> str:
    """A job by its number, and what it asks for."""
    asks = view.asks[:, job]
    tasks, cores, mb = int(asks[TASKS]), int(asks[CORES]), int(asks[MEMORY])
    each = f"{tasks} task{'s' if tasks > 1 else ''} of {cores} core{'' if cores == 1 else 's'}"
    return f"job {job} ({each}{f' and {mb:,} MB' if mb else ''}, {seconds(int(asks[ESTIMATE]))})"


def glance(view: View, now: int) -> str:
    """The queue, who runs and what is free, in one sentence; ``now``: µs."""
    queue = view.queue[:SHOWN].tolist()
    first = ", ".join(job_in_words(view, job) for job in queue) + (" …" if view.waiting > len(queue) else "")
    waiting = f"{view.waiting} of {view.jobs} jobs so far wait: {first}"
    if not queue:
        waiting = f"none of {view.jobs} jobs so far waits"
    nodes = view.free.shape[1]
    roomy = int(np.count_nonzero(view.free[0] > 0))
    words = (
        f"at {seconds(now)}, {waiting}; {view.running_count} run; "
        f"{view.free_cores:,} cores free, on {roomy:,} of {nodes:,} nodes"
    )
    if view.devices is not None:
        for kind in view.devices.installed.kinds:
            free, there = len(view.devices.free(kind)), len(view.devices.installed.of_kind(kind))
            words += f"; {free} of {there} {kind} free"
    return words


def lease_in_words(lease: Lease) -> str:
    """What a lease would hold, its first rows one by one."""
    words = []
    for row in lease.rows[:SHOWN].tolist():
        first, count = row[FIRST], row[NODES]
        where = f"node {first}" if count == 1 else f"each of nodes {first} to {first + count - 1}"
        mb = f" and {row[LOCAL_MB]:,} MB" if row[LOCAL_MB] else ""
        words.append(f"{row[HELD_TASKS]} task(s) with {row[HELD_CORES]} cores{mb} on {where}")
    rest = " …" if len(lease.rows) > SHOWN else ""
    shares = "".join(f", {'+'.join(map(str, share.devices))} at node {share.node}" for share in lease.shares[:SHOWN])
    return (", ".join(words) or "nothing") + rest + (f"; devices{shares[1:]}" if shares else "")
