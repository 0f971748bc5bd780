"""What every policy promises about devices, on any cluster and workload, from the log alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from device_worlds import PLACERS, Played, World, play, table, worlds
from hypothesis import given
from hypothesis import strategies as st
from ledger import audit
from tries import draws

from unrack.core import Core
from unrack.ledger.devices.columns import FREE, GROUP, HOME, LEAVING, LEAVING_OFFLINE, OFFLINE
from unrack.ledger.state import FINISHED, QUEUED, REJECTED
from unrack.policy.table import parse_policy
from unrack.sim.frames.held import shares_frame
from unrack.sim.world import Ties

TIES = [str(tie) for tie in Ties]
ORDERED = ["disaggregation-aware(order=priority-edf)", "max-composition(order=sjf)", "resource-aware(order=fcfs)"]


def assert_all_is_back(played: Played) -> None:
    """Nothing runs any more: every node is whole, every device free or on its way, unless the run ended in a fault."""
    state, c = played.core.state, played.core.state.devices.columns
    assert (state.free == np.where(state.online, state.total, 0)).all()
    assert (c.device[GROUP] < 0).all()
    home = c.device[HOME]
    offline = np.where(home >= 0, ~state.online[home], False)
    assert set(c.device[GROUP][~offline].tolist()) <= {FREE, LEAVING}
    assert set(c.device[GROUP][offline].tolist()) <= {OFFLINE, LEAVING_OFFLINE}
    for i, pool in enumerate(state.cluster.devices.pools):
        assert c.pool[2, i] == (c.device[GROUP, pool.first : pool.first + pool.count] == FREE).sum()
    assert not c.group.any()
    assert not c.held.any()
    assert not c.installed.any()
    assert (c.sharer == -1).all()
    assert (c.job_group == -1).all()
    waiting = np.flatnonzero(state.status == QUEUED)
    assert (c.asked == (c.wants * state.asks[0])[:, :, waiting].sum(axis=2)).all()


@pytest.mark.parametrize("policy", [*PLACERS, *ORDERED])
@draws(60)
@given(world=worlds(), ties=st.sampled_from(TIES), seed=st.integers(0, 3), models=st.booleans())
def test_devices_are_conserved_exclusive_in_reach_and_as_fast_as_the_models_say(
    policy: str, world: World, ties: str, seed: int, models: bool
) -> None:
    world = world if models else world._replace(models=())
    played = play(world, policy, ties, seed)
    audit(played.log, world)
    assert_all_is_back(played)
    assert set(played.log.state.tolist()) <= {FINISHED, REJECTED, QUEUED}


@pytest.mark.parametrize("policy", PLACERS)
@draws(15)
@given(world=worlds(), seed=st.integers(0, 3))
def test_two_runs_are_the_same_byte_for_byte(policy: str, world: World, seed: int) -> None:
    first, second = (play(world, policy, seed=seed).log for _ in range(2))
    assert shares_frame(first).equals(shares_frame(second))
    for name in ("attempt_job", "attempt_start_us", "attempt_end_us", "attempt_rows", "rows", "share_group", "state"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes(), name
    assert first.shares == second.shares
    assert first.reasons == second.reasons


@pytest.mark.parametrize("policy", PLACERS)
@draws(25)
@given(world=worlds())
def test_only_a_job_that_would_not_start_alone_either_waits_for_ever(policy: str, world: World) -> None:
    log = play(world, policy).log
    for job in np.flatnonzero(log.state == QUEUED)[:2].tolist():
        own = world.jobs[int(log.jobs.ids[job]) - 1]
        alone = play(World(world.cluster, (replace(own, due=1000.0),), world.models), policy).log
        assert alone.state.tolist() == [QUEUED]


@draws(60)
@given(world=worlds(), policy=st.sampled_from(PLACERS))
def test_asking_why_a_job_waits_changes_nothing(world: World, policy: str) -> None:
    played = play(world, policy)
    core = Core(world.cluster, table(world.jobs), parse_policy(policy))
    for job in np.flatnonzero(played.log.state == QUEUED).tolist():
        before = [column.tobytes() for column in played.core.state.devices.columns]
        assert str(played.core.why(job, played.log.end_us)) == str(played.core.why(job, played.log.end_us))
        assert [column.tobytes() for column in played.core.state.devices.columns] == before
    assert core.state.devices is not None
