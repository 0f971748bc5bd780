"""What the driver knows of one job: what was seen of it last, what the core knows, how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unrack.live.driver.portable import Portable, devices_in, nodes_in
from unrack.live.driver.seen import SeenJob, Shown
from unrack.live.driver.state.facts import FACTS, facts_of, stage_of_record
from unrack.live.driver.state.stage import (
    ASIDE,
    Detaching,
    Idle,
    Phase,
    Recalling,
    Stage,
    Stopped,
    grant_of,
    operations_of,
)  # fmt: skip

MOST_PLACED = 16
"""How many places of a job are remembered."""


class Said(NamedTuple):
    """What was seen of a job when it was last looked at.

    Attributes
    ----------
    submit_s, start_s, end_s
        The orchestrator's own times, s since 1970; 0: not known.
    restarts
        How often it was started again.
    limit_s
        Its time limit when it came into the queue, and once it ran; ``None``: none.
    state
        The orchestrator's word for how it ended; ``""``: it has not.
    holding
        How many of its parts held something once it ran, as of :attr:`unrack.live.driver.seen.SeenJob.parts`.
    """

    submit_s: int = 0
    restarts: int = 0
    start_s: int = 0
    end_s: int = 0
    limit_s: int | None = None
    state: str = ""
    holding: int = 0


class Known(NamedTuple):
    """What the core knows of a job."""

    number: int | None = None  # its number in the core; ``None``: it has none there now
    # what the core was told that it asks: a record of :func:`unrack.live.records.job_record`; ``None``: nothing yet
    job: dict[str, Any] | None = None
    lacking: bool = False  # whether it asks for more than that, and held something that did not go with it
    queued_us: int | None = None  # when the core was last told that it waits; ``None``: never
    since_us: int | None = None  # since when it could start, by its own word: its age; ``None``: not looked at yet
    group: int | None = None  # its own among those with tasks kept apart; ``None``: none
    # what it was promised while it waits: start, turn, grain and lease, as of
    # :class:`unrack.ledger.jobs.Promise`, the lease by names
    promise: list[Any] | None = None
    # raised_s, before_s: the last limit, s, that more time has made of its own, and which that was; ``None``: none
    raised_s: int | None = None
    before_s: int | None = None

    def with_limit(self, limit_s: int | None) -> Known:
        """The same of a job that waits with a limit, s: another may have changed it since it was given more time."""
        return self if limit_s in (self.raised_s, self.before_s) else self._replace(raised_s=None, before_s=None)


class Trouble(NamedTuple):
    """What went wrong with the starts of a job."""

    tries: int = 0  # how many have failed in a row
    refused: str = ""  # the word for why the last was not allowed; ``""``: it was, or it has been tried since
    # when it is looked at again though nothing is reported; ``None``: when something changes
    again_us: int | None = None


OWN = FACTS.union(
    ("key", "phase", "seen_us", "placed", "ours", "why", "freed_us"), Said._fields, Known._fields, Trouble._fields
)
"""The names that the record of a job has for what the driver knows itself; all others are the adapter's."""


@dataclass(slots=True)
class Entry:
    """One job."""

    key: str  # which job
    seen_us: int  # when it came
    stage: Stage = ASIDE  # how far it has come, and what it holds
    ours: bool = False  # whether it is the driver's to start
    # said, known, trouble: what was seen of it last; what the core knows; what went wrong with its starts
    said: Said = field(default_factory=Said)
    known: Known = field(default_factory=Known)
    trouble: Trouble = field(default_factory=Trouble)
    # The last places that it was told of, perhaps, oldest first: after a lost connection we cannot tell which of them
    # the orchestrator has taken.
    placed: tuple[tuple[str, ...], ...] = ()
    own: Any = None  # what the adapter keeps with it: a named tuple with defaults, or ``None``

    def record(self) -> dict[str, Any]:
        """As plain values, flat; what there is not, or is as by default, is left out."""
        found: dict[str, Any] = {"key": self.key, "phase": self.phase, "seen_us": self.seen_us}
        for part in filter(None, (self.said, self.known, self.own, self.trouble)):
            defaults = part._field_defaults
            found |= {name: value for name, value in zip(part._fields, part, strict=True) if value != defaults[name]}
        own = {"placed": self.placed, "ours": self.ours, "why": self.why}
        return found | facts_of(self.stage) | {name: value for name, value in own.items() if value}

    @classmethod
    def of_record(cls, record: Mapping[str, Any], own_of: Callable[[Mapping[str, Any]], Any] | None = None) -> Entry:
        """The entry that :meth:`record` wrote; without ``own_of`` what only the adapter knows is left out.

        Raises
        ------
        KeyError
            Something is missing.
        """
        if isinstance(record.get("parts"), int):  # what ``holding`` was called, also in records where it is another's
            record = {**record, "holding": record["parts"]}

        def part(of: type[Any]) -> Any:
            return of(**{name: record[name] for name in of._fields if name in record})

        return cls(
            record["key"], record["seen_us"], stage_of_record(record), record.get("ours", False), part(Said),
            part(Known), part(Trouble), tuple(map(tuple, record.get("placed", ()))),
            None if own_of is None else own_of(record),
        )  # fmt: skip

    def place(self, nodes: Sequence[str]) -> None:
        """Note that it may be told to start on these nodes from now on."""
        found = tuple(sorted(nodes))
        self.placed = (*(one for one in self.placed if one != found), found)[-MOST_PLACED:]

    def is_placed(self, nodes: Collection[str]) -> bool:
        """True if the driver may have told it to start on these nodes."""
        return tuple(sorted(nodes)) in self.placed

    def is_let_go(self, job: SeenJob) -> bool:
        """True if a job waits, not held, for a place that we gave it: it may start there."""
        return job.shown == Shown.FREE and self.is_placed(job.told)

    @property
    def phase(self) -> Phase:
        """How far it has come."""
        return self.stage.phase

    @property
    def why(self) -> str:
        """Why it is aside, was recalled, is held again or gives up its devices."""
        return self.stage.why if isinstance(self.stage, Idle | Recalling | Stopped | Detaching) else ""

    @property
    def number(self) -> int | None:
        """Its number in the core; ``None``: it has none there now."""
        return self.known.number

    @property
    def job(self) -> dict[str, Any]:
        """What the core was told that it asks; nothing yet: an empty table."""
        return self.known.job or {}

    @property
    def lease(self) -> Portable | None:
        """What it holds, or will when it starts, by names."""
        grant = grant_of(self.stage)
        return None if grant is None else grant.lease

    @property
    def operations(self) -> tuple[str, ...]:
        """The attachments of its devices, by id."""
        return operations_of(self.stage)

    @property
    def nodes(self) -> list[str]:
        """The nodes of its lease, by name, in ascending order."""
        return [] if self.lease is None else nodes_in(self.lease)

    @property
    def devices(self) -> list[str]:
        """The devices of its lease, by name, one share after the other."""
        return [] if self.lease is None else devices_in(self.lease)

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """Ascending in the order in which jobs came."""
        return self.seen_us, -1 if self.number is None else self.number, len(self.key), self.key
