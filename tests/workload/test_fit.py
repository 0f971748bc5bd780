from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import InputError
from unrack.report.charts.compare import drawn as chart
from unrack.report.charts.compare import spec_of
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.writers import write_trace
from unrack.workload.generate.batch.curve import along, distance
from unrack.workload.generate.batch.fit import fit
from unrack.workload.generate.batch.generator import PARAMETERS, batch_parameters, generate_batch
from unrack.workload.generate.batch.model import MODELS

PAGE = (Path(__file__).parents[2] / "docs" / "generators.md").read_text(encoding="utf-8")
LOGS = {
    "llnl-atlas": ("swf/LLNL-Atlas-2006-2.1-cln.swf.gz", {"procs_per_task": 8}, None),
    "kth-sp2": ("swf/KTH-SP2-1996-2.1-cln.swf.gz", {}, None),
    "cirne-anl": ("memory/anl-1024n-1838-jobmix50.csv", {}, 1024),
}


@pytest.mark.parametrize("name", ["kth-sp2", "llnl-atlas"])
def test_a_fit_finds_again_the_parameters_that_drew_the_jobs(name: str) -> None:
    model = batch_parameters(name)
    drawn = generate_batch({"model": "cirne", "nodes": model.sizes.nodes, "jobs": 25_000, "parameters": name}, seed=8)
    again = fit(drawn, model.sizes.nodes).model
    assert again.arrivals.jobs_per_day == pytest.approx(model.arrivals.jobs_per_day, rel=0.05)
    assert again.arrivals.gap_shape == pytest.approx(model.arrivals.gap_shape, rel=0.1)
    assert np.allclose(again.arrivals.hour, model.arrivals.hour, atol=0.2)
    assert np.allclose(again.arrivals.weekday, model.arrivals.weekday, atol=0.15)
    assert again.sizes.serial_share == pytest.approx(model.sizes.serial_share, abs=0.01)
    assert again.sizes.power_share == pytest.approx(model.sizes.power_share, abs=0.015)
    part = (np.arange(2000) + 0.5) / 2000
    assert distance(along(again.request_s, part), along(model.request_s, part)) < 0.06
    for status, ending in model.endings.items():
        found = again.endings[status]
        assert found.share == pytest.approx(ending.share, abs=0.015)
        assert found.at_limit == pytest.approx(ending.at_limit, abs=0.03)
    assert model.links is not None
    assert again.links is not None
    weight = np.array(model.links.jobs)
    off = np.abs(np.array(again.links.accuracy_mean) - np.array(model.links.accuracy_mean))
    assert (off * weight).sum() < 0.15
    assert np.allclose(again.links.jobs, weight, atol=0.04)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_parameters_shipped_are_those_that_their_log_gives(name: str, data: Path) -> None:
    file, options, nodes = LOGS[name]
    assert fit(read_trace(data / file, **options), nodes).model == batch_parameters(name)


@pytest.mark.parametrize("name", PARAMETERS)
def test_what_is_drawn_is_close_to_the_log(name: str, data: Path) -> None:
    file, options, nodes = LOGS[name]
    found = fit(read_trace(data / file, **options), nodes)
    farthest = {marginal.name: marginal.distance for marginal in found.marginals}
    assert max(farthest.values()) < (0.05 if name == "cirne-anl" else 0.11), farthest
    assert farthest["hour of day"] < 0.02
    for log, drawn in found.together.values():
        assert drawn == pytest.approx(log, abs=0.12)


