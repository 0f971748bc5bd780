"""What the driver does with a job, for every phase and every way in which Slurm may show it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from unrack.live.driver.seen import SeenJob
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import (
    ASIDE,
    INTENDED,
    WAITING,
    Attached,
    Decided,
    Detaching,
    Foreign,
    Grant,
    Intent,
    Over,
    Phase,
    Recalling,
    Released,
    Running,
    Stage,
    Stopped,
    Undone,
)  # fmt: skip
from unrack.live.driver.turns.reactions import ENDS, GOES_ON, Reactions, Sight, Table, sight_of
from unrack.live.slurm.adapter.seen import Take, is_refused, seen_of
from unrack.live.slurm.answers.jobs import jobs_of
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.slurm_text import job_ids

PLACES = ((), ("n1",), ("n2",), ("n9",))
REASONS = ("Resources", "JobHeldAdmin", "BadConstraints", "PartitionTimeLimit", "AssocMaxJobs,more")
STATES = ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "COMPLETED", "CANCELLED", "NODE_FAIL", "REQUEUED", "")
SHOWN = [
    SlurmJob(1, state, reason, priority=priority, required_nodes=place, completing=completing)
    for state, reason, priority, place, completing in product(STATES, REASONS, (0, 7), PLACES, (False, True))
    if not (completing and state in job_ids.WAITING)  # such a job is read as one that runs
]
TIMEOUT_US = 100


@pytest.mark.parametrize("table", [ENDS, GOES_ON], ids=["ENDS", "GOES_ON"])
def test_every_phase_and_every_sight_has_exactly_one_action(table: Table) -> None:
    assert set(table) == set(Phase)
    assert [sight.value for sight in Sight] == list(range(1, len(Sight) + 1))
    for phase, actions in table.items():
        assert len(actions) == len(Sight), phase
        assert all(getattr(Reactions, action.__name__) is action for action in actions), phase


def test_every_action_is_in_a_table() -> None:
    own = {name for name, what in vars(Reactions).items() if callable(what) and name not in ("__init__", "react")}
    assert own == {action.__name__ for table in (ENDS, GOES_ON) for row in table.values() for action in row}


def intent_on(name: str) -> Intent:
    return Intent(Grant({"rows": [[name, 1, 1, 1, 1]]}), 900)


def stages() -> Iterator[Stage]:
    """Stages of each phase, with whatever they may hold; some of those that are released have been for long."""
    yield from (WAITING, ASIDE, Recalling(None, "came back"), Foreign(None, 900))
    for intent in map(intent_on, ("n1", "n2")):
        begun = (Decided(Phase.ATTACHING, intent), Decided(Phase.ORDERING, intent), Running(intent, (), None, 950))
        begun += (Released(intent, (), 950), Released(intent, (), 10), Foreign(intent.grant, 950))
        yield from begun
        yield from (Recalling(one, "late", excused) for one in begun for excused in (False, True))
        for phase, start in product((Phase.STOPPING, Phase.HOLDING), (None, intent)):
            stopped = Stopped(phase, "stopped", Attached(("d",), ("o",)), start)
            yield from (stopped, Stopped(phase, "stopped", None, start))
            yield Detaching(stopped, Undone("by the policy", failed=False), free=start is None)
        yield from (Detaching(one, Over(990, ran=True)) for one in begun)


def entry_of(stage: Stage) -> Entry:
    """An entry that was placed on n2, and then on n1."""
    return Entry("1", 0, stage, placed=(("n1",), ("n2",)))


def shown(job: SlurmJob) -> SeenJob:
    """The job with the number 1 as the driver sees it."""
    return seen_of(Reading(0.0, (), (job,)), frozenset(), Take.HELD, {}).jobs["1"]


def chosen_by_branches(entry: Entry, job: SlurmJob, now: int) -> tuple[str, str]:
    """The actions of both passes, as a cascade of conditions: a twin of the tables."""
    waits, held, phase = job.waits, job.waits and job.is_held, entry.phase
    ends = goes_on = "nothing"
    if not waits and not job.runs:
        ends = "over"
    elif waits and phase in (Phase.RUNNING, Phase.FOREIGN):
        ends = "queued_again"
    elif phase == Phase.RECALLING and held:
        ends = "recalled"
    elif phase == Phase.WAITING:
        ends = "still_wanted"
    told = phase != Phase.ATTACHING and sorted(job.required_nodes) == entry.nodes
    if phase in INTENDED and job.runs:
        goes_on = "started"
    elif phase in INTENDED - {Phase.RECALLING} and not told and entry.is_let_go(shown(job)):
        goes_on = "astray"
    elif phase == Phase.RELEASED and is_refused(job):
        goes_on = "refused"
    elif phase == Phase.RELEASED and held:
        goes_on = "held_again"
    elif phase == Phase.RELEASED and waits and job.required_nodes and not told:
        goes_on = "astray"
    elif isinstance(entry.stage, Released) and waits and now - entry.stage.released_us > TIMEOUT_US:
        goes_on = "timed_out"
    elif phase == Phase.RELEASED and waits:
        goes_on = "let_go"
    elif phase in (Phase.RUNNING, Phase.FOREIGN) and job.runs:
        goes_on = "runs"
    elif phase in (Phase.STOPPING, Phase.HOLDING) and held:
        goes_on = "stopped"
    elif phase == Phase.STOPPING and waits:
        goes_on = "hold"
    elif phase == Phase.HOLDING and job.runs:
        goes_on = "elsewhere"
    elif phase == Phase.DETACHING:
        goes_on = "detaches"
    elif phase == Phase.ASIDE or (phase == Phase.WAITING and held):
        goes_on = "waits"
    return ends, goes_on


def test_the_tables_choose_what_a_cascade_of_conditions_would_for_whatever_slurm_shows() -> None:
    seen = set()
    for entry, job in product(map(entry_of, stages()), SHOWN):
        sight = sight_of(entry, shown(job), 1000, TIMEOUT_US)
        seen.add(sight)
        found = tuple(table[entry.phase][sight.value - 1].__name__ for table in (ENDS, GOES_ON))
        assert found == chosen_by_branches(entry, job, 1000), (entry, job, sight)
    assert seen == set(Sight)
    assert {stage.phase for stage in stages()} == set(Phase)


@pytest.mark.parametrize("state", sorted(job_ids.WAITING | {"RUNNING", "COMPLETED"}))
@pytest.mark.parametrize("order", [1, -1])
def test_a_job_that_is_being_cleared_up_runs_and_does_not_wait(state: str, order: int) -> None:
    (job,), _ = jobs_of({"jobs": [{"job_id": 7, "job_state": [state, "COMPLETING"][::order], "priority": 0}]}, [])
    assert (job.runs, job.waits) == (True, False)


def test_what_a_job_is_placed_on_counts_as_told_only_once_slurm_was_told() -> None:
    waits = SlurmJob(1, "PENDING", "Priority", priority=7, required_nodes=("n1",))
    for phase, sight in ((Phase.ORDERING, Sight.FREE), (Phase.ATTACHING, Sight.ASTRAY)):
        entry = entry_of(Decided(phase, intent_on("n1")))
        assert sight_of(entry, shown(waits), 1000, TIMEOUT_US) == sight


@pytest.mark.parametrize("excused", [False, True])
def test_that_a_start_has_not_failed_survives_a_restart(excused: bool) -> None:
    entry = entry_of(Recalling(None, "late", excused))
    assert Entry.of_record(entry.record()).stage == entry.stage
