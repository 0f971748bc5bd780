"""The jobs that a driver has brought to an end, from its journal: what they asked, and when what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from unrack.errors import InputError
from unrack.live.driver.history.told import Fold, Told
from unrack.live.driver.history.windows import Windows, joined, reservations_of
from unrack.live.driver.portable import Names, Portable
from unrack.live.driver.service.folders import journal_of
from unrack.live.driver.state.epoch import STARTED, Beginning
from unrack.live.driver.state.stage import Phase
from unrack.live.journal.reading import read_journal


class Ran(NamedTuple):
    """A job of ours that ran to an end, as the journal has it; times of the driver in µs, others in s since 1970."""

    key: str
    job: dict[str, Any]
    lease: Portable
    seen_us: int
    decided_us: int
    started_us: int
    ended_us: int
    freed_us: int
    number: int = -1
    queued_us: int = -1
    released_us: int = -1
    start_s: int = 0
    end_s: int = 0


@dataclass(frozen=True)
class Past:
    """What a journal tells of jobs that are over."""

    beginning: Beginning  # of the last epoch, with the reservations of all
    names: Names  # its nodes and devices
    # those that we started once and that ran to an end, in the order in which they came
    jobs: list[Ran] = field(default_factory=list)
    tries: Mapping[str, int] = field(default_factory=dict)  # job → how often a start of it failed
    again: frozenset[str] = frozenset()  # jobs that were started several times: requeued, or stopped
    foreign: int = 0  # how many jobs that others started on our nodes have ended
    others: int = 0  # how many jobs left without having run
    drained: int = 0  # how often nodes went out of service
    told: Told = field(default_factory=Told)  # all that the core was told
    windows: Windows = field(
        default_factory=Windows
    )  # reservations that the last epoch had no more; those that it can have it has

    @property
    def gaps_s(self) -> float:
        """How long the driver was away between epochs that began because it started, s, in all."""
        return sum(one.gap_us for one in self.told.begun if one.why == STARTED) / 1e6


def past_of(state: Path) -> Past:
    """What the journal in a folder of state tells, as far back as it goes.

    Raises
    ------
    InputError
        There is no journal, it is damaged, or no job has ended yet.
    """
    folder = journal_of(state)
    beginning: Beginning | None = None
    jobs: list[Ran] = []
    tries: dict[str, int] = {}
    starts: dict[str, set[int]] = {}
    foreign = others = drained = 0
    fold, begun = Fold(str(folder)), list[tuple[int, Sequence[Mapping[str, Any]]]]()
    for record in (one.value for one in read_journal(folder)):
        fold.take(record)
        if record["k"] == "begin":
            beginning = Beginning.of_record(record["beginning"])
            begun.append((record["now"], reservations_of(beginning)))
        drained += sum(one[0] == "drained" for one in record.get("told", ()) if record["k"] == "turn")
        for key, entry in (record.get("entries") or {}).items():
            if entry is not None:
                tries[key] = max(tries.get(key, 0), entry.get("tries", 0))
                if entry["phase"] == Phase.RUNNING:
                    starts.setdefault(key, set()).add(entry.get("started_us", -1))
        for over in record.get("over", ()):
            if over.get("ours") and over.keys() >= {"lease", "started_us", "decided_us"}:
                jobs.append(Ran(**{name: over[name] for name in Ran._fields if name in over}))
            elif over["phase"] == Phase.FOREIGN and "lease" in over:
                foreign += 1
            else:
                others += 1
    if beginning is None or not jobs:
        raise InputError(str(folder), "no job that was started and has ended", "a journal with some")
    jobs.sort(key=lambda entry: (entry.queued_us, entry.number, entry.key))
    beginning, windows = joined(beginning, begun)
    names = beginning.names
    again = frozenset(key for key, times in starts.items() if len(times) > 1)
    failed = {key: count for key, count in tries.items() if count}
    return Past(beginning, names, jobs, failed, again, foreign, others, drained, fold.told, windows)
