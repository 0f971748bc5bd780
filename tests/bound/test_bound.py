"""The bound against exhaustive search, and what is known of its parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from exhaustive import Ask, Instance, Shelf, fewest_late, least_response
from tiny_worlds import SMUFIN, STEEP, cluster_of, fastest_of, jobs_of, pace_of, random_instance
from tries import seeds

import unrack
from unrack.cluster.pools.pool import no_pace
from unrack.cluster.spec import Cluster
from unrack.metric.bound import Bound, bound, resources
from unrack.sim.result import Result
from unrack.units import SECOND_US

FOUR_CORES = {"nodes": [{"count": 1, "cores": 4}]}


def bound_of(instance: Instance, **options) -> Bound:
    return bound(cluster_of(instance), jobs_of(instance), fastest_of(instance), pace_of(instance), **options)


@pytest.mark.draws(600)
def test_no_schedule_of_a_tiny_world_beats_the_bound_and_the_bound_is_often_met() -> None:
    gaps = Counter()
    for seed in seeds(600):
        instance = random_instance(seed, jobs=3 + seed % 3)
        found, least = bound_of(instance), fewest_late(instance)
        assert found.late <= least, (seed, instance, found)
        if least:
            gaps[least - found.late] += 1
    assert gaps[0] > sum(gaps.values()) / 3, "a bound of 0 would pass the first check too"


@pytest.mark.draws(150)
def test_no_schedule_of_a_tiny_world_has_a_shorter_mean_response_than_the_bound() -> None:
    met = 0
    for seed in seeds(150):
        instance = random_instance(seed, jobs=3)
        least = least_response(instance)
        found = bound_of(instance).response_s
        if least < float("inf"):
            assert found is not None
            assert found <= least / 3 + 1e-5, (seed, instance)
            met += found > 0.999 * least / 3
    assert met > len(seeds(150)) // 15


@pytest.mark.long
def test_every_resource_of_the_bound_alone_holds_and_decides_somewhere() -> None:
    decided = Counter()
    for seed in range(600):
        instance = random_instance(seed, jobs=4)
        found = bound_of(instance)
        least = fewest_late(instance) if any(found.late_by_resource.values()) else 0
        for name, late in found.late_by_resource.items():
            assert found.certain + late <= max(least, found.certain), (seed, name)
            decided[name] += late > 0
    assert {name for name, count in decided.items() if count} >= {
        "cores", "cores in pieces of 3", "cores in reach of nvme", "nvme.bandwidth_mb_s",
        "nvme.capacity_mb", "nvme by bandwidth_mb_s",
        "nvme by capacity_mb", "nvme by sharers",
    }  # fmt: skip


def test_two_jobs_that_fill_different_quantities_may_share_one_device() -> None:
    wide, big = Ask(0, 100, 1, 100, (1900, 10)), Ask(0, 100, 1, 100, (50, 580))
    instance = Instance((4,), (wide, big), (Shelf(1, (0,)),), (2000, 600))
    assert fewest_late(instance) == 0
    assert bound_of(instance).late == 0


def test_a_tight_deadline_costs_more_device_time_than_a_loose_one() -> None:
    tight = tuple(Ask(0, 1600, 6, 1520, (1800, 43), "smufin") for _ in range(5))
    loose = tuple(replace(ask, due=3000) for ask in tight)
    worlds = [Instance((99,), jobs, (Shelf(1, (0,)),), (2000, 600), {"smufin": SMUFIN}) for jobs in (tight, loose)]
    assert [bound_of(world).late for world in worlds] == [4, 0]
    assert [fewest_late(world) for world in worlds] == [4, 0]


def test_a_frozen_model_lets_a_job_that_began_alone_stay_fast_among_many() -> None:
    jobs = tuple(Ask(0, 1000, 1, 1400, (1000, 0), "steep") for _ in range(3))
    instance = Instance((9,), jobs, (Shelf(1, (0,)),), (2000, 600), {"steep": STEEP})
    cluster, table, fastest = cluster_of(instance), jobs_of(instance), fastest_of(instance)
    assert bound(cluster, table, fastest, pace_of(instance)).late == 1
    assert bound(cluster, table, fastest, pace_of(instance, frozen=True)).late == 0


@pytest.mark.parametrize(("parts", "late"), [(1, 3), (2, 2), (4, 0)])
def test_a_split_device_serves_as_many_as_its_parts(parts: int, late: int) -> None:
    jobs = tuple(Ask(0, 100, 1, 100, (500, 100)) for _ in range(4))
    table = jobs_of(Instance((9,), jobs, (), (2000, 600)))
    pool = {"kind": "nvme", "count": 1, "quantities": {"bandwidth_mb_s": 2000, "capacity_mb": 600}}
    limit = {"split": parts, "attach": "multi"} if parts > 1 else {"share": 1}
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 9}], "pools": [{**pool, **limit}]})
    assert bound(cluster, table, table.work_us).late == late


def test_a_part_must_hold_the_whole_demand_so_a_big_job_has_few_neighbours() -> None:
    jobs = tuple(Ask(0, 100, 1, 100, (900, 10)) for _ in range(3))
    table = jobs_of(Instance((9,), jobs, (), (2000, 600)))
    pool = {"kind": "nvme", "count": 1, "quantities": {"bandwidth_mb_s": 2000, "capacity_mb": 600}, "split": 4}
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 9}], "pools": [pool]})
    found = bound(cluster, table, table.work_us)
    assert (found.late, found.certain) == (1, 0)


def test_a_demand_that_no_composition_holds_is_certainly_late() -> None:
    instance = Instance((9,), (Ask(0, 100, 1, 900, (100, 601)),), (Shelf(2, (0,), compose=1),), (2000, 600))
    found = bound_of(instance)
    assert (found.late, found.certain, found.response_s) == (1, 1, None)
    assert fewest_late(instance) == 1


def test_tasks_that_leave_cores_unused_beside_them_take_those_too() -> None:
    jobs = tuple(Ask(0, 100, 5, 150) for _ in range(4))
    instance = Instance((8, 8), jobs, (Shelf(1, (0,)),), (2000, 600))
    found = bound_of(instance)
    assert found.late_by_resource["cores"] == 0
    assert found.late == 1
    assert fewest_late(instance) == 2


def test_only_jobs_of_the_window_are_counted_and_the_share_is_of_them() -> None:
    jobs = tuple(Ask(release, 100, 1, release + 50) for release in (0, 10, 20, 30))
    instance = Instance((1,), jobs, (Shelf(1, (0,)),), (2000, 600))
    found = bound_of(instance, window_us=(10 * SECOND_US, 20 * SECOND_US))
    assert (found.jobs, found.late, found.share) == (2, 2, 1.0)
    nobody = bound_of(instance, window_us=(40 * SECOND_US, 50 * SECOND_US))
    assert (nobody.jobs, nobody.late, nobody.share, nobody.response_s) == (0, 0, None, None)


def test_a_cluster_without_devices_is_bound_by_cores_and_memory() -> None:
    jobs = jobs_of(Instance((4,), tuple(Ask(0, 100, 2, 199) for _ in range(4)), (), (0, 0)))
    jobs.asks[2] = 900
    small = Cluster.homogeneous(nodes=1, cores=4, memory=1000)
    found = bound(small, jobs, jobs.work_us)
    assert found.late_by_resource == {"cores": 1, "cores in pieces of 2": 1, "memory": 2}
    spent = resources(small, jobs, jobs.work_us, jobs.work_us, no_pace(small.devices, 4))
    assert spent.capacity.tolist() == [4, 4, 1000]


def simulated(tmp_path: Path, table: str, policy: str = "fcfs", /, cluster: object = FOUR_CORES, **options) -> Result:
    (tmp_path / "jobs.csv").write_text(table)
    usage = options.pop("usage", None)
    workload = unrack.read_trace(tmp_path / "jobs.csv", **options)
    if usage is not None:
        workload = unrack.filtered(workload, {"usage": usage})
    return unrack.simulate(Cluster.from_dict(cluster), workload, policy)


def test_jobs_that_wait_for_others_respond_from_when_they_come_in_the_bound_too(tmp_path: Path) -> None:
    table = "id,submit,run,cores,after,deadline\n1,0,100,4,,900\n2,0,100,4,1,900\n3,0,100,4,2,900\n"
    result = simulated(tmp_path, table)
    assert result.bound is not None
    assert result.bound.response_s == result.metrics["response_s_mean"] == 100


def test_jobs_that_run_already_count_in_no_mean_of_the_bound(tmp_path: Path) -> None:
    result = simulated(tmp_path, "id,submit,run,cores,deadline,on,ran\n1,0,9000,2,,0,10\n2,0,50,2,90,,\n")
    assert result.bound is not None
    assert result.bound.response_s == result.metrics["response_s_mean"] == 50


@pytest.mark.parametrize(("column", "missed"), [("request", 1.0), ("time_min_s", 1 / 3)])
def test_there_is_no_bound_where_jobs_may_end_before_their_work_does(
    tmp_path: Path, column: str, missed: float
) -> None:
    if column == "request":
        table = "id,submit,run,request,cores,deadline\n1,0,1000,100,4,200\n2,0,1000,100,4,300\n"
        result = simulated(tmp_path, table, cluster={**FOUR_CORES, "site": {"over_time": 0}}, overrun="keep")
    else:
        table = "id,submit,run,cores,deadline,time_min_s\n1,0,100,2,,\n2,0,1000,4,1100,\n3,1,500,2,150,50\n"
        result = simulated(tmp_path, table, "easy")
    assert result.metrics["missed_deadlines"] == missed  # jobs that are cut miss their deadlines
    assert result.bound is None


def test_memory_that_is_asked_for_and_not_used_is_in_no_bound(tmp_path: Path) -> None:
    rows = [f"{i},{20 * i},1000,1,900,1500,10" for i in range(4)]
    table = "\n".join(["id,submit,run,cores,memory,deadline,used_mb", *rows, ""])
    cluster = {"nodes": [{"count": 1, "cores": 4, "memory": 1000}]}
    policy = "easy(provisioning=dynamic, monitor=10 s)"
    result = simulated(tmp_path, table, policy, cluster, usage={"column": "used_mb"})
    assert result.metrics["missed_deadlines"] == result.metrics["bound_missed_deadlines"] == 0


@pytest.mark.parametrize(("home", "late"), [({}, 1.0), ({"home": ["0"]}, 0.0)])
def test_no_policy_runs_a_job_faster_than_on_the_nearest_device(home: dict, late: float, tmp_path: Path) -> None:
    """100 s of work on a device take 125 s where none is at home; the deadline is at 110 s."""
    pools = [{"name": "gpu", "kind": "gpu", "count": 1, "overhead": 0.25, **home}]
    table = "id,submit,run,cores,deadline,gpu.devices\n1,0,100,1,110,1\n"
    result = simulated(tmp_path, table, "easy", {"nodes": [{"count": 2, "cores": 4}], "pools": pools})
    assert result.metrics["missed_deadlines"] == result.metrics["bound_missed_deadlines"] == late
