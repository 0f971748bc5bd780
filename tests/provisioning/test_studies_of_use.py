"""Studies in which memory follows use: what is kept, told again, refused, and said to have no effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from curves_by_hand import usage_curves
from used_worlds import job, nodes, run, table, work

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import InputError, StudyError
from unrack.sim.simulate import simulate
from unrack.study.grid import load_study
from unrack.study.results.from_folder import finished_run
from unrack.study.runner import run_study
from unrack.workload.usage.curves import curves_again, curves_frame

STUDY = """
name = "use"
policies = [{ name = "disaggregated", scheduler = "easy", provisioning = "dynamic", label = "dynamic" },
            { name = "disaggregated", scheduler = "easy", label = "static" }]
%s
[[clusters]]
name = "four"
nodes = [{ count = 4, cores = 4, memory = "1 GB" }]
lending = "all"
[[workloads]]
generate = { jobs = 12, arrivals = { gap_s = 60 }, classes = [{ run_s = 2000, cores = 4, memory_mb = 800, tasks = 1 }] }
usage = { shapes = "google" }
overestimate = 0.5
"""


def study(folder: Path, more: str = "") -> Path:
    path = folder / "use.toml"
    path.write_text(STUDY % more)
    return path


def test_metrics_of_use_are_over_the_looks_that_were_taken(tmp_path: Path) -> None:
    """Two jobs, one after the other on a node, hold 800 MB of its 1000 and use 400 from 0 to 1000 s."""
    path = tmp_path / "jobs.csv"
    path.write_text("id,submit,run,memory,used_mb\n1,0,500,800,400\n2,0,500,800,400\n")
    workload = unrack.filtered(unrack.read_trace(path), {"usage": {"column": "used_mb"}})
    cluster = Cluster.homogeneous(nodes=1, cores=1, memory=1000)
    names = ("memory_used", "memory_held_unused", "memory_overcommit_max")
    found = []
    for window_s in (None, (0, 290), (610, 800)):  # looks are at 300, 600 and 900 s
        window = None if window_s is None else (window_s[0] * 1_000_000, window_s[1] * 1_000_000)
        metrics = simulate(cluster, workload, "easy", window_us=window).metrics
        found.append([metrics[name] for name in names])
    assert found == [[0.4, 0.5, 0.8], [None] * 3, [0.4, 0.5, 0.8]]


def test_a_run_can_be_told_again_from_what_it_left(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_study(load_study(str(study(tmp_path))), out)
    again = finished_run(out, "dynamic")
    story = again.story("3")
    held = again.holdings().filter(pl.col("job") == 3)
    assert story.attempts[0].start_us == round(held["start_s"].min() * 1e6)  # type: ignore[operator]
    assert len(story.attempts[0].changes) == held["span"].n_unique() - 1
    assert story.attempts[0].changes
    record = json.loads((again.folder / "run.json").read_text())
    assert record["metrics"]["memory_used"] > 0
    memory = pl.read_parquet(again.folder / "memory.parquet")
    assert (memory["used_mb"] <= memory["held_mb"]).all()
    assert (memory["held_mb"] <= 4096).all()


def test_the_same_study_twice_leaves_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run_study(load_study(str(study(tmp_path))), tmp_path / name)
    for path in sorted((tmp_path / "a" / "runs").glob("*/*.parquet")):
        other = tmp_path / "b" / path.relative_to(tmp_path / "a")
        assert path.read_bytes() == other.read_bytes(), path.name


def test_curves_survive_being_a_table() -> None:
    curves = usage_curves([[], [[(0, 3), (0.5, 7)]], [[(0, 1)], [(0, 2), (0.25, 4)]], []])
    again = curves_again(curves_frame(curves), 4)
    for name in ("first", "point", "at", "mb"):
        assert getattr(again, name).tolist() == getattr(curves, name).tolist()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("[memory_changes]\nbandwith = 3\n", "bandwith"),
        ('[memory_changes]\nbandwidth = "fast"\n', "rate"),
        ('[memory_changes]\ncheckpoint_every = "0 s"\n', "checkpoint_every"),
    ],
)
def test_costs_that_cannot_be_are_refused_with_their_place(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        load_study(str(study(tmp_path, more)))


def test_curves_that_cannot_be_are_refused() -> None:
    for curves, words in (
        ([[[(0.1, 3)]]], "progress 0"),
        ([[[(0, 3), (0, 4)]]], "rises"),
        ([[[(0, 3), (1.0, 4)]]], "below 1"),
        ([[[(0, -3)]]], "0 MB or more"),
    ):
        with pytest.raises(InputError, match=words):
            usage_curves(curves)
    with pytest.raises(InputError, match="one a task"):
        table(job(0, 10, 5, [(0, 1)], [(0, 2)], tasks=3))


def notes(policy: str, **how: Any) -> tuple[str, ...]:
    return run(nodes(100, 100), policy, job(0, 10, 5, [(0, 1)]), **how).notes


def test_what_has_no_effect_is_said() -> None:
    dynamic = "disaggregated(scheduler=easy, provisioning=dynamic)"
    assert not any("provisioning" in note for note in notes(dynamic))
    assert not any("changes" in note for note in notes(dynamic, changes={"pause": 1}))
    assert not any("growth" in note for note in notes("easy(provisioning=dynamic, growth=1)"))
    assert any(
        "growth" in note and "reserves nothing" in note for note in notes("fcfs(provisioning=dynamic, growth=1)")
    )
    static = "disaggregated(scheduler=easy)"
    assert any("changes no job's memory" in note for note in notes(static, changes={"pause": 1}))
    checkpoints = {"checkpoint_every": 5, "checkpoint_cost": 1}
    assert not any("changes no job" in note for note in notes(static, changes=checkpoints))
    plain = work(table(job(0, 10, 5)).__class__(**{**vars(table(job(0, 10, 5))), "usage": None}))
    assert any("what jobs use is not known" in note for note in simulate(nodes(100), plain, dynamic).notes)
