"""What the view predicts of a job and of those beside it is what the ledger books once it starts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from device_worlds import D, S, World, cluster, play, pool, table, worlds
from hypothesis import given
from tries import draws

from unrack.core import Core
from unrack.events import Submitted
from unrack.ledger.lease import Lease, Share
from unrack.policy import Placed
from unrack.policy.table import parse_policy
from unrack.sim.world import World as Physics
from unrack.view.draft import Draft
from unrack.view.view import View

MET = Counter[str]()


def booked(view: View) -> dict[int, int]:
    return dict(zip(view.running_jobs.tolist(), view.running_end_us.tolist(), strict=True))


def checked(view: View, job: Any, now: int) -> Any:
    """One of the job's candidates, after a look at what is said of all of them if they have its devices."""
    found, before = list(view.candidates(job)), booked(view)
    for one in found if job.tasks == 1 else ():
        ends, draft = view.expected_ends_us(one), Draft(view, now)
        assert one.lease is not None
        draft.start(one.lease)
        assert booked(draft.view) == before | ends
        assert set(ends) == {job, *one.sharers}
        MET["beside others"] += len(ends) > 1
        MET["slower"] += any(ends[other] > before[other] for other in one.sharers)
    assert booked(view) == before
    return found[(job.index * 7) % len(found)] if found else None


@draws(150)
@given(world=worlds())
def test_ends_are_predicted_as_they_are_booked(world: World) -> None:
    play(world, Placed(checked))


def test_a_job_that_its_other_devices_slow_down_more_is_not_slower_beside_another() -> None:
    where = cluster([4], pool("nvme", 1, 2000, 600), pool("gpu", 1, 4000, 16))
    models = (
        {"model": "both", "times_s": [[20.0]], "base_s": 10.0},
        {"model": "gpus", "apps": ["both", "gpu"], "kind": "gpu", "times_s": [[10.0, 12.5]], "base_s": 10.0},
    )
    jobs = D(0, 10, app="both", nvme=(100, 10), gpu=(100, 1)), D(0, 10, app="gpu", gpu=(100, 1))
    core = Core(where, table(jobs), parse_policy("first-fit"), Physics(models).pace(where))
    for job in range(2):
        core.handle(Submitted(job), 0)
    first, second = (Lease.on(job, [0], [1], [1], [0]) for job in range(2))
    core.state.start(first._replace(shares=(Share(0, (0,), (100, 10)), Share(0, (1,), (100, 1)))), 10 * S, 0)
    second = second._replace(shares=(Share(0, (1,), (100, 1)),))
    assert core.view.devices is not None
    predicted = core.view.devices.predicted_us(second, 10 * S, 0)
    core.state.start(second, 10 * S, 0)
    assert predicted == booked(core.view) == {0: 20 * S, 1: 12_500_000}
