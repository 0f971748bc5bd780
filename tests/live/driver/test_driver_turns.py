"""The driver over a Slurm in memory: holds and places that Slurm forgets, and what its users and others change."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import POOL, World

from unrack.live.driver.state.stage import Phase


def test_a_place_that_others_took_first_is_found_again_elsewhere() -> None:
    world = World(nodes=2)
    world.slurm.submit(cores=4, run_s=3)
    world.driver.step()
    world.slurm.jobs[1].priority = 0  # Slurm has not started it when another takes the node
    job = world.slurm.jobs[1]
    job.state, job.held_on, job.starts = "PENDING", (), []
    taken = job.required[0]
    other = world.slurm.submit(cores=3, run_s=20, partition="other")
    world.slurm.jobs[other].priority, world.slurm.jobs[other].required = 9, (taken,)
    world.slurm.schedule()
    job.priority = 100
    world.until_done()
    assert job.state == "COMPLETED"
    assert job.starts[0][1] != (taken,)
    assert job.starts[0][0] < 10_000_000


@pytest.mark.parametrize("held_by_user", [True, False])
def test_a_waiting_job_that_is_cancelled_or_held_by_its_user_leaves_the_queue(held_by_user: bool) -> None:
    world = World(nodes=1)
    world.slurm.submit(cores=4, run_s=3)
    second = world.slurm.submit(cores=4)
    third = world.slurm.submit(cores=4)
    world.go(2)
    if held_by_user:
        world.slurm.jobs[second].reason = "JobHeldUser"
        world.slurm.dirty = True
    else:
        world.slurm.end(second, "CANCELLED")
    world.go(25)
    assert world.slurm.jobs[third].starts
    assert not world.slurm.jobs[second].starts
    if held_by_user:
        world.slurm.jobs[second].reason = "JobHeldAdmin"
        world.slurm.dirty = True
        world.until_done()
        assert world.slurm.jobs[second].state == "COMPLETED"


@pytest.mark.parametrize("running", [True, False])
def test_a_job_that_a_killed_controller_brings_back_is_held_and_started_with_its_devices(running: bool) -> None:
    world = World(pools=POOL)
    world.slurm.submit(comment="nvme=200", run_s=2)
    world.until_done()
    assert not world.fabric.attached
    world.driver.acting.close()
    world.driver = world.make()  # who is over is in the journal, too
    job = world.slurm.jobs[1]
    if running:
        job.state, job.held_on, job.start_us = "RUNNING", ("n1",), world.clock.at_us
        world.slurm.dirty = True
        world.go(2)
        assert world.phase(1) == Phase.FOREIGN
        world.slurm.stuck.add(1)
        world.slurm.requeue(1, held=False)
    else:
        world.slurm.stuck.add(1)
        job.state, job.priority, job.held_on, job.restarts = "PENDING", 50, (), 1
        world.slurm.dirty = True
    world.go(3)
    assert job.priority == 0 or world.phase(1) not in (None, Phase.RECALLING)
    world.slurm.stuck.clear()
    world.go(4)
    assert [one.job for one in world.fabric.state()] == ["1"]
    world.until_done()
    assert job.state == "COMPLETED"
    assert not world.fabric.attached


@pytest.mark.parametrize("seen_running", [True, False])
def test_a_job_that_was_brought_back_and_starts_before_it_can_be_held_holds_what_it_holds(seen_running: bool) -> None:
    world = World()
    world.slurm.submit(cores=3, run_s=2)
    world.until_done()
    job = world.slurm.jobs[1]
    job.state, job.priority, job.held_on, job.restarts = "PENDING", 50, (), 1
    world.slurm.refuse[1], world.slurm.dirty = 1, True
    world.go(1)
    assert world.slurm.jobs[1].state == "RUNNING"
    if not seen_running:
        world.slurm.end(1, "COMPLETED")
    world.driver.step()
    assert world.phase(1) == (Phase.FOREIGN if seen_running else None)
    assert world.driver.epoch is not None
    assert int(world.driver.epoch.core.state.free[0].sum()) == (16 - 3 if seen_running else 16)
    world.until_done()
    assert len(world.driver.table) == 0


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.ASIDE, Phase.ATTACHING, Phase.DETACHING])
def test_a_hold_that_a_killed_controller_has_forgotten_is_no_release_by_somebody_else(phase: Phase) -> None:
    world = World(pools=POOL, nodes=1)
    job = world.slurm.jobs[world.slurm.submit(comment="nvme=200", run_s=2)]
    world.slurm.stuck.add(1)
    world.go(3)
    assert world.phase(1) == Phase.RELEASED
    world.slurm.save()
    if phase in (Phase.WAITING, Phase.ATTACHING):
        world.slurm.mark("n1", "IDLE", "DRAIN")
    if phase == Phase.DETACHING:
        world.fabric.fails = lambda where: where == "detach"
    while world.phase(1) != (Phase.WAITING if phase == Phase.ATTACHING else phase):
        world.go()
        assert world.clock.at_us < 60_000_000
    if phase == Phase.ATTACHING:
        world.slurm.mark("n1", "IDLE")
        world.driver.step()
    assert world.phase(1) == phase
    assert not job.priority
    world.slurm.crash(down_us=2_000_000)
    assert (job.priority, job.required) == (100, ("n1",))
    world.slurm.stuck.clear()
    world.go(15)
    assert phase != Phase.DETACHING or job.state == "PENDING"
    world.fabric.fails = lambda where: False
    world.slurm.mark("n1", "IDLE")
    while job.state != "RUNNING":
        world.go()
        assert world.clock.at_us < 60_000_000
    assert [one.job for one in world.fabric.state()] == ["1"]
    world.until_done()
    assert job.state == "COMPLETED"
    assert len(job.starts) == 1
    assert not world.fabric.attached


@pytest.mark.parametrize("held", [True, False])
def test_a_job_whose_start_a_killed_controller_has_forgotten_is_started_with_its_devices_once_more(held: bool) -> None:
    world = World(pools=POOL)
    job = world.slurm.jobs[world.slurm.submit(comment="nvme=200", run_s=3)]
    world.go(3)
    assert world.phase(1) == Phase.RUNNING
    job.state, job.held_on, job.start_us = "PENDING", (), -1
    job.priority, world.slurm.comes_back_us, world.slurm.dirty = 0 if held else 100, world.clock.at_us + 2_000_000, True
    world.driver.step()
    entry = world.driver.table.get("1")
    assert entry is not None
    assert "Slurm has forgotten that it ran" in entry.why
    world.until_done()
    assert job.state == "COMPLETED"
    assert len(job.starts) == 2
    assert max(world.fabric.peak_mb.values()) == 200
    assert not world.fabric.attached


def test_somebody_else_may_release_a_job_that_has_been_held_back() -> None:
    world = World(nodes=1)
    job = world.slurm.jobs[world.slurm.submit(run_s=2)]
    world.slurm.stuck.add(1)
    while world.phase(1) != Phase.ASIDE:
        world.go()
        assert world.clock.at_us < 60_000_000
    job.priority, job.reason, world.slurm.dirty = 50, "None", True
    world.go(2)
    assert world.phase(1) is None
    world.slurm.stuck.clear()
    world.until_done()
    assert job.state == "COMPLETED"
    assert job.priority == 50


def test_a_place_that_we_gave_is_not_taken_for_what_a_requeued_job_asks() -> None:
    world = World()
    world.slurm.submit(run_s=6)
    world.go(3)
    assert world.slurm.jobs[1].required
    world.slurm.requeue(1, held=True)
    world.until_done()
    assert world.slurm.jobs[1].state == "COMPLETED"
    assert len(world.slurm.jobs[1].starts) == 2


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("late_us", [0, 100_000, 900_000])
def test_a_job_that_is_queued_again_does_not_start_within_the_second_in_which_its_run_was_killed(
    late_us: int, held: bool
) -> None:
    world = World()
    number = world.slurm.submit_together({"nodes": 2}, {"nodes": 1}, run_s=6)
    world.slurm.submit(run_s=6)
    world.go(5)
    world.slurm.tick(late_us)
    killed_us = world.clock.at_us
    for one in (number, 3):
        world.slurm.requeue(one, held=held)
    world.go(3)  # a driver that begins anew waits, too
    world.driver.acting.close()
    world.driver = world.make()
    world.until_done()
    assert world.states() == {"COMPLETED"}
    again_us = [job.starts[1][0] - killed_us for job in world.slurm.jobs.values()]
    assert min(again_us) >= 1_000_000
    assert max(again_us) <= 4_000_000


def test_an_earlier_place_of_ours_is_not_taken_for_what_a_job_asks_when_a_later_one_was_never_given() -> None:
    world = World(pools=POOL)
    world.slurm.submit(run_s=5, comment="nvme=100")
    world.go(4)
    first = world.slurm.jobs[1].held_on[0]
    world.slurm.mark(first, "IDLE", "DRAIN")
    world.slurm.requeue(1, held=True)
    for _ in range(3):  # decided elsewhere, again and again, and never given to Slurm
        world.fabric.fails = lambda where: where == "before"
        world.go(20)
        assert world.slurm.jobs[1].required == (first,)
    world.fabric.fails = lambda where: False
    world.until_done()
    assert world.slurm.jobs[1].state == "COMPLETED"


def test_nodes_that_a_user_asks_for_by_name_are_had_and_asked_for_again_when_a_start_fails() -> None:
    world = World()
    number = world.slurm.submit(nodes=2)
    world.slurm.jobs[number].required = ("n3",)
    world.slurm.stuck.add(number)
    world.go(3)
    assert "n3" in world.slurm.jobs[number].required
    assert len(world.slurm.jobs[number].required) == 2
    world.go(60)  # it is held again
    world.go(30)
    world.slurm.stuck.clear()
    world.until_done()
    assert world.slurm.jobs[number].state == "COMPLETED"
    assert "n3" in world.slurm.jobs[number].starts[0][1]


@pytest.mark.parametrize("held", [True, False])
def test_a_job_that_has_run_is_not_started_again_because_a_killed_controller_forgot_it(held: bool) -> None:
    world = World()
    world.slurm.submit(run_s=1)
    world.until_done()
    job = world.slurm.jobs[1]
    job.state, job.held_on, job.required, job.priority = "PENDING", (), (), 0 if held else 50
    world.slurm.stuck.add(1)
    world.slurm.dirty = True
    world.go(3)
    world.slurm.stuck.clear()
    world.go(20)
    assert world.phase(1) == Phase.ASIDE
    assert len(job.starts) == 1
    job.restarts += 1  # somebody wants it to run again
    world.slurm.dirty = True
    world.until_done()
    assert len(job.starts) == 2


@pytest.mark.parametrize("steps", [0, 1, 2, 4, 40])
@pytest.mark.parametrize("held", [True, False])
def test_a_number_that_a_killed_controller_gives_to_another_job_is_that_of_another_job(steps: int, held: bool) -> None:
    world = World(pools=POOL)
    blocker = world.slurm.submit(nodes=2, cores=4, run_s=2)
    first = world.slurm.submit(nodes=1, cores=1, run_s=3, comment="nvme=300")
    world.go(steps + 1 if steps < 10 else 1)
    if steps == 40:
        world.until_done()
    world.clock.at_us += 2_000_000
    del world.slurm.jobs[first]  # the controller lost it, and gives its number to the next
    again = world.slurm.submit(nodes=2, cores=3, run_s=4, comment="nvme=100")
    job = world.slurm.jobs[first] = world.slurm.jobs.pop(again)
    job.id, world.slurm.dirty = first, True
    if not held:
        job.priority, job.partition = 50, "other"
    world.until_done()
    world.go(5)
    assert job.state == "COMPLETED"
    assert [len(nodes) for _, nodes in job.starts] == [2]
    assert not world.fabric.attached
    assert len(world.driver.table) == 0
    assert world.driver.epoch is not None
    assert (world.driver.epoch.core.state.free == world.driver.epoch.core.state.total).all()
    assert world.slurm.jobs[blocker].state == "COMPLETED"


def test_a_job_that_has_given_some_of_its_nodes_back_when_it_is_first_seen_ran_where_it_was_planned() -> None:
    world = World()
    world.slurm.submit(nodes=2, cores=4)
    world.driver.step()
    job = world.slurm.jobs[1]
    assert len(job.held_on) == 2
    job.state, job.completing, job.held_on = "COMPLETED", True, job.held_on[1:]
    world.slurm.dirty = True
    world.driver.step()
    assert world.phase(1) == Phase.RUNNING
    assert sum(name == "started" for name in map(_kind, world.journal.records())) == 1
    job.completing, job.held_on, job.end_us = False, (), world.clock.at_us
    world.slurm.dirty = True
    world.driver.step()
    assert world.phase(1) is None


def _kind(record: dict[str, Any]) -> str:
    """``"started"`` of a turn in which a start was acknowledged."""
    return "started" if any(event[0] == "started" for event in record.get("told", ())) else ""
