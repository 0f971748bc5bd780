"""The ways of the authors' simulator as options, and the floors of its tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.slowdown.model import make_models
from unrack.units import SECOND_US
from unrack_papers.call.counts import floored_averages
from unrack_papers.execution import tasks_of
from unrack_papers.options import Options
from unrack_papers.simulation import cluster_of, workload_of
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.ways import as_authors

S1 = REPRODUCTIONS["nvme-s1"]


def attached(cluster: Cluster) -> list[int]:
    return [pool.count for pool in cluster.devices.pools if pool.kind == "nvme"]


def test_the_reading_changes_the_aware_policy_alone_and_makes_seconds_whole() -> None:
    task = tasks_of(S1, Options(seeds=1, jobs=50, reading="authors"))[0]
    rows = {row.name: row for row in task.rows}
    assert rows["Disagg-Aware"].policy == "disaggregation-aware(reading=authors)"
    assert [rows[name].policy for name in ("First Fit", "Lookahead")] == ["first-fit", "lookahead"]
    assert make_models(task.models)[0].times_s[0] == (1489, 1601, 1677, 1936, 2411, 2802)
    assert not (workload_of(task).jobs.submit_us % SECOND_US).any()


def test_models_that_are_no_tables_stay_as_they_are_in_the_authors_reading() -> None:
    one = REPRODUCTIONS["nvme-fio"]
    models = make_models(tasks_of(one, replace(one.defaults, reading="authors"))[0].models)
    assert [(model.name, model.frozen) for model in models] == [("smufin", False), ("fio", False)]


@pytest.mark.parametrize("name", ["nvme-s1", "vgpu-nodes"])
@pytest.mark.parametrize(("layout", "counts"), [("6-4", [6, 4]), ("4-6", [4, 6])])
def test_the_layout_of_attached_drives_can_be_chosen(name: str, layout: str, counts: list[int]) -> None:
    tasks = tasks_of(REPRODUCTIONS[name], replace(REPRODUCTIONS[name].defaults, attached=layout))
    found = [attached(cluster_of(row.cluster)) for task in tasks for row in task.rows]
    assert counts in found
    assert {tuple(one) for one in found} == {tuple(counts), (10,)}


def test_as_authors_is_what_changes_something_there() -> None:
    assert as_authors(S1) == {
        "arrivals": "fixed", "frozen": True, "reading": "authors", "attached": "4-6"
    }  # fmt: skip
    assert "attached" not in as_authors(REPRODUCTIONS["nvme-fio"])
    assert tasks_of(S1, Options(**{**as_authors(S1), "seeds": 1}))
    with pytest.raises(InputError, match="pooled devices"):
        as_authors(REPRODUCTIONS["memory-groups"])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vgpu-nodes", {"reading": "authors"}),
        ("nvme-s1", {"reading": "author"}),
        ("nvme-fio", {"attached": "4-6"}),
        ("nvme-s1", {"attached": "5-5"}),
    ],
)
def test_a_way_without_effect_is_refused(name: str, options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        tasks_of(REPRODUCTIONS[name], Options(**options))  # type: ignore[arg-type]


def test_every_variant_has_files_of_its_own() -> None:
    every = [
        Options(frozen=frozen, arrivals=arrivals, reading=reading, attached=to)
        for frozen in (False, True) for arrivals in ("poisson", "fixed") for reading in ("text", "authors")
        for to in ("6-4", "4-6")
    ]  # fmt: skip
    assert len({one.variant(Options()) for one in every}) == len(every)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8))
def test_floors_are_at_most_the_means_and_idle_time_counts_as_one_device_and_no_job(
    steps: list[tuple[int, int, int]],
) -> None:
    groups = np.array([g for g, _, _ in steps])
    used, sharers = (np.array([(g + extra) * (g > 0) for g, extra in pairs])
                     for pairs in (((g, d) for g, d, _ in steps), ((g, s) for g, _, s in steps)))  # fmt: skip
    times = np.arange(len(steps), dtype=np.float64)
    size, sharing = floored_averages(times, groups, used, sharers, 0.0, float(len(steps)))
    assert size == pytest.approx(np.mean([u // g if g else 1 for g, u in zip(groups, used, strict=True)]))
    assert sharing == pytest.approx(np.mean([s // g if g else 0 for g, s in zip(groups, sharers, strict=True)]))
