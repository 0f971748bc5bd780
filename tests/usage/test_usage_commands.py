from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import InputError
from unrack.workload.usage.read import read_usage


def run(*words: object) -> str:
    found = CliRunner().invoke(app, ["usage", *map(str, words)], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


@pytest.fixture
def series(tmp_path: Path) -> Path:
    path = tmp_path / "series.csv"
    rows = [f"{job},{60 * k},{100 * (job + 1) + k % 7}" for job in range(6) for k in range(200)]
    path.write_text("\n".join(["pod,time_s,mb", *rows, "5,0,-1"]) + "\n")
    return path


def test_info_tells_what_is_in_a_file(series: Path) -> None:
    text = run("info", series)
    for words in ("6 in 1,201 rows", "every 1 min", "flat 6 jobs", "memory negative", "A row with an amount below 0"):
        assert words in text
    found = json.loads(run("info", series, "--json"))
    assert (found["jobs"], found["samples"], found["dropped"]) == (6, [200] * 5, {"memory negative": 1})


def test_fit_writes_parameters_that_make_draws_by(series: Path, tmp_path: Path) -> None:
    out, made = tmp_path / "p.toml", tmp_path / "made.csv.gz"
    assert "KS" in run("fit", series, "--out", out)
    assert set(json.loads(run("fit", series, "--json"))["distance"]) == {
        "mean over peak", "steps", "progress near peak"
    }  # fmt: skip
    assert "20 jobs, 20 curves" in run("make", "--shapes", out, "--jobs", 20, "--out", made)
    assert len(read_usage(made)) == 20


def test_thin_writes_a_tidy_file_that_reads_back(series: Path, tmp_path: Path) -> None:
    out = tmp_path / "tidy.parquet"
    text = run("thin", series, "--out", out, "--error", 0.1)
    assert "6 jobs, 6 points of 1,200 samples" in text
    assert "nowhere below" in text
    again = read_usage(out)
    assert again.amount.tolist() == [106, 206, 306, 406, 506, 606]
    assert again.run_s.tolist() == [12_000] * 6
    assert pl.read_parquet(out).columns == ["job", "progress", "mb", "run_s"]


def test_shares_stay_shares(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("pod,time_s,memory_share\na,0,0.25\na,9,0.5\n")
    run("thin", tmp_path / "s.csv", "--out", tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "job,progress,memory_share,run_s\na,0.0,0.25,18.0\na,0.5,0.5,18.0\n"


def test_make_draws_the_same_bytes_for_the_same_seed(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("make", "--shapes", "grizzly", "--jobs", 30, "--seed", seed, "--out", tmp_path / f"{name}.csv.gz")
    first, second, other = ((tmp_path / f"{name}.csv.gz").read_bytes() for name in "abc")
    assert first == second != other
    assert read_usage(tmp_path / "a.csv.gz").sized


def test_columns_without_names_are_given_by_options(tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text("x,0,512\nx,300,1024\n")
    options = ["-o", "columns.job=1", "-o", "columns.time=2", "-o", "columns.memory=3", "-o", "memory_unit=KB"]
    assert json.loads(run("info", tmp_path / "bare.csv", *options, "--json"))["peak"] == [1.0] * 5


@pytest.mark.parametrize(
    "words",
    [
        ("info", "FILE", "-o", "colour=1"),
        ("thin", "FILE", "--out", "x.txt"),
        ("make", "--out", "x.json"),
        ("fit", "FILE", "--out", "x.csv"),
        ("make", "--shapes", "nothing", "--out", "x.csv"),
        ("thin", "FILE", "--out", "no/such/folder/x.csv"),
    ],
)
def test_what_cannot_be_is_refused(series: Path, words: tuple[str, ...]) -> None:
    given = [str(series) if word == "FILE" else word for word in words]
    with pytest.raises(InputError):
        CliRunner().invoke(app, ["usage", *given], catch_exceptions=False)
