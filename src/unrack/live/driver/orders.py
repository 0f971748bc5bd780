"""What jobs have to be told, by how far they have come; and what the answers change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unrack.live.driver.contract import Act, Answer, Order
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Decided, Detaching, Phase, Released, Running
from unrack.live.driver.state.steps import recalled
from unrack.live.driver.state.table import Table

AGAIN_US = 1_000_000
"""After how long an order whose effect is not seen is given again."""
ACTS = {
    Phase.ORDERING: Act.START, Phase.RECALLING: Act.HOLD, Phase.STOPPING: Act.STOP, Phase.HOLDING: Act.HOLD,
    Phase.DETACHING: Act.HOLD, Phase.RUNNING: Act.MORE,
}  # fmt: skip


class Orders:
    """The orders that are due.

    Parameters
    ----------
    table
        How far jobs have come.
    name
        What people call whoever is told.
    """

    def __init__(self, table: Table, name: str) -> None:
        self.table, self.name = table, name
        self._given: dict[str, tuple[Phase, int]] = {}

    def due(self, now: int) -> list[Order]:
        """The orders that are to be given now."""
        found: list[Order] = []
        acting = [entry for entry in self.table.in_phase(ACTS) if _is_due(entry)]
        self._given = {entry.key: self._given[entry.key] for entry in acting if entry.key in self._given}
        for entry in acting:
            phase, at = self._given.get(entry.key, (None, 0))
            if phase == entry.phase and now - at < AGAIN_US:
                continue
            self._given[entry.key] = entry.phase, now
            found.append(Order(ACTS[entry.phase], entry))
        return found

    def answered(self, answers: Sequence[Answer], now: int) -> None:
        """Note what became of orders."""
        for answer in answers:
            entry, stage = answer.order.entry, answer.order.entry.stage
            if answer.own is not None:
                entry.own = answer.own
                self.table.touch(entry)
            if isinstance(stage, Running) and answer.problem:  # it ends at its limit
                self.table.move(entry, replace(stage, more=replace(stage.more, given_s=None)))
            if not isinstance(stage, Decided) or stage.phase != Phase.ORDERING:
                continue
            if answer.problem:
                why = f"{self.name} refused to {answer.word.lower()} it: {answer.problem}"
                self.table.move(entry, recalled(stage, why[:300]))
            elif answer.done:
                self.table.move(entry, Released(stage.intent, stage.operations, now))


def _is_due(entry: Entry) -> bool:
    """True if something may have to be told of a job; of one that runs, that it has more time than is seen."""
    stage, limit_s = entry.stage, entry.said.limit_s
    if isinstance(stage, Running):
        return limit_s is not None and (stage.more.given_s or 0) > limit_s
    return not isinstance(stage, Detaching) or stage.free
