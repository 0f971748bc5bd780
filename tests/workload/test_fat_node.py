from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.workload.generate.generator import generate
from unrack.workload.ideal import fat_node, load_factor, pooled, window_us
from unrack.workload.job import JobTable, job_table

SMALL = Cluster.from_dict(
    {
        "nodes": [{"count": 2, "cores": 3, "memory": 50}],
        "pools": [
            {"kind": "nvme", "count": 3, "quantities": {"bandwidth_mb_s": 10, "capacity_mb": 40}},
            {"name": "more", "kind": "nvme", "count": 1, "quantities": {"bandwidth_mb_s": 5, "capacity_mb": 7}},
            {"kind": "gpu", "count": 1, "quantities": {"slots": 4}},
        ],
    }
)


def table(rows: list[tuple[int, ...]]) -> JobTable:
    """Rows of submission, work, tasks, cores, memory, bandwidth, slots; times in µs."""
    columns = np.array(rows, np.int64).reshape(len(rows), 7).T
    submit, work, tasks, cores, memory, bandwidth, slots = columns
    return job_table(
        submit_us=submit, work_us=work, tasks=tasks, cores=cores, memory_mb=memory,
        ids=pl.Series(range(len(rows)), dtype=pl.Int64),
        devices={("nvme", "bandwidth_mb_s"): bandwidth, ("gpu", "slots"): slots},
    )  # fmt: skip


def by_lists(jobs: JobTable) -> tuple[list[int], list[int]]:
    """The same by looking at every running job at every moment."""
    limits = [6, 100, 35, 4]
    starts: list[int] = []
    ends: list[int] = []
    running: list[tuple[int, list[int]]] = []
    now = 0
    for i in range(len(jobs)):
        tasks = int(jobs.tasks[i])
        amounts = (jobs.cores, jobs.memory_mb, *jobs.devices.values())
        asked = [tasks * int(amount[i]) for amount in amounts]
        if any(amount > limit for amount, limit in zip(asked, limits, strict=True)):
            starts.append(-1)
            ends.append(-1)
            continue
        now = max(now, int(jobs.submit_us[i]))
        while True:
            running = [(end, held) for end, held in running if end > now]
            used = [sum(held[r] for _, held in running) for r in range(4)]
            if all(used[r] + asked[r] <= limits[r] for r in range(4)):
                break
            now = min(end for end, _ in running)
        starts.append(now)
        ends.append(now + int(jobs.work_us[i]))
        running.append((ends[-1], asked))
    return starts, ends


ROWS = st.lists(
    st.tuples(
        st.integers(0, 30), st.integers(0, 12), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0, 20, 60, 120]),
        st.sampled_from([0, 0, 10, 20, 40]), st.sampled_from([0, 0, 1, 3, 5]),
    ),
    min_size=1, max_size=14,
)  # fmt: skip


@draws(200)
@given(ROWS)
def test_the_fat_node_runs_jobs_as_a_list_simulation_does(rows: list[tuple[int, ...]]) -> None:
    jobs = table(rows)
    ideal = fat_node(SMALL, jobs)
    assert (ideal.start_us.tolist(), ideal.end_us.tolist()) == by_lists(jobs)


@draws(100)
@given(ROWS, st.sampled_from(["active", "running"]), st.sampled_from(["cores", "nvme.bandwidth_mb_s", "gpu.slots"]))
def test_the_load_factor_is_the_demand_of_the_jobs_there_at_each_moment(
    rows: list[tuple[int, ...]], counting: Any, of: str
) -> None:
    jobs = table(rows)
    ideal = fat_node(SMALL, jobs)
    factor = load_factor(SMALL, jobs, ideal, of=of, counting=counting)
    begin = jobs.submit_us if counting == "active" else ideal.start_us
    amounts = jobs.cores if of == "cores" else jobs.devices[tuple(of.split("."))]
    assert (np.diff(factor.time_us) > 0).all()
    first, last = int(jobs.submit_us[0]), int(jobs.submit_us[-1])
    loads = []
    for now in range(first, max(last, first + 60)):
        there = (ideal.end_us > now) & (begin <= now)
        load = (amounts * jobs.tasks)[there].sum() / pooled(SMALL)[of]
        step = int(np.searchsorted(factor.time_us, now, side="right")) - 1
        assert (factor.load[step] if step >= 0 else 0) == pytest.approx(load)
        loads.append(load)
    if last > first:
        assert factor.mean == pytest.approx(np.mean(loads[: last - first]))
    if counting == "running":
        assert factor.load.max(initial=0) <= 1


def test_everything_of_a_cluster_is_pooled_and_memory_only_where_it_is_counted() -> None:
    assert pooled(SMALL) == {
        "cores": 6, "memory_mb": 100, "nvme.bandwidth_mb_s": 35, "nvme.capacity_mb": 127, "gpu.slots": 4,
    }  # fmt: skip
    assert pooled(Cluster.homogeneous(4, 2)) == {"cores": 8}


