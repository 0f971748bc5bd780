"""What waiting jobs were promised survives the driver's restart, and nodes that go away."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import World

from unrack.live.driver.state.promises import note_promises
from unrack.live.driver.state.replay import replay

POLICIES = ("conservative", "conservative(order=sjf)", "disaggregated(scheduler=conservative)")


def waiting(policy: str, nodes: int = 2) -> World:
    """A world in which three jobs wait, of which the last but one asks for most time."""
    world = World(policy, nodes=nodes)
    for size, cores, run_s, limit_s in ((nodes - 1, 4, 30, 30), (nodes, 4, 5, 20), (1, 4, 9, 60), (nodes, 4, 9, 15)):
        world.slurm.submit(nodes=size, cores=cores, run_s=run_s, limit_s=limit_s)
        world.go(3)
    return world


def promises(world: World) -> dict[str, Any]:
    return {entry.key: promise for entry in world.driver.table if (promise := entry.known.promise) is not None}


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
def test_a_restart_leaves_every_promise_and_start_as_it_was(policy: str) -> None:
    steady, restarted = waiting(policy), waiting(policy)
    before = promises(restarted)
    assert len(before) == 3
    for step in range(300):
        if step % 4 == 0:
            restarted.driver.acting.close()
            restarted.driver = restarted.make()
        steady.go()
        restarted.go()
        if step == 0:
            assert promises(restarted) == before
    assert [len(starts) for starts in restarted.starts().values()] == [1, 1, 1, 1]
    assert restarted.starts() == steady.starts()
    assert replay(restarted.journal.records()).differences == []


def test_promises_that_are_not_kept_in_the_journal_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: the plan is made anew, shortest first, and the long job goes last."""
    monkeypatch.setattr("unrack.live.driver.driver.note_promises", lambda epoch, table: None)
    world = waiting("conservative(order=sjf)")
    was = world.driver.epoch.core.memory.reserved(2)  # type: ignore[union-attr]
    world.driver.acting.close()
    world.driver = world.make()
    world.go()
    assert world.driver.epoch.core.memory.reserved(2) > was  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", POLICIES)
def test_where_a_promised_node_is_gone_the_time_is_kept_as_far_as_that_goes(policy: str) -> None:
    world = waiting(policy, nodes=3)
    assert world.driver.epoch is not None
    state = world.driver.epoch.core.state
    before = {job: promise.start_us for job, promise in state.promises.by_job().items()}
    world.slurm.jobs[2].nodes = world.slurm.jobs[4].nodes = 2
    gone = next(name for name in world.slurm.nodes if not any(name in job.held_on for job in world.slurm.jobs.values()))
    del world.slurm.nodes[gone]
    world.slurm.dirty = True
    world.until_done()
    assert before
    assert {job.state for job in world.slurm.jobs.values()} <= {"COMPLETED", "TIMEOUT", "PENDING"}
    assert world.slurm.jobs[3].state == "COMPLETED"
    assert replay(world.journal.records()).differences == []


def test_nothing_is_noted_of_policies_that_promise_nothing() -> None:
    world = waiting("easy")
    assert promises(world) == {}
    assert world.driver.epoch is not None
    world.driver.table.taken()
    note_promises(world.driver.epoch, world.driver.table)
    assert world.driver.table.taken() == {}
