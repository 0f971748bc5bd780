"""What the driver knows of one job of Slurm: how far its start has come, what it holds, under which number."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import Any

from unrack.live.slurm.portable import Portable, devices_in
from unrack.live.slurm.reading import SlurmJob


class Phase(StrEnum):
    """How far a job has come."""

    WAITING = "waiting"  # in the queue of the core
    ATTACHING = "attaching"  # its start is decided, devices are being attached
    ORDERING = "ordering"  # Slurm is to be told
    RELEASED = "released"  # Slurm was told, and has not reported the start
    RECALLING = "recalling"  # it did not start in time, or must not: Slurm is to hold it again
    RUNNING = "running"  # Slurm reported its start, where it was decided
    STOPPING = "stopping"  # the policy stopped it; it waits in the core, and Slurm has not reported it held
    HOLDING = "holding"  # it waits in the core, and Slurm, which has forgotten that, is to hold it again
    DETACHING = "detaching"  # it has ended, devices are being detached
    FOREIGN = "foreign"  # it runs, and we did not start it
    ASIDE = "aside"  # it waits, and is not to be started now, for the reason in ``why``


INTENDED = frozenset({Phase.ATTACHING, Phase.ORDERING, Phase.RELEASED, Phase.RECALLING})
"""Its start is decided and not acknowledged."""
HOLDS = INTENDED | {Phase.RUNNING, Phase.DETACHING, Phase.FOREIGN}
"""It holds a lease."""
NOT_HELD = frozenset({Phase.STOPPING, Phase.HOLDING})
"""It waits in the core, which may have decided its next start, and Slurm has not reported it held."""
MOST_PLACED = 16
"""How many places of a job are remembered."""


@dataclass(slots=True)
class Entry:
    """One job.

    Attributes
    ----------
    key
        Which job: see :class:`unrack.live.slurm.orders.JobKey`.
    phase
        How far it has come.
    number
        Its number in the core; -1: it has none there now.
    ours
        Whether it is the driver's to start.
    job
        What the core was told that it asks: a record of :func:`unrack.live.records.job_record`.
    lease
        What it holds, by names.
    promise
        What it was promised while it waits: start, turn, grain and lease, as of
        :class:`unrack.ledger.promises.Promise`, the lease by names.
    operations
        The attachments of its devices, by id.
    leaving
        The devices that it had when the policy stopped it, as long as they are attached: the core has given them away.
    why
        Why it is aside, or was recalled.
    again_us
        Not to be tried before this time.
    tries
        How many starts have failed in a row.
    seen_us, queued_us
        When it came, and when the core was last told of it; -1: not yet.
    decided_us, released_us, started_us, ended_us
        When its present start was decided, given to Slurm, reported, and over; -1: not yet.
    freed_us
        When what it held was free again: later than its end where devices had to be detached.
    submit_s, start_s, end_s
        Slurm's own times, s since 1970; 0: not known.
    limit_s
        Its time limit as last seen; -1: none.
    nodes_min, nodes_max
        How many nodes it asked for before it was placed; 0: not said.
    placed
        The last places that we have asked for by name, perhaps, oldest first: which of them Slurm took last is not
        known to whoever was cut off. Whatever else is asked by name is its user's.
    restarts
        As Slurm counted when it was last seen.
    state
        Slurm's word for how it ended.
    group
        Its own among those whose tasks are kept apart; 0: none.
    free
        Whether Slurm may start it though its devices are being detached, because it has forgotten that it is held.
    refused
        Slurm's reason why its last start was not allowed; ``""``: it was, or it has been tried since.
    short
        Whether the lease is less than Slurm says that it holds, because more was not free in the ledger.
    """

    key: str
    phase: Phase
    number: int = -1
    ours: bool = False
    job: dict[str, Any] = field(default_factory=dict)
    lease: Portable | None = None
    promise: list[Any] | None = None
    operations: list[str] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)
    why: str = ""
    again_us: int = 0
    tries: int = 0
    seen_us: int = -1
    queued_us: int = -1
    decided_us: int = -1
    released_us: int = -1
    started_us: int = -1
    ended_us: int = -1
    freed_us: int = -1
    submit_s: int = 0
    start_s: int = 0
    end_s: int = 0
    limit_s: int = -1
    nodes_min: int = 0
    nodes_max: int = 0
    placed: list[list[str]] = field(default_factory=list)
    restarts: int = 0
    state: str = ""
    group: int = 0
    free: bool = False
    refused: str = ""
    short: bool = False

    def record(self) -> dict[str, Any]:
        """As plain values; what is as by default is left out."""
        found = {name: getattr(self, name) for name in DEFAULTS}
        return {name: value for name, value in found.items() if name in ("key", "phase") or value != DEFAULTS[name]}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Entry:
        """The entry that :meth:`record` wrote."""
        return cls(**{**record, "phase": Phase(record["phase"])})

    def place(self, nodes: Sequence[str]) -> None:
        """Note that these nodes may be asked for by name from now on."""
        found = sorted(nodes)
        self.placed = [*(one for one in self.placed if one != found), found][-MOST_PLACED:]

    def is_placed(self, nodes: Collection[str]) -> bool:
        """True if it is we who may have asked for these nodes by name."""
        return sorted(nodes) in self.placed

    def is_let_go(self, job: SlurmJob) -> bool:
        """True if a job waits, not held, for a place that we gave it: Slurm may start it there."""
        return job.waits and not job.is_held and self.is_placed(job.required_nodes)

    @property
    def nodes(self) -> list[str]:
        """The nodes of its lease, by name, in ascending order."""
        return [] if self.lease is None else sorted({row[0] for row in self.lease["rows"]})

    @property
    def devices(self) -> list[str]:
        """The devices of its lease, by name, one share after the other."""
        return [] if self.lease is None else devices_in(self.lease)


DEFAULTS: dict[str, Any] = {
    one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in fields(Entry)
}
