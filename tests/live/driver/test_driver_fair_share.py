"""Fair share under the driver: usage that Slurm tells of counts from the first decision on, and in replays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from strict_slurm import StrictSlurm
from test_driver_limits import Strict

from unrack.cluster.formats.site import SaidSite
from unrack.live.driver.state.replay import replay
from unrack.live.driver.used import Used
from unrack.live.slurm.commands.accounting import used_by
from unrack.live.slurm.reading import Reading

RULES = {"fair_share": 1000, "calc_period": 1, "half_life": 0}
SAID = SaidSite(accounts={"phys": {"users": ["ann", "bob", "cyd"]}}, rules={"priority": RULES})


class Sharing(StrictSlurm):
    """A Slurm that says what was used."""

    account = "phys"
    used: dict[str, float]

    def read(self) -> Reading:
        reading = super().read()
        amounts = tuple(("phys", user, amount) for user, amount in self.used.items())
        return replace(reading, accounting=SAID, used=Used(reading.at_s, amounts))


def world_of(policy: str, used: dict[str, float]) -> tuple[Strict, Sharing]:
    world = Strict(policy, nodes=2)
    world.slurm.__class__ = Sharing
    assert isinstance(world.slurm, Sharing)
    world.slurm.used = used
    return world, world.slurm


@pytest.mark.parametrize("policy", ["easy", "conservative", "list", "slurm"])
def test_who_has_used_least_goes_first_whoever_came_first_and_after_a_restart(policy: str) -> None:
    interval = ", interval=1 s" if policy == "slurm" else ""
    world, slurm = world_of(f"{policy}(order=multifactor{interval})", {"ann": 900.0, "bob": 500.0})
    jobs = {
        user: [slurm.submit(nodes=2, cores=4, run_s=2, user=user) for _ in range(3)] for user in ("ann", "bob", "cyd")
    }
    for step in range(200):
        if step in (9, 23):
            world.driver.acting.close()
            world.driver = world.make()
        world.go()
    starts = {user: [slurm.jobs[job].starts[0][0] for job in own] for user, own in jobs.items()}
    assert max(starts["cyd"]) < min(starts["bob"])
    assert max(starts["bob"]) < min(starts["ann"])
    assert replay(world.journal.records()).differences == []


def test_what_jobs_use_adds_to_it_and_somebody_new_may_come() -> None:
    """Ann is ahead until Bob, who comes when nobody knows him yet, has used more than she had."""
    world, slurm = world_of("list(order=multifactor)", {"ann": 20.0})
    first = [slurm.submit(nodes=2, cores=4, run_s=4, user="ann") for _ in range(4)]
    then = [slurm.submit(nodes=2, cores=4, run_s=4, user="new") for _ in range(4)]
    world.go(300)
    starts = {job: slurm.jobs[job].starts[0][0] for job in (*first, *then)}
    assert starts[then[0]] < starts[first[0]] < starts[then[3]]
    assert replay(world.journal.records()).differences == []


@pytest.mark.parametrize(
    "text", ["", "x", "a|b|c\n", "root||-1\nphys|ann|1e9\n", "|||\n\0|\n", "phys|ann|999999999999999999"]
)
def test_odd_lines_say_nothing(text: str) -> None:
    assert used_by(text, 1.0).amounts == ()


def test_without_usage_or_weights_the_driver_starts_from_zero_and_first_come_first_served() -> None:
    world, slurm = world_of("easy(order=multifactor)", {})
    jobs = [slurm.submit(nodes=2, cores=4, run_s=1, user=user) for user in ("ann", "bob", "ann")]
    world.until_done()
    starts = [slurm.jobs[job].starts[0][0] for job in jobs]
    assert starts == sorted(starts)
    assert replay(world.journal.records()).differences == []


AGED = replace(SAID, rules={"priority": {"age": 1000, "max_age": "1 h", "calc_period": 1, "half_life": 0}})


class Aging(Sharing):
    """A Slurm whose priority is the age of jobs alone, less what they are nice."""

    def read(self) -> Reading:
        return replace(super().read(), accounting=AGED, used=None)


def aging(policy: str) -> tuple[Strict, Sharing]:
    world, slurm = world_of(policy, {})
    slurm.__class__ = Aging
    return world, slurm


@pytest.mark.parametrize("policy", ["easy", "conservative", "list", "slurm"])
@pytest.mark.parametrize("restarts", [(), (9, 23), (1, 2, 3)])
def test_age_is_that_of_slurms_times_whenever_the_driver_came_to_know_a_job_and_nice_steps_back(
    policy: str, restarts: tuple[int, ...]
) -> None:
    interval = ", interval=1 s" if policy == "slurm" else ""
    world, slurm = aging(f"{policy}(order=multifactor{interval})")
    asked = {"nodes": 2, "cores": 4, "run_s": 2.0}
    old, older, newest = (slurm.submit(**asked) for _ in range(3))
    ages = {old: 2000, older: 3000, newest: 100}
    for job, age in ages.items():
        slurm.jobs[job].submit_s -= age  # it waited when nobody knew the driver yet
    late = slurm.submit(**asked)
    slurm.jobs[late].submit_s -= 4000  # it could not start before its time came
    slurm.jobs[late].begin_us = 0
    nice, eager = slurm.submit(nice=1100, **asked), slurm.submit(nice=-2000, **asked)
    slurm.jobs[nice].submit_s -= 3400
    for step in range(140):
        if step in restarts:
            world.driver.acting.close()
            world.driver = world.make()
        world.go()
    starts = {job: slurm.jobs[job].starts[0][0] for job in slurm.jobs}
    assert sorted(starts, key=starts.__getitem__) == [eager, older, old, newest, late, nice]
    assert replay(world.journal.records()).differences == []


def test_who_waits_for_its_time_or_another_job_has_no_age_before_that() -> None:
    world, slurm = aging("list(order=multifactor)")
    asked = {"nodes": 2, "cores": 4, "run_s": 2.0}
    first = slurm.submit(**{**asked, "run_s": 30.0})
    begins, plain = slurm.submit(**asked), 0
    slurm.jobs[begins].begin_us = 20_000_000
    world.go(50)
    plain = slurm.submit(**asked)
    world.go(250)
    assert slurm.jobs[first].starts[0][0] < slurm.jobs[plain].starts[0][0] < slurm.jobs[begins].starts[0][0]
    assert replay(world.journal.records()).differences == []


def test_a_job_that_waits_keeps_its_place_and_age_where_slurm_shows_another_time_meanwhile() -> None:
    world, slurm = aging("list(order=multifactor)")
    first = slurm.submit(nodes=2, cores=4, run_s=20)
    job = slurm.submit(nodes=1, cores=4, run_s=2)
    world.go(10)
    number = world.driver.table.get(str(job)).number
    slurm.jobs[job].begin_us, slurm.dirty = 1_500_000, True  # as when somebody released it, and it was held again
    world.go(5)
    assert world.driver.table.get(str(job)).number == number
    world.until_done()
    assert slurm.jobs[first].starts[0][0] < slurm.jobs[job].starts[0][0]
    assert replay(world.journal.records()).differences == []
