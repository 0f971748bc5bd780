from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unrack.errors import InputError
from unrack.study.input.file import WorkloadTable
from unrack.study.input.inputs import Document, make_workload
from unrack.workload.filters import FILTERS, SEEDED, filtered
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table
from unrack.workload.usage.curves import WHOLE
from unrack_papers.shapes.parameters import shapes_of, written

S = 1_000_000

SERIES = "job,time_s,mb\n1,0,10\n1,60,40\n2,0,300\n2,6000,200\n"
TRACE = "id,submit,run,tasks,memory,used_mb\n1,0,120,1,100,30\n2,5,9000,2,200,250\n3,6,100,1,50,\n"


def made() -> Workload:
    jobs = job_table(
        submit_us=np.arange(3) * S,
        work_us=np.array([120, 9000, 100]) * S,
        tasks=np.array([1, 2, 1]),
        memory_mb=np.array([100, 200, 50]),
        extra=pl.DataFrame({"used_mb": [30.5, 250, None]}),
    )
    return Workload("made", jobs, Intake("test", "generated", 3, 3))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "series.csv").write_text(SERIES)
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "p.toml").write_text(written(shapes_of("google")))
    return tmp_path


def of_study(folder: Path, seed: int = 0, **keys: Any) -> Workload:
    table = WorkloadTable(trace="trace.csv", **keys)
    return make_workload(table, Document("study.toml", folder, {}), 0, seed)


def test_a_file_beside_the_study_gives_the_nearest_jobs_their_curves(folder: Path) -> None:
    found = of_study(folder, usage="series.csv")
    usage = found.jobs.usage
    assert usage is not None
    assert usage.mb.tolist() == [25, 100, 200, 134, 13, 50]
    assert usage.at.tolist() == [0, WHOLE // 2] * 3
    assert found.intake.header["Filters"] == (
        "usage from series.csv, 2 jobs (nearest by run time, memory): 3 of 3 jobs have curves, 6 points "
        "(4 samples of the source are 4 points); peaks scaled to what jobs ask for"
    )


@pytest.mark.parametrize("value", ["p.toml", {"shapes": "p.toml"}, "google", {"shapes": "google"}])
def test_shapes_are_named_or_lie_beside_the_study(folder: Path, value: Any) -> None:
    usage = of_study(folder, seed=4, usage=value).jobs.usage
    assert usage is not None
    assert usage.job_peaks(np.zeros(3, np.int64)).tolist() == [100, 200, 50]
    assert of_study(folder, seed=4, usage=value).jobs.digest() == of_study(folder, seed=4, usage="google").jobs.digest()


def test_usage_comes_before_requests_are_raised_and_is_kept_by_that(folder: Path) -> None:
    found = of_study(folder, overestimate=0.6, usage={"file": "series.csv", "match": "id"})
    assert found.jobs.memory_mb.tolist() == [160, 320, 80]
    assert found.jobs.usage is not None
    assert found.jobs.usage.curves.tolist() == [1, 1, 1]  # the job without a series gets a constant curve
    assert found.jobs.usage.job_peaks(found.jobs.memory_mb).tolist() == [100, 200, 50]
    assert list(FILTERS)[-2:] == ["usage", "overestimate"]


def test_what_the_trace_says_was_used_is_a_constant_curve_within_the_request(folder: Path) -> None:
    found = of_study(folder, usage={"column": "used_mb"})
    assert found.jobs.usage is not None
    assert found.jobs.usage.curves.tolist() == [1, 1, 0]
    assert found.jobs.usage.mb.tolist() == [30, 200]
    assert found.jobs.memory_mb.tolist() == [100, 200, 50]
    assert "1 jobs cut at the request" in found.intake.header["Filters"]
    raised = of_study(folder, usage={"column": "used_mb", "scale": "none"})
    assert raised.jobs.memory_mb.tolist() == [30, 250, 50]


def test_parts_of_a_megabyte_round_up() -> None:
    usage = filtered(made(), {"usage": {"column": "used_mb"}}).jobs.usage
    assert usage is not None
    assert usage.mb.tolist() == [31, 200]


def test_a_log_in_swf_gives_its_used_memory_by_id(tmp_path: Path) -> None:
    lines = (f"{k} {k} 0 100 1 -1 {1024 * 10 * k} 1 200 -1 1 1 1 1 1 1 -1 -1\n" for k in (1, 2, 3))
    (tmp_path / "log.swf").write_text("".join(lines))
    found = filtered(made(), {"usage": {"file": str(tmp_path / "log.swf")}})
    assert found.jobs.usage is not None
    assert found.jobs.usage.mb.tolist() == [10, 20, 30]
    assert found.jobs.memory_mb.tolist() == [100, 200, 50]


def test_drawn_usage_follows_the_seed_of_the_study_unless_it_has_its_own(folder: Path) -> None:
    def digest(study: int, **more: Any) -> str:
        return of_study(folder, study, usage={"shapes": "grizzly", **more}).jobs.digest()

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)
    assert digest(1, seed=3) == digest(2, seed=3)
    assert {"usage", "overestimate"} <= SEEDED


def test_halves_of_a_file_are_told_apart(folder: Path) -> None:
    value = {"file": "series.csv", "match": "random", "scale": "none", "part": "second half"}
    found = of_study(folder, usage=value)
    assert found.jobs.memory_mb.tolist() == [300, 300, 300]
    assert "1 jobs of its second half (at random, seed 0)" in found.intake.header["Filters"]


def test_curves_that_keep_their_mb_end_at_the_largest_node(folder: Path) -> None:
    found = of_study(folder, usage={"file": "series.csv", "scale": "none", "cap": "60 MB"})
    assert found.jobs.memory_mb.tolist() == [40, 60, 40]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "filter usage: got 3"),
        ({}, "exactly one of file, shapes and column"),
        ({"file": "series.csv", "shapes": "google"}, "exactly one of"),
        ({"file": "series.csv", "mach": "id"}, "usage, mach: got an unknown key, wanted 'match' perhaps, or one"),
        ({"file": "series.csv", "match": "best"}, "usage, match: got 'best'"),
        ({"file": "series.csv", "thin": 2}, "usage, thin: got 2"),
        ({"file": "none.csv"}, "none.csv: got no such file"),
        ({"shapes": "google", "thin": 0.1}, "thin only beside file"),
        ({"shapes": "google", "scale": "none"}, "they have no MB of their own"),
        ({"column": "colour"}, "'colour', wanted a column that the trace carries: used_mb"),
        ({"file": "series.csv", "options": {"memory_per": "job"}}, "options only beside a file in SWF"),
        ({"file": "shares.csv", "scale": "none"}, "of shares"),
    ],
)
def test_values_of_usage_that_cannot_be_are_refused_at_their_key(folder: Path, value: Any, words: str) -> None:
    (folder / "shares.csv").write_text("job,time_s,memory_share\n1,0,0.5\n")
    with pytest.raises(InputError, match=words):
        of_study(folder, usage=value)


def test_jobs_that_ask_for_no_memory_have_nothing_to_scale_to(folder: Path) -> None:
    (folder / "trace.csv").write_text("id,submit,run,tasks\n1,0,120,1\n")
    with pytest.raises(InputError, match="jobs that ask for no memory"):
        of_study(folder, usage="google")
    assert of_study(folder, usage={"file": "series.csv", "scale": "none"}).jobs.memory_mb.tolist() == [40]
