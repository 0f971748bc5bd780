"""A job that has no place though nothing runs gives up its own deadline: only if that may have kept it from one."""

from __future__ import annotations

from typing import Any

import pytest
from mixed_worlds import everything, with_rules

from unrack.policy.placement.mixed import Mixed
from unrack.policy.pools.pool_placement import PoolPlacement
from unrack.policy.table import parse_policy
from unrack.sim.simulate import prepared
from unrack.sim.world import World as Physics

PLACES = ("disaggregation-aware", "min-fragmentation", "resource-aware", "best-fit", "lookahead")


def run(seed: int, place: str, discipline: str) -> tuple[list[int], list[int], int]:
    """Starts and ends, and how often a job was looked for a place."""
    cluster, jobs, models = everything(seed)
    policy = parse_policy(with_rules(discipline, memory="disaggregated", place=place))
    looks, find = 0, Mixed._find

    def counted(self: Any, *how: Any) -> Any:
        nonlocal looks
        looks += 1
        return find(self, *how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mixed, "_find", counted)
        log = prepared(cluster, jobs, policy, 5, Physics(models=models)).run()
    return log.attempt_start_us.tolist(), log.attempt_end_us.tolist(), looks


@pytest.mark.long
@pytest.mark.parametrize("discipline", ["easy", "conservative"])
@pytest.mark.parametrize("place", PLACES)
def test_a_deadline_that_kept_a_job_from_nothing_need_not_be_given_up(place: str, discipline: str) -> None:
    node, fewer = PoolPlacement.node, 0

    def always(self: Any, view: Any, memory: Any, *how: Any) -> int:
        found = node(self, view, memory, *how)
        memory.late = True
        return found

    for seed in range(3):
        now = run(seed, place, discipline)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PoolPlacement, "node", always)
            before = run(seed, place, discipline)
        assert now[:2] == before[:2]
        fewer += before[2] - now[2]
    assert fewer > 0 or discipline == "easy" or place == "lookahead"  # which looks at that itself
