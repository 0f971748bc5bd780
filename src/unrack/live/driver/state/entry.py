"""What the driver knows of one job of Slurm: what Slurm said of it last, what the core knows, how far it has come."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from unrack.live.driver.portable import Portable, devices_in, nodes_in
from unrack.live.driver.state.facts import facts_of, stage_of_record
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
from unrack.live.slurm.reading import SlurmJob

MOST_PLACED = 16
"""How many places of a job are remembered."""


class Said(NamedTuple):
    """What Slurm said of a job when it was last looked at.

    Attributes
    ----------
    submit_s, start_s, end_s
        Slurm's own times, s since 1970; 0: not known.
    restarts
        How often it was started again.
    limit_s
        Its time limit once it ran; ``None``: none.
    state
        Slurm's word for how it ended; ``""``: it has not.
    """

    submit_s: int = 0
    restarts: int = 0
    start_s: int = 0
    end_s: int = 0
    limit_s: int | None = None
    state: str = ""


class Known(NamedTuple):
    """What the core knows of a job."""

    number: int | None = None  # its number in the core; ``None``: it has none there now
    # what the core was told that it asks: a record of :func:`unrack.live.records.job_record`; ``None``: nothing yet
    job: dict[str, Any] | None = None
    queued_us: int | None = None  # when the core was last told that it waits; ``None``: never
    group: int | None = None  # its own among those whose tasks are kept apart; ``None``: none
    # what it was promised while it waits: start, turn, grain and lease, as of
    # :class:`unrack.ledger.promises.Promise`, the lease by names
    promise: list[Any] | None = None


class Part(NamedTuple):
    """Where a component of a heterogeneous job was placed, and what it had asked for before that."""

    required: tuple[str, ...] = ()  # the nodes that it asked for by name
    excluded: tuple[str, ...] = ()  # those that it wanted not to have
    partition: str = ""  # the partitions that it asked for, if several
    inside: str = ""  # in which of them it was placed last


class Placing(NamedTuple):
    """Where a job was placed, and what it had asked for before that."""

    # The last places that we have asked for by name, perhaps, oldest first: after a lost connection we cannot tell
    # which of them Slurm accepted. Other required nodes come from the user.
    placed: tuple[tuple[str, ...], ...] = ()
    # nodes_min, nodes_max: how many nodes it asked for; 0: not said
    nodes_min: int = 0
    nodes_max: int = 0
    wanted: tuple[str, ...] = ()  # the nodes that it asked for by name
    partition: str = ""  # the partitions that it asked for, if several
    inside: str = ""  # in which of them it was placed last
    pinned: bool = False  # whether Slurm has our place in it, perhaps, and not what its user asked for
    parts: tuple[Part, ...] = ()  # of a heterogeneous job: its components


class Trouble(NamedTuple):
    """What went wrong with the starts of a job."""

    tries: int = 0  # how many have failed in a row
    refused: str = ""  # Slurm's reason why the last was not allowed; ``""``: it was, or it has been tried since
    # when it is looked at again though Slurm reports nothing; ``None``: when something changes
    again_us: int | None = None


@dataclass(slots=True)
class Entry:
    """One job."""

    key: str  # which job: see :class:`unrack.live.slurm.orders.JobKey`
    seen_us: int  # when it came
    stage: Stage = ASIDE  # how far it has come, and what it holds
    ours: bool = False  # whether it is the driver's to start
    # said, known, placing, trouble: what Slurm said of it last; what the core knows; where it was placed; what went
    # wrong with its starts
    said: Said = field(default_factory=Said)
    known: Known = field(default_factory=Known)
    placing: Placing = field(default_factory=Placing)
    trouble: Trouble = field(default_factory=Trouble)

    def record(self) -> dict[str, Any]:
        """As plain values, flat; what there is not, or is as by default, is left out."""
        found: dict[str, Any] = {"key": self.key, "phase": self.phase, "seen_us": self.seen_us}
        for part in (self.said, self.known, self.placing, self.trouble):
            defaults = part._field_defaults
            found |= {name: value for name, value in part._asdict().items() if value != defaults[name]}
        own = {"ours": self.ours, "why": self.why}
        return found | facts_of(self.stage) | {name: value for name, value in own.items() if value}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Entry:
        """The entry that :meth:`record` wrote.

        Raises
        ------
        KeyError
            Something is missing.
        """

        def part(of: type[Any]) -> Any:
            return of(**{name: record[name] for name in of._fields if name in record})

        placing = part(Placing)
        parts = [Part(tuple(one[0]), tuple(one[1]), *one[2:]) for one in placing.parts]
        return cls(
            record["key"], record["seen_us"], stage_of_record(record), record.get("ours", False), part(Said),
            part(Known),
            placing._replace(
                placed=tuple(map(tuple, placing.placed)), wanted=tuple(placing.wanted), parts=tuple(parts)
            ), part(Trouble),
        )  # fmt: skip

    def place(self, nodes: Sequence[str]) -> None:
        """Note that these nodes may be asked for by name from now on."""
        found = tuple(sorted(nodes))
        others = (one for one in self.placing.placed if one != found)
        self.placing = self.placing._replace(placed=(*others, found)[-MOST_PLACED:], pinned=True)

    def is_placed(self, nodes: Collection[str]) -> bool:
        """True if it is we who may have asked for these nodes by name."""
        return tuple(sorted(nodes)) in self.placing.placed

    def as_asked(self, job: SlurmJob) -> SlurmJob:
        """A job as it was before we placed it: what we have asked for is not what it asks."""
        own, placed = self.placing, self.is_placed(job.required_nodes)
        if placed:
            job = replace(job, nodes_min=own.nodes_min or job.nodes_min, nodes_max=own.nodes_max)
        if placed or (own.pinned and not job.required_nodes):
            job = replace(job, required_nodes=own.wanted)
        if own.pinned and job.components and len(own.parts) == len(job.components):
            return replace(job, components=tuple(map(_part_as_asked, job.components, own.parts)))
        narrowed = own.pinned and own.partition and job.partition == own.inside
        return replace(job, partition=own.partition) if narrowed else job

    def note_asked(self, job: SlurmJob) -> None:
        """Keep what a job asks for, before it is placed."""
        own = self.placing
        if not own.placed:
            own = own._replace(nodes_min=job.nodes_min, nodes_max=job.nodes_max)
        asked = ((one.required_nodes, one.excluded_nodes, _several(one.partition)) for one in job.components)
        parts = tuple(Part(*one) for one in asked)
        self.placing = own._replace(wanted=job.required_nodes, partition=_several(job.partition), parts=parts)

    def is_let_go(self, job: SlurmJob) -> bool:
        """True if a job waits, not held, for a place that we gave it: Slurm may start it there."""
        return job.waits and not job.is_held and self.is_placed(job.required_nodes)

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


def _several(partition: str) -> str:
    return partition if "," in partition else ""


def _part_as_asked(job: SlurmJob, own: Part) -> SlurmJob:
    """A component as it was before we placed it."""
    job = replace(job, required_nodes=own.required, excluded_nodes=own.excluded)
    return replace(job, partition=own.partition) if own.partition and job.partition == own.inside else job
