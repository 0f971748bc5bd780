"""Draw which rooms of unrack import which, from the imports: docs/images/rooms.svg.

    python docs/images/rooms.py

A test compares the picture with what this would draw.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "unrack"
BASIC = "units, errors, kernels …"
WIDTH, BOX, HIGH, STEP = 940, 108, 28, 50

HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" \
font-size="13" role="img" aria-label="Rooms, each below those that it imports">
<style>rect.room{{fill:#f5f7fa;stroke:#5b6b7f}}text{{fill:#1d2733;text-anchor:middle}}path{{stroke:#5b6b7f;fill:none;\
stroke-opacity:.55}}</style>
<rect width="{width}" height="{height}" fill="#fff"/>
"""


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module, by the parts of its name behind ``unrack``: a folder, or the single files together."""
    if parts[0] == "resources" and parts[-1] == "slowdown":  # what runs see of a resource, and clusters do not
        return "slowdown"
    is_folder = not (SOURCE / f"{parts[0]}.py").exists() and parts[0] != "kernels"
    return parts[0] if is_folder or parts[0] in ("events", "testing") else BASIC


def imports(path: Path) -> Iterator[str]:
    """Modules of unrack that a file imports, when it is loaded or later."""
    yield from re.findall(r"^ *from (unrack\.[\w.]+) import", path.read_text(), re.MULTILINE)


def rooms() -> dict[str, set[str]]:
    """Room → rooms that it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[0].startswith("__"):
            continue
        own = room_of(parts)
        others = {room_of((name.split(".")[1],)) for name in imports(path)}
        found.setdefault(own, set()).update(others - {own})
    return found


def reach(room: str, uses: dict[str, set[str]]) -> set[str]:
    """Rooms that a room imports, itself or by way of others."""
    return uses[room].union(*(reach(other, uses) for other in uses[room]))


def drawn() -> str:
    """The picture: a room stands below all that it imports; lines that a way over others implies are left out."""
    uses = rooms()
    depth: dict[str, int] = {}
    for room in sorted(uses, key=lambda room: len(reach(room, uses))):  # those that a room imports come before it
        depth[room] = 1 + max((depth[other] for other in uses[room]), default=-1)
    rows = [[room for room in sorted(uses) if depth[room] == at] for at in range(max(depth.values()) + 1)]
    place = {
        room: (WIDTH * (2 * i + 1) / (2 * len(row)), 20 + at * STEP)
        for at, row in enumerate(rows)
        for i, room in enumerate(row)
    }
    height = 20 + len(rows) * STEP
    lines, boxes = [], []
    for room in sorted(uses):
        x, y = place[room]
        for other in sorted(uses[room]):
            if any(other in reach(between, uses) for between in uses[room] - {other}):
                continue
            to_x, to_y = place[other]
            bend = (y + to_y + HIGH) / 2
            lines.append(
                f'<path d="M{x:.0f} {y:.0f}C{x:.0f} {bend:.0f} {to_x:.0f} {bend:.0f} {to_x:.0f} {to_y + HIGH:.0f}"/>'
            )
        wide = BOX + 60 * (room == BASIC)
        boxes.append(
            f'<rect class="room" x="{x - wide / 2:.0f}" y="{y:.0f}" width="{wide}" height="{HIGH}" rx="6"/>'
            f'<text x="{x:.0f}" y="{y + 19:.0f}">{escape(room)}</text>'
        )
    return HEAD.format(width=WIDTH, height=height) + "\n".join([*lines, *boxes]) + "\n</svg>\n"


if __name__ == "__main__":
    (HERE / "rooms.svg").write_text(drawn())
    sys.stdout.write("docs/images/rooms.svg\n")
