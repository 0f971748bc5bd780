"""More time for running jobs: it becomes a limit of Slurm before the old one is used up, and comes back from there."""

from __future__ import annotations

import random
from typing import Any

import pytest
from test_driver_limits import Strict

from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase

POLICIES = ["easy", "conservative", "fcfs", "list(backfill=any)", "slurm(interval=1 s)"]
MORE = "extension=1 min, extension_most=3 min"


class Limited(Strict):
    """Eight nodes of a Slurm that stops jobs at their limits, under a policy that gives them more time."""

    def __init__(self, policy: str = "easy", more: str = MORE, **options: Any) -> None:
        words = f"{policy.removesuffix(')')}{', ' if '(' in policy else '('}{more})"
        super().__init__(words, **{"nodes": 8, **options})
        self.slurm.stops = True

    def seconds(self, seconds: float) -> None:
        self.go(round(seconds * 5))

    def fill(self, **more: Any) -> list[int]:
        """A job for each node."""
        return [self.slurm.submit(cores=4, **{"run_s": 1000, "limit_s": 60, **more}) for _ in range(8)]

    def check(self) -> None:
        assert not self.slurm.asked
        assert self.all_free()
        assert replay(self.journal.records()).differences == []

    def given(self, number: int) -> list[int]:
        """The limits that Slurm was told, s; each in time, and once."""
        job = self.slurm.jobs[number]
        for (at_us, _), before in zip(job.lengthened, [60, *(limit for _, limit in job.lengthened)], strict=False):
            assert 10_000_000 < job.start_us + before * 10**6 - at_us < 31_000_000
        return [limit for _, limit in job.lengthened]


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_run_on_up_to_the_most_and_are_stopped_there(policy: str) -> None:
    world = Limited(policy)
    jobs = world.fill()
    world.seconds(290)
    assert {world.slurm.jobs[job].state for job in jobs} == {"TIMEOUT"}
    for job in jobs:
        assert world.given(job) == [120, 180, 240]
        assert world.slurm.jobs[job].end_us - world.slurm.jobs[job].start_us >= 240 * 10**6
    world.check()


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_is_given_time_that_another_waits_for(policy: str) -> None:
    world = Limited(policy)
    jobs = world.fill()
    world.seconds(20)
    other = world.slurm.submit(nodes=8, cores=4, run_s=5, limit_s=60)
    world.seconds(60)
    assert world.slurm.jobs[other].starts
    assert {world.slurm.jobs[job].state for job in jobs} == {"TIMEOUT"}
    assert not any(world.given(job) for job in jobs)
    world.until_done(2000)
    world.check()


def test_who_ends_by_himself_needs_none_and_gets_none() -> None:
    world = Limited()
    jobs = world.fill(run_s=20)
    world.seconds(100)
    assert not any(world.given(job) for job in jobs)
    assert not any(one[0] == "expired" for record in world.journal.records() for one in record.get("told", ()))
    world.check()


@pytest.mark.parametrize("when", [25, 31, 50, 80, 100])
def test_a_restart_at_any_time_neither_forgets_what_was_given_nor_gives_it_again(when: float) -> None:
    world = Limited()
    jobs = world.fill()
    world.seconds(when)
    for _ in range(3):
        world.driver = world.make()
        world.seconds(1)
    world.seconds(260 - when)
    assert {world.slurm.jobs[job].state for job in jobs} == {"TIMEOUT"}
    assert {tuple(limit for _, limit in world.slurm.jobs[job].lengthened) for job in jobs} == {(120, 180, 240)}
    world.check()


@pytest.mark.parametrize("again", [False, True])
def test_a_limit_that_a_killed_controller_has_forgotten_is_given_again_and_no_more(again: bool) -> None:
    world = Limited()
    job = world.slurm.jobs[world.slurm.submit(nodes=8, cores=4, run_s=1000, limit_s=60)]
    for seconds, limit_s in ((31, 60), (60, 120), (60, 180)):
        world.seconds(seconds)
        assert job.limit_s == limit_s + 60
        job.limit_s, world.slurm.dirty = limit_s, True
        if again:
            world.driver = world.make()
        world.seconds(1)
        assert job.limit_s == limit_s + 60
    world.seconds(120)
    assert job.state == "TIMEOUT"
    assert [limit for _, limit in job.lengthened] == [120, 120, 180, 180, 240, 240]
    world.check()


def test_what_slurm_refuses_is_not_asked_again_and_the_job_ends_at_its_limit() -> None:
    world = Limited()
    job = world.slurm.submit(nodes=8, cores=4, run_s=1000, limit_s=60)
    world.seconds(10)
    world.slurm.refuse[job] = 100
    world.seconds(60)
    assert world.slurm.jobs[job].state == "TIMEOUT"
    assert world.slurm.refuse[job] == 99
    world.check()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_a_job_that_is_queued_again_has_the_limit_that_it_asked_for(together: bool, held: bool, restart: bool) -> None:
    """As in a simulation, where all of its time is before it again; Slurm keeps the raised one."""
    world = Limited()
    asked = {"cores": 4, "run_s": 1000, "limit_s": 60}
    job = world.slurm.submit_together({}, {}, nodes=1, **asked) if together else world.slurm.submit(nodes=8, **asked)
    world.seconds(100)
    assert world.slurm.jobs[job].limit_s == 180
    world.slurm.requeue(job, held=held)
    if restart:
        world.driver = world.make()
    world.seconds(5)
    assert len(world.slurm.jobs[job].starts) == 2
    assert {one.limit_s for one in world.slurm.together(job)} == {60}
    world.seconds(300)
    assert {one.state for one in world.slurm.together(job)} == {"TIMEOUT"}
    assert [limit for _, limit in world.slurm.jobs[job].lengthened] == [120, 180, 120, 180, 240]
    world.check()


