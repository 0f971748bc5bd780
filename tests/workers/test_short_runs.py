"""What a run costs beyond itself where runs are short and many."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unrack.study import runner
from unrack.study.grid import Run, load_study
from unrack.study.runner import keep_runs
from unrack.study.workers.shared import Answer, Workers, answers

STUDY = """
policies = ["fcfs"]

[[clusters]]
nodes = [{ count = 4, cores = 4 }]

[[workloads]]
generate = { jobs = 20, arrivals = { gap_s = 5 }, classes = [{ run_s = 30, tasks = 2, cores = 3 }] }
"""
RUNS = 10_000
MOST_S = 0.02


def many(run: Run, count: int) -> list[Run]:
    return [replace(run, id=f"run-{seed}", seed=seed) for seed in range(count)]


@pytest.mark.slow
def test_ten_thousand_short_runs_cost_under_20_ms_each_beyond_the_run_itself(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's time that is not spent on runs: waiting, sending, being sent to; on the clock of the worker."""
    (tmp_path / "study.toml").write_text(STUDY)
    run = load_study(str(tmp_path / "study.toml")).runs[0]
    keep_runs(workers, many(run, 20), tmp_path / "first")  # all have loaded their code
    spent_s = 0.0

    def counted(*given: Any, **more: Any) -> Iterator[tuple[int, Answer]]:
        nonlocal spent_s
        for place, answer in answers(*given, **more):
            spent_s += answer.took_s
            yield place, answer

    monkeypatch.setattr(runner, "answers", counted)
    began = time.perf_counter()
    rows = keep_runs(workers, many(run, RUNS), tmp_path / "out")
    took_s = time.perf_counter() - began
    beyond_s = (took_s * workers.count - spent_s) / RUNS
    assert len(rows) == RUNS
    assert spent_s > 0
    assert beyond_s < MOST_S, f"{spent_s / RUNS:.4f} s a run itself, {beyond_s:.4f} beyond it"
