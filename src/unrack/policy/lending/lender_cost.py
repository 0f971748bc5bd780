"""Compiled: what it costs everyone if a node lends a job memory: the choice of lenders by the contention model.

The cost of a lender is in nodes: how many nodes' worth of work is lost while the job runs, as predicted when it starts.

* Every job that uses the lender's memory runs slower beside one more that draws from afar: its nodes x the speed it
  loses, for as long as it is still expected to run.
* The job itself runs slower beside the strongest of those: its nodes x the speed it loses.
* A node that lends does not compute: 1 for as long as it could have.

It is a prediction for one lender at a time, and one job at a time: what another lender of the same job does to the same
neighbour is not added up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.kernels.structs import InKernels
from unrack.ledger.memory.use import AT, FOR, JOB, NEXT_AT, MemoryUse
from unrack.ledger.names import CPU, ENDS_US, MEM, WHO
from unrack.slowdown.contention.columns import ContentionColumns, speed_of, traffic_of
from unrack.slowdown.memory.pressure import (
    APP,
    AWAY_MB_S,
    LOCAL_MB_S,
    ON,
    READS,
    REMOTE,
    SEEN_NEAR,
    SEEN_READS,
    SEEN_WORST,
    SPEED,
    Board,
)
from unrack.slowdown.memory.speeds import MemorySpeeds
from unrack.view import View


class _Aware(NamedTuple):
    """The fields of :class:`Aware`."""

    # whether lenders are ranked by it at all. Where memory is contended, every rule is given what there is, so that all
    # share one compiled kernel.
    ranks: bool
    # the contention model, and what is known of running jobs
    columns: ContentionColumns
    board: Board
    memory: MemoryUse  # which jobs use the memory of which nodes
    end_us: Ints  # int64[jobs]: scratch: the booked ends of running jobs
    # float64[3, jobs]: scratch: what a running job loses beside the new one; what the new one loses beside it, where it
    # is local and where it is away
    loss: Floats


class Aware(InKernels, _Aware):
    """What the costs are worked out from."""


class Scratch:
    """Room for what the costs of a job are worked out in."""

    def __init__(self) -> None:
        self.end_us: Ints = np.zeros(0, np.int64)
        self.loss: Floats = np.zeros((3, 0))
        self._made: tuple[Any, Any] = (None, None)

    def aware(self, view: View, ranks: bool) -> Any:
        """What the costs are worked out from in a run with contention, for kernels; ``None`` in others."""
        speeds, memory, jobs = view.contention, view.columns.memory, view.columns.asks.shape[1]
        if not isinstance(speeds, MemorySpeeds):
            return None
        assert memory is not None
        if len(self.end_us) < jobs:
            self.end_us, self.loss = np.zeros(jobs, np.int64), np.zeros((3, jobs))
        own = ranks, speeds.columns.kernel, speeds.board.kernel, memory.kernel, self.end_us, self.loss
        before, made = self._made
        if before is None or any(one is not other for one, other in zip(before, own, strict=True)):
            made = Aware(*own).kernel
            self._made = own, made
        return made


@inlined
def beside(
    c: ContentionColumns, app: int, on: int, remote: float, worst: float, near: float, reads: float, drawn: float,
    drawn_reads: float,
) -> float:  # fmt: skip
    """The speed of a job under a pressure and one interferer more, on one more node."""
    if drawn <= 0.0:
        return float(speed_of(c, app, on, remote, worst, int(near), reads))
    most = max(worst, drawn)
    count = 0.0
    if worst >= (1.0 - c.tolerance) * most:
        count += near
    if drawn >= (1.0 - c.tolerance) * most:
        count += 1.0
    return float(speed_of(c, app, on, remote, most, min(int(count), on), min(reads, drawn_reads)))


@inlined
def costs_of(
    aware: Aware, job: int, now: int, length: int, on: int, remote: float, running: Ints, count: int, free: Ints,
    total: Ints,
) -> Floats:  # fmt: skip
    """float64[nodes]: the cost of each node as a lender of a job that would start now.

    ``on``, ``remote``: how many nodes the job gets, and the share of its memory that it lacks there; ``length``: how
    long it is expected to run, µs.
    """
    c, b, m = aware.columns, aware.board, aware.memory
    use, first_at, end_us, loss, load, jobs = m.use, m.first_at, aware.end_us, aware.loss, b.load, b.jobs
    app = jobs[APP, job]
    away, _, reads = traffic_of(c, app, on)
    if b.factor[4] == 1.0:
        away *= remote
    alone = speed_of(c, app, on, remote, 0.0, 0, 100.0)
    for i in range(count):
        other = running[WHO, i]
        end_us[other] = max(running[ENDS_US, i], now + 1)
        loss[:, other] = 0.0
        its = jobs[APP, other]
        if jobs[ON, other] == 0 or its < 0:
            continue
        lasts = min(1.0, (end_us[other] - now) / length)
        slower = beside(
            c, its, jobs[ON, other], load[REMOTE, other], max(load[SEEN_WORST, other], 0.0), load[SEEN_NEAR, other],
            load[SEEN_READS, other], away, reads,
        )  # fmt: skip
        loss[0, other] = jobs[ON, other] * max(0.0, load[SPEED, other] - slower) * lasts
        if app >= 0:
            for side in range(2):
                drawn = load[LOCAL_MB_S if side == 0 else AWAY_MB_S, other]
                slower = beside(c, app, on, remote, 0.0, 0.0, 100.0, drawn, load[READS, other])
                loss[1 + side, other] = on * max(0.0, alone - slower) * lasts
    nodes = free.shape[1]
    cost = np.zeros(nodes, np.float64)
    for node in range(nodes):
        if free[MEM, node] <= 0:
            continue
        since, others, own = now, 0.0, 0.0
        last = -1
        entry = first_at[node]
        while entry >= 0:
            other = use[JOB, entry]
            since = max(since, end_us[other])
            if other != last:
                others += loss[0, other]
            own = max(own, loss[1 if use[AT, entry] == use[FOR, entry] else 2, other])
            last = other
            entry = use[NEXT_AT, entry]
        idle = max(0.0, (now + length - since) / length) if total[CPU, node] > 0 else 0.0
        cost[node] = others + own + idle
    return cost
