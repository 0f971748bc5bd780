"""What a driver holds and waits for, from its journal and its lock; it may be running or not."""

from __future__ import annotations

from pathlib import Path
from shutil import disk_usage
from typing import Any, NamedTuple

from unrack.errors import InputError
from unrack.live.driver.service.folders import JOURNAL
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.kept import kept_of
from unrack.live.driver.state.stage import Phase
from unrack.live.journal.lock import Owner, owner
from unrack.live.journal.reading import read_journal

RECENT_US = 60_000_000


class DriverStatus(NamedTuple):
    """What a driver holds and waits for."""

    owner: Owner | None  # the process that runs; ``None``: none
    policy: str  # in force; and why the present epoch began
    why: str
    # since_us, now_us: when that was, and when something was last written, by the driver's clock; ``origin_s`` is its
    # 0, s since 1970
    since_us: int
    now_us: int
    origin_s: float
    entries: list[Entry]  # its jobs, in the order in which they came
    # decisions, decisions_a_second: how many decisions the present part of the journal has, and how many a second in
    # its last minute
    decisions: int
    decisions_a_second: float
    bytes: int  # size of the journal
    free_bytes: int  # how much more its disk has room for

    def counts(self) -> dict[str, int]:
        """How many jobs are in each phase."""
        return {str(phase): sum(entry.phase == phase for entry in self.entries) for phase in Phase}

    def ahead_s(self, at_s: float) -> float:
        """How far the driver's clock is ahead of a moment, s since 1970; 0: it is not."""
        return max(self.origin_s + self.now_us / 1e6 - at_s, 0.0)

    def record(self, at_s: float) -> dict[str, Any]:
        """What programs read of it at that moment."""
        return {
            "running": self.owner is not None,
            "owner": None if self.owner is None else str(self.owner),
            "policy": self.policy,
            "epoch": {"why": self.why, "since_s": self.origin_s + self.since_us / 1e6},
            "written_s": self.origin_s + self.now_us / 1e6,
            "decisions": self.decisions,
            "decisions_a_second": round(self.decisions_a_second, 3),
            "journal_bytes": self.bytes,
            "free_bytes": self.free_bytes,
            "ahead_s": round(self.ahead_s(at_s), 3),
            "counts": self.counts(),
            "jobs": [entry.record() for entry in self.entries],
        }


def status_of(state: Path) -> DriverStatus:
    """What the driver with this folder of state holds and waits for.

    Raises
    ------
    InputError
        There is no journal, or it is damaged.
    """
    folder = state / JOURNAL
    records: list[dict[str, Any]] = [dict(one.value) for one in read_journal(folder, from_newest_snapshot=True)]
    kept = kept_of(records)
    if kept is None:
        raise InputError(str(folder), "a journal without a beginning", "the journal of a driver that has begun")
    beginning = next(record for record in reversed(records) if record["k"] == "begin")
    turns = [record for record in records if record["k"] == "turn"]
    recent = [record for record in turns if record["now"] > kept.now_us - RECENT_US]
    span_s = max((kept.now_us - max(beginning["now"], kept.now_us - RECENT_US)) / 1e6, 1.0)
    policy = beginning["beginning"]["policy"]
    entries = [Entry.of_record(record) for record in kept.entries.values()]
    return DriverStatus(
        owner(state),
        policy if isinstance(policy, str) else str(policy.get("label") or policy.get("name") or policy.get("file")),
        beginning["why"],
        beginning["now"],
        kept.now_us,
        kept.origin_s,
        sorted(entries, key=lambda entry: entry.rank),
        sum(len(record["decided"]) for record in turns),
        sum(len(record["decided"]) for record in recent) / span_s,
        sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
        disk_usage(folder).free,
    )
