"""The last round, told: its numbers, its networks as drawings need them, and what became of every job that waited."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import NODES, Lease
from unrack.policy.around import (
    UNIT,
    Arc,
    HostGroup,
    JobStory,
    NetworkStory,
    PromiseStory,
    RoundCount,
    RoundStory,
    SubtaskClass,
)
from unrack.policy.flow.attempt import FlowAttempt, Members, Solved
from unrack.policy.flow.costs import Phase
from unrack.policy.flow.left import Sort
from unrack.policy.flow.notes import FlowNotes, RoundFate
from unrack.policy.placement.lent_memory import LocalMemory
from unrack.reasons import Code, Reason
from unrack.resources.gpus.machines.machine import text_of
from unrack.units import NEVER_US, SECOND_US
from unrack.view import View

ON_NODES = "nodes"
"""The group of resources of the first network of an attempt."""


def host_name(view: View, notes: FlowNotes, phase: Phase, host: int) -> str:
    """A host of a network: a node, or a pool that is in none."""
    node = int(phase.node[host])
    if phase.group == ON_NODES:
        return f"node {node}"
    own = next(hosts for hosts in notes.hosts.values() if hosts.name == phase.group)
    pool = f"pool {view.cluster.devices.pools[int(own.pool[host])].name}"
    if node < 0:
        return pool
    return f"node {node}" if (own.home == node).sum() == 1 else f"{pool} at node {node}"


def hosts_name(view: View, notes: FlowNotes, phase: Phase, hosts: list[int]) -> str:
    """Several hosts that are alike."""
    if len(hosts) == 1:
        return host_name(view, notes, phase, hosts[0])
    names = [host_name(view, notes, phase, host) for host in hosts]
    if all(name == f"node {phase.node[host]}" for name, host in zip(names, hosts, strict=True)):
        return f"nodes {text_of([int(phase.node[host]) for host in hosts])}"
    return ", ".join(names)


def asked_text(sort: Sort) -> str:
    """What a task of a sort asks: cores, memory, devices."""
    parts = [f"{sort.cores:,} core{'' if sort.cores == 1 else 's'}"] if sort.cores else []
    parts += [f"{sort.mb:,} MB"] if sort.mb else []
    for names, wants in zip(sort.names, sort.wants, strict=False):
        if sort.devices is None and wants.any():
            parts += [f"{name} {amount:,}" for name, amount in zip(names, wants.tolist(), strict=False) if amount]
    return ", ".join(parts) or "nothing but a place"


def task_text(notes: FlowNotes, sort: Sort) -> str:
    """The same with whole devices, by kind."""
    devices = [f"{count} {notes.hosts[kind].name}" for kind, count in (sort.devices or {}).items()]
    return ", ".join([asked_text(sort), *devices])


def job_text(notes: FlowNotes, sort: Sort) -> str:
    """What a whole job asks."""
    return f"{sort.tasks} task{'' if sort.tasks == 1 else 's'} of {task_text(notes, sort)}"


def lease_text(view: View, notes: FlowNotes, lease: Lease) -> str:
    """Where a job runs, and of which hosts its devices are."""
    nodes = [node for row in lease.rows.tolist() for node in range(row[0], row[0] + row[NODES])]
    words = [f"node{'' if len(nodes) == 1 else 's'} {text_of(nodes)}"]
    devices = view.cluster.devices
    counts: dict[tuple[str, str], int] = {}
    for share in lease.shares:
        for device in share.devices:
            home, pool = int(devices.home[device]), devices.pools[int(devices.pool[device])]
            at = f"node {home}" if home >= 0 else f"pool {pool.name}"
            key = devices.kinds[int(devices.kind[device])], at
            counts[key] = counts.get(key, 0) + 1
    words += [f"{count} {kind} of {at}" for (kind, at), count in sorted(counts.items())]
    borrowed = sum(int(row[2]) for row in lease.borrowed.tolist())
    lenders = np.unique(lease.borrowed[:, 1]).tolist() if borrowed else []
    words += [f"{borrowed:,} MB of node{'' if len(lenders) == 1 else 's'} {text_of(lenders)}"] if borrowed else []
    return ", ".join(words)


def why(view: View, notes: FlowNotes, passes: int, job: int, now: int) -> Reason:
    """What the last round says of a job that still waits."""
    last = notes.last
    fate = RoundFate(int(notes.fate[job])) if job < len(notes.fate) else RoundFate.NOT_SEEN
    if fate == RoundFate.NOT_SEEN or last is None:
        return Reason(Code.NOT_YET)
    promise = notes.promise
    if promise is not None and promise.job == job and promise.start_us < NEVER_US:
        return Reason(Code.RESERVED, f"from {promise.start_us / SECOND_US:.0f} s, as {_passed(passes)} it")
    if fate in (RoundFate.TOO_MUCH, RoundFate.BEHIND, RoundFate.NO_PLACE):
        lacking = too_much(view, notes, job)
        if lacking is None and last.at_us < now:
            return Reason(Code.NOT_YET, "what was too little at the last round has come free since")
        if lacking is not None:
            return lacking
    if fate == RoundFate.BEHIND:
        first = "a job" if promise is None else f"job {view.job(promise.job).id}"
        return Reason(Code.WOULD_DELAY, f"{first}, which {_passed(passes)}")
    if fate == RoundFate.TOO_MUCH:
        return Reason(Code.NO_ROOM, "what jobs before it leave, on nodes that may be used")
    if fate == RoundFate.NO_PLACE:
        return no_place(view, notes, job)
    for attempt in reversed(notes.attempts):
        at = np.flatnonzero(attempt.jobs == job)
        if len(at) and fate == RoundFate.APART:
            what = "hosts that can hold all its parts together: by network, each of its parts has one"
            return Reason(Code.NO_ROOM, what)
        if len(at) and attempt.lost[at[0]] >= 0:
            return of_phase(view, notes, attempt, int(at[0]))
    return Reason(Code.NOT_YET)


def no_place(view: View, notes: FlowNotes, job: int) -> Reason:
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


def too_much(view: View, notes: FlowNotes, job: int) -> Reason | None:
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


def of_phase(view: View, notes: FlowNotes, attempt: FlowAttempt, at: int) -> Reason:
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


def counted(notes: FlowNotes, now: int) -> RoundCount:
    """The last round. O(sub-tasks of its networks + jobs)."""
    cost, tried = np.zeros(len(notes.sorts.of), np.int64), np.zeros(len(notes.sorts.of), np.bool_)
    for attempt in notes.attempts:  # what each job cost in the last in which it took part, in 1/UNIT
        cost[attempt.jobs], tried[attempt.jobs] = attempt_costs(attempt), True
    started = np.array([lease.job for lease in notes.started], np.int64)
    placed = np.zeros(len(tried), np.bool_)
    placed[started] = tried[started]
    networks = sum(len(attempt.phases) for attempt in notes.attempts)
    left = int(cost[tried & ~placed].sum())
    return RoundCount(now, len(notes.waited), int(tried.sum()), len(started), networks, int(cost[placed].sum()), left)


def attempt_costs(attempt: FlowAttempt) -> Ints:
    """int64[jobs]: what each job of an attempt costs in all its networks, in 1/UNIT."""
    found = np.zeros(len(attempt.jobs), np.int64)
    for solved, members in zip(attempt.phases, attempt.members, strict=True):
        np.add.at(found, members.job, subtask_costs(solved, members, attempt.force))
    return found


def subtask_costs(solved: Solved, members: Members, force: bool) -> Ints:
    """int64[sub-tasks]: what the place of each costs, or waiting; that costs nothing where it had no price."""
    sides, host, of = solved.sides, members.host, members.of
    row = sides.sort[of]
    waiting = np.zeros(len(of), np.int64) if force else sides.waiting[of]
    place, hosts = sides.cost[row, np.maximum(host, 0)], len(sides.room)
    arcs = sides.preferred[np.lexsort((sides.preferred[:, 1], sides.preferred[:, 0]))]
    keys, wanted = arcs[:, 0] * hosts + arcs[:, 1], of * hosts + host
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    if len(keys):
        place = np.where(keys[at] == wanted, arcs[at, 2], place)
    return np.where(host >= 0, place, waiting)


def told(view: View, notes: FlowNotes, passes: int) -> RoundStory | None:
    """The last round; ``None``: there was none. O(arcs of its networks + jobs that wait x classes)."""
    count = notes.last
    if count is None:
        return None
    networks = tuple(
        network_story(view, notes, attempt, number, at)
        for number, attempt in enumerate(notes.attempts, start=1)
        for at in range(len(attempt.phases))
    )
    number = len(notes.counts) // len(RoundCount._fields)
    return RoundStory(number, count, networks, job_stories(view, notes, passes), promise_story(view, notes, passes))


def promise_story(view: View, notes: FlowNotes, passes: int) -> PromiseStory | None:
    """Which job is to start next, and which that holds back; ``None``: none has been passed so often."""
    if notes.promise is None:
        return None
    start = notes.promise.start_us
    behind = np.sort(notes.waited[notes.fate[notes.waited] == RoundFate.BEHIND]).tolist()
    assert notes.last is not None
    at_us = notes.last.at_us
    held = tuple(
        str(view.job(job).id) for job in behind if why(view, notes, passes, job, at_us).code == Code.WOULD_DELAY
    )
    return PromiseStory(str(view.job(notes.promise.job).id), start if start < NEVER_US else None, held)


def job_stories(view: View, notes: FlowNotes, passes: int) -> tuple[JobStory, ...]:
    """What became of every job that waited when the round began, in order of their numbers."""
    assert notes.last is not None
    part: dict[int, list[int]] = {}
    cost: dict[int, float | None] = {}
    first = 1
    for attempt in notes.attempts:
        costs = (attempt_costs(attempt) / UNIT).tolist()
        for at, job in enumerate(attempt.jobs.tolist()):
            stays = attempt.lost[at] >= 0
            cost[job] = None if attempt.force and stays else costs[at]
        for number, members in enumerate(attempt.members, start=first):
            for job in attempt.jobs[np.unique(members.job)].tolist():
                part.setdefault(job, []).append(number)
        first += len(attempt.phases)
    place = {lease.job: lease_text(view, notes, lease) for lease in notes.started}
    found = []
    for job in sorted(notes.waited.tolist()):
        asks = job_text(notes, notes.sorts.every[int(notes.sorts.of[job])])
        reason = "" if job in place else str(why(view, notes, passes, job, notes.last.at_us))
        own = tuple(part.get(job, ()))
        found.append(JobStory(str(view.job(job).id), asks, own, cost.get(job), place.get(job, ""), reason))
    return tuple(found)


def network_story(view: View, notes: FlowNotes, attempt: FlowAttempt, number: int, at: int) -> NetworkStory:
    """One network of an attempt."""
    solved, members = attempt.phases[at], attempt.members[at]
    phase, built, sides = solved.phase, solved.assignment.built, solved.sides
    amount, network = solved.assignment.flow.amount, solved.assignment.built.network
    used = np.unique(sides.sort)
    aggregator = {int(sort): f"x{i}" for i, sort in enumerate(used.tolist())}
    shown = [int(group) for group in np.unique(np.concatenate([built.pairs[:, 1], built.group[sides.preferred[:, 1]]]))]
    host = {group: f"h{i}" for i, group in enumerate(shown)}
    arcs = []

    def arc(index: int, tail: str, head: str, preferred: bool = False) -> None:
        ends = float(network.cost[index]) / UNIT, int(amount[index]), int(network.capacity[index])
        arcs.append(Arc(tail, head, *ends, preferred))

    for one, sort in enumerate(sides.sort.tolist()):
        arc(built.arcs.to_sort + one, f"c{one}", aggregator[sort])
        arc(built.arcs.to_waiting + one, f"c{one}", "u")
    for i, (one, where) in enumerate(sides.preferred[:, :2].tolist()):
        arc(built.arcs.to_preferred + i, f"c{one}", host[int(built.group[where])], True)
    for i, (sort, group) in enumerate(built.pairs.tolist()):
        if sort in aggregator:
            arc(built.arcs.to_group + i, aggregator[sort], host[group])
    for group in shown:
        arc(built.arcs.into_sink + group, host[group], "t")
    left = int(amount[built.arcs.to_waiting : built.arcs.to_preferred].sum())
    total = int(sides.supply.sum())
    arcs.append(Arc("u", "t", 0.0, left, total))
    return NetworkStory(
        phase.group, number, attempt.force, _classes(view, notes, attempt, solved, members),
        tuple(_sort_words(notes, solved, sort) for sort in used.tolist()),
        tuple(_group(view, notes, solved, group, name) for group, name in host.items()), tuple(arcs), len(phase.node),
        int(subtask_costs(solved, members, attempt.force).sum()) / UNIT, total - left, left,
    )  # fmt: skip


def _classes(
    view: View, notes: FlowNotes, attempt: FlowAttempt, solved: Solved, members: Members
) -> tuple[SubtaskClass, ...]:
    classes, phase, found = solved.classes, solved.phase, []
    for one in range(len(classes.supply)):
        row = int(classes.row[one])
        jobs = attempt.jobs[np.unique(members.job[members.of == one])].tolist()
        at = int(classes.at[one])
        asks, apps = _asks(notes, solved, row), [view.job(sort.job).app or "" for sort in _of(solved, row)]
        found.append(
            SubtaskClass(
                f"c{one}", int(classes.supply[one]), _either(apps) or asks, asks, int(classes.rounds[one]),
                host_name(view, notes, phase, at) if at >= 0 else "", tuple(str(view.job(job).id) for job in jobs),
            )
        )  # fmt: skip
    return tuple(found)


def _of(solved: Solved, row: int) -> list[Sort]:
    """The sorts for which one stands."""
    return [solved.phase.sorts[one] for one in np.flatnonzero(solved.alike == row).tolist()]


def _either(words: list[str]) -> str:
    return " or ".join(dict.fromkeys(word for word in words if word))


def _asks(notes: FlowNotes, solved: Solved, row: int) -> str:
    if solved.phase.group != ON_NODES:
        return f"1 {solved.phase.group}"
    return _either([task_text(notes, sort) for sort in _of(solved, row)])


def _sort_words(notes: FlowNotes, solved: Solved, row: int) -> str:
    """What an aggregator stands for: what each sub-task asks; of a device also for what task, and how many hosts."""
    phase, words = solved.phase, _asks(notes, solved, row)
    if phase.group == ON_NODES:
        return words
    reached = int((phase.fits[row] > 0).sum())
    return f"{words} for {_either([asked_text(sort) for sort in _of(solved, row)])}; {reached} hosts in reach"


def _group(view: View, notes: FlowNotes, solved: Solved, group: int, name: str) -> HostGroup:
    hosts = np.flatnonzero(solved.assignment.built.group == group)
    which = hosts_name(view, notes, solved.phase, hosts.tolist())
    return HostGroup(name, which, len(hosts), int(solved.sides.room[hosts].sum()))
