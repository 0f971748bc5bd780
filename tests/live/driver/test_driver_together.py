"""Heterogeneous jobs: placed, released and followed as one, whatever becomes of their components."""

from __future__ import annotations

import numpy as np
import pytest
from fake_slurm import FakeJob
from test_driver_limits import Strict
from test_driver_sites import Sites

from unrack.live.driver.state.entry import OWN
from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.slurm.adapter.asked import Placing
from unrack.live.slurm.reading import Licence


def started_together(parts: list[FakeJob]) -> bool:
    """True if all components started at the same times, as often, on nodes that no two of them share."""
    times = [[at for at, _ in part.starts] for part in parts]
    for nodes in zip(*([set(nodes) for _, nodes in part.starts] for part in parts), strict=True):
        if len(set().union(*nodes)) != sum(map(len, nodes)):
            return False
    return all(one == times[0] for one in times)


@pytest.mark.parametrize("policy", ["easy", "fcfs", "conservative", "slurm", "sjf"])
def test_components_start_together_where_the_policy_says_and_end_as_one(policy: str) -> None:
    world = Strict(policy, nodes=6)
    first = world.slurm.submit_together({"nodes": 2, "cores": 2}, {"cores": 1}, {"nodes": 2, "cores": 4}, run_s=3)
    others = [world.slurm.submit(nodes=3, cores=3, run_s=2) for _ in range(4)]
    more = [world.slurm.submit_together({"cores": 4}, {"cores": 4, "nodes": 3}, run_s=2) for _ in range(3)]
    world.until_done()
    for number in (first, *more):
        parts = world.slurm.together(number)
        assert [len(part.starts) for part in parts] == [1] * len(parts)
        assert started_together(parts)
    assert [len(world.slurm.jobs[number].starts) for number in others] == [1] * 4
    assert not world.slurm.asked
    assert world.all_free()
    assert replay(world.journal.records()).differences == []


def test_a_driver_that_begins_anew_goes_on_with_components_that_wait_and_run() -> None:
    world = Strict("conservative", nodes=4)
    runs = world.slurm.submit_together({"nodes": 2, "cores": 3}, {"cores": 2}, run_s=6)
    waits = world.slurm.submit_together({"nodes": 2, "cores": 4}, {"nodes": 2, "cores": 2}, run_s=2)
    for step in range(60):
        if step in (0, 1, 2, 5, 9):
            world.driver.acting.close()
            world.driver = world.make()
        world.go()
        assert world.driver.epoch is not None
        held = world.slurm.jobs[runs].state == "RUNNING"
        if step > 3 and held:
            assert world.phase(runs) == Phase.RUNNING  # it is still ours, and where it was decided
            free = world.driver.epoch.core.state.free[0]
            assert sorted(free.tolist()) == [1, 1, 2, 4]
    for number in (runs, waits):
        parts = world.slurm.together(number)
        assert {part.state for part in parts} == {"COMPLETED"}
        assert started_together(parts)
        assert [len(part.starts) for part in parts] == [1] * len(parts)
    assert replay(world.journal.records()).differences == []


def test_what_a_component_that_is_cancelled_held_is_free_at_once_and_the_others_go_on() -> None:
    world, one = Strict("easy", nodes=4), {"matlab": 1}
    world.slurm.licences = {"matlab": Licence(1, 0)}
    first = world.slurm.submit_together({"nodes": 2, "cores": 4}, {"nodes": 2, "cores": 4, "licences": one}, run_s=8)
    behind = world.slurm.submit(nodes=2, cores=4, run_s=1, licences=one)
    world.go(3)
    assert world.slurm.jobs[behind].state == "PENDING"
    world.slurm.end(first + 1, "CANCELLED")
    world.go(4)
    assert world.slurm.jobs[behind].state == "RUNNING"
    assert world.slurm.jobs[first].state == "RUNNING"
    world.until_done()
    assert world.all_free()


