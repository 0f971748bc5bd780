"""What may go wrong between any orchestrator and the driver: late, lost, refused, forgotten, and two drivers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_slurm import Killed
from memory_journal import MemoryJournal
from plain import CANCELLED, DONE, Plain, PlainJob, key_of
from worlds import POOL, PlainWorld

from unrack.live.driver.driver import Driver
from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase


def all_free(world: PlainWorld) -> bool:
    assert world.driver.epoch is not None
    state = world.driver.epoch.core.state
    return bool((state.free == state.total).all())


def test_a_start_that_is_seen_late_is_waited_for_and_its_place_is_nobody_else_s_meanwhile() -> None:
    world = PlainWorld(nodes=1)
    world.them.late_us = 6_000_000
    for _ in range(3):
        world.them.submit(cores=3, run_s=1, limit_s=2)
    world.go(2)
    assert [world.phase(key_of(n)) for n in (1, 2, 3)] == [Phase.RELEASED, Phase.WAITING, Phase.WAITING]
    world.until_done()
    assert world.states() == {DONE}
    assert [len(starts) for starts in world.starts().values()] == [1] * 3
    assert all_free(world)


def test_a_start_that_takes_longer_than_it_may_is_taken_back_and_tried_later() -> None:
    world = PlainWorld(timeout_s=2)
    world.them.late_us = 5_000_000
    world.them.submit()
    world.go(14)
    entry = world.driver.table.get(key_of(1))
    assert entry is not None
    assert entry.trouble.tries >= 1
    assert not world.starts()[key_of(1)]
    world.them.late_us = 0
    world.until_done()
    assert len(world.starts()[key_of(1)]) == 1


@pytest.mark.parametrize("tries", [1, 2, 5])
def test_a_start_that_is_refused_again_and_again_keeps_no_other_from_its_own(tries: int) -> None:
    world = PlainWorld("fcfs", nodes=1)
    first, second = (world.them.submit(cores=4, run_s=1, limit_s=2) for _ in range(2))
    world.them.refuse[first] = tries
    world.until_done()
    assert world.states() == {DONE}
    assert (world.starts()[first] < world.starts()[second]) == (tries == 1)  # at its old place, after two not at once
    entries = [entry for one in world.journal.records() for entry in one["entries"].values() if entry]
    assert "Plain refused to start it: not now" in {entry.get("why") for entry in entries}


def test_a_job_that_lacks_only_what_is_free_starts_as_soon_as_that_is_there() -> None:
    world = PlainWorld("fcfs", nodes=1)
    first, second = (world.them.submit(cores=4, run_s=1, limit_s=2) for _ in range(2))
    world.them.lacks = {first, second}
    for _ in range(6):  # each time some comes free, and is not enough
        before = world.them.orders
        world.go(10)
        assert world.them.orders <= before + 4  # each is tried once, and given up
        world.them.freed, world.them.version = world.them.freed + 1, world.them.version + 1
    world.them.lacks = set()
    world.go(4)
    assert world.phase(first) == Phase.RUNNING
    world.until_done()
    assert world.starts()[first] < world.starts()[second]
    assert all_free(world)


def test_a_place_that_is_gone_when_a_start_comes_there_is_found_elsewhere() -> None:
    world = PlainWorld(nodes=2)
    job = world.them.jobs[world.them.submit(cores=4, run_s=3)]
    world.them.stuck.add(job.key)
    world.driver.step()
    (taken,) = job.bound
    other = world.them.submit(cores=3, run_s=20, ours=False)
    world.them.bind(other, [taken])
    world.them.schedule()
    world.them.stuck.clear()
    world.until_done()
    assert world.them.jobs[other].restarts == 0
    assert job.starts[0][1] != (taken,)
    assert job.starts[0][0] < 10_000_000


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6])
def test_a_job_that_vanishes_at_any_time_leaves_nothing_behind(steps: int) -> None:
    world = PlainWorld(pools=POOL, nodes=1)
    world.them.late_us = 500_000
    world.them.submit(cores=4, drive_mb=200)
    world.them.submit(cores=4, drive_mb=200)
    world.go(steps)
    del world.them.jobs[key_of(1)]
    world.them.version += 1
    world.until_done()
    assert world.states() == {DONE}
    assert not world.fabric.attached
    assert len(world.driver.table) == 0
    assert all_free(world)


@pytest.mark.parametrize("steps", [0, 1, 2, 4])
def test_orders_whose_answers_are_lost_have_their_effect_once(steps: int) -> None:
    world = PlainWorld()
    for _ in range(6):
        world.them.submit(cores=3, run_s=2)
    world.go(steps)
    world.them.lost_answers = 5
    for _ in range(200):
        try:
            world.go()
        except UnreachableError:
            world.them.tick(200_000)
    assert [len(starts) for starts in world.starts().values()] == [1] * 6
    assert all_free(world)


@pytest.mark.parametrize("down_us", [0, 3_000_000])
def test_an_orchestrator_that_forgets_where_jobs_are_bound_starts_none_where_it_is_not_to(down_us: int) -> None:
    world = PlainWorld(pools=POOL, nodes=2)
    job = world.them.jobs[world.them.submit(cores=4, drive_mb=200, run_s=2)]
    world.them.stuck.add(job.key)
    world.go(3)
    assert world.phase(job.key) == Phase.RELEASED
    world.them.save()
    first = job.bound
    world.them.mark(first[0], False)
    while world.phase(job.key) == Phase.RELEASED:
        world.go()
    world.go(2)
    world.them.crash(down_us)  # it is bound as it was: its hold is forgotten, and its place drains
    world.them.on_start = lambda one: started.append({attached.node for attached in world.fabric.state()})
    started: list[set[str]] = []
    world.them.stuck.clear()
    world.go(20)
    world.them.mark(first[0], True)
    world.until_done()
    assert job.state == DONE
    assert len(job.starts) == 1
    assert started == [set(job.starts[0][1])]
    assert not world.fabric.attached


def test_a_job_that_is_over_and_comes_back_is_not_run_again_unless_somebody_queues_it_again() -> None:
    world = PlainWorld()
    job = world.them.jobs[world.them.submit(run_s=1)]
    world.until_done()
    job.state, job.bound, world.them.version = "waits", (), world.them.version + 1
    world.go(10)
    entry = world.driver.table.get(job.key)
    assert entry is not None
    assert entry.why.endswith("and Plain forgot that: cancel it, and submit it again if it is to run")
    job.restarts += 1
    world.them.version += 1
    world.until_done()
    assert len(job.starts) == 2


@pytest.mark.parametrize("late_us", [0, 300_000])
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_two_drivers_start_no_job_twice_and_nothing_on_what_the_other_has(policy: str, late_us: int) -> None:
    world = PlainWorld(policy)
    world.them.late_us = late_us
    other = Driver(Plain(world.them, "fcfs"), world.fabric, MemoryJournal(), clock=world.clock)
    for i in range(20):
        world.them.submit(nodes=1 + i % 2, cores=1 + i % 4, run_s=1 + i % 3)
    for step in range(300):
        first, second = (world.driver, other)[:: (-1) ** step]
        first.look()  # both decide on the same, before either has acted
        second.look()
        for driver in (first, second):
            driver.step()
        assert all(world.them.held_on(name) <= 4 for name in world.them.nodes)
        world.them.tick(200_000)
    assert world.states() == {DONE}
    assert [len(starts) for starts in world.starts().values()] == [1] * 20
    other.acting.close()


class Chaos:
    """A driver that is killed now and then, and an orchestrator of which anything may be expected."""

    def __init__(self, seed: int, policy: str) -> None:
        self.random, self.calm, self.wrong, self.kills = np.random.default_rng(seed), False, list[str](), 0
        self.world = PlainWorld(policy, POOL, timeout_s=3)
        self.world.fabric.fails = lambda _: self.happens(0.05)
        self.world.them.danger = self.world.journal.danger = self.dies
        self.world.them.on_start = self.starts

    def happens(self, chance: float) -> bool:
        return not self.calm and bool(self.random.random() < chance)

    def dies(self, where: str) -> None:
        if self.happens(0.08):
            self.kills += 1
            raise Killed(where)

    def starts(self, job: PlainJob) -> None:
        has = {one.node for one in self.world.fabric.state() if one.job == job.key}
        if job.drive_mb and has != set(job.bound):
            self.wrong.append(f"{job.key} started on {job.bound} with devices on {has}")

    def step(self) -> None:
        world, them = self.world, self.world.them
        try:
            world.driver.step()
            world.settle()
        except UnreachableError:
            pass
        except Killed:
            world.settle()
            world.driver.acting.close()
            try:
                world.driver = world.make()
                world.driver.acting.settle()
            except Exception:  # the fabric fails: the next one that is killed tries again
                assert not self.calm
        self.meddle(list(them.jobs))
        them.tick(200_000)

    def meddle(self, keys: list[str]) -> None:
        them = self.world.them
        them.late_us = int(self.random.integers(0, 3)) * 300_000 if not self.calm else 0
        them.unreachable, them.lost_answers = int(self.happens(0.05)), int(self.happens(0.05))
        job = them.jobs[keys[int(self.random.integers(len(keys)))]]
        if self.happens(0.05):
            them.refuse[job.key] = 1
        if self.happens(0.03):
            them.evict(job.key)
        if self.happens(0.02):
            them.end(job.key, CANCELLED)
        if self.happens(0.03) and job.state == "waits":
            del them.jobs[job.key]
            them.version += 1
        if self.happens(0.05):
            name = f"n{self.random.integers(1, 5)}"
            them.mark(name, not them.nodes[name])


@pytest.mark.parametrize("policy", ["easy", "conservative", "list(backfill=any)"])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_every_job_runs_with_its_devices_and_nothing_is_left(seed: int, policy: str) -> None:
    chaos = Chaos(seed, policy)
    world = chaos.world
    for i in range(25):
        world.them.submit(nodes=1 + i % 2, cores=1 + i % 3, run_s=1 + i % 3, drive_mb=100 * (i % 3 == 0))
    for _ in range(250):
        chaos.step()
    chaos.calm = True
    assert chaos.kills >= 3
    for name in list(world.them.nodes):
        world.them.mark(name, True)
    world.them.refuse.clear()
    world.them.unreachable = world.them.lost_answers = 0
    for _ in range(900):
        if not world.waits_or_runs() and not world.fabric.attached:
            break
        chaos.step()
    assert world.states() <= {DONE, CANCELLED}
    assert not chaos.wrong
    for job in world.them.jobs.values():
        assert len(job.starts) <= 1 + job.restarts
        assert job.starts or job.state == CANCELLED
    assert not world.fabric.attached
    assert max(world.fabric.peak_mb.values()) <= 300
    world.go(5)
    assert all_free(world)
    assert replay(world.journal.records()).differences == []


def test_it_says_what_it_was_asked_in_the_adapter_s_words(caplog: Any) -> None:
    world = PlainWorld()
    world.them.refuse[world.them.submit()] = 1
    world.go(3)
    assert "Plain refused an order" in caplog.text
    assert {record.name for record in caplog.records} == {"unrack.live.plain"}
