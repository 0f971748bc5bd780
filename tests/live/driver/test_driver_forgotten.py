"""A controller that is killed forgets what it was told last: what a user asked for, given back after a failed start."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from fake_slurm import FakeJob
from strict_slurm import StrictSlurm
from test_driver_sites import Sites

from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.driver.turns.coming import FORGOTTEN
from unrack.live.slurm.adapter.seen import Take
from unrack.live.slurm.orders import AskAgain, HoldBack, Order, Place, Release

ASKED = [{"on": "n4", "nodes": 2}, {"partition": "right,left"}, {"on": "n4", "partition": "right,left", "nodes": 2}]


class Saving(StrictSlurm):
    """A Slurm that writes down what it knows just before it obeys a kind of order, and refuses some."""

    before: type[Order] | None = None
    forbids: type[Order] | None = None
    told: list[Order]
    wholly: dict[int, FakeJob]

    def save(self) -> None:
        super().save()
        self.wholly = {number: replace(job) for number, job in self.jobs.items()}

    def lose(self, down_us: int) -> None:
        """The controller is killed, and all is as it wrote it down: jobs since are lost, and their numbers given again.

        What has started since runs no more, and what has ended since is taken to run.
        """
        self.jobs = {number: replace(job) for number, job in self.wholly.items()}
        self.comes_back_us, self.dirty = self.clock.at_us + down_us, True
        self.boots += 1

    def _obey(self, order: Order) -> str:
        self.told = [*getattr(self, "told", ()), order]
        if self.before is not None and isinstance(order, self.before):
            self.save()
            self.before = None
        if self.forbids is not None and isinstance(order, self.forbids):
            return "Invalid node name specified"
        return super()._obey(order)


class Forgets(Sites):
    """The site, on that Slurm."""

    made = Saving
    slurm: Saving

    def fails(self, number: int, before: type[Order] | None = None) -> None:
        """The start of a job is not allowed: it is held again, and asks for what its user wants."""
        self.slurm.stuck.add(number)
        self.go(2)
        assert self.phase(number) == Phase.RELEASED
        self.slurm.before, self.slurm.limit = before, lambda job: "Licenses" if job.id == number else ""
        self.go(4)
        assert self.phase(number) == Phase.ASIDE
        self.slurm.stuck.clear()

    def again(self) -> None:
        """Another driver goes on."""
        self.driver.acting.close()
        self.driver = self.make()


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("before", [AskAgain, HoldBack])
@pytest.mark.parametrize("again", [False, True])
def test_what_a_user_asks_comes_back_though_a_killed_controller_has_forgotten_it(
    asked: dict[str, Any], before: type[Order], again: bool
) -> None:
    world = Forgets()
    number = world.submit(run_s=1, **asked)
    job = world.slurm.jobs[number]
    wish = job.required, job.partition
    world.fails(number, before)
    assert (job.required, job.partition) == wish
    world.slurm.crash(0)
    assert (job.required, job.partition) != wish
    if again:
        world.again()
    world.go(90)  # as long as it is not tried again
    assert (job.required, job.partition) == wish
    world.slurm.limit = lambda job: ""
    world.until_done(1000)
    assert job.state == "COMPLETED"
    assert world.slurm.run_on(number) >= set(wish[0])
    assert entry_of(world, number)["job"]["said"].get("partition", "ours") == wish[1]
    assert replay(world.journal.records()).differences == []


def entry_of(world: Sites, number: int) -> dict[str, Any]:
    """What the journal has last of a job that was in the queue."""
    found = [one["entries"].get(str(number)) for one in world.journal.records()]
    return next(entry for entry in reversed(found) if entry)


@pytest.mark.parametrize("again", [False, True])
def test_it_starts_where_its_user_wants_it_before_anybody_has_noticed(again: bool) -> None:
    world = Forgets()
    number = world.submit("n4", nodes=2, run_s=1)
    job = world.slurm.jobs[number]
    world.fails(number, AskAgain)
    world.slurm.crash(0)
    assert not job.required
    world.slurm.limit = lambda job: ""
    world.slurm.reserve(900, 901)  # something has changed: it is tried again at once
    if again:
        world.again()
    for _ in range(4):
        world.submit(cores=1, run_s=9)
    world.go(8)
    assert "n4" in world.slurm.run_on(number)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("asked", ASKED)
def test_a_user_who_wants_something_else_later_has_it_though_nothing_happened_meanwhile(
    asked: dict[str, Any], again: bool
) -> None:
    world = Forgets()
    number = world.submit(cores=4, **asked)
    job = world.slurm.jobs[number]
    world.fails(number)
    world.submit(cores=4, nodes=8, run_s=400, limit_s=500, priority=9)
    world.go(300)
    assert world.phase(number) == Phase.WAITING
    if again:
        world.again()
        world.go(1)
    job.required, job.partition, world.slurm.dirty = (), "left", True
    world.go(100)
    assert (job.required, job.partition) == ((), "left")
    world.slurm.limit = lambda job: ""
    world.until_done(3000)
    assert world.slurm.run_on(number) <= {"n1", "n2", "n3", "n4"}


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("pause", [5, 170])
def test_who_has_changed_what_a_job_asks_is_known_by_when_the_controller_began(
    pause: int, again: bool, forgets: bool
) -> None:
    world = Forgets()
    number = world.submit(cores=4, partition="right,left", run_s=1)
    job = world.slurm.jobs[number]
    world.fails(number, AskAgain)
    assert job.partition == "right,left"
    inside = world.slurm.saved[number].partition
    assert inside in ("left", "right")
    world.go(pause)  # a controller that is busy has not written that down after half a minute
    if again:
        world.again()
    if forgets:
        world.slurm.crash(0)
    else:
        job.partition, world.slurm.dirty = inside, True  # its user wants the very one
    world.go(30)
    assert job.partition == ("right,left" if forgets else inside)
    world.slurm.limit = lambda job: ""
    world.until_done(1000)
    assert entry_of(world, number)["job"]["said"]["partition"] == ("right,left" if forgets else inside)
    assert replay(world.journal.records()).differences == []


def test_what_slurm_refuses_to_give_back_is_tried_again_now_and_then() -> None:
    world = Forgets()
    number = world.submit("n4", partition="left,right")
    world.slurm.forbids = AskAgain
    world.fails(number)
    world.slurm.limit = lambda job: ""
    world.submit(cores=4, nodes=8, run_s=400, limit_s=500, priority=9)
    world.go(1)
    world.slurm.told = []
    world.go(500)  # 100 s
    assert 3 <= sum(isinstance(order, AskAgain) for order in world.slurm.told) <= 8
    world.slurm.forbids = None
    world.until_done(3000)
    assert world.slurm.run_on(number) == {"n4"}
    assert world.slurm.jobs[number].state == "COMPLETED"


def test_components_ask_for_what_they_asked_though_a_killed_controller_has_forgotten_it() -> None:
    world = Forgets()
    number = world.slurm.submit_together({"excluded": ("n1",)}, {"partition": "left,right"}, run_s=1)
    parts = world.slurm.together(number)
    wish = [(part.excluded, part.partition) for part in parts]
    world.fails(number, AskAgain)
    assert [(part.excluded, part.partition) for part in parts] == wish
    world.slurm.crash(0)
    assert [(part.excluded, part.partition) for part in parts] != wish
    world.go(90)
    assert [(part.excluded, part.partition) for part in parts] == wish
    world.slurm.limit = lambda job: ""
    world.until_done(1000)
    assert {part.state for part in parts} == {"COMPLETED"}
    assert replay(world.journal.records()).differences == []


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy", "conservative", "flow"])
@pytest.mark.parametrize("seed", range(4))
def test_however_often_a_controller_forgets_each_job_runs_where_its_user_wants_it(seed: int, policy: str) -> None:
    draw, world = random.Random(seed), Forgets(policy)
    slurm, wishes = world.slurm, dict[int, tuple[tuple[str, ...], tuple[str, ...], str]]()
    down_us = 3_000_000  # in which a driver holds again what it held
    for step in range(500):
        if step < 200 and step % 5 == 0:
            asked = draw.choice([{}, *ASKED, {"partition": "left,right", "excluded": ("n2", "n5")}])
            number = world.submit(cores=draw.randint(1, 4), run_s=draw.uniform(0.5, 3), limit_s=9, **asked)
            job = slurm.jobs[number]
            wishes[number] = job.required, job.excluded, job.partition
        if step % 20 == 0:
            refused = {number for number in wishes if draw.random() < 0.3}
            slurm.limit = lambda job, refused=frozenset(refused): "Licenses" if job.id in refused else ""
            slurm.before = draw.choice([AskAgain, HoldBack, Place, Release])
        if step % 8 == 0 and slurm.clock.at_us >= slurm.comes_back_us:  # within five seconds
            slurm.save()
        if draw.random() < 0.05:
            slurm.crash(down_us)
        if draw.random() < 0.03:
            world.again()
        world.go(draw.randint(1, 3))
    slurm.limit = lambda job: ""
    world.until_done(3000)
    assert len(wishes) == 40
    for number, (wanted, excluded, partitions) in wishes.items():
        ran_on = world.slurm.run_on(number)
        assert slurm.jobs[number].state == "COMPLETED"
        assert set(wanted) <= ran_on
        assert not ran_on & set(excluded)
        assert any(all(name in slurm.nodes[node].partitions for node in ran_on) for name in partitions.split(","))
    assert replay(world.journal.records()).differences == []


@pytest.mark.parametrize("again", [False, True])
def test_a_job_whose_release_was_forgotten_often_starts_at_once_when_it_can(again: bool) -> None:
    world = Forgets()
    number = world.submit(run_s=1)
    job = world.slurm.jobs[number]
    world.slurm.stuck.add(number)
    for _ in range(9):
        world.slurm.before = Release
        world.go(15)
        world.slurm.crash(0)
        if again:
            world.again()
        world.go(5)
    world.slurm.before = None
    world.slurm.stuck.clear()
    world.go(10)
    assert [at for at, _ in job.starts] != []
    world.until_done()
    assert job.state == "COMPLETED"
    assert replay(world.journal.records()).differences == []


def test_a_job_that_something_holds_whenever_it_is_released_is_released_ever_more_seldom() -> None:
    world = Forgets()
    number = world.submit()
    job = world.slurm.jobs[number]
    world.slurm.told = []
    world.slurm.stuck.add(number)
    for _ in range(500):  # 100 s
        world.go(1)
        if job.priority:
            job.priority, job.reason, world.slurm.dirty = 0, "JobHeldAdmin", True
    assert 4 <= sum(isinstance(order, Release) for order in world.slurm.told) <= 9


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy", "conservative"])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_killed_controller_forgets_no_job_stays_held(seed: int, policy: str) -> None:
    draw, world = random.Random(seed), Forgets(policy)
    slurm, world.terms.take = world.slurm, Take.HELD
    slurm.save()
    world.again()
    for step in range(300):
        live = [number for number, job in slurm.jobs.items() if job.state in ("PENDING", "RUNNING")]
        if step < 200 and step % 5 == 0:
            asked = draw.choice([{}, *ASKED, {"partition": "left,right", "excluded": ("n2", "n5")}])
            cores, run_s = draw.randint(1, 4), draw.uniform(0.5, 3)
            world.submit(cores=cores, run_s=run_s, limit_s=9, reason="JobHeldUser", **asked)
        if step % 20 == 0:
            refused = frozenset(number for number in slurm.jobs if draw.random() < 0.2)
            slurm.limit = lambda job, refused=refused: "Licenses" if job.id in refused else ""
            slurm.before = draw.choice([AskAgain, HoldBack, Place, Release, None])
        if step % 8 == 0 and slurm.clock.at_us >= slurm.comes_back_us:
            slurm.save()
        if live and draw.random() < 0.04:
            slurm.requeue(draw.choice(live), held=draw.random() < 0.5)
        if live and draw.random() < 0.03:
            slurm.end(draw.choice(live), "CANCELLED")
        if draw.random() < 0.06:
            slurm.lose(draw.choice([0, 3_000_000]))
        if draw.random() < 0.04:
            world.again()
        world.go(draw.randint(1, 3))
    slurm.limit, slurm.before = lambda job: "", None
    world.go(600)  # two minutes
    for number, job in slurm.jobs.items():
        forgotten = job.state == "PENDING" and world.why(number).startswith(FORGOTTEN)
        assert forgotten or job.state in ("COMPLETED", "CANCELLED"), (number, job, world.why(number))
    assert replay(world.journal.records()).differences == []
