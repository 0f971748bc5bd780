"""Where the boxes of a network go, and where its arcs end: every label has a place of its own.

Columns from left to right: classes, a strip of labels, aggregators and below all of them waiting (U), a strip of
labels, hosts, a strip of labels, the sink. An arc leaves a class in a slot of its own, and enters a host in one of its
own; there its label is, where no other arc passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unrack.report.rounds.shortened import Box, Drawing, Line

MARGIN, STRIP, SLOT, GAP = 16, 122, 15, 10
CLASS_X, CLASS_WIDTH = MARGIN, 210
SORT_X, SORT_WIDTH = CLASS_X + CLASS_WIDTH + STRIP + 60, 180
HOST_X, HOST_WIDTH = SORT_X + SORT_WIDTH + 100 + STRIP, 180
SINK_STRIP = 76
SINK_X, SINK_RADIUS = HOST_X + HOST_WIDTH + SINK_STRIP + 70, 17
WIDTH = SINK_X + SINK_RADIUS + MARGIN
LEAST_HEIGHT, SORT_HEIGHT, WAITING_HEIGHT = 38, 50, 38
MOST_LABELS = 60
"""Arcs to hosts that are all labelled; where there are more, those that carry something are."""

Point = tuple[float, float]


class Rect(NamedTuple):
    """A box on the page."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return self.y + self.height / 2


class Wire(NamedTuple):
    """An arc on the page: straight from ``start`` to ``bend``, curved to ``meet``, straight to ``end``.

    ``label``: where its label begins, on the line; ``None``: it has none.
    """

    line: Line
    start: Point
    bend: Point
    meet: Point
    end: Point
    label: Point | None


class Layout(NamedTuple):
    """A network on the page, from ``y`` on; ``bottom``: below all of it."""

    rects: dict[str, Rect]
    wires: tuple[Wire, ...]
    bottom: float


def laid_out(drawing: Drawing, y: float) -> Layout:
    """Place a network; O(boxes + arcs)."""
    leaving = {box.name: _leaving(box.name, drawing.lines) for box in drawing.classes}
    to_hosts = [line for line in drawing.lines if line.tail.startswith("x")]
    labelled = {(line.tail, line.head) for line in to_hosts if line.flow or len(to_hosts) <= MOST_LABELS}
    entering = {box.name: _slots(box.name, drawing.lines, labelled) for box in drawing.groups}
    rects: dict[str, Rect] = {}
    left = _column(rects, drawing.classes, CLASS_X, CLASS_WIDTH, y, {name: len(own) for name, own in leaving.items()})
    right = _column(rects, drawing.groups, HOST_X, HOST_WIDTH, y, {name: len(own) for name, own in entering.items()})
    _lower(rects, drawing.classes, (right - left) / 2)
    _lower(rects, drawing.groups, (left - right) / 2)
    low = max(left, right, _sorts(rects, drawing, y))
    rects["u"] = Rect(SORT_X, low + GAP, SORT_WIDTH, WAITING_HEIGHT)
    bottom = rects["u"].y + WAITING_HEIGHT
    hosts = [rects[box.name].middle for box in drawing.groups]
    middle = sum(hosts) / len(hosts) if hosts else y + LEAST_HEIGHT
    rects["t"] = Rect(SINK_X - SINK_RADIUS, middle - SINK_RADIUS, 2 * SINK_RADIUS, 2 * SINK_RADIUS)
    wires = [_wire(line, rects, leaving, entering, labelled) for line in drawing.lines]
    return Layout(rects, tuple(wires), bottom)


def _leaving(name: str, lines: Sequence[Line]) -> list[Line]:
    """The arcs of a class, from above: to its aggregator, to the host that it prefers, to waiting."""
    return sorted((line for line in lines if line.tail == name), key=lambda line: (line.head == "u", line.preferred))


def _slots(name: str, lines: Sequence[Line], labelled: set[tuple[str, str]]) -> list[str]:
    """The slots of a host: one for each labelled arc, one for all that prefer it, one for all others."""
    own = [line for line in lines if line.head == name]
    slots = ["preferred"] if any(line.preferred for line in own) else []
    slots += [line.tail for line in own if (line.tail, name) in labelled]
    rest = any(not line.preferred and (line.tail, name) not in labelled for line in own)
    return [*slots, *(["others"] if rest else [])]


def _column(
    rects: dict[str, Rect], boxes: Sequence[Box], x: float, width: float, y: float, slots: dict[str, int]
) -> float:
    """Stack boxes; returns what is below the last."""
    for box in boxes:
        height = max(LEAST_HEIGHT, SLOT * slots[box.name] + 8)
        rects[box.name] = Rect(x, y, width, height)
        y += height + GAP
    return y


def _lower(rects: dict[str, Rect], boxes: Sequence[Box], by: float) -> None:
    """Move a column that is shorter than the other down to its middle."""
    for box in boxes if by > 0 else ():
        rects[box.name] = rects[box.name]._replace(y=rects[box.name].y + by)


def _sorts(rects: dict[str, Rect], drawing: Drawing, y: float) -> float:
    """Aggregators beside the middle of their classes, as far as there is room; returns what is below the last."""
    wanted = {}
    for box in drawing.sorts:
        own = [rects[line.tail].middle for line in drawing.lines if line.head == box.name]
        wanted[box.name] = sum(own) / len(own) if own else y
    for name in sorted(wanted, key=lambda name: (wanted[name], name)):
        top = max(y, wanted[name] - SORT_HEIGHT / 2)
        rects[name] = Rect(SORT_X, top, SORT_WIDTH, SORT_HEIGHT)
        y = top + SORT_HEIGHT + GAP
    return y


def _slot(rect: Rect, at: int, count: int) -> float:
    return rect.middle + (at - (count - 1) / 2) * SLOT


def _wire(
    line: Line,
    rects: dict[str, Rect],
    leaving: dict[str, list[Line]],
    entering: dict[str, list[str]],
    labelled: set[tuple[str, str]],
) -> Wire:
    tail, head = rects[line.tail], rects[line.head]
    start = (tail.x + tail.width, tail.middle)
    end = (head.x, head.middle)
    bend, meet, label = start, end, None
    if line.tail in leaving:
        start = (start[0], _slot(tail, leaving[line.tail].index(line), len(leaving[line.tail])))
        bend, label = (start[0] + STRIP, start[1]), (start[0] + 6, start[1])
    if line.head in entering:
        slots = entering[line.head]
        slot = "preferred" if line.preferred else line.tail if (line.tail, line.head) in labelled else "others"
        end = (end[0], _slot(head, slots.index(slot), len(slots)))
        meet = (end[0] - STRIP, end[1])
        label = (meet[0] + 6, end[1]) if slot == line.tail else label
    if line.tail == "u":
        bend, label = (HOST_X + HOST_WIDTH + SINK_STRIP, start[1]), (start[0] + 6, start[1])
    elif line.head == "t":
        bend, label = (start[0] + SINK_STRIP, start[1]), (start[0] + 6, start[1])
    return Wire(line, start, bend, meet, end, label)
