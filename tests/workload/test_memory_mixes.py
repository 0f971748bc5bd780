from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError, TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.generate.generator import generate
from unrack.workload.generate.memory import (
    BAND_GB,
    LARGE_SHARES,
    SMALL_SHARES,
    chosen_for_share,
    match,
    memory_by_size_mb,
    read_profiles,
    scaled_memory_mb,
)
from unrack.workload.job import JobTable

PROFILES = [
    {"id": 1, "nodes": 1, "run_s": 20, "memory_mb": 6383},
    {"id": "cg", "nodes": 16, "run_s": 90, "memory_mb": 388},
    {"id": 36, "nodes": 31, "run_s": 20, "memory_mb": 6179},
]


def test_memory_by_size_has_the_shares_of_the_bands() -> None:
    for nodes, shares in ((32, SMALL_SHARES), (33, LARGE_SHARES)):
        memory = memory_by_size_mb(np.random.default_rng(1), np.full(100_000, nodes))
        counts = np.histogram(memory, np.array(BAND_GB) * 1024)[0] / 1000
        assert np.allclose(counts, np.array(shares) / sum(shares) * 100, atol=0.6)
        assert memory.min() >= 1
        assert memory.max() < 128 * 1024


def test_memory_within_the_bands_agrees_with_the_quartiles_of_the_normal_jobs_of_table_5_6() -> None:
    jobs = generate({"model": "cirne", "nodes": 1024, "jobs": 40_000, "memory": "table-5.5"}, seed=2).jobs
    normal = jobs.memory_mb[jobs.memory_mb <= 65_536]
    large = jobs.memory_mb[jobs.memory_mb > 65_536]
    assert np.allclose(np.quantile(normal, [0.25, 0.5, 0.75]), [4037, 8089, 15_341], rtol=0.15)
    assert np.allclose(np.quantile(large, [0.25, 0.5, 0.75]), [76_176, 86_961, 99_956], rtol=0.1)


@pytest.mark.parametrize("share", [0.0, 0.15, 0.25, 0.5, 0.75, 1.0])  # the mixes of the thesis
def test_a_mix_has_the_share_of_node_hours_and_the_jobs_asked_for(share: float) -> None:
    spec = {"model": "cirne", "nodes": 1024, "cores_per_node": 32, "jobs": 3000, "load": 0.9, "memory": "table-5.5"}
    jobs = generate({**spec, "large_share": share, "normal_node": "64 GB"}, seed=4).jobs
    hours = jobs.tasks * jobs.work_us / 3.6e9
    assert len(jobs) == 3000
    assert hours[jobs.memory_mb > 65_536].sum() / hours.sum() == pytest.approx(share, abs=0.01)


@draws(60)
@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**32))
def test_a_choice_never_takes_a_row_twice_and_comes_as_close_as_rows_of_one_size_allow(
    there: int, others: int, share: float, seed: int
) -> None:
    large = np.arange(there + others) < there
    count = others if share == 0 else there if share == 1 else (there + others + 1) // 2
    chosen = chosen_for_share(np.random.default_rng(seed), np.ones(len(large)), large, share, count)
    assert len(set(chosen.tolist())) == len(chosen) == count
    possible = range(max(0, count - others), min(count, there) + 1)
    assert abs(large[chosen].sum() / count - share) <= min(abs(k / count - share) for k in possible) + 1e-9


def test_a_choice_that_cannot_be_is_refused() -> None:
    hours, rng = np.ones(30), np.random.default_rng(0)
    for share, large, count in ((0.5, 0, 9), (0.5, 30, 9), (1.5, 15, 9), (1.0, 30, 31), (0.0, 0, 31), (0.5, 15, 31)):
        with pytest.raises(InputError, match="share of large jobs"):
            chosen_for_share(rng, hours, np.arange(30) < large, share, count)


@given(
    st.lists(st.tuples(st.integers(1, 128), st.floats(0, 1e5)), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(1, 31), st.floats(1, 200)), min_size=1, max_size=8),
)
def test_each_job_is_matched_with_the_nearest_profile_the_first_of_equals(
    jobs: list[tuple[int, float]], profiles: list[tuple[int, float]]
) -> None:
    def scaled(values: list[float]) -> list[float]:
        span = (max(values) - min(values)) or 1.0
        return [(value - min(values)) / span for value in values]

    columns = [np.array([row[k] for row in rows], float) for rows in (jobs, profiles) for k in (0, 1)]
    sizes, runs, theirs, lasts = (scaled(column.tolist()) for column in columns)
    expected = []
    for size, run in zip(sizes, runs, strict=True):
        apart = [(size - n) ** 2 + (run - t) ** 2 for n, t in zip(theirs, lasts, strict=True)]
        expected.append(apart.index(min(apart)))
    assert match(*columns).tolist() == expected  # type: ignore[arg-type]


