"""The last round, told: its numbers, its networks as drawings need them, and what became of every job that waited."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.policy.flow.attempt import Attempt, Members, Solved
from unrack.policy.flow.notes import Fate, Notes
from unrack.policy.flow.stories.why import why
from unrack.policy.flow.stories.words import (
    ON_NODES,
    asked_text,
    host_name,
    hosts_name,
    job_text,
    lease_text,
    task_text,
)
from unrack.policy.rounds import (
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
from unrack.reasons import Code
from unrack.units import NEVER_US
from unrack.view import View


def counted(notes: Notes, now: int) -> RoundCount:
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


def attempt_costs(attempt: Attempt) -> Ints:
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


def told(view: View, notes: Notes, passes: int) -> RoundStory | None:
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


def promise_story(view: View, notes: Notes, passes: int) -> PromiseStory | None:
    """Which job is to start next, and which that holds back; ``None``: none has been passed so often."""
    if notes.promise is None:
        return None
    start = notes.promise.start_us
    behind = np.sort(notes.waited[notes.fate[notes.waited] == Fate.BEHIND]).tolist()
    assert notes.last is not None
    at_us = notes.last.at_us
    held = tuple(
        str(view.job(job).id) for job in behind if why(view, notes, passes, job, at_us).code == Code.WOULD_DELAY
    )
    return PromiseStory(str(view.job(notes.promise.job).id), start if start < NEVER_US else None, held)


def job_stories(view: View, notes: Notes, passes: int) -> tuple[JobStory, ...]:
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


def network_story(view: View, notes: Notes, attempt: Attempt, number: int, at: int) -> NetworkStory:
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


def _classes(view: View, notes: Notes, attempt: Attempt, solved: Solved, members: Members) -> tuple[SubtaskClass, ...]:
    classes, phase, found = solved.classes, solved.phase, []
    for one in range(len(classes.supply)):
        sort = phase.sorts[int(classes.row[one])]
        jobs = attempt.jobs[np.unique(members.job[members.of == one])].tolist()
        at = int(classes.at[one])
        asks = _asks(notes, solved, int(classes.row[one]))
        found.append(
            SubtaskClass(
                f"c{one}", int(classes.supply[one]), view.job(sort.job).app or asks, asks, int(classes.rounds[one]),
                host_name(view, notes, phase, at) if at >= 0 else "", tuple(str(view.job(job).id) for job in jobs),
            )
        )  # fmt: skip
    return tuple(found)


def _asks(notes: Notes, solved: Solved, row: int) -> str:
    phase = solved.phase
    return task_text(notes, phase.sorts[row]) if phase.group == ON_NODES else f"1 {phase.group}"


def _sort_words(notes: Notes, solved: Solved, row: int) -> str:
    """What an aggregator stands for: what each sub-task asks; of a device also for what task, and how many hosts."""
    phase, words = solved.phase, _asks(notes, solved, row)
    if phase.group == ON_NODES:
        return words
    reached = int((phase.fits[row] > 0).sum())
    return f"{words} for {asked_text(phase.sorts[row])}; {reached} hosts in reach"


def _group(view: View, notes: Notes, solved: Solved, group: int, name: str) -> HostGroup:
    hosts = np.flatnonzero(solved.assignment.built.group == group)
    which = hosts_name(view, notes, solved.phase, hosts.tolist())
    return HostGroup(name, which, len(hosts), int(solved.sides.room[hosts].sum()))
