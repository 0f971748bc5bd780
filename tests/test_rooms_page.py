"""The page on rooms names files and folders that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "unrack"
NAME = re.compile(r"`([a-z_]+/?)`")


def test_what_the_page_says_is_in_a_room_is_there() -> None:
    table = re.findall(r"^\| (`.*) \| (.*) \|$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    lost = []
    for first, second in table:
        rooms = [SOURCE / name for name in NAME.findall(first)]
        assert rooms
        for name in NAME.findall(first) + NAME.findall(second):
            places = [folder / name for folder in (SOURCE, *rooms)]
            if not any(one.is_dir() or (not name.endswith("/") and one.with_suffix(".py").is_file()) for one in places):
                lost.append(name)
    assert lost == []
