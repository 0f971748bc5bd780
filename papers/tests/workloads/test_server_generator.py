from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.errors import InputError
from unrack.study.input.file import WorkloadTable
from unrack.study.input.inputs import Document, make_workload
from unrack.workload.generate.generator import generate
from unrack.workload.job import JobTable
from unrack.workload.tier_asks import NO_CEILING, TierAsks
from unrack_papers.workloads.server_generator import AZURE_CORES, AZURE_MEMORY_MB, FOREVER_S, ServerSpec, servers

PAGE = (Path(__file__).parents[3] / "docs" / "generators.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Servers\n")[1].split("\n## ")[0]


def asks_of(jobs: JobTable) -> TierAsks:
    assert jobs.slo is not None
    return jobs.slo


def alive(jobs: JobTable, at_us: float) -> int:
    return int(((jobs.submit_us <= at_us) & (jobs.submit_us + jobs.work_us > at_us)).sum())


def test_the_shares_are_those_of_table_2_and_cores_and_memory_are_independent() -> None:
    jobs = servers(200_000, seed=1).jobs
    share = {value: float((jobs.cores == value).mean()) for value in AZURE_CORES}
    for value, percent in AZURE_CORES.items():
        assert share[value] == pytest.approx(percent / 100, abs=0.004)
    for value, percent in AZURE_MEMORY_MB.items():
        assert float((jobs.memory_mb == value).mean()) == pytest.approx(percent / 100.1, abs=0.004)
        of_two_cores = float((jobs.memory_mb[jobs.cores == 2] == value).mean())
        assert of_two_cores == pytest.approx(percent / 100.1, abs=0.006)
    assert abs(np.corrcoef(jobs.cores, jobs.memory_mb)[0, 1]) < 0.01


