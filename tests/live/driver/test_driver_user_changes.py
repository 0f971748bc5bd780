"""What is changed of a job that is let go and has not started: it runs as its user said last, where it is planned."""

from __future__ import annotations

import random
from typing import Any

import pytest
from test_driver_limits import Strict
from test_driver_sites import POLICIES, Sites

from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase

CHANGES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "nodes": ({"required": ("n7",)}, {"n7"}),
    "nodes of none of its partitions": ({"required": ("n8",), "partition": "right"}, {"n8"}),
    "partition": ({"partition": "right"}, {"n5", "n6", "n7", "n8"}),
    "partitions": ({"partition": "right,ours"}, {f"n{i}" for i in range(1, 9)}),  # ours has all
    "another of its partitions": ({"partition": "ours", "excluded": ("n1", "n2", "n3")}, {"n4", "n5", "n6"}),
}  # fmt: skip
"""What a user changes → where the job may run then."""


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("new_driver", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_user_says_last_counts_though_the_job_was_let_go(policy: str, new_driver: bool, change: str) -> None:
    world, (said, there) = Sites(policy), CHANGES[change]
    number = world.submit(cores=4, partition="left,ours", run_s=2)
    for _ in range(3):  # its own place is the only one of its first partition
        world.submit(cores=4, partition="left", run_s=30, limit_s=40)
    job = world.slurm.jobs[number]
    world.slurm.stuck.add(number)
    world.go(3)
    assert world.phase(number) == Phase.RELEASED
    for name, value in said.items():
        setattr(job, name, value)
    world.slurm.dirty = True
    if new_driver:
        world.driver.acting.close()
        world.driver = world.make()
    world.go(2)
    world.slurm.stuck.clear()
    world.until_done(1000)
    assert job.state == "COMPLETED"
    assert world.slurm.run_on(number) <= there
    phases = [entry["phase"] for one in world.journal.records() if (entry := one["entries"].get(str(number)))]
    assert "foreign" not in phases, phases
    assert replay(world.journal.records()).differences == []


@pytest.mark.parametrize("said", [{"required": ("n7",)}, {"partition": "right"}, {"partition": "right,ours"}])
def test_what_a_user_says_last_is_what_slurm_has_of_a_job_that_is_held_again(said: dict[str, Any]) -> None:
    world = Sites()
    number = world.submit("n3", partition="left,ours", nodes=1)
    job = world.slurm.jobs[number]
    world.slurm.stuck.add(number)
    world.go(3)
    assert (job.required, job.partition) == (("n3",), "left")
    for name, value in said.items():
        setattr(job, name, value)
    world.slurm.dirty, world.slurm.limit = True, lambda job: "Licenses"
    world.go(8)
    assert world.phase(number) == Phase.ASIDE
    wish = {"required": ("n3",), "partition": "left,ours"} | said
    assert {name: getattr(job, name) for name in wish} == wish


@pytest.mark.parametrize("fields", [{"CoreIDs": "0-1", "Users": "root"}, {}])
def test_a_node_of_which_some_cores_are_reserved_or_none_may_be_another_s_before_it(fields: dict[str, str]) -> None:
    world = Sites()
    number = world.submit(cores=2, run_s=2, limit_s=9)
    job = world.slurm.jobs[number]
    world.slurm.stuck.add(number)
    world.go(3)
    if fields:
        world.slurm.reserve(0, 900, *job.required, **fields)
    world.slurm.refused = lambda job: "ReqNodeNotAvail, May be reserved for other job"  # type: ignore[method-assign]
    world.go(5)
    assert world.phase(number) == Phase.RELEASED


@pytest.mark.parametrize("begins_s", [0, 4])
@pytest.mark.parametrize("policy", ["easy", "conservative", "fcfs", "slurm(interval=1 s)"])
def test_a_job_that_was_let_go_on_nodes_that_are_reserved_since_gives_them_back_at_once(
    policy: str, begins_s: int
) -> None:
    world = Sites(policy)
    number = world.submit(cores=4, run_s=2, limit_s=9)
    job = world.slurm.jobs[number]
    world.slurm.stuck.add(number)
    world.go(3)
    assert world.phase(number) == Phase.RELEASED
    world.slurm.reserve(begins_s, 900, *job.required, Users="root")
    job.reason, world.slurm.dirty = "ReqNodeNotAvail, May be reserved for other job", True
    world.go(3)
    assert world.phase(number) == Phase.ASIDE
    assert "ReqNodeNotAvail" in world.why(number)
    world.slurm.stuck.clear()
    world.until_done()
    assert job.state == "COMPLETED"
    assert not world.slurm.run_on(number) & set(world.slurm.reservations[0].nodes)
    assert replay(world.journal.records()).differences == []


@pytest.mark.parametrize("new_driver", [False, True])
@pytest.mark.parametrize("policy", ["easy", "fcfs", "slurm(interval=1 s)", "list(backfill=any)"])
@pytest.mark.parametrize("seed", range(3))
def test_jobs_that_are_changed_while_they_wait_keep_their_places(policy: str, new_driver: bool, seed: int) -> None:
    draw, world = random.Random(seed), Strict(policy)
    world.slurm.submit(4, 4, 20, 30)
    world.go(2)
    numbers = [world.slurm.submit(4, 3, 1, 8) for _ in range(9)]
    world.go(2)
    if new_driver:
        world.driver.acting.close()
    for number in draw.sample(numbers, 3):
        job = world.slurm.jobs[number]
        job.cores, job.limit_s = draw.choice([3, 4]), draw.choice([5, 8, 12])
    world.slurm.dirty = True
    if new_driver:
        world.driver = world.make()
    world.go(3)
    assert [entry.key for entry in world.driver.queued()] == list(map(str, numbers))
    numbers.append(world.slurm.submit(4, 3, 1, 8))
    world.until_done(1000)
    at = [world.slurm.jobs[number].starts[0][0] for number in numbers]
    assert at == sorted(at)
    assert world.all_free()
    assert replay(world.journal.records()).differences == []


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_others_were_promised_is_kept_when_one_before_them_asks_for_something_else(nodes: int) -> None:
    world = Strict("conservative")
    world.slurm.submit(4, 4, 20, 20)
    world.go(2)
    first, *others = [world.slurm.submit(2, 4, 5, 10) for _ in range(5)]
    world.go(2)

    def promised() -> dict[int, int]:
        found = {number: world.driver.table.get(str(number)) for number in others}
        return {number: entry.known.promise[0] for number, entry in found.items() if entry and entry.known.promise}

    before = promised()
    world.slurm.jobs[first].nodes, world.slurm.dirty = nodes, True
    world.go(2)
    assert len(before) == 5 - 1
    assert all(promised()[number] <= at for number, at in before.items())
    world.until_done(1000)
    assert replay(world.journal.records()).differences == []


def test_changes_one_after_the_other_before_many_jobs_do_not_keep_the_driver_busy() -> None:
    world = Strict("fcfs")
    world.slurm.submit(4, 4, 200, 300)
    world.go(2)
    numbers = [world.slurm.submit(4, 4, 1, 8) for _ in range(60)]
    world.go(2)

    def queue() -> list[int]:
        return [int(entry.key) for entry in world.driver.queued()]

    for place, expected in ((0, numbers), (1, [numbers[0], *numbers[2:], numbers[1]])):
        world.slurm.jobs[numbers[place]].limit_s, world.slurm.dirty = 9, True
        world.go()
        assert queue() == expected
    world.go(10)
    world.slurm.jobs[numbers[2]].limit_s, world.slurm.dirty = 9, True
    world.go()
    assert queue() == [numbers[0], *numbers[2:], numbers[1]]
    assert replay(world.journal.records()).differences == []
