"""What ``unrack explain`` knows of a job's attempts: what each held, how that changed, and what ended it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrack.cluster.tiers.tier import LOCAL
from unrack.facts import some
from unrack.ledger.lease import LENDER, LOAN_MB, LOCAL_MB, NODES
from unrack.sim.faults.failure import held_elsewhere
from unrack.sim.log import RunLog
from unrack.sim.recorder import OUTCOME_NAMES, MemoryStop

MOST_LENDERS = 4
"""Nodes whose memory is named."""


@dataclass(frozen=True)
class Change:
    """A moment, µs, at which the job's lease was exchanged: what it held from then on, as in :class:`Attempt`.

    ``change_mb`` is by how much its memory grew; below 0: shrank.
    """

    at_us: int
    cores: int
    nodes: tuple[tuple[int, int], ...]
    memory: str = ""
    local_mb: int = 0
    borrowed_mb: int = 0
    change_mb: int = 0


@dataclass(frozen=True)
class Attempt:
    """One time that the job ran, µs; ``nodes`` as ranges (first, last), ``devices`` in words, one entry a share.

    ``memory`` says in words what it had of other nodes, by tier where there are any; empty: nothing. ``failure`` says
    in words what failed, where that ended the attempt, and ``stopped`` why memory did. ``nodes``, ``cores``, ``memory``
    and the amounts in MB are what it started with; ``changes`` say what it held later.
    """

    start_us: int
    end_us: int
    nodes: tuple[tuple[int, int], ...]
    outcome: str
    devices: tuple[str, ...] = ()
    memory: str = ""
    failure: str = ""
    changes: tuple[Change, ...] = ()
    cores: int = 0
    local_mb: int = 0
    borrowed_mb: int = 0
    stopped: MemoryStop | None = None


def attempt_of(log: RunLog, i: int) -> Attempt:
    """Attempt ``i`` of a log."""
    first, *later = range(int(log.attempt_spans[i]), int(log.attempt_spans[i + 1]))
    outcome = OUTCOME_NAMES[int(log.attempt_outcome[i])]
    held = tuple(_share(log, int(s)) for s in np.flatnonzero(log.share_span == first))
    held += tuple(_claim(log, int(c)) for c in np.flatnonzero(log.claim_span == first))
    times = int(log.attempt_start_us[i]), int(log.attempt_end_us[i])
    cores, amounts = log.amounts[1].tolist(), [_amounts(log, span) for span in (first, *later)]
    start_us = log.span_start_us.tolist()
    changes = tuple(
        Change(start_us[span], cores[span], _nodes(log, span), _memory(log, span), *now, sum(now) - sum(before))
        for span, before, now in zip(later, amounts, amounts[1:], strict=False)
    )
    return Attempt(
        *times, _nodes(log, first), outcome, held, _memory(log, first), _failure(log, i), changes, cores[first],
        *amounts[0], log.memory_stops.get(i),
    )  # fmt: skip


def _amounts(log: RunLog, span: int) -> tuple[int, int]:
    """MB held in a span: of its own nodes, and of others."""
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]].astype(np.int64)
    loans = log.loans[log.span_loans[span] : log.span_loans[span + 1]]
    return int(rows[:, NODES] @ rows[:, LOCAL_MB]), int(loans[:, LOAN_MB].sum())


def _nodes(log: RunLog, span: int) -> tuple[tuple[int, int], ...]:
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]]
    ranges: list[tuple[int, int]] = []
    for first, count in sorted((int(row[0]), int(row[1])) for row in rows):
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], first + count - 1)
        else:
            ranges.append((first, first + count - 1))
    return tuple(ranges)


def _memory(log: RunLog, span: int) -> str:
    """What was held in a span of other nodes' memory, lender by lender; on a cluster with tiers local memory too."""
    loans = log.loans[log.span_loans[span] : log.span_loans[span + 1]]
    tiers, lent = log.cluster.tiers, dict.fromkeys(sorted(loans[:, LENDER].tolist()), 0)
    for lender, mb in loans[:, [LENDER, LOAN_MB]].tolist():
        lent[lender] += mb
    if tiers is None:
        parts = [f"{mb:,} MB of node {lender}" for lender, mb in lent.items()]
        return f"borrowed {some(parts, MOST_LENDERS)}" if parts else ""
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]]
    local = int((rows[:, 1] * rows[:, 4]).sum())
    remote = [f"{mb:,} MB {tiers.names[tiers.tier[lender]]} on node {lender}" for lender, mb in lent.items()]
    return some([f"{local:,} MB {tiers.names[LOCAL]}", *remote], MOST_LENDERS)


def _failure(log: RunLog, i: int) -> str:
    if log.attempt_failure[i] < 0:
        return ""
    failure = log.failures[int(log.attempt_failure[i])]
    which = failure.domain if failure.domain.startswith(failure.level) else f"{failure.level} {failure.domain}"
    with_it = "" if failure.nodes == 1 else f" with its {failure.nodes} nodes"
    use = ": the job ran elsewhere, and used memory or a device there" if held_elsewhere(log, i) else ""
    return f"{which} failed{with_it}{use}"


def _claim(log: RunLog, c: int) -> str:
    place, amount = log.claims[c].tolist()
    _, at = log.cluster.places.at(place)
    return f"{amount:,} of the {at.amount:,} of {at.name}"


def _share(log: RunLog, s: int) -> str:
    """One share in words: which devices, how they are seen, and who else was on them meanwhile."""
    share, devices = log.shares[s], log.cluster.devices
    pool = devices.pools[int(devices.pool[share.devices[0]])]
    ids = "+".join(str(device - pool.first) for device in share.devices)
    how = f", one of {share.parts} parts" if share.parts else ", composed" if len(share.devices) > 1 else ""
    of = log.share_attempt
    own = of[s]
    begin, end = log.attempt_start_us[own], log.attempt_end_us[own]
    mates = of[(log.share_group == log.share_group[s]) & (of != own)]
    beside = log.attempt_job[mates[(log.attempt_start_us[mates] < end) & (log.attempt_end_us[mates] > begin)]]
    others = len(np.unique(beside))
    with_whom = f", shared with {others} other job(s)" if others else ""
    return f"{pool.name} {ids}{how} on node {share.node}{with_whom}"
