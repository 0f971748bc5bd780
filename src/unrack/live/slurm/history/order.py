"""The order of starts that was, and the order that a simulation of the same submissions gives."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from unrack.ledger.lease import nodes_of
from unrack.live.slurm.history.acknowledged import acknowledged
from unrack.live.slurm.history.past import Past
from unrack.live.slurm.history.runs import notes_of
from unrack.sim.log import RunLog

MOST_JOBS = 5_000
"""Of more, the first are compared: pairs are many."""
UNEXPLAINED = "not explained"


class Pair(NamedTuple):
    """Two jobs that started in another order.

    Attributes
    ----------
    first, second
        Which really started first, and which after it.
    live_s, simulated_s
        By how much: really, and the other way round in the simulation.
    cause
        By what the journal tells of the two.
    """

    first: str
    second: str
    live_s: float
    simulated_s: float
    cause: str


class Comparison(NamedTuple):
    """How two orders of starts differ.

    Attributes
    ----------
    jobs, pairs
        How many jobs were compared, and how many pairs of them did not start at the same time in both.
    different
        The pairs in another order, in order of the first job's start.
    causes
        Cause → pairs.
    elsewhere
        How many jobs ran on other nodes than in the simulation.
    shift_s
        The most that a start in the simulation is away from the real decision, s.
    notes
        What of the past the simulation does not have.
    """

    jobs: int
    pairs: int
    different: list[Pair]
    causes: dict[str, int]
    elsewhere: int
    shift_s: float
    notes: tuple[str, ...]


def compare(past: Past) -> Comparison:
    """Simulate the submissions of a past with the run times that were, and compare who started before whom.

    Raises
    ------
    UnrackError
        The simulation fails.
    """
    log = acknowledged(past)
    starts = dict(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
    first = past.jobs[0].queued_us
    entries = {entry.key: entry for entry in past.jobs}
    ids = [str(one) for one in log.jobs.ids.to_list()][:MOST_JOBS]
    live = np.array([entries[one].decided_us - first for one in ids]) / 1e6
    told = np.array([starts.get(job, np.nan) for job in range(len(ids))]) / 1e6
    different = []
    ahead = live[:, None] < live[None, :]
    behind = told[:, None] > told[None, :]
    for a, b in zip(*np.nonzero(ahead & behind), strict=True):
        cause = _cause(past, ids[a], ids[b])
        different.append(Pair(ids[a], ids[b], float(live[b] - live[a]), float(told[a] - told[b]), cause))
    different.sort(key=lambda pair: (entries[pair.first].decided_us, entries[pair.second].decided_us))
    causes = dict(Counter(pair.cause for pair in different).most_common())
    places = _places(past, log)
    elsewhere = sum(places.get(one) != sorted(entries[one].nodes) for one in ids)
    shift = float(np.nanmax(np.abs(live - told))) if len(ids) else 0.0
    return Comparison(len(ids), int(ahead.sum()), different, causes, elsewhere, shift, notes_of(past))


def _places(past: Past, log: RunLog) -> dict[str, list[str]]:
    """Job → names of the nodes it had in the simulation."""
    found: dict[str, list[str]] = {}
    for attempt, job in enumerate(log.attempt_job.tolist()):
        rows = log.rows[log.attempt_rows[attempt] : log.attempt_rows[attempt + 1]]
        nodes = nodes_of(np.asarray(rows, np.int64)).tolist()
        found[str(log.jobs.ids[job])] = sorted(past.names.nodes[node] for node in nodes)
    return found


def _cause(past: Past, first: str, second: str) -> str:
    """Why two jobs started in another order, by what the journal tells; never a guess."""
    for job in (first, second):
        if job in past.again:
            return "one of them was started several times"
        if job in past.tries:
            return "a start of one of them failed and was tried again"
    entries = {entry.key: entry for entry in past.jobs}
    begin = min(entries[first].seen_us, entries[second].seen_us)
    end = max(entries[first].decided_us, entries[second].decided_us)
    if any(entry.seen_us < end and entry.ended_us > begin for entry in past.foreign):
        return "jobs of others held nodes meanwhile"
    if any(entries[job].decided_us >= begin and entries[job].decided_us <= end for job in past.tries if job in entries):
        return "a start of another job failed meanwhile"
    if past.drained:
        return "nodes were out of service"
    if past.gaps_s > 1:
        return "the driver was away for a time"
    if any(past.jobs[0].queued_us < time <= end for time in past.begun_us):
        return "the driver began anew while jobs ran or waited, which numbers them anew"
    return UNEXPLAINED
