"""Energy: against a meter in plain Python, second by second; what switching off costs in time; metrics and columns."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from energy_twin import Meter
from power_worlds import POLICIES, S, random_power, workload_of

import unrack
from unrack.cluster.spec import Cluster
from unrack.metric.table import measure
from unrack.sim.faults import Fault
from unrack.sim.result import Result
from unrack.workload.job import job_table

CASES = [(POLICIES[seed % len(POLICIES)], seed) for seed in range(80)]


def per_second(result: Result, column: str, until: int) -> list[float]:
    """The table of power at each second; it changes at whole ones."""
    steps = result.table("power")
    times = steps["time_s"].to_numpy()
    assert (times == np.round(times)).all()
    at = np.searchsorted(times, np.arange(until), side="right") - 1
    return [float(value) for value in steps[column].to_numpy()[at]]


@pytest.mark.parametrize(("policy", "seed"), CASES)
def test_a_meter_in_plain_python_reads_the_same_in_every_second(policy: str, seed: int) -> None:
    world = random_power(seed)
    result = world.run(policy)
    until = result.log.end_us // S
    meter = Meter(world, result)
    watts, alone, off, ready = meter.measure(until)
    assert per_second(result, "watts", until) == pytest.approx([float(value) for value in watts], abs=1e-9)
    assert per_second(result, "watts_without_jobs", until) == pytest.approx([float(value) for value in alone], abs=1e-9)
    assert per_second(result, "nodes_off", until) == off
    if result.jobs["end_s"].max() == until:
        assert result.metrics["energy_kwh"] == pytest.approx(float(sum(watts)) / 3.6e6, rel=1e-12)
        assert result.metrics["power_peak_kw"] == pytest.approx(max(per_second(result, "watts", until + 1)) / 1000)
    work = {row["job"]: row["work_s"] for row in result.jobs.iter_rows(named=True)}
    finished = set(result.placements.filter(outcome="finished").select("job", "attempt").rows())
    for key, (start, end) in meter.spans.items():
        if any(hash(own) == key for own in finished):
            assert end - ready.get(key, end) == work[meter.job[key]], (start, end)


def test_a_suspended_job_draws_nothing() -> None:
    ranks = [{"name": "low"}, {"name": "high", "preempts": ["low"]}]
    table = {"nodes": [{"count": 1, "cores": 4}], "power": {"idle": 100, "peak": 300},
             "site": {"preempt": {"by": "qos", "mode": "suspend"}, "qos": ranks}}  # fmt: skip
    jobs = job_table(submit_us=[0, 10 * S], work_us=[100 * S, 50 * S], tasks=[1, 1], cores=[4, 4],
                     extra=pl.DataFrame({"qos": ["low", "high"]}))  # fmt: skip
    result = unrack.simulate(Cluster.from_dict(table), workload_of(jobs), "easy")
    assert result.jobs["suspended_s"].to_list() == [50, 0]
    assert result.table("power").select("time_s", "watts").rows() == [(0, 300), (150, 100)]
    assert result.jobs["energy_kwh"].to_list() == pytest.approx([200 * 100 / 3.6e6, 200 * 50 / 3.6e6])


@pytest.mark.parametrize("faults", [(), (Fault("node1", 5 * S, 1 * S),)])
def test_before_anything_happens_all_nodes_are_idle(faults: tuple[Fault, ...]) -> None:
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "power": {"idle": 100, "peak": 300}})
    jobs = job_table(submit_us=[10 * S], work_us=[10 * S], tasks=[1], cores=[4])
    result = unrack.simulate(cluster, workload_of(jobs), "easy", world=unrack.World(faults=faults))
    told = measure(result.tables, cluster, (0, 20 * S))
    joules = 20 * 200 + 10 * 200 - 100 * len(faults)
    assert told["energy_kwh"] == pytest.approx(joules / 3.6e6)
    assert told["energy_without_jobs_kwh"] == pytest.approx((joules - 10 * 300) / 3.6e6)
    assert told["power_mean_kw"] == pytest.approx(joules / 20 / 1000)
    assert measure(result.tables, cluster, (0, 4 * S))["power_peak_kw"] == 0.2


def test_after_the_last_job_idle_nodes_are_switched_off_too() -> None:
    off = {"after": 10, "shutdown": 5, "shutdown_watts": 50, "keep_on": 1}
    power = {"idle": 100, "peak": 300, "off": 1, "switch_off": off}
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "power": power})
    jobs = job_table(submit_us=[0], work_us=[20 * S], tasks=[2], cores=[4])
    result = unrack.simulate(cluster, workload_of(jobs), "easy")
    assert result.table("power").rows() == [(0, 600, 0, 0), (20, 200, 200, 0), (30, 150, 150, 0), (35, 101, 101, 1)]
    told = measure(result.tables, cluster, (0, 1000 * S))
    assert told["energy_kwh"] == pytest.approx((20 * 600 + 10 * 200 + 5 * 150 + 965 * 101) / 3.6e6)
