"""A power cap: against schedulers in plain Python; never exceeded; who waits, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from cap_twins import Capped, Loop, conservative, easy, fcfs, random_capped
from power_worlds import POLICIES, S, random_power, workload_of

import unrack
from unrack.cli.study.job_story import devices_text
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import explain
from unrack.workload.job import job_table

TWINS: dict[str, Callable[[Loop, list[int], int], None]] = {"fcfs": fcfs, "easy": easy, "conservative": conservative}


def starts(world: Capped, policy: str) -> dict[int, int]:
    """Job → start, of those that ran."""
    jobs = unrack.simulate(world.cluster, workload_of(world.table), policy).jobs
    ran = jobs.filter(jobs["state"] == "finished")
    return {int(job) - 1: round(start) for job, start in zip(ran["job"], ran["start_s"], strict=True)}


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("policy", TWINS)
def test_schedules_are_those_of_plain_python(policy: str, seed: int) -> None:
    world = random_capped(seed, exact=policy == "conservative")
    assert starts(world, policy) == Loop(world).run(TWINS[policy])


def test_caps_of_these_worlds_do_change_schedules() -> None:
    worlds = [random_capped(seed) for seed in range(20)]
    free = [Capped(world.nodes, world.core, 10**6, world.boost_w, world.jobs) for world in worlds]
    changed = [Loop(a).run(easy) != Loop(b).run(easy) for a, b in zip(worlds, free, strict=True)]
    assert sum(changed) > 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(0, 36, 3))
@pytest.mark.parametrize("policy", POLICIES)
def test_no_more_than_the_cap_is_ever_drawn(policy: str, seed: int) -> None:
    world = random_power(seed)
    result = world.run(policy)
    cap = float(world.power["cap"].split()[0])
    assert result.table("power")["watts"].max() <= cap
    assert 0 < result.metrics["power_peak_of_cap"] <= 1
    ran = int((result.jobs["state"] == "finished").sum())
    assert ran + int((result.jobs["state"] == "rejected").sum()) == len(world.jobs)


def table(**more: Any) -> dict[str, Any]:
    """Two nodes of 4 cores, of which the second draws twice as much, and a partition of the first."""
    power = {"idle": 100, "core": 10, "nodes": [{"nodes": ["1"], "idle": 100, "core": 20}], **more}
    site = {"partitions": [{"name": "cheap", "nodes": ["0"]}, {"name": "all"}]}
    return {"nodes": [{"count": 2, "cores": 4}], "power": power, "site": site}


def run(cluster: dict[str, Any], policy: str = "easy", partition: str = "all", **columns: Any) -> unrack.Result:
    """Jobs of 100 s, submitted at once."""
    count = len(columns["cores"])
    jobs = job_table(
        submit_us=np.arange(count) * S, work_us=np.full(count, 100 * S), request_us=np.full(count, 100 * S),
        tasks=np.ones(count, np.int64), cores=np.array(columns["cores"]),
        extra=pl.DataFrame({"partition": [partition] * count}),
    )  # fmt: skip
    return unrack.simulate(Cluster.from_dict(cluster), workload_of(jobs), policy)


def test_a_job_claims_what_it_draws_on_the_dearest_node_that_it_may_use() -> None:
    dear = run(table(cap="300 W"), cores=[3])
    assert dear.table("claims").filter(resource="power").select("place", "amount").rows() == [("power cap", 60)]
    cheap = run(table(cap="300 W"), partition="cheap", cores=[3])
    assert cheap.table("claims").filter(resource="power")["amount"].to_list() == [30]
    assert cheap.metrics["power_peak_kw"] == dear.metrics["power_peak_kw"] == 0.23  # both ran on the first


def test_who_waits_for_watts_is_told_so_and_who_adds_more_than_the_cap_leaves_is_rejected() -> None:
    result = run(table(cap="280 W"), cores=[2, 4, 4, 1])
    assert result.jobs["start_s"].to_list() == [0.0, 100.0, 200.0, 300.0]
    story = explain(result.log.cluster, result.log.jobs, parse_policy("easy"), 1)
    assert str(story.spells[0].reason) == "no-room: W of the power cap (asked 80, free 40)"
    never = run(table(cap="270 W"), cores=[4])
    assert never.jobs["reason"].to_list() == ["too-big: W of the power cap (asked 80, free 70)"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"cap": "200 W"}, "more than the 200 W"),
        ({"cap": "a lot"}, "watts, or text"),
        ({"cap": "100 kWh"}, "watts, or text"),
        ({"peak": 90}, "core and peak"),
        ({"off": 101}, "no more than idle"),
        ({"idle": -1}, "watts, or text"),
        ({"nodes": [{"nodes": ["0-1"], "idle": 1, "core": 1}, {"nodes": ["1"], "idle": 1, "core": 1}]}, "node 1 again"),
        ({"nodes": [{"nodes": ["7"], "idle": 1, "core": 1}]}, "'7'"),
        ({"nodes": [{"nodes": ["1"], "core": 1}]}, "idle"),
        ({"devices": {"gpu": 3}}, "KIND.QUANTITY"),
        ({"switch_off": {"boot": 3}}, "after"),
        ({"switch_off": {"after": "soon"}}, "wanted a time"),
        ({"switch_off": {"after": -1}}, "power.switch_off.after: got -1, wanted a time"),
        ({"switch_off": {"after": 1, "boot": True}}, "power.switch_off.boot: got True, wanted a time"),
        ({"caps": [{"cap": "300 W", "start": -1e300, "duration": 1}]}, "caps.0.start: got -1e+300, wanted a time"),
        ({"caps": [{"cap": "300 W", "start": 0, "duration": -9}]}, "caps.0.duration: got -9, wanted a time"),
        ({"caps": [{"cap": "200 W", "start": 0, "duration": 1}]}, "more than the 200 W"),
        ({"caps": [{"cap": "300 W", "start": 0}]}, "caps.0.duration"),
        ({"caps": [{"cap": "300 W", "start": 0, "duration": 9, "every": 4, "until": 9}]}, "at least the duration"),
        ({"caps": [{"cap": "300 W", "start": 0, "duration": 9}], "devices": {"a.b": 1}}, "devices"),
        ({"switch_off": {"after": 1, "keep": 3}}, "keep_on"),
        ({"watts": 3}, "switch_off"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ClusterError, match="power") as refused:
        Cluster.from_dict(table(**keys))
    assert said in str(refused.value)


def test_a_cluster_is_written_and_read_again() -> None:
    off = {"after": "10 min", "boot": 90.5, "boot_watts": 151.25, "keep_on": 1}
    first = Cluster.from_dict(table(cap="1.2 kW", off=3.5, devices={"gpus.count": 250}, switch_off=off))
    written = first.places.written()["power"]
    again = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "power": written})
    assert again.places.written()["power"] == written
    assert written["cap"] == 1200
    assert written["switch_off"] == {"after": 600, "boot": 90.5, "boot_watts": 151.25, "keep_on": 1}


OFTEN, ONCE = {"start": 100, "duration": 150, "every": 400, "until": 2000}, {"start": 200, "duration": 90}
CAPS = [{"cap": "430 W", **OFTEN}, {"cap": 389.9, **ONCE}]  # 300 W are idle; of 16 cores, 12 and 8 may be in use
CLOSED = [{"nodes": ["3-4"], **OFTEN}, {"nodes": ["2-4"], **ONCE}]


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5, 6, 7])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_lower_cap_at_times_is_kept_and_is_as_maintenance_of_the_last_nodes(policy: str, seed: int) -> None:
    world = random_power(4 * seed)
    asks = world.jobs.asks.copy()
    asks[3] = np.maximum(asks[3], world.jobs.work_us)
    jobs = replace(world.jobs, asks=asks)
    table = {key: value for key, value in world.table.items() if key != "power"}
    power = {"idle": 60, "core": 10, "off": 5, "caps": CAPS}
    found = unrack.simulate(Cluster.from_dict({**table, "power": power}), workload_of(jobs), policy)
    drawn = found.table("power").to_dicts()
    for cap, begin, end in [(430, at, at + 150) for at in range(100, 2000, 400)] + [(389.9, 200, 290)]:
        level = [row["watts"] for row in drawn if row["time_s"] <= begin][-1:]
        assert max([*level, *(row["watts"] for row in drawn if begin < row["time_s"] < end)]) <= cap
    site = {"reservations": [{"name": f"r{i}", "maintenance": True, **one} for i, one in enumerate(CLOSED)]}
    kept = unrack.simulate(Cluster.from_dict({**table, "site": site}), workload_of(jobs), policy)
    if not policy.startswith("flow"):  # of equal cost, which is taken depends on all that is in its network
        assert found.jobs["start_s"].to_list() == kept.jobs["start_s"].to_list()
    free = unrack.simulate(Cluster.from_dict(table), workload_of(jobs), policy)
    assert found.jobs["start_s"].to_list() != free.jobs["start_s"].to_list()


def test_explain_tells_power_in_watts() -> None:
    assert devices_text({"power": {"milliwatts": 225_500}, "gpus": {"count": 2}}) == ", 225.5 W, gpus count 2"
