"""One turn: what a reading shows, told to the core as events in one total order, and what the policy then decides.

The order is: nodes that are back; jobs that ended, stopped or went away; starts that were acknowledged; jobs that
others started; nodes that drain; jobs that came. Within each, in the order in which the driver came to know the jobs,
and of new ones as the orchestrator has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from unrack.events import Drained, Repaired
from unrack.live.driver.seen import Seen, Shown
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.table import ranked
from unrack.live.driver.turns.coming import Coming
from unrack.live.driver.turns.deciding import Deciding
from unrack.live.driver.turns.ending import Ending
from unrack.live.driver.turns.holding import Holding
from unrack.live.driver.turns.notes import TurnNotes
from unrack.live.driver.turns.reactions import ENDS, GOES_ON, Reactions


class Turn:
    """One turn of the driver.

    Parameters
    ----------
    notes
        What is told, what is known, what was agreed on; and, in the end, what happened.

    Attributes
    ----------
    holding, deciding, coming, ending, reactions
        The parts of it.
    """

    def __init__(self, notes: TurnNotes) -> None:
        self.notes = notes
        self.epoch, self.table, self.now = notes.epoch, notes.table, notes.now
        self.holding = Holding(self.notes)
        self.deciding = Deciding(self.notes, self.holding)
        self.coming = Coming(self.notes, self.holding, self.deciding)
        self.ending = Ending(self.notes, self.holding, self.coming)
        self.reactions = Reactions(self.notes, self.ending)

    def read(self, seen: Seen, changed: Collection[str] | None, other_nodes: bool) -> None:
        """Tell the core what has changed since the reading before.

        Parameters
        ----------
        changed
            Keys of the jobs that are to be looked at, beside those that may change by themselves and those that the
            driver has changed since; ``None``: all are.
        other_nodes
            Whether the nodes are to be looked at.
        """
        self.notes.wall_s = seen.at_s
        self.notes.orchestrator.turn(seen, self.table, self.now)
        keys = None if changed is None else {*changed, *self._changeable()}
        self.table.touched.clear()
        known = self._known(keys)
        if other_nodes:
            self._nodes_back(seen)
        shown = {entry.key: seen.jobs.get(entry.key) for entry in known}
        for entry in known:
            if (job := shown[entry.key]) is None:
                self._unseen(entry)
            elif job.is_another(entry.said.submit_s):
                shown[entry.key] = None
                self._replaced(entry)
            else:
                self.reactions.react(ENDS, entry, job)
        for entry in known:
            if self.table.get(entry.key) is entry and (job := shown[entry.key]) is not None:
                self.reactions.react(GOES_ON, entry, job)
        self.ending.tell_changes()
        some = seen.jobs if keys is None else [key for key in sorted(keys) if key in seen.jobs]
        new = sorted((seen.jobs[key] for key in some if self.table.get(key) is None), key=lambda job: job.rank)
        for job in new:
            if job.shown == Shown.RUNS:
                self.holding.foreign(job)
        if other_nodes:
            self._nodes_that_drain(seen)
        for job in new:
            if job.shown == Shown.FREE and self.table.ended_as(job) is not None:
                self.coming.come_back(job)
        for job in new:
            if job.shown == Shown.HELD and job.ours:
                self.coming.come(job)

    def _changeable(self) -> Iterator[str]:
        """The jobs that are looked at though nothing else is seen of them."""
        yield from self.table.unsettled
        yield from self.table.touched
        yield from self.table.due(self.now)
        yield from self.notes.missed

    def _known(self, keys: Collection[str] | None) -> list[Entry]:
        """The jobs with these keys that are known, in the order in which they came; ``None``: all."""
        if keys is None:
            return ranked(self.table)
        return ranked(entry for key in keys if (entry := self.table.get(key)) is not None)

    def _nodes_back(self, seen: Seen) -> None:
        state, names = self.epoch.core.state, self.epoch.names
        for node in seen.nodes:
            number = names.node_of.get(node.name, -1)
            if number >= 0 and node.usable and (not state.online[number] or number in state.withheld):
                self.epoch.tell(Repaired((number,)), self.now)
                self.notes.count("node-back")

    def _nodes_that_drain(self, seen: Seen) -> None:
        state, names = self.epoch.core.state, self.epoch.names
        usable = {node.name for node in seen.nodes if node.usable}
        for number, name in enumerate(names.nodes):
            if name not in usable and state.online[number] and number not in state.withheld:
                self.epoch.tell(Drained((number,)), self.now)
                self.notes.count("node-drained")

    def _replaced(self, entry: Entry) -> None:
        """A job was lost, and another has its key, which is not known as long as devices are detached."""
        entry.said = entry.said._replace(state=entry.said.state or "GONE")
        self.notes.count("replaced")
        self.ending.over(entry, None)
        if self.table.get(entry.key) is entry:
            self.notes.missing.add(entry.key)

    def _unseen(self, entry: Entry) -> None:
        """A job is not in the reading; one that was not in the reading before either is gone."""
        if entry.key not in self.notes.missed:
            self.notes.missing.add(entry.key)
            return
        entry.said = entry.said._replace(state=entry.said.state or "GONE")
        self.ending.over(entry, None)
