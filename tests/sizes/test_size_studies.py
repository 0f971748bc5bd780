"""Jobs with sizes in studies: read from a table, made by the filter, kept, and explained again."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.errors import InputError
from unrack.workload.sizing import downey, sizes_of

ROWS = "id,submit,run,request,tasks,sizes,flexibility,change_s\n1,0,100,100,2,1:200;2:100;4:50,malleable,5\n"
STUDY = """
name = "sizes"
policies = ["easy(resizing=fpsma)"]
clusters = [{ name = "c", nodes = [{ count = 4, cores = 1 }] }]
workloads = [{ name = "w", trace = "jobs.csv" }]
"""


def test_a_kept_run_is_explained_again_with_its_sizes(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ROWS + "2,0,20,20,2,,,\n")
    (tmp_path / "study.toml").write_text(STUDY)
    run = CliRunner()
    done = run.invoke(app, ["run", str(tmp_path / "study.toml"), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    told = run.invoke(app, ["explain", str(tmp_path / "out"), "1"]).output
    assert "changed" in told
    assert "to 4 core(s) on node(s) 0-3" in told  # at 20 s: 5 s, and 80 / 2
    assert "ended       65 s" in told
    placements = pl.read_parquet(next((tmp_path / "out").rglob("placements.parquet")))
    assert placements.filter(pl.col("span") == 2)["nodes"].to_list() == [4]  # alike nodes are one row


def test_a_size_that_cannot_be_ends_the_study_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ROWS.replace("2:100;", ""))
    (tmp_path / "study.toml").write_text(STUDY)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "-o", str(tmp_path / "out")])
    assert isinstance(done.exception, InputError)
    assert "job 1, sizes" in str(done.exception)


def test_the_filter_makes_a_share_of_jobs_flexible_and_says_so() -> None:
    jobs = {"jobs": 400, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 10, "tasks": 8}]}
    workload = unrack.generate(jobs, seed=0)
    made = unrack.filtered(workload, {"flexible": {"share": 0.5, "most": 20}}, 1)
    sizes = sizes_of(made.jobs)
    assert 150 < len(sizes) < 250
    assert all(one.tasks[0] == 2 and one.tasks[-1] == 20 and one.speed_at(8) == 1.0 for one in sizes.values())
    assert sizes_of(unrack.filtered(workload, {"flexible": {"share": 0.5, "most": 20}}, 1).jobs) == sizes
    assert sizes_of(unrack.filtered(workload, {"flexible": {"share": 0.5, "most": 20}}, 2).jobs) != sizes
    assert "jobs made moldable, speed-up by downey" in str(made.intake.header)
    with pytest.raises(InputError, match="themselves"):
        unrack.filtered(made, {"flexible": 1})
    with pytest.raises(InputError, match="amdahl"):
        unrack.filtered(workload, {"flexible": {"speedup": "quick"}})


def test_downeys_speed_up_is_one_at_one_rises_and_never_exceeds_its_average_parallelism() -> None:
    for a in (1.0, 4.0, 16.5):
        for sigma in (0.0, 0.3, 1.0, 1.7, 3.0):
            found = [downey(n, a, sigma) for n in range(1, 80)]
            assert found[0] == pytest.approx(1.0)
            assert all(later >= before - 1e-9 for before, later in itertools.pairwise(found))
            assert found[-1] == pytest.approx(a) or sigma > 1
            assert max(found) <= a + 1e-9
