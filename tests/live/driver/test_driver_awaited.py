"""Jobs that wait for others, and nodes that close, between the decision and the start: nothing loses a minute by it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from strict_slurm import StrictSlurm
from worlds import World

from unrack.cluster.formats.site import SaidSite
from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.slurm.adapter.awaited import Awaited
from unrack.live.slurm.adapter.refusals import Refusals
from unrack.live.slurm.reading import Reading, SlurmJob

JOBS = (
    SlurmJob(1, "COMPLETED", user="u", name="a"), SlurmJob(2, "FAILED", user="u", name="a"),
    SlurmJob(3, "RUNNING", user="u", name="runs"), SlurmJob(4, "PENDING", user="u", name="waits"),
    SlurmJob(5, "CANCELLED", user="u"), SlurmJob(6, "COMPLETED", completing=True, user="u"),
    SlurmJob(10, "COMPLETED", array=10, member=1), SlurmJob(11, "COMPLETED", array=10, member=0),
    SlurmJob(20, "PENDING", array=20, tasks_waiting=(2, 3)), SlurmJob(21, "COMPLETED", array=20, member=0),
    SlurmJob(22, "FAILED", array=20, member=1),
    SlurmJob(30, "COMPLETED", het=30, het_size=2), SlurmJob(31, "FAILED", het=30, het_size=2, component=1),
)  # fmt: skip
COME = [
    "", "afterok:1", "afterok:1(unfulfilled)", "afterany:1,afterany:2(unfulfilled)", "afternotok:2", "afternotok:5",
    "after:3(unfulfilled)", "afterok:2?afterok:1", "afterok:2(failed)?afterany:2", "afterok:10_*(unfulfilled)",
    "afterok:10_0,afterok:10_1", "afterok:20_0(unfulfilled)", "afternotok:20_1", "afterok:10", "afterany:30",
    "afternotok:30", "singleton(unfulfilled)",
]  # fmt: skip
NOT_COME = [
    "afterok:2", "afterok:2(failed)", "afterok:1,afterok:2(failed)", "afternotok:1", "afterany:3", "afterany:4",
    "afterany:6", "after:4", "afterok:1,afterany:3(unfulfilled)", "afterok:20_*(unfulfilled)", "afterok:20",
    "afterany:20_2", "afterok:30", "afterany:99", "afterok:10_7", "after:3+5(unfulfilled)", "aftercorr:1",
    "afterburstbuffer:1", "expand:1", "afterok", "afterok:", "afterok:x", "afterok:1;afterok:1", "nonsense",
]  # fmt: skip


@pytest.mark.parametrize(("said", "come"), [(said, True) for said in COME] + [(said, False) for said in NOT_COME])
def test_what_a_job_waits_for_is_told_by_how_others_stand(said: str, come: bool) -> None:
    awaited = Awaited(Reading(0.0, (), JOBS))
    assert awaited.has_come(SlurmJob(90, "PENDING", user="u", name="own", dependency=said)) == come


def test_members_wait_for_those_of_their_number_and_a_singleton_for_its_elders() -> None:
    member = SlurmJob(90, "PENDING", array=90, dependency="aftercorr:20_*(unfulfilled)")
    awaited = Awaited(Reading(0.0, (), JOBS))
    assert [awaited.has_come(replace(member, member=number)) for number in range(4)] == [True, False, False, False]
    own = [SlurmJob(number, "PENDING", user="u", name="own", dependency="singleton") for number in (90, 91)]
    other = SlurmJob(80, "PENDING", user="v", name="own")
    awaited = Awaited(Reading(0.0, (), (*own, other)))
    assert [awaited.has_come(job) for job in own] == [True, False]
    assert not Awaited(Reading(0.0, (), JOBS)).has_come(replace(own[0], name="runs"))
    assert not awaited.has_come(replace(own[0], array=90, member=1)), "of arrays Slurm tells"


def test_a_start_that_a_limit_forbade_is_tried_when_limits_have_changed() -> None:
    job = SlurmJob(1, "PENDING", "QOSMaxWallDurationPerJobLimit", user="u", qos="high", partition="p")
    asked, refusals = {"tasks": 1}, Refusals()

    def against(**qos: dict[str, int]) -> str:
        refusals.read(Reading(0.0, (), (job,), accounting=SaidSite(qos=qos)))
        return refusals.against("1", job, asked, 1)

    assert against(high={"max_time": 60}) == ""
    refusals.note("1", job, asked, 5, 0)
    assert "QOSMaxWall" in against(high={"max_time": 60}), "read anew, and the same"
    assert against(high={"max_time": 600}) == ""


class Awaiting(World):
    """A Slurm that looks at what held jobs wait for once a minute, and a driver."""

    made = StrictSlurm
    slurm: StrictSlurm

    def why(self, key: int) -> str:
        entry = self.driver.table.get(str(key))
        return "" if entry is None else entry.why


def test_each_job_of_a_chain_starts_when_the_one_before_has_ended() -> None:
    world = Awaiting()
    chain = [world.slurm.submit(run_s=1)]
    for _ in range(9):
        chain.append(world.slurm.submit(run_s=1, dependency=f"afterok:{chain[-1]}"))
    world.until_done(100)
    assert {world.slurm.jobs[job].state for job in chain} == {"COMPLETED"}
    assert world.slurm.asked == [], "released too early"
    starts = [world.slurm.jobs[job].starts for job in chain]
    assert all(len(one) == 1 for one in starts)
    gaps = [then[0][0] - first[0][0] for first, then in pairwise(starts)]
    assert all(1_000_000 <= gap <= 2_000_000 for gap in gaps), gaps
    assert replay(world.journal.records()).differences == []


@pytest.mark.parametrize("word", ["afterok", "afterany"])
def test_a_dependency_that_comes_between_decision_and_start_counts_and_no_longer_than_it_lasts(word: str) -> None:
    world = Awaiting()
    first, job = world.slurm.submit(run_s=4), world.slurm.submit(run_s=1)
    world.slurm.stuck.add(job)
    world.go(3)
    assert (world.phase(first), world.phase(job)) == (Phase.RUNNING, Phase.RELEASED)
    world.slurm.jobs[job].dependency, world.slurm.dirty = f"{word}:{first}", True
    world.slurm.stuck.clear()
    world.go(5)
    assert world.why(job) == "waits for other jobs"
    assert [reason for _, reason in world.slurm.asked] == ["Dependency"]
    world.until_done(60)
    [(start_us, _)], end_us = world.slurm.jobs[job].starts, world.slurm.jobs[first].end_us
    assert end_us <= start_us <= end_us + 1_000_000
    assert replay(world.journal.records()).differences == []


def test_a_dependency_of_which_slurm_says_otherwise_is_not_tried_again_without_end() -> None:
    world = Awaiting()
    first = world.slurm.submit(run_s=1)
    job = world.slurm.submit(run_s=1, dependency=f"afternotok:{first}?afterany:{first}")
    world.slurm.limit = lambda one: "DependencyNeverSatisfied" if one.id == job else ""
    world.slurm.jobs[job].dependency = f"afterany:{first}"
    world.go(100)
    entry = world.driver.table.get(str(job))
    assert entry is not None
    assert 1 <= entry.trouble.tries <= 2, "in 20 s"
    world.slurm.limit = lambda one: ""
    world.until_done()
    assert [len(one.starts) for one in world.slurm.jobs.values()] == [1, 1]


def test_a_node_that_drains_between_decision_and_start_holds_up_no_other() -> None:
    world = Awaiting(nodes=2)
    wide = world.slurm.submit(nodes=2, cores=4, run_s=1)
    world.slurm.stuck.add(wide)
    world.go(3)
    assert world.phase(wide) == Phase.RELEASED
    world.slurm.mark("n2", "IDLE", "DRAIN")
    other = world.slurm.submit(cores=4, run_s=1)
    world.go(5)
    assert world.slurm.run_on(other) == {"n1"}
    world.slurm.stuck.clear()
    world.go(20)
    assert world.slurm.jobs[wide].state == "PENDING"
    world.slurm.mark("n2", "IDLE")
    world.go(5)
    assert world.slurm.run_on(wide) == {"n1", "n2"}
    world.until_done()
    assert [len(one.starts) for one in world.slurm.jobs.values()] == [1, 1]


def test_a_job_goes_elsewhere_at_once_when_its_node_drains_and_stays_where_it_is_only_silent() -> None:
    world = Awaiting(nodes=2)
    job = world.slurm.submit(cores=4, run_s=1)
    world.slurm.stuck.add(job)
    world.go(3)
    world.slurm.mark("n1", "IDLE", "NOT_RESPONDING")
    world.go(5)
    assert (world.phase(job), world.slurm.jobs[job].required) == (Phase.RELEASED, ("n1",))
    world.slurm.mark("n1", "DOWN", "NOT_RESPONDING")
    world.slurm.stuck.clear()
    world.go(10)
    assert world.slurm.run_on(job) == {"n2"}


@pytest.mark.parametrize("nodes", [2, 4])
def test_a_job_that_slurm_does_not_start_in_time_goes_elsewhere_while_there_is_an_elsewhere(nodes: int) -> None:
    world = Awaiting(nodes=nodes)
    kept = {"n1"}  # for another user: Slurm does not say so
    world.slurm.limit = lambda one: "Resources" if kept & set(one.required) else ""
    job, wide = world.slurm.submit(run_s=1, cores=1), world.slurm.submit(nodes=nodes, cores=4, run_s=1)
    world.go(200)
    assert world.slurm.run_on(job) == {"n2"}
    assert world.slurm.jobs[wide].state == "PENDING"
    assert not any("too-big" in entry.why for entry in world.driver.table), "it may have no other nodes"
    kept.clear()
    world.until_done()
    assert [len(one.starts) for one in world.slurm.jobs.values()] == [1, 1]
    assert replay(world.journal.records()).differences == []


def test_nodes_on_which_a_job_was_late_are_tried_again() -> None:
    world = Awaiting(nodes=3)
    world.slurm.limit = lambda one: "Resources"
    job = world.slurm.submit(run_s=1, cores=1)
    seen = set()
    for _ in range(600):
        world.go()
        seen.add(world.slurm.jobs[job].required)
    assert seen >= {("n1",), ("n2",), ("n3",)}
    world.slurm.limit = lambda one: "Resources" if one.required != ("n1",) else ""
    world.go(900)
    assert world.slurm.run_on(job) == {"n1"}


def test_a_job_whose_start_failed_once_is_looked_at_as_soon_as_its_begin_time_is_taken_back() -> None:
    world = World()
    job = world.slurm.jobs[world.slurm.submit(cores=4, run_s=1)]
    world.slurm.stuck.add(job.id)
    world.go(2)
    job.priority, job.reason, job.begin_us, world.slurm.dirty = 0, "JobHeldUser", 3600_000_000, True
    world.go(3)
    entry = world.driver.table.get(str(job.id))
    assert entry is not None
    assert (entry.phase, entry.trouble.tries) == (Phase.ASIDE, 1)
    world.slurm.stuck.clear()
    job.begin_us, world.slurm.dirty = -1, True
    world.go(3)
    assert job.starts
