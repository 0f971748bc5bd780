"""Pools, models, demands and studies that are wrong are refused, saying where, what was got and what was wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from device_worlds import D, World, cluster, play, pool, workload

from unrack import read_trace, simulate
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError, PolicyError, StudyError
from unrack.ledger.lease import Lease
from unrack.policy.contract import Start
from unrack.sim.world import World as Physics
from unrack.slowdown.model import make_models
from unrack.study.grid import load_study
from unrack.study.runner import run_study

GOOD = pool("nvme", 2, 2000, 600)
OTHER = {"kind": "nvme", "count": 1, "quantities": {"bandwidth_mb_s": 1}, "name": "other"}

BAD_POOLS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an unknown key": ({"cuont": 3}, ["pools.0.cuont", "unknown key"]),
    "no device": ({"count": 0}, ["pools.0.count", "0"]),
    "half a device": ({"count": 1.5}, ["pools.0.count", "1.5"]),
    "more devices than there may be": ({"count": 2_000_000}, ["count"]),
    "a kind that is no word": ({"kind": "nv me"}, ["pools.0.kind", "nv me"]),
    "no quantities": ({"quantities": {}}, ["pools.0.quantities"]),
    "a bandwidth in a unit of size": ({"quantities": {"bandwidth_mb_s": "2 apples/s"}}, ["pools.0", "apples"]),
    "a size in a unit of bandwidth": ({"quantities": {"capacity_mb": "2 GB/s"}}, ["pools.0", "2 GB/s"]),
    "text for a plain number": ({"quantities": {"luts": "many"}}, ["pools.0", "many"]),
    "truth for a quantity": ({"quantities": {"luts": True}}, ["pools.0", "luts"]),
    "a negative quantity": ({"quantities": {"bandwidth_mb_s": -1}}, ["pools.0", "-1"]),
    "an attachment that does not exist": ({"attach": "twice"}, ["pools.0.attach", "twice", "single"]),
    "no composition": ({"compose": 0}, ["pools.0.compose", "0"]),
    "no sharer": ({"share": 0}, ["pools.0.share", "0"]),
    "no part": ({"split": 0}, ["pools.0.split", "0"]),
    "too many parts": ({"split": 65}, ["pools.0.split", "65", "64"]),
    "composed and split": ({"split": 2, "compose": 2}, ["pools.0", "split or compose"]),
    "composed over several nodes": ({"attach": "multi", "compose": 2}, ["pools.0", "compose = 1"]),
    "a latency below 0": ({"attach_latency": -1}, ["pools.0.attach_latency", "-1"]),
    "a latency that is no time": ({"detach_latency": "soon"}, ["pools.0.detach_latency", "soon"]),
    "an overhead below 0": ({"overhead": -0.1}, ["pools.0.overhead", "-0.1"]),
    "an endless overhead": ({"overhead": float("inf")}, ["pools.0.overhead"]),
    "a reach of nowhere": ({"reach": []}, ["pools.0.reach"]),
    "a reach beyond the nodes": ({"reach": ["7"]}, ["pools[0].reach", "7"]),
    "a home that does not exist": ({"home": ["rack9"]}, ["pools[0].home", "rack9"]),
}


@pytest.mark.parametrize("what", BAD_POOLS)
def test_a_bad_pool_is_refused(what: str) -> None:
    keys, words = BAD_POOLS[what]
    with pytest.raises(ClusterError) as refusal:
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "pools": [{**GOOD, **keys}]})
    for word in words:
        assert word in str(refusal.value)


def test_pools_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ClusterError, match=r"pools\[1\].quantities.*bandwidth_mb_s, capacity_mb"):
        cluster([4], GOOD, OTHER)
    with pytest.raises(ClusterError, match=r"pools\[1\].name.*second 'nvme'"):
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "pools": [GOOD, GOOD]})


BAD_MODELS: dict[str, tuple[Any, list[str]]] = {
    "an unknown name": ("smufim", ["models[0].model", "smufim", "smufin, yolo, fio"]),
    "no table": (7, ["models[0]", "7", "a name or a table"]),
    "no name": ({"times_s": [[1.0]]}, ["models[0].model", "nothing"]),
    "an empty name": ({"model": "", "times_s": [[1.0]]}, ["models[0].model"]),
    "an unknown key": ({"model": "smufin", "forzen": True}, ["models[0].forzen", "unknown key"]),
    "no apps": ({"model": "smufin", "apps": []}, ["models[0].apps"]),
    "a base time of 0": ({"model": "x", "times_s": [[1.0]], "base_s": 0}, ["models[0].base_s", "0"]),
    "a base time below 0": ({"model": "x", "times_s": [[1.0]], "base_s": -3}, ["models[0].base_s", "-3"]),
    "no row": ({"model": "x", "times_s": []}, ["models[0].times_s"]),
    "rows of different lengths": ({"model": "x", "times_s": [[1.0, 2.0], [1.0]]}, ["models[0]", "same number"]),
    "an empty row": ({"model": "x", "times_s": [[]]}, ["models[0]", "same number"]),
    "nothing on one device": ({"model": "x", "times_s": [[None], [1.0]]}, ["models[0]", "a time on one device"]),
    "a time of 0": ({"model": "x", "times_s": [[0.0]]}, ["models[0].times_s", "0"]),
    "an endless time": ({"model": "x", "times_s": [[float("inf")]]}, ["models[0].times_s"]),
    "text for a time": ({"model": "x", "times_s": [["fast"]]}, ["models[0].times_s", "fast"]),
    "two sources": ({"model": "x", "times_s": [[1.0]], "linear": True}, ["models[0]", "exactly one"]),
    "linear that is not": ({"model": "x", "linear": False}, ["models[0]", "exactly one"]),
    "no devices": ({"model": "x", "linear": True, "most_devices": 0}, ["models[0].most_devices", "0"]),
    "no sharers": ({"model": "x", "linear": True, "most_sharers": 0}, ["models[0].most_sharers", "0"]),
    "frozen by a word": ({"model": "smufin", "frozen": "rather"}, ["models[0].frozen", "rather"]),
    "governing a number": ({"model": "smufin", "governs": [3]}, ["models[0].governs", "3"]),
    "a file that is not there": ({"model": "x", "csv": "nowhere.csv"}, ["models[0].csv", "nowhere.csv"]),
}


@pytest.mark.parametrize("what", BAD_MODELS)
def test_a_bad_model_is_refused(what: str) -> None:
    entry, words = BAD_MODELS[what]
    with pytest.raises(InputError) as refusal:
        make_models([entry])
    for word in words:
        assert word in str(refusal.value)


def test_two_models_of_one_app_on_one_kind_are_refused() -> None:
    with pytest.raises(InputError, match=r"models\[1\]: got a second model of 'smufin' on nvme"):
        make_models(["smufin", {"model": "mine", "apps": ["smufin"], "linear": True}])
    assert len(make_models(["smufin", {"model": "mine", "apps": ["smufin"], "kind": "gpu", "linear": True}])) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("devices,sharers\n1,1\n", ["line 2", "time_s"]),
        ("devices,sharers,time_s\n1,2,9\n", ["one job alone"]),
        ("devices,sharers,time_s\n1,1,9\n1,1,8\n", ["line 3", "each pair once"]),
        ("devices,sharers,time_s\n1,1,-9\n", ["line 2", "-9"]),
        ("devices,sharers,time_s\n0,1,9\n", ["line 2"]),
        ("devices,sharers,time_s\none,1,9\n", ["line 2", "one"]),
        ("", ["one job alone"]),
    ],
)
def test_a_bad_csv_of_times_is_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "times.csv").write_text(text)
    with pytest.raises(InputError) as refusal:
        make_models([{"model": "x", "csv": "times.csv"}], tmp_path)
    for word in ["models[0].csv", "times.csv", *words]:
        assert word in str(refusal.value)


def test_a_csv_of_times_is_the_table_it_holds(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("sharers,time_s,devices\n1,10,1\n2,20,1\n1,5,2\n")
    (model,) = make_models([{"model": "x", "csv": "times.csv"}], tmp_path)
    assert model.speeds(3)[1:, 1:].tolist() == [[1, 0.5], [2, 0], [2, 0]]


@pytest.mark.parametrize(
    ("job", "word"),
    [
        (D(0, 9, nvme=(2001, 1)), "nvme.bandwidth_mb_s"),
        (D(0, 9, nvme=(1, 601)), "nvme.capacity_mb"),
        (D(0, 9, gpu=(1, 1)), "gpu.bandwidth_mb_s"),
        (D(0, 9, cores=5, nvme=(1, 1)), "nvme.bandwidth_mb_s"),  # only node 1 has the cores, and it is out of reach
        (D(0, 9, fpga=(5,), nvme=(1, 1)), "fpga.luts"),
        (D(0, 9, app="m", nvme=(2001, 601)), "nvme.capacity_mb"),
    ],
)
def test_a_demand_that_no_node_can_meet_is_rejected_when_submitted(job: D, word: str) -> None:
    where = cluster([4, 8], pool("nvme", 3, 2000, 600, compose=1, reach=["0"]))
    result = simulate(
        where, workload(job, D(1, 9)), "max-composition", world=Physics(models=[{"model": "m", "linear": True}])
    )
    assert result.jobs["state"].to_list() == ["rejected", "finished"]
    assert word in result.jobs["reason"][0]
    assert "too-big" in result.jobs["reason"][0]


def test_the_reason_says_how_much_one_composition_has_at_most() -> None:
    where = cluster([4], pool("nvme", 5, 2000, 600, compose=2), pool("nvme", 1, 3000, 600))
    result = simulate(where, workload(D(0, 9, nvme=(4001, 1))), "first-fit")
    assert result.jobs["reason"][0].endswith("(asked 4001, free 4000)")


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm(interval=10 s)", "first-fit", "lookahead"])
def test_tasks_that_ask_for_more_than_all_devices_have_hold_up_nobody(policy: str) -> None:
    where = cluster([4, 4], pool("nvme", 2, 2000, 600))
    result = simulate(where, workload(D(0, 9, tasks=2, nvme=(2001, 1)), D(1, 9, nvme=(1, 1))), policy)
    assert result.jobs["start_s"].to_list()[0] is None
    assert result.jobs["start_s"].to_list()[1] is not None
    assert result.jobs["reason"][0] == "too-big: nvme.bandwidth_mb_s of all devices (asked 4002, free 4000)"


def test_whole_devices_of_a_table_are_asked_for_by_their_name_and_others_are_not_taken_for_something_else(
    tmp_path: Path,
) -> None:
    path, whole = tmp_path / "jobs.csv", cluster([4], {"kind": "fpga", "count": 2})
    path.write_text("submit,run,fpga.devices\n0,10,2\n1,10,1\n")
    assert simulate(whole, read_trace(path), "fcfs").jobs["start_s"].to_list() == [0, 10]
    where = cluster([4], {"kind": "fpga", "count": 2, "quantities": {"cells": 100}})
    path.write_text("submit,run,fpga.cells\n0,10,20\n")
    with pytest.raises(InputError, match=r"fpga\.cells, which is mapped to nothing.*devices\.fpga\.cells"):
        simulate(where, read_trace(path), "fcfs")
    mapped = read_trace(path, columns={"fpga.cells": "fpga.cells"})
    assert simulate(where, mapped, "fcfs").jobs["start_s"].to_list() == [0]


def test_a_demand_that_a_model_governs_is_not_too_big_but_must_fit_a_part() -> None:
    model = {"model": "m", "kind": "gpu", "linear": True}
    job = D(0, 9, app="m", gpu=(5000, 1))
    whole, split = (cluster([4], pool("gpu", 1, 4000, 16, attach="multi", split=n)) for n in (1, 4))
    states = [play(World(where, (job,), (model,)), "resource-aware").log.state.tolist() for where in (whole, split)]
    assert states == [[3], [4]]


class NodesAlone:
    """A policy of one's own that knows no devices: it starts whoever fits on the first node."""

    def decide(self, view: Any, memory: Any, now: int) -> tuple[list[Any], Any]:
        job = int(view.queue[0]) if view.waiting and view.free[0, 0] else -1
        return [Start(Lease.on(job, [0], [1], [1], [0]))] if job >= 0 else [], memory


