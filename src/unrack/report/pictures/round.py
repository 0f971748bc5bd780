"""A picture of a round, as SVG: its networks one below the other, from sub-tasks to hosts, waiting and the sink.

Every label has a place of its own. Columns from left to right: classes, a strip of labels, aggregators and below all of
them waiting (U), a strip of labels, hosts, a strip of labels, the sink. An arc leaves a class in a slot of its own, and
enters a host in one of its own; there its label is, where no other arc passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape, unescape
from typing import NamedTuple

from unrack.policy.around import NetworkStory, RoundStory
from unrack.report.pictures.shortened import Box, Drawing, DrawnArc, shortened
from unrack.units import SECOND_US

MOST_NETWORKS = 8
"""Networks that are drawn: those with most sub-tasks."""
LETTER, SMALL_LETTER, LABEL_LETTER = 6.9, 6.3, 5.9
"""Widths of letters at 12, 11 and 10 px, on average and with some to spare."""
STYLE = """
.ground{fill:#fff}.box{fill:#f4f5f7;stroke:#8a8f98}.sort{fill:#eef3fa;stroke:#4477aa}.wait{fill:#fbeaec;stroke:#c0394d}
.sink{fill:#dfe3e8;stroke:#444}text{fill:#1c1c1c}.quiet{fill:#5a5f66}
.arc{fill:none;stroke:#8a8f98;stroke-width:.8;opacity:.55}.flow{fill:none;stroke:#27639c;stroke-width:2.2}
.waits{fill:none;stroke:#c0394d;stroke-width:2.2}.liked{stroke-dasharray:6 4}
"""
DARK = """
.ground{fill:#15181c}.box{fill:#20252b;stroke:#7d858f}.sort{fill:#1b2836;stroke:#7fb0e0}
.wait{fill:#3a2024;stroke:#f08c99}.sink{fill:#323a43;stroke:#c8ccd2}text{fill:#eceff2}.quiet{fill:#a5adb7}
.arc{stroke:#7d858f}.flow{stroke:#7fb0e0}.waits{stroke:#f08c99}
"""


def drawn(story: RoundStory, policy: str) -> str:
    """The round as SVG, for light and dark pages."""
    numbers = story.numbers
    title = (
        f"Round {story.number} at {numbers.at_us / SECOND_US:,.0f} s under {policy}: {numbers.jobs:,} waited, "
        f"{numbers.tried:,} took part, {numbers.placed:,} started"
    )
    parts = [f'<text x="{MARGIN}" y="26" font-size="15" font-weight="bold">{_cut(title, WIDTH - 32, 8.4)}</text>']
    y = 46.0
    largest = sorted(range(len(story.networks)), key=lambda i: (-_subtasks(story.networks[i]), i))[:MOST_NETWORKS]
    for i in sorted(largest):
        y = _network(parts, i + 1, story.networks[i], y)
    more = len(story.networks) - len(largest)
    for words in (
        f"and {more:,} smaller network{'' if more == 1 else 's'}" if more else "",
        "" if story.networks else "No network was solved: no job's demand was free, all together.",
    ):
        if words:
            parts.append(f'<text x="{MARGIN}" y="{y + 14:.0f}" font-size="12">{words}</text>')
            y += 26
    y = _legend(parts, y + 6)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">\n<title>{escape(title)}'
        f"</title>\n<style>{STYLE}@media (prefers-color-scheme:dark){{{DARK}}}</style>\n"
        f'<rect width="{WIDTH}" height="{y:.0f}" class="ground"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _subtasks(network: NetworkStory) -> int:
    return sum(one.subtasks for one in network.classes)


def _network(parts: list[str], number: int, network: NetworkStory, y: float) -> float:
    """Draw a network from ``y`` on; returns what is below it."""
    drawing = shortened(network)
    forced = "; no job may wait" if network.forced else ""
    words = (
        f"Network {number}: {network.resource}, attempt {network.attempt}. {network.placed:,} sub-tasks placed, "
        f"{network.waiting:,} wait; cost {network.cost:.4g}{forced}"
    )
    parts.append(f'<path d="M{MARGIN} {y - 2:.0f}H{WIDTH - MARGIN}" class="arc"/>')
    parts.append(f'<text x="{MARGIN}" y="{y + 16:.0f}" font-weight="bold">{_cut(words, WIDTH - 32, LETTER)}</text>')
    layout = laid_out(drawing, y + 30)
    ordered = sorted(layout.wires, key=lambda wire: wire.line.flow > 0)
    parts += [_path(wire) for wire in ordered]
    parts += [_label(wire, network.forced) for wire in ordered if wire.label is not None]
    for boxes, kind in ((drawing.classes, "box"), (drawing.sorts, "sort"), (drawing.groups, "box")):
        parts += [_box(box, layout.rects[box.name], kind) for box in boxes]
    parts += _ends(layout)
    return layout.bottom + 24


def _path(wire: Wire) -> str:
    (x0, y0), (x1, y1), (x2, y2), x3 = wire.start, wire.bend, wire.meet, wire.end[0]
    waits = wire.line.head == "u" or wire.line.tail == "u"
    kind = ("waits" if waits else "flow") if wire.line.flow else "arc"
    kind += " liked" if wire.line.preferred else ""
    reach = (x2 - x1) / 2
    curve = f"C{x1 + reach:.1f} {y1:.1f} {x2 - reach:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return f'<path d="M{x0:.1f} {y0:.1f}H{x1:.1f}{curve}H{x3:.1f}" class="{kind}"/>'


def label_text(wire: Wire, forced: bool) -> str:
    """Cost, flow and capacity; into the sink nothing costs anything."""
    line = wire.line
    amounts = f"{_short(line.flow)}/{_short(line.capacity)}"
    if line.head == "t" or line.head.startswith("x"):
        return amounts
    if forced and line.head == "u":
        return f"dear · {amounts}"
    cost = _short(line.low) + (f"–{_short(line.high)}" if line.low < line.high else "")
    return f"{cost} · {amounts}"


def _short(number: float) -> str:
    """Three digits or four, with k, M, … where there are more."""
    for unit in ("", "k", "M", "G"):
        if abs(number) < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}T"


def _label(wire: Wire, forced: bool) -> str:
    """The label on its line, with the ground behind it."""
    assert wire.label is not None
    x, y = wire.label
    strip = (wire.bend[0] if x < wire.bend[0] else wire.end[0]) - x - 6
    words = _cut(label_text(wire, forced), strip, LABEL_LETTER)
    width = LABEL_LETTER * len(unescape(words)) + 6
    return (
        f'<rect x="{x - 2:.1f}" y="{y - 6:.1f}" width="{width:.1f}" height="12" class="ground"/>'
        f'<text x="{x:.1f}" y="{y + 3.5:.1f}" font-size="10">{words}</text>'
    )


def _box(box: Box, rect: Rect, kind: str) -> str:
    room = rect.width - 16
    lines = [f'<tspan font-weight="bold">{_cut(box.title, room, LETTER)}</tspan>']
    lines += [
        f'<tspan x="{rect.x + 8:.1f}" dy="14" font-size="11" class="quiet">{words}</tspan>'
        for words in _wrapped(box.words, room, 2 if kind == "sort" else 1)
    ]
    top = rect.middle - 7 * (len(lines) - 1) + 4
    return (
        f'<g><title>{escape(box.full)}</title><rect x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" '
        f'height="{rect.height:.1f}" rx="4" class="{kind}"/><text x="{rect.x + 8:.1f}" y="{top:.1f}">'
        + "".join(lines)
        + "</text></g>"
    )


def _ends(layout: Layout) -> list[str]:
    u, t = layout.rects["u"], layout.rects["t"]
    return [
        f'<rect x="{u.x:.1f}" y="{u.y:.1f}" width="{u.width:.1f}" height="{u.height:.1f}" rx="4" class="wait"/>'
        f'<text x="{u.x + 8:.1f}" y="{u.middle - 3:.1f}" font-weight="bold">U</text>'
        f'<text x="{u.x + 8:.1f}" y="{u.middle + 11:.1f}" font-size="11" class="quiet">left waiting</text>',
        f'<circle cx="{t.x + t.width / 2:.1f}" cy="{t.middle:.1f}" r="{t.width / 2:.1f}" class="sink"/>'
        f'<text x="{t.x + t.width / 2:.1f}" y="{t.middle + 4:.1f}" text-anchor="middle" font-weight="bold">t</text>',
    ]


def _legend(parts: list[str], y: float) -> float:
    x = float(MARGIN)
    for kind, words in (
        ("flow", "carries sub-tasks"), ("waits", "leaves them waiting"), ("arc", "carries none"),
        ("flow liked", "preferred: where an earlier network put the task"),
    ):  # fmt: skip
        parts.append(f'<path d="M{x:.0f} {y + 10:.0f}h28" class="{kind}"/>')
        parts.append(f'<text x="{x + 34:.0f}" y="{y + 14:.0f}" font-size="11" class="quiet">{words}</text>')
        x += 34 + SMALL_LETTER * len(words) + 18
    words = "On arcs: cost of each · flow/capacity"
    parts.append(f'<text x="{x:.0f}" y="{y + 14:.0f}" font-size="11" class="quiet">{words}</text>')
    return y + 28


def _cut(text: str, room: float, letter: float) -> str:
    """As much of a text as there is room for, escaped."""
    most = max(int(room / letter), 1)
    return escape(text if len(text) <= most else text[: most - 1].rstrip(" ,·") + "…")


def _wrapped(text: str, room: float, most: int) -> list[str]:
    """A text in at most so many lines; the last is cut off."""
    lines, rest = list[str](), text
    width = max(int(room / SMALL_LETTER), 1)
    while len(lines) < most - 1 and len(rest) > width and " " in rest[:width]:
        head = rest[:width].rpartition(" ")[0]
        lines.append(escape(head))
        rest = rest[len(head) + 1 :]
    return [*lines, _cut(rest, room, SMALL_LETTER)]


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

    line: DrawnArc
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


def _leaving(name: str, lines: Sequence[DrawnArc]) -> list[DrawnArc]:
    """The arcs of a class, from above: to its aggregator, to the host that it prefers, to waiting."""
    return sorted((line for line in lines if line.tail == name), key=lambda line: (line.head == "u", line.preferred))


def _slots(name: str, lines: Sequence[DrawnArc], labelled: set[tuple[str, str]]) -> list[str]:
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
    line: DrawnArc,
    rects: dict[str, Rect],
    leaving: dict[str, list[DrawnArc]],
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
