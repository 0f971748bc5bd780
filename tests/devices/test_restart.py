"""Policies for pools know nothing but what was submitted, change nothing while they decide, and can begin anew."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from device_worlds import PLACERS, D, S, World, cluster, pool, pressing, random_world, table
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.core import Core
from unrack.events import Finished, Round, Submitted
from unrack.ledger.devices.columns import DeviceColumns
from unrack.ledger.lease import NO_LOANS, Lease
from unrack.policy.around import seeded
from unrack.policy.table import parse_policy
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.sim.world import World as Physics
from unrack.view import View

ANEW = [name for name in PLACERS if name != "random-fit"]


class Step(NamedTuple):
    """What a core was told, when, and what it did."""

    event: Any
    now: int
    did: str


class Telling(Core):
    """A core that keeps what happens to it."""

    def handle(self, event: Any, now: int) -> list[Any]:
        decisions = super().handle(event, now)
        if not hasattr(self, "told"):
            self.told: list[Step] = []
        self.told.append(Step(event, now, words(decisions)))
        return decisions


def words(decisions: list[Any]) -> str:
    return repr(
        [
            [x.tolist() if isinstance(x, np.ndarray) else x for y in d for x in (y if isinstance(y, Lease) else [y])]
            for d in decisions
        ]
    )


def run(world: World, policy: str, anew: int = 0, jobs: int | None = None) -> tuple[RunLog, Telling]:
    """A run; with ``anew``, the notes of the policy are made again after every so many rounds."""
    chosen, physics = seeded(parse_policy(policy), 7), Physics(models=world.models, faults=world.faults)
    core = Telling(world.cluster, table(world.jobs[:jobs]), chosen, physics.pace(world.cluster))
    rounds = [0]

    def after(now: int) -> None:
        rounds[0] += 1
        if anew and rounds[0] % anew == 0:
            core.memory = core.policy.begin(core.view)

    return Kernel(core, physics).run(after_round=after), core


def starts(log: RunLog) -> list[tuple[int, int]]:
    return sorted(zip(log.attempt_start_us.tolist(), log.attempt_job.tolist(), strict=True))


WORLDS = st.integers(0, 2**32).flatmap(
    lambda seed: st.sampled_from([random_world(seed), pressing(seed, seed % 2 == 0)])
)


@pytest.mark.parametrize("policy", PLACERS)
@draws(30)
@given(world=WORLDS, keep=st.integers(1, 8))
def test_jobs_submitted_later_change_nothing_earlier(policy: str, world: World, keep: int) -> None:
    keep = min(keep, len(world.jobs))
    until = round(world.jobs[keep].submit * S) if keep < len(world.jobs) else 10**18
    some, every = (
        [start for start in starts(run(world, policy, jobs=jobs)[0]) if start[0] < until] for jobs in (keep, None)
    )
    assert some == every


@pytest.mark.parametrize("policy", PLACERS)
@draws(30)
@given(world=WORLDS)
def test_a_core_that_starts_empty_does_the_same_as_one_that_has_the_trace(policy: str, world: World) -> None:
    _, told = run(world, policy)
    chosen = parse_policy(policy)
    chosen = chosen.seeded(7) if hasattr(chosen, "seeded") else chosen
    empty = Core(world.cluster, None, chosen, Physics(world.models).pace(world.cluster))
    for event, now, did in told.told:
        if isinstance(event, Submitted):
            event = Submitted(told.store.job(int(event.job)), int(told.jobs.work_us[event.job]))
        assert words(empty.handle(event, now)) == did


@pytest.mark.parametrize("policy", ANEW)
@draws(30)
@given(world=WORLDS, anew=st.integers(1, 4))
def test_a_policy_that_begins_anew_goes_on_as_if_it_had_not(policy: str, world: World, anew: int) -> None:
    assert starts(run(world, policy, anew)[0]) == starts(run(world, policy)[0])


@draws(30)
@given(world=WORLDS, anew=st.integers(1, 4))
def test_random_fit_that_begins_anew_draws_anew_and_serves_the_same_jobs(world: World, anew: int) -> None:
    again, once = (run(world, "random-fit", times)[0] for times in (anew, 0))
    assert again.state.tolist() == once.state.tolist() or len(world.faults) > 0


# --- purity -----------------------------------------------------------------------------------------------------------

GANG = World(
    cluster([8, 8], pool("nvme", 2, 2000, 600, compose=2)),
    (D(0, 9, 1, tasks=3, app="a", nvme=(900, 10), due=99), D(1, 9, 2, due=50)),
    ({"model": "a", "times_s": [[8.0, 9.0, 14.0], [7.0, 7.0, 8.0]]},),
)


def arrays(view: View) -> dict[str, np.ndarray]:
    """Every array that a policy can reach of the devices."""
    assert view.devices is not None
    reader = view.columns.devices
    assert reader is not None
    found = {f"ledger.{field}": getattr(reader.columns, field) for field in DeviceColumns._fields}
    for name in ("pool", "kind", "home", "capacity", "reach"):
        found[f"installed.{name}"] = getattr(view.devices.installed, name)
        found[f"cluster.{name}"] = getattr(view.cluster.devices, name)
    return found


def test_nothing_of_the_devices_can_be_written_not_even_through_the_base() -> None:
    core = Core(GANG.cluster, table(GANG.jobs), parse_policy("first-fit"), Physics(GANG.models).pace(GANG.cluster))
    core.handle(Submitted(0), 0)
    for name, array in arrays(core.view).items():
        while isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True
            array = array.base
        assert array is None or memoryview(array).readonly, name


def ledger(core: Core) -> list[bytes]:
    state = core.state
    assert state.devices is not None
    columns = [state.free, state.queue, state.running, state.pool, state.lease_at, *state.devices.columns]
    return [column.tobytes() for column in columns] + [bytes(state.conditions), str(state.version).encode()]


@pytest.mark.parametrize("policy", PLACERS)
def test_a_gang_is_tried_on_a_draft(policy: str) -> None:
    core = Core(GANG.cluster, table(GANG.jobs), parse_policy(policy), Physics(GANG.models).pace(GANG.cluster))
    core.handle(Submitted(0), 0)
    before = ledger(core)
    decisions, _ = core.policy.decide(core.view, core.policy.begin(core.view), 0)
    assert len(decisions) == 1
    assert ledger(core) == before


@pytest.mark.parametrize("policy", PLACERS)
def test_an_exception_in_the_middle_of_a_pass_leaves_the_state_as_it_was_and_no_job_is_forgotten(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = Core(GANG.cluster, table(GANG.jobs), parse_policy(policy), Physics(GANG.models).pace(GANG.cluster))
    chosen = type(core.policy.mixed.pooled)
    node, calls = chosen.node, [0]

    def failing(*args: Any) -> int:
        calls[0] += 1
        if calls[0] == 2:
            raise RuntimeError("in the middle")
        return node(*args)

    monkeypatch.setattr(chosen, "node", failing)
    core.handle(Submitted(0), 0)
    before = ledger(core)
    with pytest.raises(RuntimeError, match="in the middle"):
        core.handle(Round(), 0)
    assert ledger(core) == before
    core.handle(Submitted(1), 0)
    assert sorted(decision.lease.job for decision in core.handle(Round(), 0)) == [0, 1]


def test_admits_answers_as_the_core_does_and_changes_nothing() -> None:
    world = GANG
    core = Core(world.cluster, table(world.jobs), parse_policy("first-fit"), Physics(world.models).pace(world.cluster))
    core.handle(Submitted(0), 0)
    view = core.view
    assert view.devices is not None
    before = ledger(core)
    share = view.devices.share(0, 0, (0,))
    rows = np.array([[0, 1, 3, 1, 0]], np.int64)
    assert view.devices.admits(Lease(0, rows, NO_LOANS, (share, share, share))) is None
    assert view.devices.admits(Lease(0, rows, NO_LOANS, (share, share, share, share))) is not None
    assert ledger(core) == before


def test_a_job_that_was_not_decided_on_is_considered_after_a_failed_start() -> None:
    core = Core(GANG.cluster, table(GANG.jobs), parse_policy("first-fit"), Physics(GANG.models).pace(GANG.cluster))
    core.handle(Submitted(0), 0)
    assert len(core.handle(Round(), 0)) == 1
    core.handle(Finished(0), 5 * S)
    core.handle(Submitted(1), 5 * S)
    assert len(core.handle(Round(), 5 * S)) == 1
