"""What Slurm forbids: limits, partitions, reservations, arrays. Nothing is placed there, and no reason is false."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from strict_slurm import StrictSlurm
from worlds import World

from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.driver.turns.coming import FORGOTTEN
from unrack.live.slurm.constraints import Partition

HOUR = 3600


class Strict(World):
    """A Slurm with limits, and a driver."""

    made = StrictSlurm
    slurm: StrictSlurm

    def why(self, key: int | str) -> str:
        entry = self.driver.table.get(str(key))
        return "" if entry is None else entry.why

    def whys(self) -> set[str]:
        """All reasons that were ever told."""
        return {
            entry.get("why", "") for one in self.journal.records() for entry in one["entries"].values() if entry
        } - {""}

    def all_free(self) -> bool:
        assert self.driver.epoch is not None
        state = self.driver.epoch.core.state
        return bool((state.free == state.total).all())


@pytest.mark.parametrize("throttle", [0, 1, 3, 7, 50])
@pytest.mark.parametrize("policy", ["easy", "fcfs", "conservative"])
def test_an_array_with_a_limit_runs_to_its_end_and_never_more_of_it_than_may(throttle: int, policy: str) -> None:
    world = Strict(policy)
    numbers = world.slurm.submit_array(20, throttle, cores=2, run_s=1.5)
    most = 0
    for _ in range(400):
        world.go()
        most = max(most, sum(world.slurm.jobs[number].state == "RUNNING" for number in numbers))
    assert {world.slurm.jobs[number].state for number in numbers} == {"COMPLETED"}
    assert [len(world.slurm.jobs[number].starts) for number in numbers] == [1] * 20
    assert most == min(8, throttle or 8)
    assert not world.slurm.asked, "released for nothing"
    assert not any("has run" in why for why in world.whys())
    starts = [world.slurm.jobs[number].starts[0][0] for number in numbers]
    assert starts == sorted(starts)
    assert world.all_free()
    assert replay(world.journal.records()).differences == []


@pytest.mark.parametrize("policy", ["easy", "topo-aware(wait=no)"])
def test_a_member_that_is_rejected_takes_no_room_of_its_array(policy: str) -> None:
    world = Strict(policy)
    numbers = world.slurm.submit_array(4, 1, cores=2, run_s=1)
    for number in numbers[::2]:
        world.slurm.jobs[number].nodes = 9
        world.slurm.touched.add(number)
    world.go(40)
    assert [world.slurm.jobs[number].state for number in numbers] == ["PENDING", "COMPLETED"] * 2
    assert all(world.why(world.slurm.key(number)).startswith("rejected") for number in numbers[::2])


def test_the_limit_of_an_array_may_change_and_its_members_be_cancelled_held_and_requeued() -> None:
    world = Strict()
    numbers = world.slurm.submit_array(24, 6, cores=2, run_s=3)
    array = numbers[-1]
    for step in range(400):
        world.go()
        running = [number for number in numbers if world.slurm.jobs[number].state == "RUNNING"]
        assert len(running) <= 6 or step >= 30
        if step == 3:
            world.slurm.throttles[array], world.slurm.dirty = 2, True
            world.slurm.end(numbers[20], "CANCELLED")
            world.slurm.requeue(running[0], held=True)
        if step == 30:
            assert world.why(f"{array}_{world.slurm.arrays[numbers[15]][1]}") == "its array may run 2 members at a time"
            world.slurm.throttles[array], world.slurm.dirty = 0, True
        if step == 32:
            world.slurm.throttles[array], world.slurm.dirty = 4, True
    ended = [world.slurm.jobs[number].state for number in numbers]
    assert ended.count("COMPLETED") == 23
    assert ended[20] == "CANCELLED"
    assert not any("has run" in why for why in world.whys())


def test_members_of_an_array_wait_for_no_more_than_run_whatever_is_released_by_others_or_restarted() -> None:
    world = Strict()
    numbers = world.slurm.submit_array(12, 2, cores=1, run_s=2)
    others = world.slurm.submit(cores=4, run_s=2)
    for step in range(200):
        world.go()
        if step == 2:
            world.slurm.touched.add(numbers[9])
            world.slurm.jobs[numbers[9]].priority = 77  # somebody lets it go
            world.slurm.dirty = True
        if step in (5, 11):
            world.driver.acting.close()
            world.driver = world.make()
    assert {world.slurm.jobs[number].state for number in [*numbers, others]} == {"COMPLETED"}


def test_a_long_array_without_a_limit_loses_no_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unrack.live.slurm.adapter.seen.MOST_MEMBERS", 5)
    world = Strict()
    numbers = world.slurm.submit_array(30, cores=2, run_s=1)
    world.go(2)
    world.slurm.touched -= set(numbers[:5])  # a controller that was killed has forgotten that they are jobs
    world.until_done()
    assert [len(world.slurm.jobs[number].starts) for number in numbers] == [1] * 30
    assert not any("has run" in why for why in world.whys())


LIMITED = {
    "PartitionTimeLimit": {"limit_s": 11 * 60},
    "PartitionNodeLimit": {"nodes": 3},
    "MaxCPUsPerNode": {"cores": 4},
}


@pytest.mark.parametrize("reason", LIMITED)
@pytest.mark.parametrize("qos", ["", "long"])
def test_what_its_partition_does_not_allow_is_put_aside_with_slurms_reason_and_tried_when_that_changes(
    reason: str, qos: str
) -> None:
    world = Strict()
    strict = Partition("ours", "UP", 600, None, 0, 2, 3, "limits")
    world.slurm.partitions["ours"], world.slurm.qos = strict, qos
    greedy = [world.slurm.submit(**LIMITED[reason]) for _ in range(6)]
    world.go(3)
    assert {world.phase(number) for number in greedy} == {Phase.ASIDE}
    assert all(reason in world.why(number) for number in greedy)
    assert world.all_free()
    modest = [world.slurm.submit(nodes=2, cores=3, run_s=2) for _ in range(2)]
    world.go(3)
    assert all(world.slurm.jobs[number].starts for number in modest)
    world.go(60)
    assert len(world.slurm.asked) <= (12 if qos else 0)
    world.slurm.partitions["ours"], world.slurm.dirty = replace(strict, limit_s=None, nodes_max=0, node_cores_max=0,
                                                                said="none"), True  # fmt: skip
    world.until_done()
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}


@pytest.mark.parametrize("state", ["DOWN", "INACTIVE"])
def test_in_a_partition_that_is_down_nothing_is_placed(state: str) -> None:
    world = Strict()
    world.slurm.partitions["ours"] = Partition("ours", state, said=state)
    number = world.slurm.submit()
    world.go(3)
    assert f"Partition{state.capitalize()}" in world.why(number)
    assert not world.slurm.commands
    world.slurm.partitions["ours"], world.slurm.dirty = Partition("ours", "DRAIN", said="drains"), True
    world.until_done()
    assert world.slurm.jobs[number].state == "COMPLETED"


def test_a_job_without_a_limit_has_that_of_its_partition() -> None:
    world = Strict(nodes=1)
    world.slurm.partitions["ours"] = Partition("ours", limit_s=HOUR, default_s=60)
    number = world.slurm.submit(run_s=2)
    world.slurm.jobs[number].limit_s = None  # type: ignore[assignment]
    world.driver.look()
    assert world.driver.table.get("1").job["request"] == 60_000_000  # type: ignore[union-attr]


def test_nodes_that_are_reserved_are_left_alone_until_the_reservation_is_over() -> None:
    world = Strict()
    world.slurm.reserve(-10, 60, "n1", "n9")
    numbers = [world.slurm.submit(cores=4, run_s=3) for _ in range(7)]
    world.until_done(200)
    assert {world.slurm.jobs[number].state for number in numbers} == {"COMPLETED"}
    assert not any("n1" in world.slurm.run_on(number) for number in numbers)
    assert not world.slurm.asked
    world.slurm.reservations, world.slurm.dirty = (), True
    last = world.slurm.submit(nodes=4)
    world.until_done()
    assert "n1" in world.slurm.run_on(last)


def test_a_job_that_would_run_into_a_reservation_goes_elsewhere_and_a_shorter_one_does_not() -> None:
    world = Strict()
    world.slurm.reserve(500, 900, "n1")
    short = world.slurm.submit(nodes=4, run_s=2, limit_s=100)
    world.go(2)
    assert "n1" in world.slurm.run_on(short)
    world.until_done()
    long = [world.slurm.submit(cores=4, run_s=5, limit_s=700) for _ in range(5)]
    world.go(60)
    assert not any("n1" in world.slurm.run_on(number) for number in long)
    assert all(world.slurm.jobs[number].starts for number in long)
    world.until_done()
    again = world.slurm.submit(nodes=4, run_s=2, limit_s=100)
    world.until_done()
    assert "n1" in world.slurm.run_on(again)
    assert not world.slurm.asked


def test_before_a_reservation_of_all_nodes_short_jobs_run_and_long_ones_wait() -> None:
    world = Strict()
    world.slurm.reserve(300, 400, "n1", "n2", "n3", "n4")
    long = world.slurm.submit(run_s=3, limit_s=600)
    shorts = [world.slurm.submit(nodes=2, cores=4, run_s=3, limit_s=60) for _ in range(4)]
    world.until_done(60)
    assert world.phase(long) == Phase.WAITING
    assert {world.slurm.jobs[number].state for number in shorts} == {"COMPLETED"}
    world.clock.at_us += 250_000_000  # nothing has changed in Slurm
    late = world.slurm.submit(nodes=1, run_s=3, limit_s=60)
    world.go(5)
    assert not world.slurm.jobs[late].starts
    world.clock.at_us += 200_000_000
    world.slurm.reservations, world.slurm.dirty = (), True
    world.until_done()
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}
    assert not world.slurm.asked


def test_a_reservation_that_comes_near_while_jobs_wait_is_seen_without_any_change_in_slurm() -> None:
    world = Strict("slurm(interval=1 s)", nodes=2)
    first = world.slurm.submit(nodes=2, cores=4, run_s=100, limit_s=100)
    world.go(2)
    assert world.slurm.jobs[first].starts
    world.slurm.reserve(200, 500, "n1")
    second = world.slurm.submit(cores=4, run_s=30, limit_s=120)
    world.go(3)
    assert world.phase(second) == Phase.WAITING
    world.until_done(900)
    assert world.slurm.run_on(second) == {"n2"}
    assert not world.slurm.asked


def test_a_reservation_that_comes_between_the_decision_and_the_start_gives_the_place_back_at_once() -> None:
    world = Strict()
    number = world.slurm.submit(limit_s=100)
    world.driver.look()  # decided
    world.slurm.reserve(-1, 1000, "n1")
    world.slurm.dirty = False
    world.driver.step()
    world.slurm.dirty = True
    world.slurm.tick(200_000)
    world.go(4)
    assert world.slurm.asked[0] == (number, "ReqNodeNotAvail")
    world.until_done()
    assert world.slurm.jobs[number].state == "COMPLETED"
    assert world.slurm.run_on(number) != {"n1"}


def test_what_slurm_refuses_for_a_limit_that_nobody_sees_holds_nothing_and_is_not_tried_over_and_over() -> None:
    world = Strict(nodes=2)
    world.slurm.limit = lambda job: "QOSMaxNodePerUserLimit" if job.nodes > 1 else ""
    greedy = [world.slurm.submit(nodes=2, cores=4, limit_s=50) for _ in range(40)]
    modest = world.slurm.submit(cores=4, run_s=3)
    world.go(6)
    assert world.slurm.jobs[modest].starts
    assert {world.phase(number) for number in greedy} == {Phase.ASIDE}
    assert all("QOSMaxNodePerUserLimit" in world.why(number) for number in greedy)
    world.go(3000)  # ten minutes
    tried = {number for number, _ in world.slurm.asked}
    assert len(tried) <= 2
    restarted = [reason for _, reason in world.slurm.asked]
    assert len(restarted) <= 40, "over and over"
    world.slurm.limit = lambda job: ""
    world.until_done(5000)
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}


def test_a_limit_on_how_much_of_a_users_may_run_is_tried_again_when_some_of_it_has_ended() -> None:
    world = Strict()

    def limit(job: Any) -> str:
        running = sum(one.state == "RUNNING" for one in world.slurm.jobs.values())
        return "AssocGrpJobsLimit" if running >= 2 else ""

    world.slurm.limit = limit
    numbers = [world.slurm.submit(run_s=5) for _ in range(8)]
    world.until_done(600)
    assert {world.slurm.jobs[number].state for number in numbers} == {"COMPLETED"}
    assert world.clock.at_us < 60_000_000, "each waited for its time instead"


@pytest.mark.parametrize("reason", ["BeginTime", "Dependency", "Licenses", "SomethingNew"])
def test_whatever_forbids_the_start_of_a_released_job_its_place_is_free_at_the_next_look(reason: str) -> None:
    world = Strict(nodes=1)
    first = world.slurm.submit(cores=4)
    world.slurm.limit = lambda job: reason if job.id == first else ""
    second = world.slurm.submit(cores=4, run_s=2)
    world.go(6)
    assert world.slurm.jobs[second].starts
    assert reason in world.why(first)
    world.slurm.limit = lambda job: ""
    world.until_done(800)
    assert world.slurm.jobs[first].state == "COMPLETED"


def test_a_reason_that_changes_while_a_job_is_aside_is_told_as_it_is_now() -> None:
    world = Strict()
    world.slurm.partitions["ours"] = Partition("ours", limit_s=60, said="a")
    number = world.slurm.submit(limit_s=100)
    world.go(2)
    assert "PartitionTimeLimit" in world.why(number)
    world.slurm.partitions["ours"], world.slurm.dirty = Partition("ours", "DOWN", said="b"), True
    world.go(2)
    assert "PartitionDown" in world.why(number)
    world.slurm.jobs[number].reason, world.slurm.dirty = "JobHeldUser", True
    world.go(2)
    assert world.why(number) == "held by its user"


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("new_driver", [True, False])
def test_a_job_that_was_cancelled_before_it_ran_is_not_told_to_have_run(held: bool, new_driver: bool) -> None:
    world = Strict(nodes=1)
    world.slurm.submit(cores=4, run_s=30, limit_s=40)
    number = world.slurm.submit(cores=4)
    world.go(2)
    world.slurm.end(number, "CANCELLED")
    world.go(2)
    if new_driver:
        world.driver.acting.close()
        world.driver = world.make()
    job = world.slurm.jobs[number]
    job.state, job.priority, world.slurm.dirty = "PENDING", 0 if held else 50, True  # its controller was killed
    world.go(4)
    assert world.why(number).startswith(FORGOTTEN[1])
    assert "has run" not in FORGOTTEN[1]
    assert not job.starts


def test_a_job_that_slurm_did_not_show_for_a_while_is_scheduled_when_it_is_back() -> None:
    world = Strict(nodes=1)
    world.slurm.submit(cores=4, run_s=5)
    number = world.slurm.submit(cores=4)
    world.go(2)
    kept = world.slurm.jobs.pop(number)
    world.slurm.dirty = True
    world.go(3)
    world.slurm.jobs[number], world.slurm.dirty = kept, True
    world.until_done()
    assert kept.state == "COMPLETED"


def test_a_job_that_slurm_can_start_nowhere_says_so_once_all_nodes_were_tried_and_is_tried_again_later() -> None:
    world = Strict()
    number = world.slurm.submit(cores=1, run_s=2)
    world.slurm.limit = lambda job: "BadConstraints" if job.id == number else ""
    world.go(90, us=2_000_000)
    entry = world.driver.table.get(str(number))
    assert entry is not None
    assert sorted(entry.placed) == [(name,) for name in world.slurm.nodes]
    assert (world.phase(number), "BadConstraints" in world.why(number)) == (Phase.ASIDE, True)
    world.slurm.limit = lambda job: ""
    world.go(10, us=2_000_000)
    assert not world.slurm.jobs[number].starts
    world.go(150, us=2_000_000)
    assert world.slurm.jobs[number].state == "COMPLETED"
    assert world.all_free()
