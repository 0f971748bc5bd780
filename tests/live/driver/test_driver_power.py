"""Nodes that save power: jobs are started on those that sleep, and wait there for them to wake up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_driver_limits import Strict

from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.slurm.answers.nodes import nodes_of
from unrack.live.slurm.reading import NodeShare

STATES = {  # as ``sinfo --json`` of 22.05 has them of nodes that are powered down and up
    ("idle", "POWERING_DOWN"): (True, False, True),
    ("idle", "POWERED_DOWN"): (True, True, False),
    ("mixed", "POWERED_DOWN"): (True, True, False),
    ("mixed", "NOT_RESPONDING", "POWERING_UP"): (True, True, False),
    ("idle", "CLOUD", "POWERED_DOWN"): (True, True, False),
    ("mixed", "NOT_RESPONDING"): (False, False, False),
    ("down", "NOT_RESPONDING", "POWERED_DOWN"): (False, False, True),  # ResumeTimeout reached
    ("idle", "DRAIN", "POWERED_DOWN"): (False, False, True),
}


@pytest.mark.parametrize("words", STATES)
def test_nodes_that_sleep_or_wake_up_take_jobs_and_those_that_go_to_sleep_do_not(words: tuple[str, ...]) -> None:
    found, bad = nodes_of({"nodes": [{"name": "n1", "state": words[0], "state_flags": list(words[1:])}]})
    assert not bad
    assert (found[0].usable, found[0].takes_jobs, found[0].is_closed) == STATES[words]


def test_a_job_that_was_let_go_on_a_node_that_is_powered_down_meanwhile_goes_elsewhere_at_once() -> None:
    world = Strict()
    number = world.slurm.submit(cores=2, run_s=2)
    world.slurm.stuck.add(number)
    world.go(3)
    place = world.slurm.jobs[number].required
    world.slurm.mark(*place, "IDLE", "POWERING_DOWN")
    world.slurm.stuck.clear()
    world.slurm.refused = lambda job: "Resources" if job.required == place else ""  # type: ignore[method-assign]
    world.go(8)
    assert world.slurm.jobs[number].starts
    assert world.slurm.jobs[number].starts[0][1] != place
    world.slurm.mark(*place, "IDLE", "POWERED_DOWN")
    world.slurm.refused = lambda job: ""  # type: ignore[method-assign]
    wide = world.slurm.submit(nodes=4, cores=4, run_s=2)
    world.until_done()
    assert world.slurm.run_on(wide) >= set(place)


@pytest.mark.parametrize("policy", ["easy", "conservative", "flow"])
def test_time_counts_once_the_nodes_of_a_job_are_awake_and_one_whose_node_does_not_wake_up_runs_elsewhere(
    policy: str,
) -> None:
    world = Strict(policy, nodes=2)
    for name in world.slurm.nodes:
        world.slurm.mark(name, "IDLE", "POWERED_DOWN")
    job = world.slurm.jobs[world.slurm.submit(cores=2, run_s=500, limit_s=20)]
    shown = world.slurm._shown
    wakes = ["CONFIGURING"]

    def as_it_wakes(one: Any) -> Any:
        found = shown(one)
        return replace(found, state=wakes[0], holds={one.held_on[0]: NodeShare(2, 0)}) if one.held_on else found

    world.slurm._shown = as_it_wakes  # type: ignore[method-assign]
    world.go(3)
    assert world.phase(1) == Phase.RUNNING
    (name,) = job.held_on
    world.slurm.mark(name, "MIXED", "NOT_RESPONDING", "POWERING_UP")
    beside = world.slurm.submit(cores=2, run_s=1, limit_s=5, required=(name,))
    world.go(20)
    assert world.slurm.jobs[beside].starts, "Slurm starts jobs on nodes that wake up"
    wakes[0] = "RUNNING"
    job.start_us = world.clock.at_us  # as Slurm does
    world.slurm.mark(name, "MIXED")
    world.go(2)
    entry = world.driver.table.get("1")
    assert world.driver.epoch is not None
    assert entry is not None
    assert entry.number is not None
    left_s = (world.driver.epoch.core.state.booked_end(entry.number) - world.clock.now()) / 1e6
    assert 18 < left_s <= 20
    world.slurm.mark(name, "DOWN", "NOT_RESPONDING", "POWERED_DOWN")  # it did not wake up, after all
    world.slurm.requeue(1, held=False)
    job.reason, job.run_s = "BeginTime", 2
    world.until_done()
    assert [names for _, names in job.starts] == [(name,), tuple(set(world.slurm.nodes) - {name})]
    tries = [one.get("tries") for record in world.journal.records() for one in record["entries"].values() if one]
    assert not any(tries), "no start has failed"
    assert replay(world.journal.records()).differences == []
