"""The life of one job, from a live journal: when it came, what was decided, what failed, and why it waits now."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from unrack.errors import InputError
from unrack.live.driver.portable import nodes_in
from unrack.live.driver.service.folders import JOURNAL
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import Beginning, Epoch, replayed
from unrack.live.driver.state.kept import kept_of
from unrack.live.driver.state.stage import Phase
from unrack.live.journal.reading import read_journal


class Moment(NamedTuple):
    """What became of the job at one time: the time (s since 1970), how far it had come, where, and why."""

    at_s: float
    phase: str
    nodes: list[str]
    why: str


class Life(NamedTuple):
    """The life of one job."""

    job: str  # its key
    asks: dict[str, Any]  # what the core was told that it asks
    moments: list[Moment]  # what became of it, in order
    ahead: int  # how many jobs are before it in the queue; -1: it does not wait there
    why: str  # why it waits, by the policy as it stands; ``""``: it does not


def life_of(state: Path, job: str) -> Life:
    """The life of a job, as far back as the journal goes.

    Parameters
    ----------
    state
        The driver's state folder.
    job
        The job's key, such as ``123``.

    Raises
    ------
    InputError
        There is no journal, or the job is not in it.
    """
    folder = state / JOURNAL
    records = [record.value for record in read_journal(folder)]
    kept = kept_of(records)
    if kept is None:
        raise InputError(str(folder), "a journal without a beginning", "the journal of a driver that has begun")
    moments: list[Moment] = []
    asks: dict[str, Any] = {}
    for record in records:
        entries = record.get("entries") or {}
        at_s = kept.origin_s + record.get("now", 0) / 1e6
        if entries.get(job) is not None:
            entry = Entry.of_record(entries[job])
            asks = entry.job or asks
            _note(moments, Moment(at_s, str(entry.phase), entry.nodes, entry.why))
        moments += [
            Moment(at_s, "over", nodes_in(over.get("lease", {"rows": []})), over.get("state", ""))
            for over in record.get("over", ())
            if over["key"] == job
        ]
    if not moments:
        raise InputError("job", job, f"one that is in the journal {folder}")
    ahead, why = _waits(records, kept.entries.get(job))
    return Life(job, asks, moments, ahead, why)


def _note(moments: list[Moment], moment: Moment) -> None:
    """Add a moment in which something is other than before."""
    if not moments or moments[-1][1:] != moment[1:]:
        moments.append(moment)


def _waits(records: list[dict[str, Any]], entry: dict[str, Any] | None) -> tuple[int, str]:
    """How many are ahead of a job that waits, and why it does, by the last epoch played again."""
    if entry is None or entry["phase"] != Phase.WAITING:
        return -1, entry.get("why", "") if entry is not None and entry["phase"] == Phase.ASIDE else ""
    first = max(i for i, record in enumerate(records) if record["k"] == "begin")
    epoch = Epoch(Beginning.of_record(records[first]["beginning"]))
    now = 0
    for record in records[first:]:
        if "told" in record:
            now = record["now"]
            replayed(epoch, record["told"], now)
            if record["k"] == "begin":
                epoch.begun()
    number = entry["number"]
    return epoch.core.view.queue.tolist().index(number), epoch.why(number, now)
