"""Compiled: what it costs everyone if a node lends a job memory: the choice of lenders by the contention model.

The cost of a lender is in nodes: how many nodes' worth of work is lost while the job runs, as predicted when it starts.

* Every job that uses the lender's memory runs slower beside one more that draws from afar: its nodes x the speed it
  loses, for as long as it is still expected to run.
* The job itself runs slower beside the strongest of those: its nodes x the speed it loses.
* A node that lends does not compute: 1 for as long as it could have.

It is a prediction for one lender at a time, and one job at a time: what another lender of the same job does to the same
neighbour is not added up.

References
----------
Vieira Zacarias 2023, sections 6.1.2 and 6.1.3, Table 6.1. The rules are told there in words and drawings;
``docs/lending.md`` says what was read into them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.jit import inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.kernels.structs import InKernels
from unrack.ledger.columns import CPU, ENDS_US, MEM, OF_JOB
from unrack.ledger.memory_use import AT, FOR, JOB, NEXT_AT, MemoryUse
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
        self._made: Any = None
        self._of: tuple[Any, ...] = (None, None, 0, False)

    def aware(self, view: View, ranks: bool) -> Any:
        """What the costs are worked out from in a run with contention, for kernels; ``None`` in others."""
        speeds, memory, jobs = view.contention, view.columns.memory, view.columns.asks.shape[1]
        if not isinstance(speeds, MemorySpeeds):
            return None
        assert memory is not None
        of, board = self._of, speeds.board
        if of[0] is not board or of[1] is not memory or of[2] != jobs or of[3] is not ranks:
            end_us, loss = np.zeros(jobs, np.int64), np.zeros((3, jobs))
            self._of = board, memory, jobs, ranks
            self._made = Aware(ranks, speeds.columns.kernel, board.kernel, memory.kernel, end_us, loss).kernel
        return self._made


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
        other = running[OF_JOB, i]
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


class LendingRule(IntEnum):
    """How compute nodes and their memory are chosen."""

    STRAWMAN = 0  # cores anywhere, then memory anywhere
    NAIVE = 1  # cores anywhere, then memory packed on them, then anywhere
    LOCAL = 2  # nodes with enough free memory; what lacks from lenders one after the other
    SPREAD = 3  # the same, a lender of its own for every compute node
    DISAGGREGATED = 4  # local only while that is possible; else nodes with most memory, and spread
    AWARE = 5  # the same, from the lenders that slow everyone down least


RULES = {
    "strawman": LendingRule.STRAWMAN,
    "naive": LendingRule.NAIVE,
    "local": LendingRule.LOCAL,
    "local-spread": LendingRule.SPREAD,
    "disaggregated": LendingRule.DISAGGREGATED,
    "contention-aware": LendingRule.AWARE,
}
THRESHOLDS = {LendingRule.STRAWMAN: 0.0, LendingRule.NAIVE: 0.0, LendingRule.LOCAL: 0.5, LendingRule.SPREAD: 0.5}
"""Share of a node's memory that must be free for it to compute, where nothing else is said; of the others 1."""


class _LendingTerms(NamedTuple):
    """The fields of :class:`LendingTerms`."""

    rule: int  # a `LendingRule`
    groups: int  # how many lending groups there are
    group: Ints  # int64[nodes]: from 0 to `groups` - 1; -1 reaches all
    threshold_mb: Ints  # int64[nodes]: what a node must have free to compute
    # int64[groups + 2], int64[nodes]: nodes of group g by id: `member[member_first[g]:member_first[g + 1]]`; at last
    # those that reach all
    member_first: Ints
    member: Ints
    near: bool  # whether the nearest lenders are asked first
    # int64[nodes]: where nodes are, for that
    rack: Ints
    rack_group: Ints


class LendingTerms(InKernels, _LendingTerms):
    """On what terms memory is lent in a run."""


def make_terms(cluster: Cluster, rule: LendingRule, threshold: float, group: str | int, near: bool) -> LendingTerms:
    """The terms of a policy on a cluster.

    Parameters
    ----------
    threshold
        Share of a node's memory that must be free for it to compute, 0 to 1; 1: a node that lends does not compute.
    group
        ``"all"``, ``"rack"`` or a number of nodes: lending groups within those of the cluster.
    near
        Whether the nearest lenders are asked first.
    """
    computes = cluster.cores > 0
    own = np.zeros(len(cluster), np.int64)
    if group == "rack":
        own = cluster.rack
    elif group != "all":
        own = (np.cumsum(computes) - 1) // int(group)
    both = np.stack([cluster.lending_group, np.where(computes | (group == "rack"), own, 0)])
    reaches_all = cluster.lending_group == -1
    _, label = np.unique(both[:, ~reaches_all], axis=1, return_inverse=True)
    found = np.full(len(cluster), -1, np.int64)
    found[~reaches_all] = label.ravel()
    least_mb = np.ceil(threshold * cluster.memory_mb).astype(np.int64)
    return grouped(rule, found, least_mb, near, cluster.rack, cluster.rack_group)


def grouped(rule: int, group: Ints, threshold_mb: Ints, near: bool, rack: Ints, rack_group: Ints) -> LendingTerms:
    """Terms from columns over nodes; with a single group, nodes that reach all are members of it."""
    groups = int(group.max(initial=0)) + 1
    if groups == 1:
        group = np.zeros(len(group), np.int64)
    section = np.where(group == -1, groups, group)
    return LendingTerms(
        rule=int(rule),
        groups=groups,
        group=np.ascontiguousarray(group, np.int64),
        threshold_mb=threshold_mb,
        member_first=np.append(0, np.cumsum(np.bincount(section, minlength=groups + 1))).astype(np.int64),
        member=np.argsort(section, kind="stable").astype(np.int64),
        near=near,
        rack=np.ascontiguousarray(rack, np.int64),
        rack_group=np.ascontiguousarray(rack_group, np.int64),
    )
