"""What the driver does by what was decided: orders given, devices attached; and what became of both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from unrack.live.driver.attachments import Attachments, attachments_of
from unrack.live.driver.clock import Clock
from unrack.live.driver.contract import Acknowledgement, Act, Orchestrator, Order
from unrack.live.driver.portable import Names
from unrack.live.driver.sides import Written
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Decided, Detaching, Phase, Released, Running, Stopped, attached_of
from unrack.live.driver.state.steps import recalled
from unrack.live.driver.state.table import KnownJobs, ranked
from unrack.live.driver.turns.turn import Turn
from unrack.live.fabric.contract import Fabric
from unrack.live.watch.log import Events
from unrack.live.watch.meters import Meters, Operation

ORDERS_AT_ONCE = 250
"""How many orders are given before what became of them is written down: the first jobs need not wait for the last."""
AGAIN_US = 1_000_000
"""After how long an order without a visible effect is given again."""
ACTS = {
    Phase.ORDERING: Act.START, Phase.RECALLING: Act.HOLD, Phase.STOPPING: Act.STOP, Phase.HOLDING: Act.HOLD,
    Phase.DETACHING: Act.HOLD, Phase.RUNNING: Act.MORE,
}  # fmt: skip


class Acting:
    """Carries out what was decided, and writes down how far that has brought jobs.

    Parameters
    ----------
    orchestrator, fabric, table, journal, meters
        As of :class:`unrack.live.driver.driver.Driver`; ``table``: the jobs that it knows.
    """

    def __init__(
        self, orchestrator: Orchestrator, fabric: Fabric, table: KnownJobs, journal: Written, meters: Meters
    ) -> None:
        self.orchestrator, self.table, self.journal, self.meters = orchestrator, table, journal, meters
        self.attachments, self.log = Attachments(fabric), Events(orchestrator.name.lower())
        self._given: dict[str, tuple[Phase, int]] = {}

    def act(self, names: Names, clock: Clock) -> bool:
        """Give orders, attach and detach, and write down what became of it; True if anything was done."""
        now = clock.now()
        for entry in self.table.in_phase(Phase.DETACHING):
            self.attachments.detach(entry, now)
        attaching = self.table.in_phase(Phase.ATTACHING)
        if attaching:
            stages = (entry.stage for entry in self.table.unsettled.values())
            leaving = {device for stage in stages if (one := attached_of(stage)) for device in one.leaving}
            attaching = [entry for entry in attaching if not leaving.intersection(entry.devices)]
        for entry in attaching:
            assert isinstance(entry.stage, Decided)
            if not entry.operations:
                operations = tuple(one.operation for one in attachments_of(entry, names))
                self.table.move(entry, replace(entry.stage, operations=operations))
        self._write_did(now)
        for entry in attaching:
            self.attachments.attach(entry, attachments_of(entry, names))
        orders = self._due(now)
        if not orders:
            return False
        for first in range(0, len(orders), ORDERS_AT_ONCE):
            self._give(orders[first : first + ORDERS_AT_ONCE], clock)
        return True

    def _give(self, orders: Sequence[Order], clock: Clock) -> None:
        """Give some orders, and write down what became of them."""
        refused = []
        for answers in self.orchestrator.carry_out(orders):
            self._answered(answers, clock.now())
            refused += [answer for answer in answers if answer.problem]
        self._write_did(clock.now())
        for answer in refused:
            self.meters.refused(answer.word)
            job, word = answer.order.entry.key, answer.word
            self.log.warning(f"{self.orchestrator.name} refused an order", order=word, job=job, why=answer.problem)

    def _due(self, now: int) -> list[Order]:
        """The orders that are to be given now."""
        found: list[Order] = []
        acting = ranked(one for one in self.table.unsettled.values() if one.phase in ACTS and _is_due(one))
        self._given = {entry.key: self._given[entry.key] for entry in acting if entry.key in self._given}
        for entry in acting:
            phase, at = self._given.get(entry.key, (None, 0))
            if phase == entry.phase and now - at < AGAIN_US:
                continue
            self._given[entry.key] = entry.phase, now
            found.append(Order(ACTS[entry.phase], entry))
        return found

    def _answered(self, answers: Sequence[Acknowledgement], now: int) -> None:
        """Note what became of orders."""
        for answer in answers:
            entry, stage = answer.order.entry, answer.order.entry.stage
            if answer.own is not None:
                entry.own = answer.own
                self.table.touch(entry)
            if isinstance(stage, Running) and answer.problem:  # it ends at its limit
                self.table.move(entry, replace(stage, more=replace(stage.more, given_s=None)))
            if isinstance(stage, Stopped) and answer.problem and answer.stays:  # what is seen next is that it runs
                self.table.move(entry, replace(stage, phase=Phase.HOLDING, why=answer.problem[:300]))
            if not isinstance(stage, Decided) or stage.phase != Phase.ORDERING:
                continue
            if answer.problem:
                why = f"{self.orchestrator.name} refused to {answer.word.lower()} it: {answer.problem}"
                self.table.move(entry, recalled(stage, why[:300], answer.excused))
            elif answer.done:
                self.table.move(entry, Released(stage.intent, stage.operations, now))

    def _write_did(self, now: int) -> None:
        if entries := self.table.taken():
            self.journal.append([{"k": "did", "now": now, "entries": entries}])

    def fabric_done(self, turn: Turn) -> bool:
        """Note what became of attaching and detaching; True if all is to be read again for a job that goes on."""
        again = False
        for outcome in self.attachments.done(turn.now):
            entry = self.table.get(outcome.key)
            self.meters.fabric(outcome.operation, outcome.seconds, bool(outcome.problem))
            if entry is None:
                continue
            if outcome.problem:
                self.log.warning("the fabric failed", job=entry.key, why=outcome.problem)
            attached = outcome.operation == Operation.ATTACH
            if attached and entry.phase == Phase.ATTACHING:
                if outcome.problem:
                    turn.ending.give_up(entry, f"devices could not be attached: {outcome.problem}")
                else:
                    assert isinstance(entry.stage, Decided)
                    self.table.move(entry, replace(entry.stage, phase=Phase.ORDERING))
            elif not attached and not outcome.problem and entry.phase == Phase.DETACHING:
                again |= turn.ending.detached(entry)
        return again

    def settle(self) -> None:
        """Detach what is attached for no job: the remains of operations that were cut off.

        Raises
        ------
        FabricError
            The fabric does not tell what is attached, or does not detach it.
        """
        known = {operation for entry in self.table for operation in entry.operations}
        began = time.perf_counter()
        attachments = self.attachments.fabric.state()
        self.meters.fabric(Operation.STATE, time.perf_counter() - began)
        for attachment in attachments:
            if attachment.operation not in known:
                self.log.warning("detaching what no job holds", operation=attachment.operation)
                self.attachments.fabric.detach(attachment.operation)

    def close(self) -> None:
        """End what is under way in the background."""
        self.attachments.close()


def _is_due(entry: Entry) -> bool:
    """True if something may have to be told of a job; of one that runs, that it has more time than is seen."""
    stage, limit_s = entry.stage, entry.said.limit_s
    if isinstance(stage, Running):
        return limit_s is not None and (stage.more.given_s or 0) > limit_s
    return not isinstance(stage, Detaching) or stage.free
