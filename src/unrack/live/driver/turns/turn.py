"""One turn: what a reading shows, told to the core as events in one total order, and what the policy then decides.

The order is: nodes that are back; jobs that ended, stopped or went away; starts that were acknowledged; jobs that
others started; nodes that drain; jobs that came. Within each, in the order in which the driver came to know the jobs,
and of new ones by submission, number and member.
"""

from __future__ import annotations

from unrack.events import Drained, Repaired
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Phase
from unrack.live.driver.turns.coming import Coming
from unrack.live.driver.turns.deciding import Deciding
from unrack.live.driver.turns.ending import Ending
from unrack.live.driver.turns.holding import Holding
from unrack.live.driver.turns.notes import Notes
from unrack.live.driver.turns.reactions import ENDS, GOES_ON, Reactions
from unrack.live.slurm.adapter.admission import Admission
from unrack.live.slurm.adapter.seen import all_members, is_another, is_in
from unrack.live.slurm.reading import Reading


class Turn:
    """One turn of the driver.

    Parameters
    ----------
    notes
        Who is told, what is known, what was agreed on; and, in the end, what happened.

    Attributes
    ----------
    holding, deciding, admission, coming, ending, reactions
        Those who take part in it.
    """

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.epoch, self.table, self.terms, self.now = notes.epoch, notes.table, notes.terms, notes.now
        self.holding = Holding(self.notes)
        self.deciding = Deciding(self.notes, self.holding)
        self.admission = Admission(self.notes)
        self.coming = Coming(self.notes, self.holding, self.deciding, self.admission)
        self.ending = Ending(self.notes, self.holding, self.coming)
        self.reactions = Reactions(self.notes, self.ending)

    def read(self, reading: Reading) -> None:
        """Tell the core what has changed since the reading before."""
        self.notes.wall_s = reading.at_s
        known = self.table.in_phase(tuple(Phase))
        found = {str(member.key): member for member in all_members(reading, {entry.key for entry in known})}
        self.notes.refusals.read(reading)
        self.notes.refusals.keep(entry.key for entry in known)
        self.admission.read(reading, found)
        self._nodes_back(reading)
        self.reactions.usable = frozenset(node.name for node in reading.nodes if node.usable)
        shown = {entry.key: found.get(entry.key) for entry in known}
        for entry in known:
            if (member := shown[entry.key]) is None:
                self._unseen(entry)
            elif is_another(member.job, entry.said.submit_s):
                shown[entry.key] = None
                self._replaced(entry)
            else:
                self.reactions.react(ENDS, entry, member, reading)
        for entry in known:
            if self.table.get(entry.key) is entry and (member := shown[entry.key]) is not None:
                self.reactions.react(GOES_ON, entry, member, reading)
        new = [member for key, member in found.items() if self.table.get(key) is None]
        new.sort(key=lambda member: (member.job.submit_s, member.key.id, member.key.member))
        for member in new:
            if member.job.runs:
                self.holding.foreign(member)
        self._nodes_that_drain(reading)
        for member in new:
            ended = self.table.ended_as(str(member.key), member.job)
            if ended is not None and member.job.waits and not member.job.is_held:
                self.coming.come_back(member)
        for member in new:
            if member.job.waits and member.job.is_held and is_in(member.job, self.terms.partitions):
                self.coming.come(member, reading)

    def _nodes_back(self, reading: Reading) -> None:
        state, names = self.epoch.core.state, self.epoch.names
        for node in reading.nodes:
            number = names.node_of.get(node.name, -1)
            if number >= 0 and node.usable and (not state.online[number] or number in state.withheld):
                self.epoch.tell(Repaired((number,)), self.now)
                self.notes.count("node-back")

    def _nodes_that_drain(self, reading: Reading) -> None:
        state, names = self.epoch.core.state, self.epoch.names
        seen = {node.name: node for node in reading.nodes}
        for number, name in enumerate(names.nodes):
            gone = name not in seen or not seen[name].usable
            if gone and state.online[number] and number not in state.withheld:
                self.epoch.tell(Drained((number,)), self.now)
                self.notes.count("node-drained")

    def _replaced(self, entry: Entry) -> None:
        """Slurm lost a job, and another has its number, which is not known as long as devices are detached."""
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
