"""A journal in memory that may kill whoever writes to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any


class MemoryJournal:
    """Records, as a file would keep them."""

    def __init__(self, danger: Callable[[str], None] = lambda _: None) -> None:
        self.lines: list[str] = []
        self.danger = danger
        self.segment_bytes = self.size_bytes = 0

    def append(self, records: list[Mapping[str, Any]]) -> None:
        self.danger("before a write")
        lines = [json.dumps(record) for record in records]
        self.lines += lines
        self.segment_bytes += sum(map(len, lines))
        self.danger("after a write")

    def rotate(self, snapshot: Mapping[str, Any]) -> None:
        self.danger("before a snapshot")
        self.lines.append(json.dumps(snapshot))
        self.segment_bytes = 0
        self.danger("after a snapshot")

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]