def test_a_component_that_ended_while_the_others_wait_is_said_and_holds_nothing() -> None:
    world = Strict("easy", nodes=4)
    first = world.slurm.submit_together({"nodes": 2}, {"nodes": 1}, {"nodes": 1}, run_s=8)
    world.go(3)
    world.slurm.requeue(first, held=False)  # its node failed: Slurm 22.05 queues all but the last again
    lost = world.slurm.jobs[first + 2]
    lost.state, lost.end_us = "FAILED", world.clock.at_us
    world.go(6)
    assert "component 2 has ended (FAILED)" in world.why(first)
    assert world.slurm.jobs[first].priority == 0
    assert world.all_free()
    other = world.slurm.submit(nodes=4, cores=4, run_s=1)
    world.go(12)
    assert world.slurm.jobs[other].state == "COMPLETED"


def test_what_its_components_cannot_have_together_is_said_and_holds_up_nobody() -> None:
    world = Strict("easy", nodes=4)
    big = world.slurm.submit_together({"nodes": 3, "cores": 1}, {"nodes": 2, "cores": 1})
    wide = world.slurm.submit_together({"nodes": 1, "cores": 1}, {"nodes": 1, "cores": 5})
    outside = world.slurm.submit_together({"nodes": 1}, {"nodes": 1, "partition": "other"})
    mixed = world.slurm.submit_together({"nodes": 1}, {"nodes": 1, "reservation": "r0"})
    small = world.slurm.submit(nodes=4, cores=4, run_s=1)
    world.go(12)
    assert world.slurm.jobs[small].state == "COMPLETED"
    assert "all of its components at once" in world.why(big)
    assert "component" in world.why(wide)
    assert "component 1 of it is in partitions that are not scheduled here" in world.why(outside)
    assert "in several reservations" in world.why(mixed)
    assert world.all_free()


@pytest.mark.parametrize("own", ["", "r0"])
def test_components_in_several_reservations_wait_until_they_are_in_one_and_those_that_run_hold_what_they_hold(
    own: str,
) -> None:
    world = Sites("easy")
    slurm = world.slurm
    slurm.licences = {"matlab": Licence(4, 0)}
    slurm.reserve(0, 900, "n1", "n2", Users="u", Licenses="matlab:2")
    runs = slurm.submit_together({"reservation": "r0"}, {"reservation": own}, cores=4, run_s=20, licences={"matlab": 1})
    for part, node in zip(slurm.together(runs), ("n1", "n2"), strict=True):
        part.state, part.priority, part.held_on, part.start_us = "RUNNING", 9, (node,), 0
    waits = slurm.submit_together({"reservation": "r0"}, {}, run_s=1, cores=1)
    other = world.submit(cores=4, run_s=1)
    world.go(3)
    assert "in several reservations" in world.why(waits)
    assert slurm.jobs[other].state in ("RUNNING", "COMPLETED")
    assert world.phase(runs) == Phase.FOREIGN
    slurm.together(waits)[1].reservation, slurm.dirty = "r0", True
    world.until_done()
    assert world.states() == {"COMPLETED"}
    assert set().union(*(world.slurm.run_on(part.id) for part in slurm.together(waits))) <= {"n1", "n2"}
    world.check()


def test_a_policy_that_cannot_start_components_together_says_so() -> None:
    world = Strict("flow")
    first = world.slurm.submit_together({"nodes": 1}, {"nodes": 1})
    small = world.slurm.submit(run_s=1)
    world.go(20)
    assert "starts their components together" in world.why(first)
    assert world.slurm.jobs[small].state == "COMPLETED"


def test_a_component_that_slurm_refuses_gives_all_back_and_what_the_user_asked_comes_back() -> None:
    world = Strict("easy", nodes=5)
    world.slurm.limit = lambda job: "QOSMaxCpuPerUserLimit" if job.component == 1 else ""
    first = world.slurm.submit_together({"nodes": 1}, {"nodes": 2, "excluded": ("n1", "n2")}, run_s=1)
    world.go(6)
    assert "QOSMaxCpuPerUserLimit" in world.why(first)
    assert world.all_free()
    assert [part.excluded for part in world.slurm.together(first)] == [(), ("n1", "n2")]
    assert {part.priority for part in world.slurm.together(first)} == {0}
    world.slurm.limit = lambda job: ""
    world.until_done(300)
    assert {part.state for part in world.slurm.together(first)} == {"COMPLETED"}
    assert not {"n1", "n2"} & {node for _, nodes in world.slurm.jobs[first + 1].starts for node in nodes}


