"""Worlds in which devices and memory slow jobs down at once, and a policy that uses both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import polars as pl
from applications import worked
from hypothesis import strategies as st

from unrack.cluster.spec import Cluster
from unrack.ledger.lease import Lease, Loan
from unrack.policy import Placed, View
from unrack.slowdown.memory.settings import MemoryContention
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

SETTINGS = MemoryContention(worked(), missing="none")
MODEL = {
    "model": "app5", "kind": "nvme", "apps": ["5"], "base_s": 100,
    "times_s": [[100, 150, 240], [80, 110, 150]], "governs": ["bandwidth_mb_s"],
}  # fmt: skip
TABLE = np.array(MODEL["times_s"]) / 100


def borrows_and_attaches(view: View, job: int, now: int) -> Lease | None:
    """The first node with the cores and a drive; what its memory lacks comes from the others, in order."""
    tasks, cores, mb, _ = view.asks[:, job].tolist()
    assert view.devices is not None
    asks = any(of.get("bandwidth_mb_s", 0) for of in view.job(job).demand.devices.values())
    for node in np.flatnonzero(view.free[0] >= tasks * cores).tolist():
        local = min(tasks * mb, int(view.free[1, node]))
        missing, loans = tasks * mb - local, []
        for lender in range(len(view.cluster)):
            lent = min(missing, int(view.free[1, lender])) if lender != node else 0
            if lent:
                loans.append(Loan(node, lender, lent))
                missing -= lent
        if missing:
            continue
        lease = Lease.on(job, [node], [tasks], [tasks * cores], [local], borrowed=loans)
        if not asks:
            return lease
        for devices in _choices(view, node, job):
            whole = lease._replace(shares=(view.devices.share(job, node, devices),))
            if tasks == 1 and view.devices.admits(whole) is None:
                return whole
    return None


def _choices(view: View, node: int, job: int) -> Iterator[tuple[int, ...]]:
    """Compositions on the node, then a pair of free drives, then one."""
    assert view.devices is not None
    yield from (found.devices for found in view.devices.compositions("nvme") if found.node == node)
    free = tuple(view.devices.free("nvme", node).tolist())
    yield from (free[:2], free[:1]) if len(free) > 1 else (free,) if free else ()


class Both(Placed):
    """A policy of a user's own that lends memory and attaches drives."""

    lends: ClassVar[bool] = True


BOTH = Both(borrows_and_attaches, label="both")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Cluster, Workload]:
    """Some nodes with little memory, a few drives, and jobs that ask for cores, memory and drives in any mix."""
    nodes, count = draw(st.integers(2, 4)), draw(st.integers(2, 9))
    pool = {
        "kind": "nvme", "count": draw(st.integers(1, 4)), "quantities": {"bandwidth_mb_s": 2000}, "compose": 2,
        "share": 3, "overhead": draw(st.sampled_from([0, 0.25])), "attach_latency": draw(st.sampled_from([0, 3])),
    }  # fmt: skip
    cluster = Cluster.from_dict({"nodes": [{"count": nodes, "cores": 4, "memory": 100}], "pools": [pool]})

    def column(low: int, high: int) -> np.ndarray:
        return np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), np.int64)

    drive = column(0, 1) * 1500
    apps = draw(st.lists(st.sampled_from(["5", "9", None]), min_size=count, max_size=count))
    jobs = job_table(
        submit_us=np.sort(column(0, 60)) * 1_000_000, work_us=column(1, 90) * 1_000_000,
        tasks=np.where(drive > 0, 1, column(1, 2)), memory_mb=column(0, 160),
        devices={("nvme", "bandwidth_mb_s"): drive}, app=pl.Series(apps, dtype=pl.String),
    )  # fmt: skip
    return cluster, Workload("w", jobs, Intake("w", "w", count, count))
