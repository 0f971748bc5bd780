"""Six jobs on one machine: who is where, and what is drawn and printed of it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from gpu_pretend import tiny
from typer.testing import CliRunner

from unrack.cli import main as command_line
from unrack.errors import InputError
from unrack_papers.amaral.machines import AWARE, BEST_FIT, POSTPONING
from unrack_papers.amaral.pairs import ACROSS, BELOW, MACHINE, MAKESPAN, TABLE_7, X, six_jobs
from unrack_papers.amaral.times import alone_s, of_the_text_s, times_file
from unrack_papers.measured import Measured
from unrack_papers.pages.page import judged
from unrack_papers.verdict import Verdict


def value(found: Measured, row: str, label: str) -> float:
    own = found.at((MACHINE, X, row), label)
    assert own is not None
    return own.mean


def test_the_jobs_are_those_of_table_7() -> None:
    jobs = six_jobs(None).jobs
    assert jobs.submit_us.tolist() == [510_000, 15_030_000, 24_360_000, 25_330_000, 29_330_000, 29_890_000]
    assert jobs.devices["gpus", "count"].tolist() == [1, 1, 1, 2, 2, 2]
    assert jobs.devices["gpus", "min_utility"].tolist() == [3000, 3000, 3000, 5000, 5000, 5000]
    assert jobs.work_us[0] == 70_000_000


def test_waiting_for_a_socket_ends_sooner_and_below_no_least_utility() -> None:
    found = tiny("gpu-timeline")
    assert value(found, POSTPONING.name, MAKESPAN.label) < 0.9 * value(found, AWARE.name, MAKESPAN.label)
    assert value(found, POSTPONING.name, BELOW.label) == 0 < value(found, BEST_FIT.name, BELOW.label)
    assert value(found, POSTPONING.name, ACROSS.label) == 0 < value(found, BEST_FIT.name, ACROSS.label)


def test_every_job_is_drawn_on_all_its_gpus_and_no_gpu_has_two_jobs() -> None:
    found = tiny("gpu-timeline")
    lines = found.reproduction.draw(found)["data"]["values"]
    for panel in {line["panel"] for line in lines}:
        own = [line for line in lines if line["panel"] == panel]
        assert len(own) == sum(job.gpus for job in TABLE_7)
        for gpu in {line["gpu"] for line in own}:
            spans = sorted((line["from"], line["to"]) for line in own if line["gpu"] == gpu)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_measured_times_give_the_published_order_and_a_smaller_gain(data: Path) -> None:
    found = tiny("gpu-timeline", times=str(data / "gpu" / "minsky-caffe-times.csv"))
    assert value(found, BEST_FIT.name, MAKESPAN.label) == pytest.approx(431.33, abs=0.01)
    assert value(found, POSTPONING.name, MAKESPAN.label) == pytest.approx(393.13, abs=0.01)
    differs, agrees = Verdict.DIFFERS, Verdict.AGREES
    assert [finding.verdict for _, finding in judged(found)] == [differs, agrees, differs, agrees, agrees]


def test_times_of_the_text_are_written_as_a_file_of_times_and_unknown_ones_refused() -> None:
    with times_file(None) as path:
        assert alone_s(path, "googlenet/64", 2) == pytest.approx(of_the_text_s(64))
        with pytest.raises(InputError, match="alexnet/3"):
            alone_s(path, "alexnet/3", 1)
    assert not Path(path).exists()


def test_the_page_names_the_file_and_no_folder(tmp_path: Path) -> None:
    with times_file(None) as path:
        arguments = ["reproduce", "gpu-timeline", "--times", path, "--out", str(tmp_path)]
        done = CliRunner().invoke(command_line.app, arguments)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "gpu-timeline-times.md").read_text()
    assert "unrack reproduce gpu-timeline --times times.csv`" in page
    assert path not in page
    refused = CliRunner().invoke(command_line.app, ["reproduce", "gpu-timeline", "--pods", "x"])
    assert refused.exit_code != 0