def test_components_that_are_not_started_in_time_are_held_again_together() -> None:
    world = Strict("easy", nodes=4)
    first = world.slurm.submit_together({"nodes": 1}, {"nodes": 1}, run_s=1)
    world.slurm.stuck = {first + 1}
    world.go(3)
    assert world.phase(first) == Phase.RELEASED
    world.go(70)
    orders = {part.priority for part in world.slurm.together(first)}
    assert len(orders) == 1
    world.slurm.stuck = set()
    world.until_done(900)
    assert {part.state for part in world.slurm.together(first)} == {"COMPLETED"}
    assert replay(world.journal.records()).differences == []


def test_who_lets_one_component_go_lets_none_start_elsewhere() -> None:
    world = Strict("easy", nodes=4)
    block = world.slurm.submit(nodes=4, cores=4, run_s=3)
    first = world.slurm.submit_together({"nodes": 1}, {"nodes": 1}, run_s=1)
    world.go(2)
    world.slurm.jobs[first + 1].priority = 7
    world.slurm.dirty = True
    world.go(2)
    assert world.phase(first) in (Phase.WAITING, None)
    world.until_done(300)
    assert started_together(world.slurm.together(first))
    assert world.slurm.jobs[block].state == "COMPLETED"
    assert {part.state for part in world.slurm.together(first)} == {"COMPLETED"}


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy", "conservative", "slurm", "fcfs"])
@pytest.mark.parametrize("seed", range(4))
def test_components_beside_arrays_with_limits_requeues_and_kills_are_never_stuck(policy: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    world = Strict(policy, nodes=6)
    arrays, firsts, plain = list[int](), list[int](), list[int]()
    for _ in range(4):
        arrays += world.slurm.submit_array(6, int(draw.integers(4)), cores=int(draw.integers(1, 4)), run_s=2)
        for _ in range(2):
            sizes = [
                {"nodes": int(draw.integers(1, 3)), "cores": int(draw.integers(1, 5))}
                for _ in range(draw.integers(2, 4))
            ]
            firsts.append(world.slurm.submit_together(*sizes, run_s=float(draw.integers(1, 5))))
        plain.append(world.slurm.submit(nodes=int(draw.integers(1, 5)), cores=int(draw.integers(1, 5)), run_s=2))
    cancelled = set[int]()
    for _ in range(120):
        world.go()
        live = [n for n, job in world.slurm.jobs.items() if job.state in ("PENDING", "RUNNING")]
        what = int(draw.integers(14))
        if what == 0:
            world.driver.acting.close()
            world.driver = world.make()
        elif what in (1, 2) and live:
            world.slurm.requeue(live[int(draw.integers(len(live)))], held=bool(draw.integers(2)))
        elif what == 3 and live:
            number = live[int(draw.integers(len(live)))]
            world.slurm.end(number, "CANCELLED")
            cancelled |= {part.id for part in world.slurm.together(number)}
        elif what == 4:
            world.slurm.throttles[arrays[-1]], world.slurm.dirty = int(draw.integers(4)), True
        elif what == 5:
            world.slurm.mark(f"n{draw.integers(1, 7)}", "IDLE", *["DRAIN"] * int(draw.integers(2)))
        elif what == 6:
            world.slurm.stuck = {number for number in live if number % 2}
        elif what == 7:
            world.slurm.stuck = set()
        elif what == 8 and live:
            world.slurm.refuse[live[int(draw.integers(len(live)))]] = 1
    world.slurm.stuck, world.slurm.refuse = set(), {}
    for name in list(world.slurm.nodes):
        world.slurm.mark(name, "IDLE")
    world.until_done(3000)
    for number, job in world.slurm.jobs.items():
        assert job.state == "COMPLETED" or number in cancelled, f"job {number} is stuck: {job}, {world.why(job.het)}"
        assert len(job.starts) <= 1 + job.restarts
    for number in firsts:
        assert number in cancelled or started_together(world.slurm.together(number))
    assert world.all_free()
    assert replay(world.journal.records()).differences == []
    assert not any("has run" in why for why in world.whys())


def test_what_is_kept_with_a_job_has_other_names_in_the_journal_than_what_the_driver_knows() -> None:
    assert OWN.isdisjoint(Placing._fields)
