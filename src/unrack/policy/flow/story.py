"""Why a job was left waiting by the last round: which arc was dearer, or full."""

from __future__ import annotations

import numpy as np

from unrack.policy.flow.assignment import UNIT
from unrack.policy.flow.notes import Fate, Notes
from unrack.policy.flow.places import Solved
from unrack.reasons import Code, Reason
from unrack.view import View


def why(view: View, notes: Notes, passes: int, job: int) -> Reason:
    """What the last round says of a job that still waits."""
    fate = notes.fate_of(job)
    if fate == Fate.NOT_SEEN:
        return Reason(Code.NOT_YET)
    if fate == Fate.BEHIND:
        first = "a job" if notes.promise is None else f"job {view.job(notes.promise.job).id}"
        return Reason(Code.WOULD_DELAY, f"{first}, which {passes} have passed")
    if fate == Fate.TOO_MUCH:
        return too_much(view, notes, job)
    if fate == Fate.NO_PLACE:
        return no_place(view, notes, job)
    for attempt in reversed(notes.attempts):
        at = np.flatnonzero(attempt.jobs == job)
        if not len(at):
            continue
        if fate == Fate.APART:
            return Reason(Code.NO_ROOM, "hosts of its parts that can be held together")
        return of_phase(view, attempt.phases[int(attempt.lost[at[0]])], notes, job)
    return Reason(Code.NOT_YET)


def no_place(view: View, notes: Notes, job: int) -> Reason:
    """What no node has enough of for one task."""
    sort = notes.sorts.every[int(notes.sorts.of[job])]
    usable = view.online & (view.total[0] > 0)
    most = int(view.free[0][usable].max(initial=0))
    if sort.cores > most:
        return Reason(Code.NO_ROOM, "cores on one node", sort.cores, most)
    with_cores = usable & (view.free[0] >= sort.cores)
    most = int(view.free[1][with_cores].max(initial=0))
    if sort.mb > most:
        return Reason(Code.NO_ROOM, f"MB on one node with {sort.cores} free cores", sort.mb, most)
    return Reason(Code.NO_ROOM, "nodes with room for one of its tasks and what it asks beside cores", sort.tasks, 0)


def too_much(view: View, notes: Notes, job: int) -> Reason:
    """What there is too little of in all, beside jobs before it."""
    sort = notes.sorts.every[int(notes.sorts.of[job])]
    if sort.tasks * sort.cores > view.free_cores:
        return Reason(Code.NO_ROOM, "cores", sort.tasks * sort.cores, view.free_cores)
    for kind, count in (sort.devices or {}).items():
        assert view.devices is not None
        free = len(view.devices.free(notes.hosts[kind].name))
        if sort.tasks * count > free:
            return Reason(Code.NO_ROOM, f"free devices of kind {notes.hosts[kind].name}", sort.tasks * count, free)
    return Reason(Code.NO_ROOM, "what jobs before it leave")


def of_phase(view: View, solved: Solved, notes: Notes, job: int) -> Reason:
    """The arc that was dearer than waiting, or full."""
    sort, phase = notes.sorts.every[int(notes.sorts.of[job])], solved.phase
    rows = [row for row, one in enumerate(phase.sorts) if one is sort]
    places = "nodes" if phase.group == "nodes" else f"hosts of {phase.group}"
    sides = solved.sides
    open_rows = [(sides.cost[row][sides.fits[row] > 0], row) for row in rows]
    costs = [(int(cost.min()), row) for cost, row in open_rows if len(cost)]
    if not costs:
        return Reason(Code.NO_ROOM, f"{places} with room for a part of it")
    cheapest, row = min(costs)
    own = np.flatnonzero(sides.sort == row)
    waiting = int(sides.waiting[own].max())
    if waiting < cheapest:
        host = int(np.flatnonzero((sides.fits[row] > 0) & (sides.cost[row] == cheapest))[0])
        node = int(phase.node[host])
        where = f"node {node}" if node >= 0 else f"pool {host}"
        return Reason(
            Code.DEARER, f"to wait costs {waiting / UNIT:.3g}, the cheapest place, {where}, {cheapest / UNIT:.3g}"
        )
    asked = int(solved.classes.supply[own].sum())
    return Reason(Code.NO_ROOM, f"places on {places} that cost no more than to wait", asked, int((sides.room).sum()))