def test_a_policy_that_places_no_devices_refuses_jobs_that_ask_for_them() -> None:
    with pytest.raises(PolicyError, match=r"asks for devices \(gpu, nvme\).*a policy that places devices"):
        simulate(cluster([4], GOOD), workload(D(0, 9, nvme=(1, 1)), D(0, 9, gpu=(1, 1))), NodesAlone())


def test_a_policy_that_knows_no_devices_serves_who_asks_for_none() -> None:
    assert simulate(cluster([4], GOOD), workload(D(0, 9)), NodesAlone()).jobs["end_s"].to_list() == [9]


STUDY = """
policies = ["first-fit", "disaggregation-aware(order=fcfs)"]
models = ["smufin", {{ model = "mine", apps = ["capacity"], linear = true }}]

[measure]
ideal_load = 0.3

[[clusters]]
nodes = [{{ count = 2, cores = 25 }}]

[[clusters.pools]]
kind = "nvme"
count = 4
quantities = {{ bandwidth_mb_s = "2 GB/s", capacity_mb = "600 GB" }}
{pool}

[[workloads]]
name = "S1"
generate = {{ scenario = "nvme-s1", load = 0.7, jobs = 40, cores = 50 }}
"""


def study(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return load_study(str(path))


def test_a_study_takes_models_pools_and_a_window_from_the_ideal_load(tmp_path: Path) -> None:
    rows = run_study(study(tmp_path, STUDY.format(pool="")), tmp_path / "out")
    assert [row["policy"] for row in rows] == ["first-fit", "disaggregation-aware(order=fcfs)"]
    assert all(0 <= float(row["missed_deadlines"]) <= 1 for row in rows)
    runs = sorted((tmp_path / "out" / "runs").iterdir())
    assert all((run / "shares.parquet").is_file() for run in runs)
    described = json.loads((runs[0] / "run.json").read_text())
    assert described["cluster"]["devices"]["kinds"] == ["nvme"]
    assert described["cluster"]["devices"]["pools"][0]["capacity"] == [2000, 600 * 1024]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("ideal_load = 0.3", "ideal_load = 0"), ["measure", "ideal_load"]),
        (("ideal_load = 0.3", 'ideal_load = 0.3\nto = "2 h"'), ["measure", "ideal_load"]),
        (('"smufin"', '"smufim"'), ["models[0]", "smufim"]),
        (("linear = true", "linear = true, most_sharers = 0"), ["models[1]", "most_sharers"]),
        (("count = 4", "count = 4\nsplit = 3\ncompose = 3"), ["pools.0", "split or compose"]),
        (("count = 4", 'count = 4\nreach = ["9"]'), ["pools[0].reach", "9"]),
        (('kind = "nvme"', 'kind = "nvme"\nreech = ["0"]'), ["pools.0.reech", "unknown key"]),
    ],
)
def test_a_study_with_a_wrong_pool_model_or_window_is_refused(
    tmp_path: Path, change: tuple[str, str], words: list[str]
) -> None:
    text = STUDY.format(pool="")
    assert change[0] in text
    with pytest.raises(StudyError) as refusal:
        study(tmp_path, text.replace(*change))
    for word in words:
        assert word in str(refusal.value)
