"""The loop: read, tell, decide, write down, act; begin anew whenever what there is has changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from unrack.errors import InputError, PolicyError, RunError, StudyError
from unrack.events import Drained, Opened
from unrack.ledger.state import QUEUED
from unrack.live.driver.acting import Acting
from unrack.live.driver.clock import Clock
from unrack.live.driver.contract import Orchestrator
from unrack.live.driver.portable import Names
from unrack.live.driver.seen import Seen, SeenNode, Shown
from unrack.live.driver.sides import Written
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import APART, FALLBACK, STARTED, Beginning, Epoch, Spec
from unrack.live.driver.state.kept import VERSION, KeptDriver
from unrack.live.driver.state.promises import note_promises
from unrack.live.driver.state.stage import ASIDE, HOLDS, NOT_HELD, Phase, Released
from unrack.live.driver.state.table import KnownJobs
from unrack.live.driver.turns.notes import TurnNotes
from unrack.live.driver.turns.turn import Turn
from unrack.live.driver.used import Used
from unrack.live.fabric.contract import Fabric
from unrack.live.records import decision_record
from unrack.live.watch.log import Events
from unrack.live.watch.meters import Meters

MOST_APART, MOST_PLACES = 256, 1_000_000
"""How many jobs may have tasks that are kept apart, and on how many nodes so many."""
MOST_WAYS = 500
"""In how many more ways than twice those at first jobs may ask for nodes until these are counted anew."""


class DriverSettings(NamedTuple):
    """How the driver goes about its work."""

    stop_on_fault: bool = False  # whether it ends when a policy raises; else first come, first served goes on
    snapshot_bytes: int = 64 * 2**20  # after how many bytes of journal it begins a new epoch


class PolicyFaultError(RunError):
    """The policy raised something, and the site wants the driver to end then."""


class Driver:
    """Schedules the jobs of an orchestrator, or some of them.

    Parameters
    ----------
    orchestrator, fabric, journal
        Where the jobs are; how devices are attached; where all is written down.
    settings
        How it goes about its work.
    kept
        Records of the journal's newest part, where there is one: the driver goes on from them.
    meters
        What counts what it does; default: nothing.
    clock
        What tells the time; default: that of the machine.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        fabric: Fabric,
        journal: Written,
        settings: DriverSettings | None = None,
        kept: KeptDriver | None = None,
        meters: Meters | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.orchestrator, self.fabric, self.journal = orchestrator, fabric, journal
        self.log = Events(orchestrator.name.lower())
        self.settings = settings or DriverSettings()
        kept = kept or KeptDriver(time.time(), 0, {}, {})
        self.clock = clock or Clock(kept.origin_s, kept.now_us)
        self.table = KnownJobs(kept.entries, kept.ended, orchestrator.own_of)
        self.meters = meters or Meters(wanted=False)
        self.acting = Acting(orchestrator, fabric, self.table, journal, self.meters)
        self.epoch: Epoch | None = None
        self.policy: Spec | None = None
        self.wanted_us: int | None = None
        self._turned_us = -1
        self._used: Used | None = None
        self._missed: frozenset[str] = frozenset()
        self._changed: frozenset[str] | None = None  # which jobs are to be looked at; ``None``: all
        self._nodes: Sequence[SeenNode] | None = None  # which the core was told of
        self._read_again = True
        self.unreadable: tuple[str, ...] = ()

    # --- the loop -------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Look, decide and act once; True if anything happened.

        Raises
        ------
        UnreachableError
            The orchestrator does not answer: nothing was done, or what was done is written down; call it again later.
        PolicyFaultError
            The policy failed, and the site wants the driver to end.
        """
        happened = self.look()
        assert self.epoch is not None
        return self.acting.act(self.epoch.names, self.clock) or happened

    def look(self) -> bool:
        """Look and decide once, and write that down; True if anything happened.

        Raises
        ------
        UnreachableError
            As of :meth:`step`; and :class:`PolicyFaultError`.
        """
        now, reading, read_s = self.clock.now(), None, None
        if self._read_again or self._deadline_passed(now) or self.orchestrator.changed(now):
            began = time.perf_counter()
            reading = self.orchestrator.read(self.table)
            read_s, now = time.perf_counter() - began, self.clock.now()
            self._used = reading.used or self._used
            if self._changed is not None:
                self._changed = None if reading.changed is None else self._changed | reading.changed
        self.meters.looked(read_s)
        if reading is not None and reading.unreadable != self.unreadable:
            self.unreadable = reading.unreadable
            for problem in reading.unreadable[:20]:
                self.log.warning(f"what {self.orchestrator.name} says of something cannot be understood", what=problem)
        happened = self._round_on_time(now)
        if self.epoch is None or (reading is not None and self._other_nodes(reading)):
            assert reading is not None
            self._begin(reading, STARTED if self.epoch is None else "the nodes changed", now)
        elif reading is not None and self._new_kind(reading):
            self._begin(reading, "tasks are kept apart", now)
        return self._turn(reading, now) or happened

    def _round_on_time(self, now: int) -> bool:
        """Hold the round that the policy wanted meanwhile, at the time for which it was wanted; True if one was held.

        As in a simulation, the policy decides then on what was known: not on what is read since. A policy that decides
        at multiples of an interval would never decide anything if it were asked a little later each time.
        """
        wanted = self.wanted_us
        if self.epoch is None or wanted is None or not self._turned_us < wanted < now:
            return False
        return self._turn(None, wanted)

    def _deadline_passed(self, now: int) -> bool:
        """Whether something has to be looked at though nothing is reported."""
        for entry in self.table.in_order((*self.table.unsettled, *self.table.due(now))):
            stage, again_us = entry.stage, entry.trouble.again_us
            if isinstance(stage, Released) and now - stage.released_us > self.orchestrator.start_timeout_us:
                return True
            if stage.phase == Phase.ASIDE and again_us is not None and again_us <= now:
                self.table.look_again(entry, None)
                return True
            if stage.phase == Phase.RECALLING or stage.phase in NOT_HELD:
                return True
        return False

    def _turn(self, reading: Seen | None, now: int) -> bool:
        """Tell the core what has happened, ask the policy, write both down."""
        assert self.epoch is not None
        self.epoch.windows_pass(self._turned_us, now)
        self._turned_us = now
        notes = TurnNotes(self.epoch, self.table, self.orchestrator, now, self._missed)
        turn = Turn(notes)
        if reading is not None:
            turn.read(reading, self._changed, reading.nodes is not self._nodes)
            self._changed, self._nodes = frozenset(), reading.nodes
            self._missed = frozenset(turn.notes.missing)
            self._read_again = bool(turn.notes.missing)
        self._read_again |= self.acting.fabric_done(turn)
        due = self.wanted_us is not None and now >= self.wanted_us
        fault, decided, round_s = "", [], 0.0
        if self.epoch.told or due:
            turn.holding.late()
            began = time.perf_counter()
            given = turn.holding.more_time()
            found = turn.deciding.round()
            round_s = time.perf_counter() - began
            fault, decided = found.fault, [decision_record(decision) for decision in (*given, *found.decisions)]
            note_promises(self.epoch, self.table)
            times = (at for at in (found.wanted_us, turn.holding.next_limit_us()) if at is not None)
            self.wanted_us = min(times, default=None)
        self._read_again |= turn.notes.look_again
        told, entries = self.epoch.taken(), self.table.taken()
        if told or entries:
            record = {"k": "turn", "now": now, "told": told, "decided": decided, "entries": entries}
            if fault:
                record["fault"] = fault
            if turn.notes.over:
                record["over"] = turn.notes.over
            self.journal.append([record])
        if told or turn.notes.counts:
            self.meters.turned(turn.notes.counts, turn.notes.steps, round_s)
        self._say(turn)
        if fault:
            self._failed(fault, now)
        elif turn.notes.keep_apart:
            before = self.epoch.beginning
            cluster = before.cluster | {APART: _groups(before)}
            self._begin_from(before._replace(cluster=cluster), "tasks are kept apart", now)
        elif self.epoch.ways > 2 * self.epoch.ways_at_first + MOST_WAYS:
            self._begin_from(self.epoch.beginning, "jobs have asked for nodes in many ways", now)
        elif self.journal.segment_bytes > self.settings.snapshot_bytes and reading is not None:
            self._begin(reading, "the journal is long", now)
        return bool(told)

    def _say(self, turn: Turn) -> None:
        """Log what a turn brought, and by name what went wrong."""
        if turn.notes.counts:
            self.log.info("a turn", **dict(sorted(turn.notes.counts.items())))
        for job, why in turn.notes.troubles:
            self.log.warning("a start did not come about", job=job, why=why)

    def _failed(self, fault: str, now: int) -> None:
        self.log.error("the policy failed", fault=fault)
        if self.settings.stop_on_fault:
            raise PolicyFaultError(f"the policy failed: {fault}")
        assert self.epoch is not None
        if self.policy == FALLBACK:
            return
        self.policy = FALLBACK
        self._begin_from(self.epoch.beginning._replace(policy=FALLBACK), "the policy failed", now)

    # --- epochs ---------------------------------------------------------------------------------------------------

    def _other_nodes(self, reading: Seen) -> bool:
        """Whether there are other nodes than the epoch knows, or they are of another size."""
        assert self.epoch is not None
        before = self.epoch.beginning
        try:
            found = self.orchestrator.beginning(reading, self.clock.origin_s)
        except InputError as error:  # nodes that are gone drain, as long as there is no cluster without them
            self.log.warning("the nodes that there are make no cluster of the site", why=str(error))
            return False
        cluster = {key: value for key, value in before.cluster.items() if key != APART or key in found.cluster}
        return (found.nodes, found.devices, found.cluster) != (before.nodes, before.devices, cluster)

    def _new_kind(self, reading: Seen) -> bool:
        """Whether a job has come with tasks that the present epoch cannot keep apart."""
        assert self.epoch is not None
        if APART in self.epoch.beginning.cluster:
            return False
        return self._wants_apart(reading, self.epoch.names, new=True)

    def _wants_apart(self, reading: Seen, names: Names, new: bool) -> bool:
        """True if a job that waits, or one that is not known yet, has tasks that must be kept apart."""
        some = reading.jobs.keys() & self._changed if new and self._changed is not None else reading.jobs
        held = (job for key in some if (job := reading.jobs[key]).shown == Shown.HELD and job.ours)
        return any(
            self.orchestrator.wants_apart(job, names) for job in held if not new or self.table.get(job.key) is None
        )

    def _begin(self, reading: Seen, why: str, now: int) -> None:
        beginning = self.orchestrator.beginning(reading, self.clock.origin_s)
        if self.policy is not None:
            beginning = beginning._replace(policy=self.policy)
        if self.epoch is not None and (kept := self.epoch.beginning.cluster.get(APART)):
            beginning.cluster.setdefault(APART, kept)
        apart = any(entry.known.group is not None for entry in self.table)
        if APART not in beginning.cluster and (apart or self._wants_apart(reading, beginning.names, new=False)):
            beginning.cluster[APART] = _groups(beginning)
        seen = {node.name: node.usable for node in reading.nodes}
        self._begin_from(beginning, why, now, [name for name in beginning.nodes if not seen.get(name, False)])

    def _begin_from(self, beginning: Beginning, why: str, now: int, down: list[str] | None = None) -> None:
        """Begin an epoch: what holds something is adopted, what waits is submitted, as it came before."""
        if down is None:
            assert self.epoch is not None
            state, names = self.epoch.core.state, self.epoch.names
            down = [name for i, name in enumerate(names.nodes) if not state.online[i] or i in state.withheld]
        if self._used is not None:
            until_us = self._used.until_us(self.clock.origin_s)
            beginning = beginning._replace(used=self._used.amounts, until_us=until_us)
        try:
            epoch = Epoch(beginning)
        except (PolicyError, StudyError) as error:  # a file of the site's that is not what it was
            if self.epoch is None or self.policy == FALLBACK:
                raise
            self._failed(str(error), now)
            return
        turn = Turn(TurnNotes(epoch, self.table, self.orchestrator, now))
        holding = [entry for entry in self.table.in_phase(HOLDS | NOT_HELD) if entry.lease is not None]
        waiting = [entry for entry in self.table.in_phase(NOT_HELD | {Phase.WAITING}) if entry.lease is None]
        waiting.sort(key=lambda entry: (-1 if entry.number is None else entry.number, entry.seen_us, entry.key))
        self.table.forget_numbers()
        for entry in holding:
            assert entry.lease is not None
            self._check_devices(entry, epoch)
            turn.holding.adopt(entry, entry.job, epoch.names.lease(entry.lease))
        numbers = sorted(epoch.names.node_of[name] for name in down)
        if numbers:
            epoch.tell(Drained(tuple(numbers)), now)
        for entry in waiting:
            turn.coming.enter(entry)
        for entry in self.table.in_phase(Phase.ASIDE):
            if entry.why.startswith("rejected"):  # it may have room now
                entry.stage = ASIDE
        epoch.begun()
        before, self.epoch, self.wanted_us, self._read_again = self.epoch, epoch, now, True
        self._changed, self._nodes = None, None
        self._turned_us = now
        self.table.taken()
        record = {
            "k": "begin", "version": VERSION, "now": now, "origin_s": self.clock.origin_s, "why": why,
            "beginning": beginning.record(), "told": epoch.taken(), "entries": self.table.records(),
            "ended": self.table.ended,
        }  # fmt: skip
        self.journal.rotate(record)
        if before is not None and before.beginning.cluster != beginning.cluster:
            epoch.tell(Opened(foreseen=False), now)  # what was promised on less may come earlier
        self.log.info("an epoch begins", why=why, jobs=len(self.table), nodes=len(beginning.nodes))

    def _check_devices(self, entry: Entry, epoch: Epoch) -> None:
        """Refuse to forget a device that a job holds."""
        assert entry.lease is not None
        gone = [device for device in entry.devices if device not in epoch.names.device_of]
        if gone:
            raise InputError(
                "the pools of the site", f"no device {', '.join(gone)}, which job {entry.key} holds",
                "the pools that there were until that job has ended",
            )  # fmt: skip

    def queued(self) -> list[Entry]:
        """The jobs that wait in the core, in its order."""
        assert self.epoch is not None
        state = self.epoch.core.state
        waiting = state.queue[state.queue_start : state.queue_end].tolist()
        return [self.table.of_number(number) for number in waiting if state.conditions[number] == QUEUED]


def _groups(beginning: Beginning) -> dict[str, int]:
    return {"groups": max(1, min(MOST_APART, MOST_PLACES // len(beginning.nodes)))}
