"""What the driver does with a job, for every phase and every way in which Slurm may show it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from unrack.live.slurm.answers.jobs import jobs_of
from unrack.live.slurm.driver.state.entry import INTENDED, Entry, Phase
from unrack.live.slurm.driver.state.seen import Member, is_refused
from unrack.live.slurm.driver.turns.reactions import ENDS, GOES_ON, Reactions, Sight, Table, sight_of
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import SlurmJob
from unrack.slurm_text.states import WAITING

PLACES = ((), ("n1",), ("n2",), ("n9",))
REASONS = ("Resources", "JobHeldAdmin", "BadConstraints", "PartitionTimeLimit", "AssocMaxJobs,more")
STATES = ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "COMPLETED", "CANCELLED", "NODE_FAIL", "REQUEUED", "")
SHOWN = [
    SlurmJob(1, state, reason, priority=priority, required_nodes=place, completing=completing)
    for state, reason, priority, place, completing in product(STATES, REASONS, (0, 7), PLACES, (False, True))
    if not (completing and state in WAITING)  # such a job is read as one that runs
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


def entries() -> list[Entry]:
    """One entry of each phase, placed on n2 before, and on n1 if it holds a lease; some of them released long ago."""
    found = []
    for phase, released_us, on in product(Phase, (-1, 950, 10), ("", "n1", "n2")):
        lease = {"rows": [[on, 1, 1, 1, 1]]} if on else None
        found.append(Entry("1", phase, lease=lease, released_us=released_us, placed=[["n1"], ["n2"]]))  # type: ignore[arg-type]
    return found


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
    elif phase in INTENDED - {Phase.RECALLING} and not told and entry.is_let_go(job):
        goes_on = "astray"
    elif phase == Phase.RELEASED and is_refused(job):
        goes_on = "refused"
    elif phase == Phase.RELEASED and held:
        goes_on = "held_again"
    elif phase == Phase.RELEASED and waits and now - entry.released_us > TIMEOUT_US:
        goes_on = "timed_out"
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
    elif phase == Phase.ASIDE:
        goes_on = "aside"
    return ends, goes_on


def test_the_tables_choose_what_a_cascade_of_conditions_would_for_whatever_slurm_shows() -> None:
    seen = set()
    for entry, job in product(entries(), SHOWN):
        sight = sight_of(entry, Member(JobKey(1), job), 1000, TIMEOUT_US)
        seen.add(sight)
        found = tuple(table[entry.phase][sight.value - 1].__name__ for table in (ENDS, GOES_ON))
        assert found == chosen_by_branches(entry, job, 1000), (entry, job, sight)
    assert seen == set(Sight)


@pytest.mark.parametrize("state", sorted(WAITING | {"RUNNING", "COMPLETED"}))
@pytest.mark.parametrize("order", [1, -1])
def test_a_job_that_is_being_cleared_up_runs_and_does_not_wait(state: str, order: int) -> None:
    (job,), _ = jobs_of({"jobs": [{"job_id": 7, "job_state": [state, "COMPLETING"][::order], "priority": 0}]}, [])
    assert (job.runs, job.waits) == (True, False)


def test_what_a_job_is_placed_on_counts_as_told_only_once_slurm_was_told() -> None:
    waits = SlurmJob(1, "PENDING", "Priority", priority=7, required_nodes=("n1",))
    lease = {"rows": [["n1", 1, 1, 1, 1]]}
    entry = Entry("1", Phase.ORDERING, lease=lease, released_us=1000, placed=[["n1"], ["n2"]])  # type: ignore[arg-type]
    attaching = replace(entry, phase=Phase.ATTACHING)
    assert sight_of(entry, Member(JobKey(1), waits), 1000, TIMEOUT_US) == Sight.FREE
    assert sight_of(attaching, Member(JobKey(1), waits), 1000, TIMEOUT_US) == Sight.ASTRAY
