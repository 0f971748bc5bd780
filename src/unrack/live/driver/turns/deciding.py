"""What the policy decides, and how far that brings jobs."""

from __future__ import annotations

from unrack.ledger.lease import Lease
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import DriverRound
from unrack.live.driver.state.stage import Foreign, Grant, Idle, Intent, Phase, is_short
from unrack.live.driver.state.steps import decided, granted, stopped
from unrack.live.driver.turns.holding import Holding
from unrack.live.driver.turns.notes import Participant, TurnNotes
from unrack.policy.contract import Decision, Reject, Requeue, Resize, Start


class Deciding(Participant):
    """The policy's decisions."""

    def __init__(self, notes: TurnNotes, holding: Holding) -> None:
        super().__init__(notes)
        self.holding = holding

    def round(self) -> DriverRound:
        """Ask the policy, and note what it decides."""
        found = self.epoch.round(self.now)
        if found.fault:
            self.notes.count("policy-fault")
        self.decided(found.decisions)
        return found

    def decided(self, decisions: list[Decision]) -> None:
        """Note how far jobs have come by what was decided."""
        for decision in decisions:
            if isinstance(decision, Start):
                self._starts(decision.lease)
            elif isinstance(decision, Requeue):
                self._stops(self.table.of_number(decision.job), decision)
            elif isinstance(decision, Resize):
                entry = self.table.of_number(decision.lease.job)
                grant = Grant(self.epoch.names.portable(decision.lease), is_short(entry.stage))
                self.table.move(entry, granted(entry.stage, grant))
            elif isinstance(decision, Reject):
                entry = self.table.of_number(decision.job)
                self.table.number(entry, None)
                self.table.move(entry, Idle(Phase.ASIDE, f"rejected: {decision.reason}"[:300]))
                self.notes.look_again = True
            self.notes.count(f"decided-{type(decision).__name__.lower()}")

    def _starts(self, lease: Lease) -> None:
        entry = self.table.of_number(lease.job)
        intent = Intent(Grant(self.epoch.names.portable(lease)), self.now)
        self.table.move(entry, decided(entry.stage, intent))
        entry.place(entry.nodes)
        entry.own = self.orchestrator.placed(entry, lease, self.epoch.names)
        self.table.touch(entry)

    def _stops(self, entry: Entry, decision: Requeue) -> None:
        if not isinstance(entry.stage, Foreign):
            self.table.move(entry, stopped(entry.stage, str(decision.reason)))
            return
        self.notes.count("not-ours")  # no other's job is touched, whatever the policy says
        self.holding.withdraw(entry, "not ours")
        assert entry.lease is not None
        self.holding.adopt(entry, entry.job, self.epoch.names.lease(entry.lease))