def test_the_shape_that_a_public_log_gives_is_like_that_of_the_original_generator(data: Path) -> None:
    original = read_trace(data / LOGS["cirne-anl"][0]).jobs
    ours = generate_batch({"model": "cirne", "nodes": 1024, "jobs": 20_000, "load": 0.9}, seed=1).jobs

    def shape(jobs: object) -> dict[str, float]:
        size, run, request = jobs.tasks, jobs.work_us / 1e6, jobs.request_us / 1e6  # type: ignore[attr-defined]
        accuracy = run / request
        hours = np.bincount((jobs.submit_us // 3_600_000_000) % 24, minlength=24)  # type: ignore[attr-defined]
        return {
            "serial": (size == 1).mean(),
            "powers of two": ((size & (size - 1)) == 0).mean(),
            "log2 of size": np.log2(size).mean(),
            "ln of run": np.log(np.maximum(run, 1)).mean(),
            "ln of request": np.log(request).mean(),
            "accuracy": accuracy.mean(),
            "poor accuracy": (accuracy < 0.1).mean(),
            "at the limit": (accuracy == 1).mean(),
            "busy over quiet hours": np.sort(hours)[-8:].mean() / np.sort(hours)[:8].mean(),
        }

    theirs, mine = shape(original), shape(ours)
    within = {"serial": 0.15, "powers of two": 0.1, "log2 of size": 1.0, "ln of run": 1.0, "ln of request": 1.0,
              "accuracy": 0.08, "poor accuracy": 0.15, "at the limit": 0.06, "busy over quiet hours": 3.0}  # fmt: skip
    assert {name: (theirs[name], mine[name]) for name in within if abs(theirs[name] - mine[name]) > within[name]} == {}


def test_a_log_without_requests_is_fitted_with_runs_as_requested(data: Path) -> None:
    found = fit(read_trace(data / "swf/NASA-iPSC-1993-3.1-cln.swf.gz"))
    assert found.model.sizes.nodes == 128
    assert found.model.sizes.power_share == 1
    assert {marginal.name: marginal.distance for marginal in found.marginals}["run time"] < 0.05


def test_a_log_of_few_jobs_or_of_a_larger_system_is_refused() -> None:
    drawn = generate_batch({"model": "cirne", "nodes": 64, "jobs": 19})
    with pytest.raises(InputError, match="20 or more"):
        fit(drawn)
    with pytest.raises(InputError, match="a job of that size"):
        fit(generate_batch({"model": "cirne", "nodes": 64, "jobs": 200}, seed=1), nodes=2)


def test_the_chart_has_a_view_for_each_property_with_log_and_model() -> None:
    found = fit(generate_batch({"model": "cirne", "nodes": 64, "jobs": 200}, seed=1))
    views = spec_of(found)["concat"]
    assert len(views) == len(found.marginals) == 8
    for view in views:
        assert {row["of"] for row in view["data"]["values"]} == {"log", "model"}
    shares = [row["y"] for row in views[0]["data"]["values"] if row["of"] == "log"]
    assert sum(shares) == pytest.approx(1, abs=1e-4)
    assert chart(found, ".svg").startswith(b"<svg")


def test_the_command_writes_parameters_that_a_study_can_use(tmp_path: Path) -> None:
    made = generate_batch({"model": "cirne", "nodes": 64, "jobs": 400, "parameters": "kth-sp2"}, seed=1)
    write_trace(tmp_path / "log.swf", made)
    out, plot = tmp_path / "own.toml", tmp_path / "fit.html"
    done = CliRunner().invoke(app, ["trace", "fit", str(tmp_path / "log.swf"), "--out", str(out), "--plot", str(plot)])
    assert done.exit_code == 0, done.output
    assert "Log and model" in done.output
    assert "run and accuracy" in done.output
    assert out.read_text().startswith("# unrack trace fit log.swf\n")
    assert "vega" in plot.read_text()[:3_000_000]
    spec = tmp_path / "spec.toml"
    spec.write_text('model = "cirne"\nnodes = 64\njobs = 30\nparameters = "own.toml"\n')
    done = CliRunner().invoke(app, ["trace", "make", str(spec), str(tmp_path / "more.swf")])
    assert done.exit_code == 0, done.output
    assert len(read_trace(tmp_path / "more.swf")) == 30


def test_the_command_prints_json_and_refuses_other_endings(tmp_path: Path) -> None:
    made = generate_batch({"model": "lublin", "nodes": 64, "jobs": 100}, seed=1)
    write_trace(tmp_path / "log.csv", made)
    done = CliRunner().invoke(app, ["trace", "fit", str(tmp_path / "log.csv"), "--json"])
    answer = json.loads(done.output)
    assert answer["jobs"] == 100
    assert 0 <= answer["distance"]["size"] < 0.2
    assert batch_parameters(answer["parameters"]).sizes.nodes >= 1
    for option, name in (("--plot", "fit.pdf"), ("--out", "own.json")):
        done = CliRunner().invoke(app, ["trace", "fit", str(tmp_path / "log.csv"), option, name])
        assert isinstance(done.exception, InputError | SystemExit)
        assert done.exit_code != 0


def test_the_page_describes_models_and_parameters_and_its_example_can_be_drawn() -> None:
    for name, words in MODELS.items():
        assert f"| `{name}` | {words} |" in PAGE
    for name, words in PARAMETERS.items():
        assert f"| `{name}` | {words} |" in PAGE
    text = PAGE.split("## Batch models")[1].split("```toml\n")[1].split("```")[0]
    spec = tomllib.loads(text)["workloads"]["generate"]
    assert len(generate_batch({**spec, "jobs": 50})) == 50