def test_a_job_that_is_too_big_or_asks_for_a_device_that_is_not_there_is_left_out() -> None:
    huge = job_table(
        submit_us=np.zeros(4, np.int64), work_us=np.full(4, 5), tasks=np.array([1, 10**9, 10**9, 1]),
        cores=np.array([1, 10**9, 1, 1]), memory_mb=np.array([0, 0, 2**41, 0]),
        devices={("fpga", "luts"): np.array([0, 0, 0, 1])},
    )  # fmt: skip
    for cluster in (SMALL, Cluster.homogeneous(1, 1)):
        ideal = fat_node(cluster, huge)
        assert ideal.end_us.tolist() == [5, -1, -1, -1]
        assert load_factor(cluster, huge).load.tolist() == [1 / cluster.total_cores, 0]


def test_the_load_of_what_a_cluster_does_not_count_is_refused() -> None:
    jobs = table([(0, 5, 1, 1, 20, 0, 0)])
    with pytest.raises(InputError, match=r"memory_mb.*one of cores"):
        load_factor(Cluster.homogeneous(1, 1), jobs, of="memory_mb")


def test_the_window_is_from_the_threshold_to_the_last_submission() -> None:
    rows = [(t, 100, 1, 1, 0, 0, 0) for t in (0, 10, 20, 30, 40)]
    assert window_us(SMALL, table(rows), 0.5) == (20, 40)  # 3 of 6 cores
    assert window_us(SMALL, table(rows)) is None  # 5 of 6 only at the last
    assert window_us(SMALL, table([*rows, (50, 1, 1, 1, 0, 0, 0)])) == (40, 50)
    assert window_us(SMALL, table(rows), 1.0) is None
    assert window_us(SMALL, table(rows[:0])) is None


def test_waiting_jobs_count_for_the_window() -> None:
    rows = [(0, 100, 1, 1, 0, 35, 0), (10, 100, 1, 3, 0, 35, 0), (20, 100, 1, 1, 0, 0, 0), (30, 1, 1, 1, 0, 0, 0)]
    jobs = table(rows)
    assert fat_node(SMALL, jobs).start_us.tolist() == [0, 100, 100, 100]  # none passes the second
    assert window_us(SMALL, jobs) == (20, 30)


@pytest.mark.parametrize("kind", ["poisson", "uniform", "fixed"])
@pytest.mark.parametrize("name", ["nvme-s1", "nvme-s2", "vgpu-s3"])
def test_the_rate_can_be_calibrated_to_the_load_measured_on_the_fat_node(name: str, kind: str) -> None:
    made = generate({"scenario": name, "load": 0.7, "arrivals": {"kind": kind, "load_on": "fat-node"}}, seed=3)
    factor = load_factor(Cluster.preset("vgpu-pool"), made.jobs, counting="running")
    assert factor.mean == pytest.approx(0.7, abs=1e-6)


def test_calibration_changes_the_times_of_the_same_jobs_only() -> None:
    offered = generate({"scenario": "nvme-s1", "load": 0.7}, seed=2).jobs
    measured = generate({"scenario": "nvme-s1", "load": 0.7, "arrivals": {"load_on": "fat-node"}}, seed=2).jobs
    assert (offered.work_us == measured.work_us).all()
    assert (offered.app == measured.app).all()
    ratio = measured.submit_us / offered.submit_us
    assert ratio.max() - ratio.min() < 1e-6
    assert ratio[0] != 1


@pytest.mark.parametrize(
    ("name", "load", "kind", "most"),
    [
        ("nvme-s1", 0.9, "poisson", 0.79),  # bandwidth: 20 000 / (0.7 × 1800 × 1600 + …) × core-seconds / 125
        ("vgpu-s2", 0.75, "poisson", 0.67),  # the GPU takes four jobs at a time
        ("vgpu-s2", 0.75, "uniform", 0.69),
        ("vgpu-s2", 0.75, "fixed", 0.67),
    ],
)
def test_a_load_above_what_the_fat_node_can_run_is_refused_with_the_highest(
    name: str, load: float, kind: str, most: float
) -> None:
    with pytest.raises(InputError, match="there the fat node saturates") as caught:
        generate({"scenario": name, "load": load, "arrivals": {"load_on": "fat-node", "kind": kind}})
    told = float(caught.value.want.removeprefix("at most ").split(":")[0])
    assert most - 0.06 < told <= most
    reached = generate({"scenario": name, "load": told, "arrivals": {"load_on": "fat-node", "kind": kind}}).jobs
    running = load_factor(Cluster.preset("vgpu-pool"), reached, counting="running")
    assert running.mean == pytest.approx(told, abs=1e-6)


def test_the_load_may_be_that_of_several_resources_the_largest_counts() -> None:
    spec = {"scenario": "vgpu-s1", "load": 0.6, "load_of": "nvme", "nvme_devices": 3}
    edge = Cluster.preset("vgpu-edge")
    measured = generate({**spec, "arrivals": {"load_on": "fat-node"}}, seed=1).jobs
    means = [load_factor(edge, measured, of=key, counting="running").mean for key in pooled(edge)]
    assert max(means[1:3]) == pytest.approx(0.6, abs=1e-6)
    assert means[0] < 0.2
    offered = generate({**spec, "jobs": 20_000}, seed=1).jobs
    area = (offered.devices["nvme", "bandwidth_mb_s"] * offered.work_us).sum()
    assert area / (3 * 2000 * offered.submit_us[-1]) == pytest.approx(0.6, rel=0.03)
