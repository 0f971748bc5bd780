"""All jobs that the driver knows, by key and by number; which of them have changed since they were written down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from unrack.live.driver.seen import SeenJob
from unrack.live.driver.state.entry import OWN, Entry
from unrack.live.driver.state.stage import Phase, Stage, is_settled

MOST_ENDED = 2_000


class Ended(NamedTuple):
    """A job that is over: how often it had been started again, when it was submitted, s since 1970, and how it ended.

    ``how``: ``ran``, or the orchestrator's word, in small letters, for how it ended before it ran; ``gone``: it was
    not known any more. ``asked``: what the adapter kept with it, as a part of the record of its entry.
    """

    restarts: int
    submit_s: int
    how: str = "ran"
    asked: Mapping[str, Any] = {}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Ended:
        """Of the record of an entry as it was last known."""
        how = "ran" if record.get("started_us", -1) >= 0 else str(record.get("state", "")).lower()
        asked = {name: value for name, value in record.items() if name not in OWN}
        return cls(record.get("restarts", 0), record.get("submit_s", 0), how, asked)


class KnownJobs:
    """The jobs that the driver knows.

    Every change of an entry is followed by :meth:`touch`, so that it comes into the journal, and is found by its phase.

    Parameters
    ----------
    entries, ended
        What a journal kept of them.
    own_of
        As of :meth:`Entry.of_record`.

    Attributes
    ----------
    ended
        The last of our jobs that are over, as they were: an orchestrator may forget that they are.
    unsettled, promised, keeping
        The jobs that may change though nothing else is seen of them; that were promised something; with which the
        adapter keeps something.
    touched
        Keys of all that have changed, or were forgotten, since it was cleared.
    """

    def __init__(
        self, entries: Mapping[str, Mapping[str, Any]] | None = None, ended: Mapping[str, Sequence[Any]] | None = None,
        own_of: Callable[[Mapping[str, Any]], Any] | None = None,
    ) -> None:  # fmt: skip
        self.ended = {key: Ended(*values) for key, values in (ended or {}).items()}
        self._entries = {key: Entry.of_record(record, own_of) for key, record in (entries or {}).items()}
        self._by_number = {entry.number: entry for entry in self._entries.values() if entry.number is not None}
        self._came = {key: number for number, key in enumerate(self._entries)}
        self._phases: dict[Phase, dict[str, Entry]] = {phase: {} for phase in Phase}
        self._phase_of: dict[str, Phase] = {}
        self._again: dict[str, Entry] = {}  # those that are to be looked at at some time, and others
        self.unsettled, self.promised, self.keeping = dict[str, Entry](), dict[str, Entry](), dict[str, Entry]()
        self.touched, self._untold = set[str](), dict[str, None]()
        for key in self._entries:
            self._sort(key)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def get(self, key: str) -> Entry | None:
        """The entry of a job; ``None``: it is not known."""
        return self._entries.get(key)

    def add(self, entry: Entry) -> Entry:
        """Take in a job."""
        self._came.setdefault(entry.key, next(reversed(self._came.values()), -1) + 1)
        self._entries[entry.key] = entry
        self.touch(entry)
        return entry

    def drop(self, entry: Entry) -> None:
        """Forget a job."""
        del self._entries[entry.key], self._came[entry.key]
        self._forget_number(entry)
        self.touch(entry)

    def end(self, entry: Entry) -> None:
        """Forget a job that is over; of ours it is remembered that it was."""
        self.drop(entry)
        if entry.ours:
            self.ended[entry.key] = Ended.of_record(entry.record())
            while len(self.ended) > MOST_ENDED:
                del self.ended[next(iter(self.ended))]

    def ended_as(self, job: SeenJob) -> Ended | None:
        """How a job was when it was over; ``None``: it is none of ours that are."""
        found = self.ended.get(job.key)
        return None if found is None or job.is_another(found.submit_s) else found

    def number(self, entry: Entry, number: int | None) -> None:
        """Give a job its number in the core; ``None``: it has none any more."""
        self._forget_number(entry)
        entry.known = entry.known._replace(number=number)
        if number is not None:
            self._by_number[number] = entry
        self.touch(entry)

    def _forget_number(self, entry: Entry) -> None:
        if entry.number is not None:
            self._by_number.pop(entry.number, None)

    def counts(self) -> dict[Phase, int]:
        """How many jobs have come so far."""
        return {phase: len(entries) for phase, entries in self._phases.items() if entries}

    def forget_numbers(self) -> None:
        """No job has a number: another core gives them anew."""
        self._by_number.clear()
        for entry in self._entries.values():
            entry.known = entry.known._replace(number=None)

    def found(self, number: int) -> Entry | None:
        """The same, or ``None``."""
        return self._by_number.get(number)

    def of_number(self, number: int) -> Entry:
        """The job with a number of the core."""
        return self._by_number[number]

    def in_phase(self, phases: Phase | Collection[Phase]) -> list[Entry]:
        """The jobs that have come so far, in the order in which they came."""
        wanted = (phases,) if isinstance(phases, Phase) else phases
        return ranked(entry for phase in wanted for entry in self._phases[phase].values())

    def in_order(self, keys: Iterable[str]) -> list[Entry]:
        """Some of the jobs in the order of the table."""
        return [self._entries[key] for key in sorted(set(keys), key=self._came.__getitem__)]

    def look_again(self, entry: Entry, at_us: int | None) -> None:
        """Look at a job again at that time, though nothing is reported; ``None``: only with the others."""
        entry.trouble = entry.trouble._replace(again_us=at_us)
        if at_us is None:
            self._again.pop(entry.key, None)
            self.touched.add(entry.key)
        else:
            self._again[entry.key] = entry

    def due(self, now: int) -> list[str]:
        """Keys of the jobs that are to be looked at by now."""
        again = ((key, entry.trouble.again_us) for key, entry in self._again.items())
        return [key for key, at_us in again if at_us is not None and at_us <= now]

    def free_group(self, groups: int) -> int | None:
        """The lowest group from 1 that no job has; ``None``: all have one."""
        taken = {entry.known.group for entry in self._entries.values()}
        return next((group for group in range(1, groups + 1) if group not in taken), None)

    def touch(self, entry: Entry) -> None:
        """Note that an entry has changed."""
        self._untold[entry.key] = None
        self.touched.add(entry.key)
        self._sort(entry.key)

    def _sort(self, key: str) -> None:
        """Let a job be found by what it is now."""
        if (was := self._phase_of.pop(key, None)) is not None:
            del self._phases[was][key]
        for some in (self.unsettled, self.promised, self.keeping, self._again):
            some.pop(key, None)
        if (entry := self._entries.get(key)) is None:
            return
        self._phase_of[key] = entry.phase
        self._phases[entry.phase][key] = entry
        if not is_settled(entry.stage):
            self.unsettled[key] = entry
        if entry.known.promise is not None:
            self.promised[key] = entry
        if entry.own is not None:
            self.keeping[key] = entry
        if entry.trouble.again_us is not None:
            self._again[key] = entry

    def move(self, entry: Entry, stage: Stage) -> None:
        """Note how far a job has come."""
        entry.stage = stage
        self.touch(entry)

    def taken(self) -> dict[str, Any]:
        """Records of all that changed since this was last asked; ``None`` for jobs that were forgotten."""
        found = {}
        for key in self._untold:
            entry = self._entries.get(key)
            found[key] = None if entry is None else entry.record()
        self._untold.clear()
        return found

    def records(self) -> dict[str, Any]:
        """Records of all."""
        return {key: entry.record() for key, entry in self._entries.items()}


def ranked(entries: Iterable[Entry]) -> list[Entry]:
    """Jobs in the order in which they came."""
    return sorted(entries, key=lambda entry: entry.rank)
