"""What is left while a round goes on, and whom it knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unrack import Cluster
from unrack.core import Core
from unrack.events import Submitted
from unrack.policy.flow.left import Left, sort_of
from unrack.policy.flow.notes import Promise
from unrack.policy.flow.scheduler import Flow, FlowRound
from unrack.policy.table import parse_policy
from unrack.units import NEVER_US
from unrack.workload.job import MEMORY, job_table


def core_of(cluster: Cluster, **columns: list[int]) -> Core:
    """A core whose jobs, of one core and one task unless columns say otherwise, all wait."""
    count = len(next(iter(columns.values())))
    given: dict[str, Any] = {name: np.array(column) for name, column in columns.items()}
    plain = {name: np.ones(count, np.int64) for name in ("work_us", "tasks", "cores")}
    jobs = job_table(submit_us=np.zeros(count, np.int64), **(plain | given))
    core = Core(cluster, jobs, parse_policy("flow(interval=0)"))
    for job in range(count):
        core.handle(Submitted(job), 0)
    return core


def test_a_job_that_asks_for_other_memory_than_it_did_is_of_another_sort_and_fits_elsewhere() -> None:
    core = core_of(Cluster.homogeneous(1, 8, 100), memory_mb=[50])
    before = sort_of(core.view, 0)
    core.state.asks[MEMORY, 0] = 10
    after = sort_of(core.view, 0)
    everywhere = np.ones(1, np.bool_)
    left = Left.of(core.view, {}, False, everywhere, 0)
    assert [left.fits(sort, everywhere).tolist() for sort in (before, after, before)] == [[2], [8], [2]]


def test_what_starts_beside_a_job_that_never_has_a_place_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    core = core_of(Cluster.homogeneous(1, 8), cores=[3, 9, 3, 2])
    assert core.view.queue.tolist() == [0, 2, 3], "the second is too big for the cluster"
    flow, notes = Flow(interval_us=0), core.memory
    notes.sorts.learn(core.view, core.view.queue.copy(), core.view.app[None])
    notes.fate = np.zeros(len(notes.sorts.of), np.int64)
    turn = FlowRound(flow, core.view, notes, 0)
    monkeypatch.setattr("unrack.policy.flow.scheduler.promised", lambda *_: Promise(0, NEVER_US))
    turn._alone = lambda job, force=False: False  # type: ignore[method-assign]  # as of a job that no rule can place
    turn._beside(np.array([0]), np.array([2, 3]))
    assert sorted(lease.job for lease in turn.leases) == [2, 3]
    assert turn.left.cores.tolist() == [8 - 3 - 2]
