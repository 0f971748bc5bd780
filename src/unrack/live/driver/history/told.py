"""All that a core was told, folded: every job's stays and starts, nodes that came and went, when the driver looked.

It reads what was told and decided, not only the last state of each job, so that starts that failed, jobs that others
started and jobs that left without having run are there, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unrack.errors import InputError
from unrack.events import Opened
from unrack.live.driver.history.stay import NOT_YET, Attempt, Became, Stay
from unrack.live.driver.portable import Portable
from unrack.live.driver.state.stage import Phase

ELSEWHERE = "started elsewhere"
"""Why a running job is taken away whose parts are others by now: what is left of it is adopted at once."""
GOES_ON = ("counted anew", "not ours")
"""Reasons for which a running job is taken away to be adopted again at once."""


class NodesMoved(NamedTuple):
    """Nodes that went out of service, or are back, by names; none: something else is free that was not foreseen."""

    at_us: int
    nodes: tuple[str, ...]
    back: bool


class EndMoved(NamedTuple):
    """A running job with its end expected at another time from then on: its limit changed, or it ran beyond it."""

    at_us: int
    key: str
    end_us: int


class Begun(NamedTuple):
    """An epoch: the core was made anew, and told of what there was; ``gap_us``: since the record before."""

    at_us: int
    why: str
    gap_us: int


@dataclass
class Told:
    """What a journal tells of all jobs, in the order in which the core came to know them."""

    stays: list[Stay] = field(default_factory=list)  # those of all jobs
    # nodes, ends: what became of nodes, and of expected ends
    nodes: list[NodesMoved] = field(default_factory=list)
    ends: list[EndMoved] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)  # epochs, the first one first
    rounds_us: list[int] = field(default_factory=list)  # when the policy was asked, in order
    end_us: int = 0  # the last time in the journal


class Fold:
    """Takes one record of a journal after the other.

    Parameters
    ----------
    where
        What errors call the journal.

    Attributes
    ----------
    told
        What the records so far tell.
    """

    def __init__(self, where: str = "journal") -> None:
        self.told, self.where = Told(), where
        self._down: dict[str, None] = {}
        self._numbers: list[Stay | None] = []
        self._open: dict[str, Stay] = {}
        self._latest: dict[str, Stay] = {}
        self._nodes: tuple[str, ...] = ()

    def take(self, record: Mapping[str, Any]) -> None:
        """Take the next one.

        Raises
        ------
        InputError
            It cannot come here.
        """
        if record.get("k") != "begin" and not self.told.begun:
            raise InputError(self.where, f"a record {record.get('k')!r:.40}", "a beginning first")
        try:
            self._take(record)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            got = f"a record that cannot be ({error!r:.80})"
            raise InputError(self.where, got, "the journal of a driver") from None

    def _take(self, record: Mapping[str, Any]) -> None:
        now, entries = int(record["now"]), record.get("entries") or {}
        begins = record["k"] == "begin"
        if begins:
            gap = now - self.told.end_us if self.told.begun else 0
            self.told.begun.append(Begun(now, str(record["why"]), gap))
            self._numbers, self._nodes = [], tuple(record["beginning"]["nodes"])
        self.told.end_us = max(self.told.end_us, now)
        before, self._down = self._down, {} if begins else self._down
        for event in record.get("told", ()):
            self._event(event, now, entries, begins)
        if begins and (back := tuple(name for name in before if name not in self._down and name in self._nodes)):
            self.told.nodes.append(NodesMoved(now, back, True))  # a new core has them in service unless it is told
        for decision in record.get("decided", ()):
            self._decision(decision, now, entries)
        for key, entry in entries.items():
            if entry is not None:
                self._entry(key, entry, now)
        for over in record.get("over", ()):
            self._over(over, now)

    # --- events -----------------------------------------------------------------------------------------------------

    def _event(self, event: list[Any], now: int, entries: Mapping[str, Any], begins: bool) -> None:
        kind = event[0]
        if kind == "round":
            self.told.rounds_us.append(now)
        elif kind in ("drained", "repaired"):
            names = tuple(self._nodes[node] for node in event[1] if node < len(self._nodes))
            self.told.nodes.append(NodesMoved(now, names, kind == "repaired"))
            for name in names:
                self._down.pop(name, None)
                self._down |= {} if kind == "repaired" else {name: None}
        elif kind == "opened":
            if not Opened(*event[1:]).foreseen:
                self.told.nodes.append(NodesMoved(now, (), True))
        elif kind in ("submitted", "adopted") and event[1].get("components"):
            got = f"job {str(event[1]['id'])[:40]!r}, one of several components"
            raise InputError(self.where, got, "no such jobs: their components are not simulated together here")
        elif kind == "submitted":
            self._submitted(event[1], now, entries, begins)
        elif kind == "adopted":
            self._adopted(event[1], int(event[3]), now, entries)
        elif kind == "refused":
            self._numbers.append(None)
        else:
            stay = self._numbers[event[1]]
            if stay is not None:
                self._of_stay(stay, event, now)

    def _of_stay(self, stay: Stay, event: list[Any], now: int) -> None:
        last = stay.last
        match event[0]:
            case "started" if last is not None:
                last.started_us = now
            case "expected":
                self.told.ends.append(EndMoved(now, stay.key, int(event[2])))
            case "finished":
                self._close(stay, Became.ENDED, "", now)
            case "start-failed" if last is not None:
                last.became = Became.FAILED if last.started_us < 0 else Became.AGAIN
                last.freed_us, last.why = now, str(event[2][1])
            case "withdrawn":
                why = str(event[2][1])
                if why in GOES_ON:
                    return
                runs = last is not None and last.became == Became.OPEN
                if why == ELSEWHERE and last is not None and runs and last.started_us >= 0:
                    last.ended_us = now
                self._close(stay, Became.ENDED if runs and last.started_us >= 0 else Became.LEFT, why, now)  # type: ignore[union-attr]  # it runs

    def _submitted(self, job: dict[str, Any], now: int, entries: Mapping[str, Any], begins: bool) -> None:
        key = str(job["id"])
        stay = self._open.get(key) if begins else None
        if stay is None:
            entry = entries.get(key) or {}
            queued = entry.get("queued_us", NOT_YET) if begins else now
            stay = self._new(Stay(key, True, False, job, queued if queued >= 0 else entry.get("seen_us", now)))
        self._numbers.append(stay)

    def _adopted(self, job: dict[str, Any], expected_us: int, now: int, entries: Mapping[str, Any]) -> None:
        key = str(job["id"])
        entry = entries.get(key) or {}
        stay = self._open.get(key)
        if stay is None:
            was = self._latest.get(key)
            rest = was is not None and was.left_us == now and was.why == ELSEWHERE and (was.ran or was.rest)
            adopted = rest or entry.get("decided_us", NOT_YET) < 0
            stay = self._new(Stay(key, bool(entry.get("ours")), adopted, job, now, rest=rest))
            if not stay.adopted:  # its start was decided before the journal begins
                queued = entry.get("queued_us", NOT_YET)
                stay.came_us = queued if queued >= 0 else entry["seen_us"]
        if stay.last is None or stay.last.became != Became.OPEN:
            lease = entry.get("lease") or {"rows": []}
            names = _names(lease)
            decided = now if stay.adopted else entry["decided_us"]
            stay.attempts.append(Attempt(lease, names, names, decided, started_us=now if stay.adopted else NOT_YET))
            stay.expected_us = expected_us
        stay.short = stay.short or bool(entry.get("short"))
        self._numbers.append(stay)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def _decision(self, decision: list[Any], now: int, entries: Mapping[str, Any]) -> None:
        kind = decision[0]
        number = decision[1]["job"] if kind in ("start", "resize") else decision[1]
        stay = self._numbers[number]
        if stay is None:
            return
        if kind == "start":
            lease = (entries.get(stay.key) or {}).get("lease") or {"rows": []}
            stay.attempts.append(Attempt(lease, _names(lease), (), now))
        elif kind == "requeue" and stay.last is not None:
            last = stay.last
            last.became = Became.AGAIN if last.started_us >= 0 else Became.FAILED
            last.freed_us, last.why = now, "stopped by the policy"
        elif kind == "reject":
            self._close(stay, Became.REJECTED, str(decision[2][1]), now)

    # --- entries ------------------------------------------------------------------------------------------------------

    def _entry(self, key: str, entry: Mapping[str, Any], now: int) -> None:
        stay = self._open.get(key)
        if stay is None:
            return
        if entry["phase"] == Phase.ASIDE and str(entry.get("why", "")).startswith("rejected"):
            self._close(stay, Became.REJECTED, str(entry["why"]), now)
            return
        self._facts(stay, entry)

    def _facts(self, stay: Stay, entry: Mapping[str, Any]) -> None:
        """What only the driver's own record of a job has: orders given, and times of the orchestrator."""
        stay.submit_s = entry.get("submit_s", 0) or stay.submit_s
        stay.restarts = entry.get("restarts", 0)
        stay.ours = stay.ours or bool(entry.get("ours"))
        last = stay.last
        if last is None or last.became not in (Became.OPEN, Became.ENDED):
            return
        if not stay.adopted and entry.get("decided_us", NOT_YET) != last.decided_us:
            return  # of another start
        if entry.get("lease"):
            last.lease = entry["lease"]
        for name in ("released_us", "ended_us"):
            setattr(last, name, max(getattr(last, name), entry.get(name, NOT_YET)))
        if last.started_us < 0:
            last.started_us = entry.get("started_us", NOT_YET)
        last.start_s, last.end_s = entry.get("start_s", 0) or last.start_s, entry.get("end_s", 0) or last.end_s
        if last.started_us >= 0 and entry.get("lease"):
            last.ran_on = _names(entry["lease"])

    def _over(self, over: Mapping[str, Any], now: int) -> None:
        """A job is over: its stay is closed already, or the core had no number for it."""
        key = str(over["key"])
        stay = self._latest.get(key)
        if stay is None:
            return
        self._facts(stay, over)
        if key in self._open:
            self._close(stay, Became.ENDED if stay.last is not None else Became.LEFT, "", now)
        if stay.last is not None and stay.last.became == Became.ENDED:
            stay.last.ended_us = over.get("ended_us", now)
            stay.last.why = stay.why = str(over.get("state", "")) or stay.why

    def _new(self, stay: Stay) -> Stay:
        self.told.stays.append(stay)
        self._open[stay.key] = self._latest[stay.key] = stay
        return stay

    def _close(self, stay: Stay, became: Became, why: str, now: int) -> None:
        stay.became, stay.left_us, stay.why = became, now, why
        if self._open.get(stay.key) is stay:
            del self._open[stay.key]
        last = stay.last
        if last is not None and last.became == Became.OPEN:
            last.became = became if last.started_us >= 0 else Became.FAILED
            last.freed_us, last.why = now, why


def _names(lease: Portable) -> tuple[str, ...]:
    return tuple(sorted({str(row[0]) for row in lease["rows"]}))
