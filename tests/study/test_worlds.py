"""The world of a row: one for all unless a row says otherwise, and then it says so everywhere."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import PolicyError, StudyError
from unrack.report.answer import answer
from unrack.report.page import render
from unrack.report.setting import read_finished, settings_of
from unrack.report.table import comparison
from unrack.study.grid import Study, load_study
from unrack.study.results.from_folder import finished_run
from unrack.study.runner import run_study

TEXT = """
models = ["smufin"]
policies = ["first-fit", { name = "first-fit", world = "base" }, "max-composition"]

[[clusters]]
preset = "nvme-pool"

[[workloads]]
name = "S1"
generate = { scenario = "nvme-s1", load = 0.7, jobs = 60 }
"""
LABELS = ["first-fit", "first-fit, world=base", "max-composition"]
OWN = """
from unrack.policy.table import parse_policy
MINE = parse_policy("first-fit", "mine")
"""


def study(folder: Path, text: str = TEXT) -> Study:
    (folder / "study.toml").write_text(text)
    return load_study(str(folder / "study.toml"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Study]:
    folder = tmp_path_factory.mktemp("worlds")
    loaded = study(folder)
    run_study(loaded, folder / "out")
    return folder / "out", loaded


def test_all_rows_run_in_the_world_of_the_study_but_those_that_say_otherwise(tmp_path: Path) -> None:
    runs = study(tmp_path).runs
    assert [run.policy.label for run in runs] == LABELS
    assert [len(run.world.models) for run in runs] == [1, 0, 1]
    assert "first-fit-world-base" in runs[1].id
    assert len({run.id.rpartition("-")[2] for run in runs}) == 3


def test_the_base_world_is_that_of_a_study_without_models(finished: tuple[Path, Study], tmp_path: Path) -> None:
    directory, loaded = finished
    bare = study(
        tmp_path, TEXT.replace('models = ["smufin"]', "").replace('{ name = "first-fit", world = "base" }, ', "")
    )
    run_study(bare, tmp_path / "out")
    here, there, base = (
        pl.read_parquet(path / "runs" / run.id / "jobs.parquet")
        for path, run in ((directory, loaded.runs[0]), (tmp_path / "out", bare.runs[0]), (directory, loaded.runs[1]))
    )
    assert base.equals(there)
    assert not base.equals(here)


def test_every_table_of_a_finished_study_says_the_world(finished: tuple[Path, Study]) -> None:
    directory, loaded = finished
    summary = pl.read_csv(directory / "summary.csv")
    assert summary["policy"].to_list() == LABELS
    assert summary["world"].to_list() == ["study", "base", "study"]
    records = [json.loads((directory / "runs" / run.id / "run.json").read_text()) for run in loaded.runs]
    assert [record["world"] for record in records] == ["study", "base", "study"]
    assert ["models" in record for record in records] == [True, False, True]
    assert records[1]["policy_table"] == {"name": "first-fit", "label": LABELS[1], "world": "base"}
    page = render(read_finished(directory))
    assert "first-fit, world=base" in page
    assert "Rows of world=base ran without the study's models and contention, and are compared among" in unescape(page)


def test_there_is_no_column_of_worlds_where_there_is_one(tmp_path: Path) -> None:
    loaded = study(tmp_path, TEXT.replace('{ name = "first-fit", world = "base" }, ', ""))
    assert all("world" not in row for row in run_study(loaded, tmp_path / "out"))


def test_nothing_is_the_best_of_two_worlds(finished: tuple[Path, Study]) -> None:
    settings = settings_of(read_finished(finished[0]).runs)
    first, *others = answer(settings)
    assert "world=base" in first
    assert not any("world=base" in sentence for sentence in others)
    ((_, rows),) = comparison(settings).groups
    assert not any(cell.mark for row in rows if row.policy == "first-fit, world=base" for cell in row.cells)
    assert any(cell.mark for row in rows if row.policy == "first-fit" for cell in row.cells)


def test_a_study_as_it_was_resolved_is_the_same_study(finished: tuple[Path, Study]) -> None:
    directory, loaded = finished
    again = load_study(str(directory / "study.toml"))
    assert [(run.id, run.policy.world, run.policy.label) for run in again.runs] == [
        (run.id, run.policy.world, run.policy.label) for run in loaded.runs
    ]


def test_a_job_is_explained_in_the_world_of_its_run(finished: tuple[Path, Study]) -> None:
    directory, loaded = finished
    for run in loaded.runs:
        frame = pl.read_parquet(directory / "runs" / run.id / "jobs.parquet")
        job = frame.filter(pl.col("app") == "smufin")["job"][0]
        end_s = frame.filter(pl.col("job") == job)["end_s"][0]
        story = finished_run(directory, run.policy.label).story(str(job))
        assert story.attempts[-1].end_us == round(end_s * 1e6)
    shown = CliRunner().invoke(app, ["explain", str(directory), "1", "--run", LABELS[1]])
    assert "under first-fit, world=base" in shown.output


@pytest.mark.parametrize(
    ("entry", "label"),
    [
        ('"first-fit, world=base"', "first-fit, world=base"),
        ('"first-fit(order=fcfs), world=base"', "first-fit(order=fcfs), world=base"),
        ('{ name = "first-fit", order = "fcfs", world = "base" }', "first-fit(order=fcfs), world=base"),
        ('{ name = "first-fit", label = "FF", world = "base" }', "FF, world=base"),
        ('{ name = "first-fit", label = "FF", world = "study" }', "FF"),
        ('{ file = "mine.py:MINE", world = "base" }', "mine, world=base"),
        ('"mine.py:MINE, world=base"', "mine, world=base"),
    ],
)
def test_a_world_is_said_in_the_label_however_it_is_written(tmp_path: Path, entry: str, label: str) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    run = study(tmp_path, TEXT.replace('{ name = "first-fit", world = "base" }', entry)).runs[1]
    assert run.policy.label == label
    assert bool(run.world.models) == ("base" not in label)


def test_a_world_can_be_swept_and_added_on_the_command_line(tmp_path: Path) -> None:
    one = TEXT.replace('["first-fit", { name = "first-fit", world = "base" }, "max-composition"]', '["first-fit"]')
    swept = study(tmp_path, one + '[sweep]\n"policies.world" = ["study", "base"]\n')
    assert [run.policy.world for run in swept.runs] == ["study", "base"]
    (tmp_path / "one.toml").write_text(one)
    added = load_study(str(tmp_path / "one.toml"), policies=["first-fit, world=base"])
    assert [run.policy.world for run in added.runs] == ["study", "base"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('{ name = "first-fit", world = "bse" }', ["policies[1]", "'bse'", "'study'", "'base'"]),
        ('"first-fit, world=bse"', ["policies[1]", "'bse'", "'study'", "'base'"]),
        ('"first-fit(models=on)"', ["policies[1]", "first-fit, models", "'on'", 'world = "base"']),
        ('{ name = "first-fit", models = "off" }', ["policies[1]", "first-fit, models", "'off'", 'world = "base"']),
    ],
)
def test_a_wrong_world_is_refused(tmp_path: Path, entry: str, words: list[str]) -> None:
    with pytest.raises((StudyError, PolicyError)) as error:
        study(tmp_path, TEXT.replace('{ name = "first-fit", world = "base" }', entry))
    assert all(word in str(error.value) for word in words), str(error.value)
