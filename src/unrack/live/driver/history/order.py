"""The order of starts that was, and the order that a simulation of the same submissions gives."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from unrack.ledger.lease import nodes_of
from unrack.live.driver.history.cause import UNEXPLAINED, causes_of
from unrack.live.driver.history.past import Past
from unrack.live.driver.history.runs import notes_of
from unrack.live.driver.history.stay import Stay
from unrack.live.driver.history.world import Fact, Played, play
from unrack.study.history.check import MOST_JOBS, in_other_turns, swapped

__all__ = ["MOST_JOBS", "MOST_PAIRS", "UNEXPLAINED", "Comparison", "Pair", "compare"]

MOST_PAIRS = 100_000
"""So many pairs in another order are looked at for their causes."""


class Pair(NamedTuple):
    """Two jobs that started in another order."""

    # first, second: which really started first, and which after it
    first: str
    second: str
    # live_s, simulated_s: by how much: really, and the other way round in the simulation
    live_s: float
    simulated_s: float
    cause: str  # the class of facts with which the simulation gives the real order


class Comparison(NamedTuple):
    """How two orders of starts differ."""

    # jobs, pairs: how many jobs were compared, and how many pairs of them were not decided in the same turn
    jobs: int
    pairs: int
    differing: int  # how many pairs were started in another order
    different: list[Pair]  # those pairs, in order of the first job's start; at most ``MOST_PAIRS``
    causes: dict[str, int]  # cause → pairs
    elsewhere: int  # how many jobs ran on other nodes than in the simulation
    shift_s: float  # the most that a start in the simulation is away from the real decision, s
    notes: tuple[str, ...]  # what of the past the simulation does not have


def compare(past: Past, at_once: bool = False) -> Comparison:
    """Simulate the submissions of a past with the run times that were, and compare which job started before which.

    Parameters
    ----------
    past
        What happened.
    at_once
        Whether starts of the simulation are acknowledged at once, and jobs run from the acknowledgement to the end that
        was seen; else they take as long to be acknowledged, and places to be given back, as they did.

    Raises
    ------
    UnrackError
        The simulation fails.
    """
    base = frozenset({Fact.PARTS} if at_once else {Fact.PARTS, Fact.LATE})
    played = play(past, base)
    jobs = compared(past)
    live = np.array([decided_us(stay) for stay in jobs], np.int64)
    told = played.starts_us(jobs)
    first, second = swapped(live, told)
    differing, first, second = len(first), first[:MOST_PAIRS], second[:MOST_PAIRS]
    causes = causes_of(past, base, jobs, first, second)
    different = [
        Pair(jobs[a].key, jobs[b].key, float(live[b] - live[a]) / 1e6, float(told[a] - told[b]) / 1e6, cause)
        for a, b, cause in zip(first.tolist(), second.tolist(), causes, strict=True)
    ]
    places = _places(past, played)
    elsewhere = sum(places.get(stay.key) != sorted(stay.last.planned) for stay in jobs if stay.last is not None)
    started = told >= 0
    shift = float(np.abs(live - told)[started].max()) / 1e6 if started.any() else 0.0
    pairs = in_other_turns(live)
    counts = dict(Counter(causes).most_common())
    return Comparison(len(jobs), pairs, differing, different, counts, elsewhere, shift, notes_of(past))


def compared(past: Past) -> list[Stay]:
    """The jobs that we started and that ran to an end, the last time of each, in the order of their starts."""
    found = {stay.key: stay for stay in past.told.stays if stay.ours and not stay.adopted and stay.ran}
    return sorted(found.values(), key=lambda stay: (decided_us(stay), stay.came_us))[:MOST_JOBS]


def decided_us(stay: Stay) -> int:
    """When the last start of a job was decided."""
    assert stay.last is not None
    return stay.last.decided_us


def _places(past: Past, played: Played) -> dict[str, list[str]]:
    """Job → names of the nodes it had in the simulation."""
    found: dict[str, list[str]] = {}
    log = played.log
    for attempt, job in enumerate(log.attempt_job.tolist()):
        rows = log.rows[log.attempt_rows[attempt] : log.attempt_rows[attempt + 1]]
        if played.stays[job].rest:
            continue
        nodes = nodes_of(np.asarray(rows, np.int64)).tolist()
        found[played.stays[job].key] = sorted(past.names.nodes[node] for node in nodes)
    return found
