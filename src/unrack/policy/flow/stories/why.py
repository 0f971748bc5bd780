"""Why a job was left waiting by the last round: which arc was dearer, or full."""

from __future__ import annotations

import numpy as np

from unrack.policy.flow.attempt import Attempt
from unrack.policy.flow.notes import Fate, Notes
from unrack.policy.flow.stories.words import ON_NODES, host_name
from unrack.policy.placement.local_memory import LocalMemory
from unrack.policy.rounds import UNIT
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US, SECOND_US
from unrack.view import View


def why(view: View, notes: Notes, passes: int, job: int, now: int) -> Reason:
    """What the last round says of a job that still waits."""
    last = notes.last
    fate = Fate(int(notes.fate[job])) if job < len(notes.fate) else Fate.NOT_SEEN
    if fate == Fate.NOT_SEEN or last is None:
        return Reason(Code.NOT_YET)
    promise = notes.promise
    if promise is not None and promise.job == job and promise.start_us < NEVER_US:
        return Reason(Code.RESERVED, f"from {promise.start_us / SECOND_US:.0f} s, as {_passed(passes)} it")
    if fate in (Fate.TOO_MUCH, Fate.BEHIND, Fate.NO_PLACE):
        lacking = too_much(view, notes, job)
        if lacking is None and last.at_us < now:
            return Reason(Code.NOT_YET, "what was too little at the last round has come free since")
        if lacking is not None:
            return lacking
    if fate == Fate.BEHIND:
        first = "a job" if promise is None else f"job {view.job(promise.job).id}"
        return Reason(Code.WOULD_DELAY, f"{first}, which {_passed(passes)}")
    if fate == Fate.TOO_MUCH:
        return Reason(Code.NO_ROOM, "what jobs before it leave, on nodes that may be used")
    if fate == Fate.NO_PLACE:
        return no_place(view, notes, job)
    for attempt in reversed(notes.attempts):
        at = np.flatnonzero(attempt.jobs == job)
        if len(at) and fate == Fate.APART:
            what = "hosts that can hold all its parts together: by network, each of its parts has one"
            return Reason(Code.NO_ROOM, what)
        if len(at) and attempt.lost[at[0]] >= 0:
            return of_phase(view, notes, attempt, int(at[0]))
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


def _passed(passes: int) -> str:
    return "1 job has passed" if passes == 1 else f"{passes} jobs have passed"


def too_much(view: View, notes: Notes, job: int) -> Reason | None:
    """What there is too little of in the whole cluster; ``None``: nothing, seen one by one."""
    sort = notes.sorts.every[int(notes.sorts.of[job])]
    if sort.tasks * sort.cores > view.free_cores:
        return Reason(Code.NO_ROOM, "cores", sort.tasks * sort.cores, view.free_cores)
    free_mb = int(view.free[1][view.online].sum())
    if isinstance(notes.beyond.inside.rule, LocalMemory) and sort.tasks * sort.mb > free_mb:
        return Reason(Code.NO_ROOM, "MB", sort.tasks * sort.mb, free_mb)
    for kind, count in (sort.devices or {}).items():
        assert view.devices is not None
        free = len(view.devices.free(notes.hosts[kind].name))
        if sort.tasks * count > free:
            return Reason(Code.NO_ROOM, f"free devices of kind {notes.hosts[kind].name}", sort.tasks * count, free)
    return None


def of_phase(view: View, notes: Notes, attempt: Attempt, at: int) -> Reason:
    """The arc that was dearer than waiting, or full, in the network that left a sub-task of a job waiting."""
    which = int(attempt.lost[at])
    solved, members = attempt.phases[which], attempt.members[which]
    phase, sides = solved.phase, solved.sides
    mine = (members.job == at) & (members.host < 0)
    own = int(members.of[np.flatnonzero(mine)[0]])
    row = int(sides.sort[own])
    places, part = ("nodes", "task") if phase.group == ON_NODES else (f"hosts of {phase.group}", phase.group)
    fits = sides.fits[row].copy()
    fits[sides.preferred[sides.preferred[:, 0] == own, 1]] += 1
    if not fits.any():
        return Reason(Code.NO_ROOM, f"{places} with room for one {part} of it")
    alike = sides.sort[members.of] == row
    placed = members.host >= 0
    room = sides.room - np.bincount(members.host[placed], minlength=len(fits))
    still = sides.fits[row] - np.bincount(members.host[placed & alike], minlength=len(fits))
    dear = np.flatnonzero((room > 0) & (still > 0))
    if len(dear):
        host = int(dear[np.argmin(sides.cost[row, dear])])
        costs = int(sides.waiting[own]) / UNIT, int(sides.cost[row, host]) / UNIT
        where = host_name(view, notes, phase, host)
        return Reason(Code.DEARER, f"to wait costs {costs[0]:.4g}, the cheapest place left, {where}, {costs[1]:.4g}")
    full = f"places on {places} for all that ask the same"
    return Reason(Code.NO_ROOM, full, int(alike.sum()), int((alike & placed).sum()))
