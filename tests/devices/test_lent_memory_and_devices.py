"""Jobs that ask for devices and for more memory than a node has: only what really is missing refuses them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from device_worlds import D, cluster, pool, workload

from unrack import Cluster, simulate
from unrack.ledger.lease import Lease, Loan
from unrack.policy import Placed, View
from unrack.policy.contract import Ability, Decision, Start
from unrack.policy.discipline.list_scheduler import ListScheduler
from unrack.workload.job import JobTable, Workload


def borrowed_with_a_drive(view: View, job: int, now: int) -> Lease | None:
    """Node 0 computes, with the first free drive; node 1 lends what it lacks."""
    cores, mb = int(view.asks[1, job]), int(view.asks[2, job])
    local = min(mb, int(view.free[1, 0]))
    if view.free[0, 0] < cores or view.free[1, 1] < mb - local or view.devices is None:
        return None
    drives = view.devices.free("nvme", 0).tolist()
    if not drives:
        return None
    loans = [Loan(0, 1, mb - local)] if mb > local else []
    lease = Lease.on(job, [0], [1], [cores], [local], borrowed=loans)
    return lease._replace(shares=(view.devices.share(job, 0, drives[:1]),))


class LendsAndAttaches(Placed):
    """A policy of a user's own that does both."""

    lends: ClassVar[bool] = True


def lenders(*reach: str) -> Cluster:
    """Two nodes of 4 cores and 100 MB, drives of 6000 MB/s."""
    return Cluster.from_dict(
        {
            "nodes": [{"count": 2, "cores": 4, "memory": 100}],
            "pools": [pool("nvme", 2, 6000, 600, compose=1, **({"reach": list(reach)} if reach else {}))],
        }
    )


def asking(mb: int, job: D) -> Workload:
    """A job whose tasks ask for so much memory too."""
    made = workload(job)
    asks = made.jobs.asks.copy()
    asks[2] = mb
    return replace(made, jobs=replace(made.jobs, asks=asks))


def test_a_job_that_borrows_memory_and_attaches_a_drive_runs() -> None:
    policy = LendsAndAttaches(borrowed_with_a_drive, label="both")
    result = simulate(lenders(), asking(150, D(0, 9, nvme=(1500, 10))), policy)
    assert result.jobs["state"].to_list() == ["finished"]
    assert result.log.loans[:, 2].tolist() == [50]


def test_a_policy_with_only_decide_that_borrows_and_attaches_runs_the_same_job() -> None:
    class OnlyDecides:
        lends = devices = True

        def decide(self, view: View, notes: None, now: int) -> tuple[list[Decision], None]:
            leases = [borrowed_with_a_drive(view, int(job), now) for job in view.queue[:1]]
            return [Start(lease) for lease in leases if lease is not None], None

    result = simulate(lenders(), asking(150, D(0, 9, nvme=(1500, 10))), OnlyDecides())
    assert result.jobs["state"].to_list() == ["finished"]


def reason(where: Cluster, mb: int, job: D, policy: Any = "first-fit") -> str:
    """Why the only job was refused."""
    result = simulate(where, asking(mb, job), policy)
    assert result.jobs["state"].to_list() == ["rejected"]
    return str(result.jobs["reason"][0])


def test_a_refusal_names_what_really_is_missing() -> None:
    ask = D(0, 9, nvme=(1500, 10))
    assert (
        reason(lenders(), 101, ask)
        == "too-big: MB on one node that can attach nvme.bandwidth_mb_s (asked 101, free 100)"
    )
    wide = D(0, 9, cores=5, nvme=(1500, 10))
    beside = cluster([4, 8], pool("nvme", 1, 6000, 600, reach=["0"]))
    assert reason(beside, 0, wide) == "too-big: cores on one node that can attach nvme.bandwidth_mb_s (asked 5, free 4)"
    borrower = LendsAndAttaches(borrowed_with_a_drive, label="both")
    assert reason(lenders(), 201, ask, borrower) == "too-big: MB, local and borrowed (asked 201, free 200)"
    fast = D(0, 9, nvme=(6001, 10))
    want = "too-big: nvme.bandwidth_mb_s on devices that one node can attach (asked 6001, free 6000)"
    assert reason(lenders(), 150, fast, borrower) == want


def test_what_a_composition_has_counts_only_where_a_node_computes() -> None:
    """The larger drives are out of the reach of every node with cores."""
    where = Cluster.from_dict(
        {
            "nodes": [{"count": 1, "cores": 4, "memory": 100}],
            "memory_pools": [{"count": 1, "memory": 100}],
            "pools": [
                pool("nvme", 1, 1000, 600, name="near", reach=["0"]),
                pool("nvme", 1, 9000, 600, name="far", reach=["1"]),
            ],
        }
    )
    assert reason(where, 1, D(0, 9, nvme=(1500, 10))).endswith("(asked 1500, free 1000)")


def test_cores_and_memory_must_be_on_the_same_node_in_reach() -> None:
    """Node 0 has the cores, node 1 the memory: a task of both has a place on neither."""
    where = Cluster.from_dict(
        {
            "nodes": [{"count": 1, "cores": 8, "memory": 10}, {"count": 1, "cores": 2, "memory": 100}],
            "pools": [pool("nvme", 1, 6000, 600)],
        }
    )
    job = D(0, 9, cores=4, nvme=(1500, 10))
    assert reason(where, 50, job) == "too-big: MB on one node that can attach nvme.bandwidth_mb_s (asked 50, free 10)"


def test_without_places_for_its_tasks_no_lender_is_to_blame() -> None:
    where = Cluster.homogeneous(nodes=2, cores=3, memory=100)
    job = D(0, 9, cores=2, tasks=3)
    lending = LendsAndAttaches(borrowed_with_a_drive, label="both")
    assert reason(where, 10, job, lending) == "too-big: places for tasks of 2 cores (asked 3, free 2)"


def test_a_job_that_only_the_policy_holds_impossible_is_refused_in_its_name() -> None:
    class Choosy(ListScheduler):
        """Takes no job of two cores."""

        does = frozenset({Ability.POSSIBLE})

        def possible(self, cluster: Cluster, jobs: JobTable) -> np.ndarray:
            return np.asarray(jobs.cores < 2)

    job = D(0, 9, cores=2)
    assert reason(lenders(), 1, job, Choosy(label="choosy")) == "too-big: choosy has no place for it"
