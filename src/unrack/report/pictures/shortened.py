"""A network of a round, short enough to draw: what is beyond some number of boxes becomes one box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unrack.policy.around import Arc, NetworkStory

MOST = 40
"""Boxes in a column; the last stands for all that are left out."""
REST = "-rest"


class Box(NamedTuple):
    """A node of a network as it is drawn: its name, a line of words, a second line, and all that is known of it."""

    name: str
    title: str
    words: str
    full: str


class DrawnArc(NamedTuple):
    """An arc as it is drawn; of arcs that became one: the least and the largest cost, and sums."""

    tail: str
    head: str
    low: float
    high: float
    flow: int
    capacity: int
    preferred: bool


class Drawing(NamedTuple):
    """What is drawn of a network, column by column."""

    classes: tuple[Box, ...]
    sorts: tuple[Box, ...]
    groups: tuple[Box, ...]
    lines: tuple[DrawnArc, ...]


def shortened(network: NetworkStory) -> Drawing:
    """The boxes and arcs of a network, at most ``MOST`` boxes a column.

    The first classes stay, and of hosts those that take most.
    """
    classes = [one.name for one in network.classes]
    kept_classes = _kept(classes)
    of_class = {arc.tail: arc.head for arc in network.arcs if arc.tail in classes and arc.head.startswith("x")}
    sorts = [f"x{i}" for i in range(len(network.sorts))]
    seen = {of_class[name] for name in kept_classes if name in of_class}
    kept_sorts = seen if len(seen) < len(sorts) else set(sorts)
    taken = {arc.tail: arc.flow for arc in network.arcs if arc.head == "t"}
    groups = [group.name for group in network.groups]
    kept_groups = _kept(sorted(groups, key=lambda name: (-taken.get(name, 0), groups.index(name))))
    columns = (("c", classes, kept_classes), ("x", sorts, kept_sorts), ("h", groups, kept_groups))
    renamed = {name: f"{column}{REST}" for column, every, kept in columns for name in every if name not in kept}
    return Drawing(
        _class_boxes(network, kept_classes), _sort_boxes(network, kept_sorts), _group_boxes(network, kept_groups),
        _lines(network.arcs, renamed),
    )  # fmt: skip


def _kept(names: Sequence[str]) -> set[str]:
    return set(names if len(names) <= MOST else names[: MOST - 1])


def _class_boxes(network: NetworkStory, kept: set[str]) -> tuple[Box, ...]:
    boxes, left = [], [one for one in network.classes if one.name not in kept]
    for one in network.classes:
        if one.name not in kept:
            continue
        of_jobs = f" of job {one.jobs[0]}" if len(one.jobs) == 1 else f" of {len(one.jobs):,} jobs"
        waited = f"waited {one.waited:,} round{'' if one.waited == 1 else 's'}" if one.waited else "new"
        home = f", task on {one.home}" if one.home else ""
        full = (
            f"{one.subtasks:,} × {one.what}{of_jobs}: each asks {one.asks}; {waited}{home}; jobs {', '.join(one.jobs)}"
        )
        boxes.append(Box(one.name, f"{one.subtasks:,} × {one.what}{of_jobs}", waited + home, full))
    if left:
        title, total = f"{len(left):,} further classes", f"{sum(one.subtasks for one in left):,} sub-tasks"
        boxes.append(Box(f"c{REST}", title, total, f"{title}: {total}"))
    return tuple(boxes)


def _sort_boxes(network: NetworkStory, kept: set[str]) -> tuple[Box, ...]:
    boxes = [Box(f"x{i}", f"X{i}", words, words) for i, words in enumerate(network.sorts) if f"x{i}" in kept]
    if left := len(network.sorts) - len(boxes):
        boxes.append(Box(f"x{REST}", "X …", f"{left:,} further sorts", f"{left:,} further sorts of sub-tasks"))
    return tuple(boxes)


def _group_boxes(network: NetworkStory, kept: set[str]) -> tuple[Box, ...]:
    boxes, left = [], []
    for group in network.groups:
        if group.name not in kept:
            left.append(group)
            continue
        several = f"{group.hosts:,} equal hosts, " if group.hosts > 1 else ""
        room = f"{several}room for {group.room:,}"
        boxes.append(Box(group.name, group.what, room, f"{group.what}: {room}"))
    if left:
        words = f"{sum(group.hosts for group in left):,} hosts, room for {sum(group.room for group in left):,}"
        title = f"{len(left):,} further groups"
        boxes.append(Box(f"h{REST}", title, words, f"{title}: {words}"))
    return tuple(boxes)


def _lines(arcs: Sequence[Arc], renamed: Mapping[str, str]) -> tuple[DrawnArc, ...]:
    """The arcs between boxes; those between the same two become one."""
    found: dict[tuple[str, str, bool], DrawnArc] = {}
    for arc in arcs:
        tail, head = renamed.get(arc.tail, arc.tail), renamed.get(arc.head, arc.head)
        key = tail, head, arc.preferred
        old = found.get(key)
        if old is None:
            found[key] = DrawnArc(tail, head, arc.cost, arc.cost, arc.flow, arc.capacity, arc.preferred)
        else:
            low, high = min(old.low, arc.cost), max(old.high, arc.cost)
            found[key] = DrawnArc(
                tail, head, low, high, old.flow + arc.flow, old.capacity + arc.capacity, arc.preferred
            )
    return tuple(found.values())