def test_the_published_jobs_have_the_applications_and_memory_that_matching_gives(data: Path) -> None:
    jobs = read_trace(data / "memory" / "anl-1024n-1838-jobmix50.csv").jobs
    profiles = read_profiles(str(data / "profiles" / "memory-apps.csv"))
    sizes, runs_s = [*jobs.tasks, 1, 128], [*jobs.work_us / 1e6, 0, 184_000]  # with the ends of the whole log
    theirs = np.array([one.nodes for one in profiles]), np.array([one.run_s for one in profiles])
    rows = match(np.array(sizes), np.array(runs_s), *theirs)[: len(jobs)]
    apps = [jobs.app_names[code] for code in jobs.app]
    same = np.array([profiles[row].id == app for row, app in zip(rows, apps, strict=True)])
    assert same.mean() > 0.99
    memory = scaled_memory_mb(np.array([one.memory_mb for one in profiles]), 32)[rows]
    assert (memory[same] == jobs.memory_mb[same]).all()


def test_generated_jobs_get_the_application_and_its_memory(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"model": "cirne", "nodes": 64, "cores_per_node": 32, "jobs": 500, "memory": "profiles"}
    made = generate({**spec, "profiles": PROFILES}, seed=1).jobs
    by_name = {"1": 6383 // 4 * 32, "cg": 388 // 4 * 32, "36": 6179 // 4 * 32}
    assert {made.app_names[code] for code in made.app} <= set(by_name)
    assert made.memory_mb.tolist() == [by_name[made.app_names[code]] for code in made.app]
    pl.DataFrame([{**row, "id": str(row["id"])} for row in PROFILES]).write_csv(tmp_path / "apps.csv")
    assert generate({**spec, "profiles": "apps.csv"}, 1, folder=tmp_path).jobs.digest() == made.digest()
    (tmp_path / "bare.csv").write_text("amg,1,20,1,6383,9\ncg,cg,90,16,388,9\nmpi,36,20,31,6179,9\n")
    assert generate({**spec, "profiles": "bare.csv"}, 1, folder=tmp_path).jobs.digest() == made.digest()


@pytest.mark.parametrize(
    "text", ["id,nodes\n1,2\n", "id,nodes,run_s\n", "id,nodes,run_s\n1,0,5\n", "id,nodes,run_s\n1,2,x\n", "amg,1,20\n"]
)
def test_a_file_of_profiles_that_lacks_something_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "apps.csv").write_text(text)
    with pytest.raises(TraceError):
        read_profiles(str(tmp_path / "apps.csv"))


def test_profiles_without_memory_or_none_at_all_are_refused() -> None:
    bare = [{"id": "a", "nodes": 1, "run_s": 1}]
    with pytest.raises(InputError, match=r"profiles\.0\.memory_mb"):
        generate({"model": "cirne", "nodes": 8, "jobs": 5, "memory": "profiles", "profiles": bare})
    with pytest.raises(InputError, match="at least one profile"):
        match(np.array([1]), np.array([1.0]), np.array([], np.int64), np.array([]))


def test_the_published_mix_of_half_large_jobs_is_drawn_again_in_all_its_proportions(data: Path) -> None:
    published = read_trace(data / "memory" / "anl-1024n-1838-jobmix50.csv").jobs
    ours = generate({
        "model": "cirne", "parameters": "cirne-anl", "nodes": 1024, "cores_per_node": 32, "jobs": 1838,
        "memory": "profiles", "profiles": str(data / "profiles" / "memory-apps.csv"), "large_share": 0.5,
        "normal_node": "32 GB",
    }).jobs  # fmt: skip

    def proportions(jobs: JobTable) -> dict[str, float]:
        hours = jobs.tasks * jobs.work_us / 3.6e9
        large = jobs.memory_mb > 32 * 1024
        return {
            "jobs that are large": large.mean(),
            "node-hours of them": hours[large].sum() / hours.sum(),
            "node-hours / 1e5": hours.sum() / 1e5,
            "quarter of memory / 1e5": np.quantile(jobs.memory_mb, 0.25) / 1e5,
            "median of memory / 1e5": np.median(jobs.memory_mb) / 1e5,
            "median gap / 1000 s": np.median(np.diff(jobs.submit_us)) / 1e9,
        }

    theirs = proportions(published)
    assert proportions(ours) == {name: pytest.approx(value, abs=0.06) for name, value in theirs.items()}