def test_a_limit_that_an_operator_sets_after_that_stays() -> None:
    world = Limited()
    job = world.slurm.submit(nodes=8, cores=4, run_s=1000, limit_s=60)
    blocker = {"nodes": 8, "cores": 4, "run_s": 20, "limit_s": 60, "priority": 100}
    world.seconds(40)
    world.slurm.requeue(job, held=True)
    world.slurm.submit(**blocker, reason="None")
    world.slurm.jobs[job].limit_s, world.slurm.dirty = 300, True
    world.seconds(40)
    assert world.slurm.jobs[job].state == "RUNNING"
    assert world.slurm.jobs[job].limit_s == 300
    world.seconds(600)
    assert [limit for _, limit in world.slurm.jobs[job].lengthened] == [120, 360, 420, 480]
    world.check()


def test_an_operators_limit_counts_as_any_other() -> None:
    world = Limited()
    job = world.slurm.submit(nodes=8, cores=4, run_s=1000, limit_s=60)
    world.seconds(10)
    world.slurm.jobs[job].limit_s, world.slurm.dirty = 600, True
    world.seconds(500)
    assert world.given(job) == []
    world.seconds(100)
    assert [limit for _, limit in world.slurm.jobs[job].lengthened] == [660]
    world.seconds(300)
    assert [limit for _, limit in world.slurm.jobs[job].lengthened] == [660, 720, 780]
    world.check()


def test_jobs_of_others_and_components_with_several_limits_are_left_to_slurm() -> None:
    world = Limited()
    theirs = world.slurm.submit(nodes=2, cores=4, run_s=1000, limit_s=60, priority=100, reason="None")
    parts = world.slurm.submit_together({"limit_s": 60}, {"limit_s": 90}, run_s=1000, nodes=1, cores=4)
    equal = world.slurm.submit_together({}, {}, run_s=1000, limit_s=60, nodes=1, cores=4)
    world.seconds(55)
    assert world.phase(theirs) == Phase.FOREIGN
    assert world.slurm.jobs[parts].starts
    assert [bool(world.slurm.jobs[job].lengthened) for job in (theirs, parts, equal)] == [False, False, True]
    assert world.slurm.jobs[equal + 1].limit_s == 120
    world.seconds(300)
    world.check()


@pytest.mark.long
@pytest.mark.parametrize("policy", [*POLICIES, "easy(order=multifactor)"])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_meanwhile_nobody_gets_more_than_the_most_and_a_replay_gives_the_same(
    seed: int, policy: str
) -> None:
    world, draw = Limited(policy), random.Random(seed)
    slurm = world.slurm
    for _ in range(40):
        what = draw.randrange(12)
        running = [job.id for job in slurm.jobs.values() if job.state == "RUNNING" and not job.component]
        if what < 6:
            asked = {"cores": draw.randint(1, 4), "run_s": draw.uniform(5, 400), "limit_s": 60 * draw.randint(1, 3)}
            if draw.random() < 0.2:
                slurm.submit_together({}, {"cores": 4}, nodes=1, **asked)
            else:
                nobody_elses = draw.random() < 0.8
                slurm.submit(draw.randint(1, 4), **asked, **({} if nobody_elses else {"priority": 100}))
        elif what == 6 and running:
            slurm.requeue(draw.choice(running), held=draw.random() < 0.5)
        elif what == 7 and running:
            slurm.end(draw.choice(running), draw.choice(["CANCELLED", "FAILED"]))
        elif what == 8:
            name = draw.choice(sorted(slurm.nodes))
            slurm.mark(name, "IDLE", *(["DRAIN"] if slurm.nodes[name].usable else []))
        elif what == 9:
            world.driver.acting.close()
            world.driver = world.make()
        elif what == 10 and running:
            slurm.refuse[draw.choice(running)] = 1
        elif running:
            job = slurm.jobs[draw.choice(running)]
            job.limit_s, slurm.dirty = job.limit_s + draw.choice([-60, 60, 120]), True
        world.seconds(draw.uniform(0.2, 20))
    for name in slurm.nodes:
        slurm.mark(name, "IDLE")
    world.until_done(20_000)
    assert not [job.id for job in slurm.jobs.values() if job.state in ("PENDING", "RUNNING")]
    for job in slurm.jobs.values():
        if not job.restarts:
            assert len(job.lengthened) <= 3
    assert sum(len(job.lengthened) for job in slurm.jobs.values()) > 0
    world.check()
