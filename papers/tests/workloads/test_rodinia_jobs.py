"""Rodinia jobs that are drawn: arrivals, applications, what they ask, and jobs that fill machines before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.sim.simulate import simulate
from unrack.workload.job import Workload
from unrack_papers.workloads.rodinia import NETWORK_SHARES, RUN_S

COUNT = 20_000
S = 1_000_000


def drawn(count: int = COUNT, seed: int = 1, **keys: Any) -> Workload:
    return unrack.generate({"rodinia_jobs": count, **keys}, seed)


def test_sixteen_jobs_arrive_a_second_after_those_that_warm_up() -> None:
    made = drawn()
    assert len(made) == COUNT + 3
    assert made.jobs.submit_us[:3].tolist() == [0, 0, 0]
    gaps_s = np.diff(made.jobs.submit_us[3:]) / S
    assert gaps_s.mean() == pytest.approx(1 / 16, rel=0.03)
    assert gaps_s.std() == pytest.approx(1 / 16, rel=0.05)  # exponential


def test_every_application_is_as_likely_and_asks_for_its_share_of_the_link() -> None:
    jobs = drawn().jobs
    names = [jobs.app_names[app] for app in jobs.app]
    assert names[:3] == ["warm-up"] * 3
    for name, share in NETWORK_SHARES.items():
        own = np.array([one == name for one in names])
        assert own.mean() == pytest.approx(1 / 8, abs=0.01)
        assert set(jobs.devices["links", "remote_mb_s"][own].tolist()) == {int(np.ceil(round(share * 1250, 6)))}
    assert set(jobs.devices["gpu", "devices"][3:].tolist()) == {1}
    assert set(jobs.tasks.tolist()) == {1}


def test_run_times_are_near_what_the_published_makespan_says() -> None:
    run_s = drawn().jobs.work_us[3:] / S
    assert run_s.mean() == pytest.approx(RUN_S, rel=0.01)
    assert (run_s.min(), run_s.max()) == (pytest.approx(0.8 * RUN_S, rel=0.01), pytest.approx(1.2 * RUN_S, rel=0.01))
    assert pytest.approx(RUN_S, rel=0.01) == 16 * 2191 / 512


def test_options_say_what_is_asked_for() -> None:
    made = drawn(100, cores=2, memory_mb=5, gpus="topology", link="40 Gb/s", run_s=10, run_of={"nw": 99}, warm_up=4,
                 warm_up_cores=[7, 8], warm_up_memory_mb=9, warm_up_s=50)  # fmt: skip
    jobs = made.jobs
    assert jobs.cores.tolist() == [7, 8, 7, 8] + [2] * 100
    assert jobs.memory_mb.tolist() == [9] * 4 + [5] * 100
    assert jobs.devices["gpus", "count"].tolist() == [0] * 4 + [1] * 100
    assert jobs.devices["links", "remote_mb_s"].max() == 850
    of_nw = np.array([jobs.app_names[app] == "nw" for app in jobs.app])
    assert set((jobs.work_us[of_nw] // S).tolist()) == {99}
    assert set((jobs.work_us[~of_nw][4:] // S).tolist()) == {10}
    assert set(drawn(5, leave_out=["links"]).jobs.devices) == {("gpu", "devices")}
    assert len(drawn(5, warm_up=0, leave_out=["gpus", "links"])) == 5


def test_the_same_seed_gives_the_same_rodinia_jobs_at_any_rate() -> None:
    base, again, other, faster = drawn(), drawn(), drawn(seed=2), drawn(arrivals={"rate_per_h": 2 * 57_600})
    assert base.jobs.digest() == again.jobs.digest() != other.jobs.digest()
    assert base.jobs.app.tolist() == faster.jobs.app.tolist()
    assert base.jobs.work_us.tolist() == faster.jobs.work_us.tolist()
    assert faster.jobs.submit_us[-1] == pytest.approx(base.jobs.submit_us[-1] / 2, rel=1e-6)


def test_six_gpus_of_sixteen_can_be_used_at_hand_while_machines_are_full() -> None:
    """Four machines of 20 cores and 4 GPUs, as in the thesis, where GPUs are not pooled and where they are."""
    nodes = [{"count": 4, "cores": 20, "memory": "512 GB"}]
    at_hand = Cluster.from_dict({"nodes": nodes, "gpus": {"machines": [{"machine": {"gpus": 4}, "nodes": "0-3"}]}})
    pool = {"kind": "gpu", "count": 16, "quantities": {"devices": 1}}
    pooled = Cluster.from_dict({"nodes": nodes, "pools": [pool]})
    ends = []
    for cluster, gpus, most in ((at_hand, "topology", 6), (pooled, "pool", 16)):
        made = drawn(512, gpus=gpus, leave_out=["links"])
        result = simulate(cluster, made, "list(backfill=any)")
        jobs = result.jobs.filter(result.jobs["app"] != "warm-up")
        busy = [int(((jobs["start_s"] <= t) & (jobs["end_s"] > t)).sum()) for t in range(100, 790, 30)]
        assert set(busy) == {most}
        ends.append(float(jobs["end_s"].max()))  # type: ignore[arg-type]  # a time
    assert ends[0] > 1.1 * ends[1]
    assert ends[1] == pytest.approx(2191, rel=0.05)


@pytest.mark.parametrize(
    ("keys", "where"),
    [({"rodinia_jobs": 0}, "generate, rodinia_jobs"), ({"apps": {}}, "generate, apps"),
     ({"apps": {"nw": 2}}, "generate, apps.nw"), ({"link": "fast"}, "generate, link"),
     ({"run_of": {"x": 3}}, "generate, the whole"), ({"warm_up": -1}, "generate, warm_up"),
     ({"gpus": "near"}, "generate, gpus"), ({"leave_out": ["cores"]}, "generate, leave_out.0"),
     ({"warm_up_cores": []}, "generate, warm_up_cores"), ({"machines": 4}, "generate, machines")],
)  # fmt: skip
def test_a_specification_of_rodinia_jobs_that_cannot_be_is_refused(keys: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        unrack.generate({"rodinia_jobs": 5, **keys})
    assert caught.value.where == where
