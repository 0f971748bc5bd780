"""What is changed of a job that is let go and has not started: it runs as its user said last, where it is planned."""

from __future__ import annotations

from typing import Any

import pytest
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
