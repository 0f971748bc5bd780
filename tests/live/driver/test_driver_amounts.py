"""Jobs that ask for other amounts, or hold others, than was decided: the ledger has what Slurm gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_slurm import FakeJob
from strict_slurm import StrictSlurm
from test_driver_limits import Strict
from worlds import POOL

from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.slurm.reading import Licence, SlurmJob

POLICIES = ["easy", "fcfs", "conservative", "slurm(interval=1 s)", "flow"]


class Amounts(Strict):
    """Four nodes of four cores and 1000 MB."""

    def held(self) -> dict[str, tuple[int, int]]:
        """Cores and MB of each node that are not free by the ledger."""
        assert self.driver.epoch is not None
        state, names = self.driver.epoch.core.state, self.driver.epoch.names
        taken = state.total - state.free
        return {name: (int(taken[0, i]), int(taken[1, i])) for i, name in enumerate(names.nodes) if taken[:2, i].any()}

    def given(self) -> dict[str, tuple[int, int]]:
        """The same, as Slurm has it of the jobs that run."""
        found: dict[str, tuple[int, int]] = {}
        for job in self.slurm.jobs.values():
            for name in job.held_on:
                cores, mb = found.get(name, (0, 0))
                found[name] = cores + job.cores, mb + job.memory_mb
        return found

    def check(self) -> None:
        """All have run once, nothing is left, and the journal played again decides the same."""
        assert {(job.state, len(job.starts)) for job in self.slurm.jobs.values()} == {("COMPLETED", 1)}
        assert self.all_free()
        assert replay(self.journal.records()).differences == []


def let_go(world: Amounts, **asked: Any) -> int:
    """A job that was let go, and that Slurm has not looked at yet."""
    number = world.slurm.submit(**asked)
    world.slurm.stuck.add(number)
    world.go(3)
    assert world.phase(number) == Phase.RELEASED
    return number


CHANGES: list[dict[str, Any]] = [{"cores": 4}, {"cores": 1}, {"memory_mb": 900}, {"cores": 3, "memory_mb": 1000}]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_ledger_has_what_slurm_gave_a_job_that_was_changed_at_the_last_moment(
    policy: str, change: dict[str, Any]
) -> None:
    world = Amounts(policy)
    number = let_go(world, cores=2, memory_mb=300, run_s=20, limit_s=30)
    for name, value in change.items():
        setattr(world.slurm.jobs[number], name, value)
    world.slurm.stuck.clear()
    world.slurm.tick(200_000)  # it starts before the driver has looked
    assert world.slurm.jobs[number].state == "RUNNING"
    world.go(2)
    assert world.phase(number) == Phase.RUNNING
    got, given = world.held(), world.given()
    assert got.keys() == given.keys()
    assert all(got[name][0] == given[name][0] and got[name][1] >= given[name][1] for name in got), (got, given)
    for _ in range(8):
        world.slurm.submit(cores=2, run_s=2, limit_s=3)
    world.until_done()
    assert not [entry for entry in whys(world) if "did not start it" in entry]
    world.check()


def test_a_job_that_holds_more_than_was_decided_keeps_its_drive() -> None:
    world = Amounts(pools=POOL, nodes=2)
    number = let_go(world, cores=2, run_s=20, limit_s=30, comment="nvme=200")
    beside = world.slurm.submit(cores=2, run_s=2, limit_s=3, required=world.slurm.jobs[number].required)
    world.slurm.stuck.add(beside)
    world.go(2)
    world.slurm.jobs[number].cores = 4
    world.slurm.stuck.remove(number)
    world.slurm.tick(200_000)
    world.go(3)
    entry = world.driver.table.get(str(number))
    assert entry is not None
    assert entry.phase == Phase.RUNNING
    assert entry.devices
    assert entry.operations
    world.slurm.stuck.clear()
    drives = [world.slurm.submit(run_s=2, limit_s=3, comment="nvme=200") for _ in range(2)]
    world.go(8)
    assert sum(bool(world.slurm.jobs[one].starts) for one in drives) == 1, "there are two, of 300 MB"
    world.until_done()
    assert world.slurm.jobs[number].starts
    world.check()
    assert not world.fabric.state()


def whys(world: Strict) -> set[str]:
    """Why starts did not come about."""
    records = world.journal.records()
    return {entry.get("why", "") for one in records for entry in one["entries"].values() if entry}


@pytest.mark.parametrize("change", [*CHANGES, {"nodes": 2}])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_asks_for_other_amounts_once_it_is_let_go_is_placed_anew_by_them(
    policy: str, change: dict[str, Any]
) -> None:
    world = Amounts(policy)
    fillers = [world.slurm.submit(cores=2, run_s=30, limit_s=40) for _ in range(3)]
    number = let_go(world, cores=2, memory_mb=300, run_s=5, limit_s=8)
    for name, value in change.items():
        setattr(world.slurm.jobs[number], name, value)
    world.slurm.dirty = True
    world.slurm.stuck.clear()
    world.slurm.stuck.update(fillers)
    world.go(12)
    assert world.slurm.jobs[number].state == "RUNNING"
    assert world.phase(number) == Phase.RUNNING
    got, given = world.held(), world.given()
    assert all(got[name][0] == given[name][0] for name in got), (got, given)
    assert not [entry for entry in whys(world) if "did not start it" in entry]
    world.slurm.stuck.clear()
    world.until_done()
    world.check()


def test_others_that_were_to_start_on_what_a_job_has_taken_beyond_its_ask_go_elsewhere_at_once() -> None:
    world = Amounts(nodes=2)
    number = world.slurm.submit(cores=2, run_s=20, limit_s=30)
    others = [world.slurm.submit(cores=2, run_s=2, limit_s=3) for _ in range(3)]
    world.slurm.stuck.update([number, *others])
    world.go(3)
    place = world.slurm.jobs[number].required
    beside = [one for one in others if world.slurm.jobs[one].required == place]
    assert len(beside) == 1
    world.slurm.jobs[number].cores = 4
    world.slurm.stuck.clear()
    world.slurm.stuck.update(others)
    world.slurm.tick(200_000)
    assert world.slurm.jobs[number].state == "RUNNING"
    world.slurm.stuck.clear()
    world.go(4)
    assert world.held()[place[0]][0] == 4
    world.go(25)  # it did not wait for its time-out
    assert {world.slurm.jobs[one].state for one in others} == {"COMPLETED"}
    assert world.slurm.run_on(beside[0]).isdisjoint(place)
    world.until_done()
    world.check()


def test_what_slurm_shows_otherwise_only_while_a_job_is_let_go_holds_it_back_once() -> None:
    class Counts(StrictSlurm):
        """It counts a core more of what is let go."""

        def _shown(self, job: FakeJob) -> SlurmJob:
            shown = super()._shown(job)
            cores = shown.cpus + bool(job.priority and job.state == "PENDING")
            return replace(shown, cpus=cores, cpus_per_task=cores)

    class Counting(Amounts):
        made = Counts

    world = Counting()
    number = world.slurm.submit(cores=2, run_s=5)
    world.slurm.stuck.add(number)
    world.go(30)
    assert world.phase(number) == Phase.RELEASED
    assert sum(entry.startswith("it asks") for entry in whys(world)) == 1
    world.slurm.stuck.clear()
    world.until_done()
    world.check()


@pytest.mark.parametrize("limit_s", [5, 60])
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_time_limit_that_is_changed_before_the_start_is_when_its_end_is_expected(policy: str, limit_s: int) -> None:
    world = Amounts(policy)
    number = let_go(world, cores=2, run_s=4, limit_s=30)
    world.slurm.jobs[number].limit_s = limit_s
    world.slurm.stuck.clear()
    world.slurm.tick(200_000)
    world.go(2)
    assert world.phase(number) == Phase.RUNNING
    assert world.driver.epoch is not None
    entry = world.driver.table.get(str(number))
    assert entry is not None
    assert entry.number is not None
    left_s = (world.driver.epoch.core.state.booked_end(entry.number) - world.clock.now()) / 1e6
    assert limit_s - 2 < left_s <= limit_s
    world.until_done()
    world.check()


@pytest.mark.parametrize("new_driver", [False, True])
@pytest.mark.parametrize("ours", [True, False])
def test_nodes_that_a_running_job_gives_back_are_another_s(ours: bool, new_driver: bool) -> None:
    world = Amounts()
    number = world.slurm.submit(nodes=3, cores=4, run_s=60, limit_s=90, **({} if ours else {"priority": 1}))
    world.go(4)
    job = world.slurm.jobs[number]
    assert world.phase(number) == (Phase.RUNNING if ours else Phase.FOREIGN)
    if new_driver:
        world.driver.acting.close()
        world.driver = world.make()
    job.nodes, job.held_on, world.slurm.dirty = 1, job.held_on[:1], True
    other = world.slurm.submit(nodes=3, cores=4, run_s=2, limit_s=3)
    world.go(6)
    assert world.slurm.jobs[other].starts
    assert world.held()[job.held_on[0]][0] == 4
    assert world.phase(number) == (Phase.RUNNING if ours else Phase.FOREIGN)
    world.until_done()
    assert world.all_free()
    assert replay(world.journal.records()).differences == []


@pytest.mark.parametrize("count", [1, 4])
def test_licences_that_an_operator_gives_or_takes_of_a_running_job_count(count: int) -> None:
    world = Amounts()
    world.slurm.licences = {"matlab": Licence(4, 0)}
    number = world.slurm.submit(cores=1, run_s=30, limit_s=40, licences={"matlab": 2})
    world.go(4)
    assert world.phase(number) == Phase.RUNNING
    world.slurm.jobs[number].licences, world.slurm.dirty = {"matlab": count}, True
    world.go(2)
    other = world.slurm.submit(cores=1, run_s=2, limit_s=3, licences={"matlab": 3})
    world.go(6)
    assert bool(world.slurm.jobs[other].starts) == (count == 1)
    assert not world.slurm.asked
    world.until_done()
    world.check()


@pytest.mark.parametrize("comment", ["", "nvme=200"])
def test_a_driver_that_begins_anew_has_all_that_jobs_on_several_nodes_hold_though_none_waits(comment: str) -> None:
    world = Amounts("easy", pools=POOL)
    number = world.slurm.submit(nodes=2, cores=1, run_s=8, comment=comment)
    world.go(5)
    before = world.driver.table.get(str(number)).lease
    world.driver.acting.close()
    world.driver = world.make()
    world.go(5)
    entry = world.driver.table.get(str(number))
    assert (entry.phase, entry.lease) == (Phase.RUNNING, before)
    world.until_done()
    world.check()
