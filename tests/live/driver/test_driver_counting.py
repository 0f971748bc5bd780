"""Limits of accounts and QOS that the driver knows: nothing is released beyond them, and who has room passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_slurm import FakeJob
from strict_slurm import StrictSlurm
from test_driver_limits import Strict

from unrack.cluster.formats.site import SaidSite
from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.slurm.reading import Reading

USERS = [{"name": "ann", "limits": [{"amounts": {"jobs": 3}}]}, "bob"]
SAID = SaidSite(
    qos={
        "tight": {"limits": [{"per": "user", "amounts": {"cores": 6}}]},
        "normal": {},
        "wide": {"limits": [{"amounts": {"cores": 16}}]},
    },
    accounts={"phys": {"users": USERS, "limits": [{"amounts": {"cores": 10}}]}},
    rules={"nearest_limits": True},
)


class Counting(StrictSlurm):
    """A Slurm that enforces limits, all jobs in one account; ``said``: what its accounting tells."""

    account = "phys"
    said: SaidSite | None = SAID

    def read(self) -> Reading:
        return replace(super().read(), accounting=self.said)

    def used(self, user: str = "") -> tuple[int, int]:
        """Jobs and cores of a user, or of all, that run."""
        own = [job for job in self.jobs.values() if job.state == "RUNNING" and user in ("", job.user)]
        return len(own), sum(job.cores * len(job.held_on) for job in own)

    def held_by_limit(self, job: FakeJob) -> str:
        cores, (jobs, own) = job.cores * job.nodes, self.used(job.user)
        if self.qos == "tight" and own + cores > 6:
            return "QOSMaxCpuPerUserLimit"
        if self.qos != "wide" and self.used()[1] + cores > 10:  # that QOS has one of its own in place of it
            return "AssocGrpCpuLimit"
        return "AssocMaxJobsLimit" if job.user == "ann" and jobs >= 3 else ""


def world_of(policy: str, qos: str, **more: int) -> tuple[Strict, Counting]:
    world = Strict(policy, **more)
    world.slurm.__class__ = Counting
    assert isinstance(world.slurm, Counting)
    world.slurm.qos, world.slurm.limit = qos, world.slurm.held_by_limit
    return world, world.slurm


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy", "fcfs", "conservative", "slurm"])
@pytest.mark.parametrize("qos", ["normal", "tight", "wide"])
def test_nothing_is_released_beyond_a_limit_and_who_has_room_passes(policy: str, qos: str) -> None:
    world, slurm = world_of(policy, qos, nodes=6)
    draw = np.random.default_rng(3)
    for number in range(40):
        size = {"nodes": int(draw.integers(1, 3)), "cores": int(draw.integers(1, 4))}
        slurm.submit(**size, user=["ann", "bob"][number % 2], run_s=float(draw.integers(1, 4)))
    most = 0
    for step in range(900):
        if all(job.state == "COMPLETED" for job in slurm.jobs.values()):
            break
        if step in (7, 20):  # what runs counts for a driver that begins anew, too
            world.driver.acting.close()
            world.driver = world.make()
        world.go()
        most = max(most, slurm.used()[1])
    world.go(3)
    assert {job.state for job in slurm.jobs.values()} == {"COMPLETED"}
    assert not slurm.asked, "released beyond a limit"
    assert most == (16 if qos == "wide" else 10)
    assert world.all_free()
    assert replay(world.journal.records()).differences == []


def test_who_waits_for_a_limit_is_told_which_and_what_others_started_counts() -> None:
    world, slurm = world_of("easy", "normal", nodes=6)
    slurm.limit = lambda job: ""
    others = slurm.submit(nodes=2, cores=4, user="bob", run_s=30, limit_s=60, priority=5)
    slurm.schedule()
    mine = slurm.submit(nodes=1, cores=3, user="ann", run_s=1)
    world.go(4)
    assert slurm.jobs[others].state == "RUNNING"
    assert world.phase(mine) == Phase.WAITING
    epoch, entry = world.driver.epoch, world.driver.table.get(str(mine))
    assert epoch is not None
    assert entry is not None
    assert entry.number is not None
    assert "cores of all, account phys" in epoch.why(entry.number, world.clock.at_us)
    slurm.end(others, "CANCELLED")
    world.until_done()
    assert slurm.jobs[mine].state == "COMPLETED"


def test_a_limit_that_changes_counts_from_then_on_and_one_that_is_passed_stops_nobody() -> None:
    world, slurm = world_of("easy", "normal", nodes=6)
    jobs = [slurm.submit(nodes=1, cores=2, user="bob", run_s=8, limit_s=20) for _ in range(8)]
    world.go(4)
    assert slurm.used() == (5, 10)
    lower = {"phys": {**SAID.accounts["phys"], "limits": [{"amounts": {"cores": 4}}]}}
    slurm.said = replace(SAID, accounts=lower)
    slurm.limit, slurm.dirty = lambda job: "", True
    world.go(4)
    assert slurm.used() == (5, 10)
    slurm.said, slurm.dirty = None, True
    world.go(4)
    assert slurm.used() == (8, 16)
    world.until_done()
    assert {slurm.jobs[number].state for number in jobs} == {"COMPLETED"}
    assert world.all_free()
    assert replay(world.journal.records()).differences == []


def test_users_of_whom_accounting_does_not_tell_are_slurms_to_refuse() -> None:
    world, slurm = world_of("easy", "normal", nodes=6)
    slurm.limit = lambda job: "AssocMaxJobsLimit" if slurm.used("eve")[0] >= 1 else ""
    jobs = [slurm.submit(cores=1, user="eve", run_s=1) for _ in range(3)]
    world.until_done(900)
    assert {slurm.jobs[number].state for number in jobs} == {"COMPLETED"}
    assert slurm.asked
