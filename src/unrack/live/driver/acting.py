"""What the driver does by what was decided: orders given, devices attached; and what became of both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from unrack.live.driver.attachments import Attachments, attachments_of
from unrack.live.driver.clock import Clock
from unrack.live.driver.contract import Orchestrator, Order
from unrack.live.driver.orders import Orders
from unrack.live.driver.portable import Names
from unrack.live.driver.sides import Written
from unrack.live.driver.state.stage import Decided, Phase, attached_of
from unrack.live.driver.state.table import Table
from unrack.live.driver.turns.turn import Turn
from unrack.live.fabric.contract import Fabric
from unrack.live.watch.log import Events
from unrack.live.watch.meters import Meters, Operation

ORDERS_AT_ONCE = 250
"""How many orders are given before what became of them is written down: the first jobs need not wait for the last."""


class Acting:
    """Carries out what was decided, and writes down how far that has brought jobs.

    Parameters
    ----------
    orchestrator, fabric, table, journal, meters
        As of :class:`unrack.live.driver.driver.Driver`; ``table``: the jobs that it knows.
    """

    def __init__(
        self, orchestrator: Orchestrator, fabric: Fabric, table: Table, journal: Written, meters: Meters
    ) -> None:
        self.orchestrator, self.table, self.journal, self.meters = orchestrator, table, journal, meters
        self.attachments, self.orders = Attachments(fabric), Orders(table, orchestrator.name)
        self.log = Events(orchestrator.name.lower())

    def act(self, names: Names, clock: Clock) -> bool:
        """Give orders, attach and detach, and write down what became of it; True if anything was done."""
        now = clock.now()
        for entry in self.table.in_phase(Phase.DETACHING):
            self.attachments.detach(entry, now)
        attaching = self.table.in_phase(Phase.ATTACHING)
        if attaching:
            leaving = {device for entry in self.table if (one := attached_of(entry.stage)) for device in one.leaving}
            attaching = [entry for entry in attaching if not leaving.intersection(entry.devices)]
        for entry in attaching:
            assert isinstance(entry.stage, Decided)
            if not entry.operations:
                operations = tuple(one.operation for one in attachments_of(entry, names))
                self.table.move(entry, replace(entry.stage, operations=operations))
        self._write_did(now)
        for entry in attaching:
            self.attachments.attach(entry, attachments_of(entry, names))
        orders = self.orders.due(now)
        if not orders:
            return False
        for first in range(0, len(orders), ORDERS_AT_ONCE):
            self._give(orders[first : first + ORDERS_AT_ONCE], clock)
        return True

    def _give(self, orders: Sequence[Order], clock: Clock) -> None:
        """Give some orders, and write down what became of them."""
        refused = []
        for answers in self.orchestrator.carry_out(orders):
            self.orders.answered(answers, clock.now())
            refused += [answer for answer in answers if answer.problem]
        self._write_did(clock.now())
        for answer in refused:
            self.meters.refused(answer.word)
            job, word = answer.order.entry.key, answer.word
            self.log.warning(f"{self.orchestrator.name} refused an order", order=word, job=job, why=answer.problem)

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
        """Detach what is attached for nobody: the remains of operations that were cut off.

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
                self.log.warning("detaching what nobody holds", operation=attachment.operation)
                self.attachments.fabric.detach(attachment.operation)

    def close(self) -> None:
        """End what is under way in the background."""
        self.attachments.close()
