"""Heterogeneous jobs: placed, released and followed as one, whatever becomes of their components."""

from __future__ import annotations

import numpy as np
import pytest
from fake_slurm import FakeJob
from test_driver_limits import Strict

from unrack.live.slurm.driver.state.replay import replay
from unrack.live.slurm.driver.state.stage import Phase
from unrack.live.slurm.orders import HoldBack, RequeueHeld


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
