"""What Slurm has to be told, by how far jobs have come; and what its answers change."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.live.driver.portable import nodes_in
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Decided, Detaching, Phase, Released
from unrack.live.driver.state.steps import recalled
from unrack.live.driver.state.table import Table
from unrack.live.slurm.adapter.seen import key_of
from unrack.live.slurm.orders import Answer, AskAgain, HoldBack, Order, Place, Release, RequeueHeld

AGAIN_US = 1_000_000
"""After how long an order whose effect is not seen is given again."""
ACTING = (Phase.ORDERING, Phase.RECALLING, Phase.STOPPING, Phase.HOLDING, Phase.DETACHING)


class Orders:
    """The orders that are due.

    Parameters
    ----------
    table
        How far jobs have come.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._given: dict[str, tuple[Phase, int]] = {}

    def due(self, now: int) -> list[Order]:
        """The orders that are to be given now; what is placed has to be released when Slurm has taken that."""
        found: list[Order] = []
        acting = [
            entry for entry in self.table.in_phase(ACTING) if not isinstance(entry.stage, Detaching) or entry.stage.free
        ]
        self._given = {entry.key: self._given[entry.key] for entry in acting if entry.key in self._given}
        for entry in acting:
            phase, at = self._given.get(entry.key, (None, 0))
            if phase == entry.phase and now - at < AGAIN_US:
                continue
            self._given[entry.key] = entry.phase, now
            found += self._of(entry)
        return found

    def _of(self, entry: Entry) -> list[Order]:
        job = key_of(entry.key)
        if entry.phase == Phase.ORDERING:
            inside = entry.placing.inside if entry.placing.partition else ""
            return [Place(job, tuple(entry.nodes), entry.said.restarts > 0, inside, _parts(entry))]
        if entry.phase == Phase.STOPPING:
            return [RequeueHeld(job)]
        if entry.placing.parts:
            return [HoldBack(job, together=True)]
        return [HoldBack(job, entry.placing.nodes_min, entry.placing.nodes_max)]

    def then(self, answers: Sequence[Answer]) -> list[Order]:
        """The orders that follow on those that Slurm has taken.

        A job that was not placed must not be released; one that is held again asks for what it asked for before.
        """
        found: list[Order] = []
        for order in (answer.order for answer in answers if answer.done):
            if isinstance(order, Place):
                found.append(Release(order.job))
            entry = self.table.get(str(order.job))
            if isinstance(order, HoldBack) and entry is not None and not _restores(order, entry):
                parts = tuple((part.excluded, part.partition) for part in entry.placing.parts)
                wanted = ((), "") if parts else (entry.placing.wanted, entry.placing.partition)
                found.append(AskAgain(order.job, *wanted, parts))
        return found

    def answered(self, answers: Sequence[Answer], now: int) -> None:
        """Note what became of orders."""
        for answer in answers:
            entry = self.table.get(str(answer.order.job))
            if entry is not None and answer.done and _restores(answer.order, entry):
                entry.placing = entry.placing._replace(pinned=False)
                self.table.touch(entry)
            if entry is None or not isinstance(stage := entry.stage, Decided) or stage.phase != Phase.ORDERING:
                continue
            if not answer.done:
                what = type(answer.order).__name__.lower()
                self.table.move(entry, recalled(stage, f"Slurm refused to {what} it: {answer.problem}"[:300]))
            elif isinstance(answer.order, Release):
                self.table.move(entry, Released(stage.intent, stage.operations, now))


def _restores(order: Order, entry: Entry) -> bool:
    """True if Slurm has in a job what its user asked for, once it has taken this order."""
    placing = entry.placing
    asks = placing.wanted or placing.partition or placing.parts
    return isinstance(order, AskAgain) or (isinstance(order, HoldBack) and not asks)


def _parts(entry: Entry) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The nodes and the partition of each component of a heterogeneous job."""
    leases = [] if entry.lease is None else entry.lease.get("parts", ())
    return tuple(
        (tuple(nodes_in(lease)), part.inside if part.partition else "")
        for lease, part in zip(leases, entry.placing.parts, strict=False)
    )
