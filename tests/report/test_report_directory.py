import json
import shutil

import pytest
from fabricate import make_study

from unrack.cli.study.finished import report
from unrack.errors import InputError
from unrack.report.setting import read_finished


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("base") / "study", jobs=10, policies=("fcfs",))


@pytest.fixture
def study(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "study")


@pytest.mark.parametrize("missing", ["study.toml", "summary.csv", "runs"])
def test_a_directory_without_a_part_of_a_study_is_refused_by_name(study, missing):
    path = study / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match=rf"without {missing}.*finished study"):
        read_finished(study)


@pytest.mark.parametrize("missing", ["run.json", "jobs.parquet", "usage.parquet", "placements.parquet"])
def test_a_run_without_one_of_its_files_is_refused_by_name(study, missing):
    (study / "runs" / "log--000" / missing).unlink()
    with pytest.raises(InputError, match=f"log--000: got no {missing}"):
        read_finished(study)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("study.toml", "a = ", "broken TOML"),
        ("summary.csv", "", "summary.csv"),
        ("summary.csv", "run,wait\n", "no runs"),
        ("summary.csv", "wait\n1\n", "column run first"),
        ("runs/log--000/run.json", "{", "line 1"),
        ("runs/log--000/run.json", "[]", "run.json"),
        ("runs/log--000/run.json", '{"id": "a", "cluster": {}, "workload": {}, "policy": 1}', "policy"),
    ],
)
def test_a_broken_file_is_refused_with_what_is_wrong(study, name, text, words):
    (study / name).write_text(text)
    with pytest.raises(InputError, match=words):
        read_finished(study)


def test_a_broken_table_is_refused_when_it_is_read(study):
    (study / "runs" / "log--000" / "jobs.parquet").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"jobs\.parquet.*Parquet"):
        report(study)


def test_a_directory_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such directory"):
        report(tmp_path / "nowhere")


def test_the_command_prints_the_path_of_the_page(study, capsys):
    report(study)
    assert capsys.readouterr().out.strip() == str(study / "report.html")
    assert (study / "report.html").stat().st_size > 500_000


def test_columns_that_a_run_does_not_have_are_left_out(study):
    run = read_finished(study).runs[0]
    assert run.frame("jobs", ("job", "nothing")).columns == ["job"]
    record = json.loads((study / "runs" / "log--000" / "run.json").read_text())
    assert run.metrics == record["metrics"]
