"""Random small worlds with a table ``power``, whose times are whole seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import unrack
from unrack.cluster.spec import Cluster
from unrack.sim.faults import Fault
from unrack.sim.result import Result
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000
POLICIES = (
    "fcfs", "easy", "conservative", "list(backfill=any)", "easy(nodes=whole)", "slurm(interval=10 s)",
    "easy(memory=disaggregated)", "conservative(place=best-fit)", "first-fit", "flow(interval=0)",
)  # fmt: skip


@dataclass
class PowerWorld:
    """What a cluster file says, its jobs and its failures."""

    table: dict[str, Any]
    jobs: JobTable
    faults: tuple[Fault, ...] = ()

    @property
    def power(self) -> dict[str, Any]:
        """The table ``power``."""
        found: dict[str, Any] = self.table["power"]
        return found

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return Cluster.from_dict(self.table)

    def run(self, policy: str, **more: Any) -> Result:
        """A run, with ``more`` in place of keys of the cluster."""
        world = unrack.World(faults=self.faults)
        return unrack.simulate(Cluster.from_dict({**self.table, **more}), workload_of(self.jobs), policy, world=world)


def workload_of(jobs: JobTable) -> Workload:
    """The jobs as a workload."""
    return Workload("w", jobs, Intake("", "", len(jobs), len(jobs)))


def random_power(seed: int, count: int = 30) -> PowerWorld:
    """Two classes of nodes that lend memory, GPUs at home in them, quiet times; in some worlds failures or a cap."""
    draw = np.random.default_rng(seed)

    def watts(least: int, most: int) -> float:
        return int(draw.integers(least * 1000, most * 1000)) / 1000

    idle = watts(50, 100)
    power: dict[str, Any] = {"idle": idle, "off": watts(0, 10), "devices": {"gpu.devices": watts(1, 40)}}
    power["peak" if seed % 2 else "core"] = round(idle + watts(10, 90), 3) if seed % 2 else watts(1, 20)
    power["nodes"] = [{"nodes": ["0-1"], "idle": watts(60, 90), "core": watts(2, 30), "off": watts(0, 20)}]
    if seed % 4 != 3:
        power["switch_off"] = {
            "after": int(draw.integers(0, 90)), "shutdown": int(draw.integers(0, 20)),
            "boot": int(draw.integers(0, 40)), "keep_on": int(draw.integers(0, 3)),
            "boot_watts": watts(50, 160), "shutdown_watts": watts(10, 120),
        }  # fmt: skip
    if seed % 3 == 0:
        power["cap"] = f"{draw.integers(1100, 1500)} W"
    table = {
        "nodes": [{"count": 3, "cores": 4, "memory": 8}, {"count": 2, "cores": 2, "memory": 16}],
        "nodes_per_rack": 3, "lending": "all", "power": power,
        "pools": [{"name": "gpus", "kind": "gpu", "count": 5, "share": 1, "home": ["0-4"]}],
    }  # fmt: skip
    work = draw.integers(1, 60, count)
    request = work + draw.integers(-5, 60, count) * draw.integers(0, 2, count)
    gaps = draw.integers(0, 20, count) + (draw.random(count) < 0.15) * draw.integers(50, 400, count)
    jobs = job_table(
        submit_us=(np.cumsum(gaps) - gaps[0]) * S, work_us=work * S, request_us=np.maximum(request, 1) * S,
        tasks=draw.integers(1, 4, count), cores=draw.integers(1, 3, count), memory_mb=draw.integers(0, 7, count),
        devices={("gpu", "devices"): (draw.random(count) < 0.3).astype(np.int64)},
    )  # fmt: skip
    faults = tuple(
        Fault(f"node{draw.integers(0, 5)}", int(draw.integers(10, 900)) * S, int(draw.integers(1, 120)) * S)
        for _ in range(int(draw.integers(0, 5)) if seed % 2 else 0)
    )
    return PowerWorld(table, jobs, faults)