def test_floors_and_ceilings_follow_equation_6() -> None:
    jobs = servers(50_000, seed=2).jobs
    asks = asks_of(jobs)
    assert (asks.floor_mb == jobs.memory_mb // 10).all()
    remote = jobs.memory_mb - asks.floor_mb
    alpha = asks.ceiling_mb / remote
    assert (asks.ceiling_mb >= remote).all()
    assert (asks.ceiling_mb < 2 * remote).all()
    large = alpha[jobs.memory_mb > 2**15]
    assert large.mean() == pytest.approx(1.5, abs=0.02)
    assert large.var() == pytest.approx(1 / 12, abs=0.005)


def test_by_default_all_are_there_at_once_and_none_leaves() -> None:
    jobs = servers(50).jobs
    assert not jobs.submit_us.any()
    assert (jobs.work_us == FOREVER_S * 10**6).all()
    assert (jobs.request_us == jobs.work_us).all()
    assert (jobs.tasks == 1).all()
    assert jobs.ids.to_list() == list(range(1, 51))


@pytest.mark.parametrize(
    "lifetime",
    [
        {"kind": "exponential", "mean": 3600},
        {"kind": "lognormal", "median": 1200, "sigma": 1.2},
        {"kind": "pareto", "mean": 3600, "shape": 2.5},
    ],
)
@pytest.mark.parametrize("arrivals", [{}, {"kind": "fixed"}, {"kind": "uniform"}])
def test_so_many_servers_are_alive_on_average_as_were_asked_for(
    lifetime: dict[str, Any], arrivals: dict[str, Any]
) -> None:
    jobs = servers(30_000, seed=3, alive=400, lifetime_s=lifetime, arrivals=arrivals).jobs
    last = jobs.submit_us[-1]
    assert jobs.work_us.sum() / last == pytest.approx(400, rel=0.05)
    later = [alive(jobs, at) for at in np.linspace(last / 3, last, 200)]
    assert np.mean(later) == pytest.approx(400, rel=0.06)


def test_a_steady_beginning_is_like_the_long_run() -> None:
    options: dict[str, Any] = {"alive": 3000, "lifetime_s": {"kind": "lognormal", "median": 600, "sigma": 1}}
    steady, filling = (servers(40_000, seed=4, steady=begin, **options).jobs for begin in (True, False))
    assert alive(steady, 0) == 3000
    assert alive(filling, 0) <= 1
    for at in (60, 600, 3600):
        assert alive(steady, at * 1e6) == pytest.approx(3000, rel=0.05)
    there = steady.submit_us == 0
    # What is left to those found alive is E[L^2] / 2 E[L] on average.
    expected = 600e6 * np.exp(1.5) / 2
    assert steady.work_us[there].mean() == pytest.approx(expected, rel=0.1)
    assert (steady.work_us[~there].mean()) == pytest.approx(600e6 * np.exp(0.5), rel=0.05)


def test_a_load_may_be_offered_on_cores_or_memory() -> None:
    life = {"kind": "exponential", "mean": 600}
    jobs = servers(20_000, arrivals={"load": 0.5, "cores": 11_200}, lifetime_s=life).jobs
    assert (jobs.work_us * jobs.cores).sum() / jobs.submit_us[-1] == pytest.approx(5600, rel=0.05)
    arrivals = {"load": 0.5, "fat_node": {"memory_mb": "40 TB"}, "load_of": ["memory_mb"]}
    jobs = servers(20_000, arrivals=arrivals, lifetime_s=life).jobs
    assert (jobs.work_us * 1e-6 * jobs.memory_mb).sum() / (jobs.submit_us[-1] * 1e-6) == pytest.approx(
        20 * 2**20, rel=0.05
    )


def test_hours_and_weekdays_shape_the_arrivals_and_not_their_rate() -> None:
    hours = [1.0] * 12 + [3.0] * 12
    jobs = servers(40_000, arrivals={"rate_per_h": 50}, hours=hours, weekdays=[1, 1, 1, 1, 1, 0, 0], seed=5).jobs
    hour, day = jobs.submit_us // 3_600_000_000 % 24, jobs.submit_us // 86_400_000_000 % 7
    assert (hour >= 12).mean() == pytest.approx(0.75, abs=0.01)
    assert not (day >= 5).any()
    assert jobs.submit_us[-1] / 3.6e9 == pytest.approx(40_000 / 50, rel=0.1)


@given(
    count=st.integers(1, 300), share=st.floats(0, 1), size=st.integers(2, 9), seed=st.integers(0, 2**64 - 1),
    fixed=st.booleans(),
)  # fmt: skip
def test_replicas_are_alike_arrive_together_and_are_as_many_as_asked(
    count: int, share: float, size: int, seed: int, fixed: bool
) -> None:
    arrivals = {"gap_s": 2} if fixed else {"mean_gap_s": 2}
    options = {"share": share, "size": size, "spread": "chassis"}
    jobs = servers(count, seed=seed, arrivals=arrivals, replicas=options).jobs
    asks = asks_of(jobs)
    groups = min(round(share * count / size), count // size)
    assert len(asks.group_names) == groups
    assert np.bincount(asks.group[asks.group >= 0], minlength=groups).tolist() == [size] * groups
    assert ((asks.spread == 0) == (asks.group >= 0)).all()
    assert asks.spread_names == ("chassis",)
    for group in range(groups):
        rows = np.flatnonzero(asks.group == group)
        columns = (jobs.submit_us, jobs.work_us, jobs.cores, jobs.memory_mb, asks.floor_mb, asks.ceiling_mb)
        assert all(len(set(column[rows].tolist())) == 1 for column in columns)


def test_the_rate_of_servers_does_not_depend_on_replicas() -> None:
    alone, grouped = (
        servers(20_000, seed=6, arrivals={"mean_gap_s": 10}, replicas=replicas).jobs
        for replicas in (None, {"share": 0.9, "size": 10})
    )
    assert grouped.submit_us[-1] == pytest.approx(alone.submit_us[-1], rel=0.1)


@given(share=st.integers(0, 100), memory=st.integers(0, 2**30), alpha=st.integers(0, 400))
def test_floors_and_ceilings_are_exact_for_shares_in_hundredths(share: int, memory: int, alpha: int) -> None:
    asks = asks_of(servers(1, local_share=share / 100, memory_mb=memory, alpha=alpha / 100).jobs)
    floor = share * memory // 100
    assert (asks.floor_mb[0], asks.ceiling_mb[0]) == (floor, alpha * (memory - floor) // 100)


def test_histograms_and_limits_may_be_ones_own() -> None:
    cores = {"kind": "choice", "values": [1, 64], "weights": [3, 1]}
    jobs = servers(4000, cores=cores, memory_mb=1000, local_share=0.25, alpha="none").jobs
    assert (jobs.cores == 1).mean() == pytest.approx(0.75, abs=0.03)
    assert (asks_of(jobs).floor_mb == 250).all()
    assert (asks_of(jobs).ceiling_mb == NO_CEILING).all()


def test_a_seed_gives_the_same_servers_again_and_another_gives_others() -> None:
    spec = {"servers": 500, "alive": 20, "steady": True, "replicas": {}}
    first = generate(spec, 7)
    assert first.name == "servers"
    assert (
        generate(spec, 7).jobs.digest()
        == first.jobs.digest()
        == servers(500, seed=7, alive=20, steady=True, replicas={}).jobs.digest()
    )
    assert generate(spec, 8).jobs.digest() != first.jobs.digest()


def test_the_servers_of_a_seed_stay_the_same_from_version_to_version() -> None:
    assert servers(500, seed=7, replicas={}).jobs.digest().startswith("6eb3b054")


def test_a_study_draws_servers_by_the_same_key() -> None:
    table = WorkloadTable(name="cloud", generate={"servers": 20, "alive": 3})
    made = make_workload(table, Document("study.toml", None, {}), 0, 9)
    assert made.name == "cloud"
    assert made.jobs.digest() == servers(20, seed=9, alive=3).jobs.digest()


@pytest.mark.parametrize(
    ("options", "where", "want"),
    [
        ({"count": 0}, "servers", "greater than or equal to 1"),
        ({"server": 3}, "server", "one of servers, arrivals"),
        ({"lifetime_s": "never"}, "lifetime_s", "a table"),
        ({"alive": 3, "arrivals": {"gap_s": 1}}, "the whole", "alive, or a rate in arrivals, not both"),
        ({"alive": 3, "lifetime_s": "forever"}, "the whole", "lifetimes that end"),
        ({"arrivals": {"load": 1, "cores": 9}, "lifetime_s": "forever"}, "the whole", "lifetimes that end"),
        ({"steady": True}, "the whole", "alive beside steady"),
        ({"alive": 2000, "steady": True}, "servers", "more than the 2000 alive"),
        ({"local_share": 1.5}, "local_share", "a share of the memory"),
        ({"alpha": -1}, "alpha.constant.value", "greater than or equal to 0"),
        ({"hours": [0] * 24}, "hours", "a weight above 0"),
        ({"replicas": {"size": 1}}, "replicas.size", "greater than or equal to 2"),
        ({"replicas": {"spread": ""}}, "replicas.spread", "at least 1 character"),
        ({"seed": -1}, "seed", "a number from 0"),
    ],
)
def test_a_wrong_key_is_refused_by_name(options: dict[str, Any], where: str, want: str) -> None:
    with pytest.raises(InputError) as caught:
        servers(**options)
    assert caught.value.where.endswith(where)
    assert want in caught.value.want


def test_the_page_describes_every_key_and_both_histograms_and_its_example_is_drawn() -> None:
    keys = re.findall(r"^\| `(\w+)`(?:, `(\w+)`)?(?:, `(\w+)`)? \|", SECTION, re.MULTILINE)
    assert {key for row in keys for key in row if key} == set(ServerSpec.model_fields)
    rows = [
        [float(cell) for cell in re.findall(r"\| ([\d.]+)", line)] for line in SECTION.split("\n") if "% of s" in line
    ]
    assert rows == [list(AZURE_CORES.values()), list(AZURE_MEMORY_MB.values())]
    example = tomllib.loads(SECTION.split("```toml\n")[1].split("```")[0])["workloads"]["generate"]
    assert len(generate(example)) == 5000
