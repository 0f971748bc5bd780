"""Runs that fail leave the others their table and report; which are missing is said wherever the others are shown."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import FailedRunsError
from unrack.report.page import write_report
from unrack.study.grid import load_study
from unrack.study.runner import run_study

STUDY = """
name = "=some fail"
seeds = 3
policies = ["fcfs", { file = "fails.py:FAILS" }]
[[clusters]]
name = "=1+1"
nodes = [{ count = 2, cores = 4 }]
[[workloads]]
[workloads.generate]
jobs = 6
arrivals = { gap_s = 5 }
[[workloads.generate.classes]]
cores = 3
run_s = { kind = "exponential", mean = 20 }
"""
POLICY = """
from dataclasses import dataclass, replace
from pathlib import Path
from unrack.policy import ListScheduler

@dataclass(frozen=True)
class Fails(ListScheduler):
    seed: int = 0
    def seeded(self, seed):
        return replace(self, seed=seed)
    def decide(self, view, memory, now):
        if self.seed in {fails} and not Path(__file__).with_name("mended").exists():
            raise ValueError("boom")
        return super().decide(view, memory, now)

FAILS = Fails(label="fails")
"""


def study(folder: Path, *fails: int) -> Path:
    (folder / "fails.py").write_text(POLICY.replace("{fails}", repr(fails or ())))
    (folder / "study.toml").write_text(STUDY)
    return folder / "study.toml"


def test_one_failed_run_leaves_the_others_a_table_and_a_report(tmp_path: Path) -> None:
    path, out = study(tmp_path, 1), tmp_path / "out"
    done = CliRunner().invoke(app, ["run", str(path), "--out", str(out), "--jobs", "1"])
    assert isinstance(done.exception, FailedRunsError)  # which is exit status 1
    assert "boom" in str(done.exception)
    assert "1 of 6 runs failed" in str(done.exception)
    assert "fails (2 of 3 seeds)" in done.stdout
    assert pl.read_csv(out / "summary.csv").height == 5
    page = (out / "report.html").read_text()
    assert "1 run of fails: policy fails failed in decide: ValueError: boom" in page
    (tmp_path / "mended").touch()
    kept = {file: file.stat().st_mtime_ns for file in out.glob("runs/*/run.json")}
    assert len(run_study(load_study(str(path)), out)) == 6
    assert all(file.stat().st_mtime_ns == then for file, then in kept.items())  # only the failed one ran again
    assert "Runs that failed" not in write_report(out).read_text()


def test_json_names_the_runs_that_failed(tmp_path: Path) -> None:
    path = study(tmp_path, 0, 2)
    done = CliRunner().invoke(app, ["run", str(path), "--out", str(tmp_path / "out"), "--jobs", "1", "--json"])
    told = json.loads(done.stdout)
    assert (len(told["runs"]), len(told["failed"])) == (4, 2)
    assert all("fails" in name for name in told["failed"])


def test_if_all_runs_fail_there_is_no_table_and_no_report(tmp_path: Path) -> None:
    path, out = study(tmp_path, 0, 1, 2), tmp_path / "out"
    path.write_text(path.read_text().replace('"fcfs", ', ""))
    with pytest.raises(FailedRunsError, match="3 of 3 runs failed") as error:
        run_study(load_study(str(path)), out)
    assert error.value.rows == []
    assert not (out / "summary.csv").exists()


def test_names_that_look_like_formulas_are_plain_text_in_the_summary(tmp_path: Path) -> None:
    rows = run_study(load_study(str(study(tmp_path))), tmp_path / "out")
    assert {row["cluster"] for row in rows} == {"=1+1"}
    assert set(pl.read_csv(tmp_path / "out" / "summary.csv")["cluster"]) == {"'=1+1"}
