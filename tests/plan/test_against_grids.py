"""Plans of small studies against exhaustive grids over the same seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from unrack.plan.answer import answer
from unrack.plan.execute import Plan, execute
from unrack.plan.goal import read_goal, with_served
from unrack.plan.settings import Vary, make_settings, read_vary
from unrack.study.grid import load_study
from unrack.study.input.inputs import Document
from unrack.study.runner import simulated
from unrack.study.workers.table import open_workers, parse_on

SEEDS = 6
BATCH = """policies = [{policies}]
[[clusters]]
nodes = [{{count = 4, cores = 8, memory = "16 GB"}}]
[[workloads]]
name = "some"
[workloads.generate]
jobs = 60
arrivals = {{gap_s = {gap}}}
[[workloads.generate.classes]]
run_s = {{kind = "exponential", mean = 300}}
tasks = {{kind = "uniform", min = 1, max = 6}}
cores = {{kind = "uniform", min = 1, max = 8}}
memory_mb = {{kind = "uniform", min = 100, max = 9000}}
"""
POOLED = """policies = [{policies}]
models = ["smufin"]
[[clusters]]
preset_is_written_out = "no"
[[workloads]]
generate = {{scenario = "nvme-s1", load = {load}, jobs = 80}}
""".replace(
    'preset_is_written_out = "no"\n',
    """nodes = [{{count = 5, cores = 25}}]
pools = [{{kind = "nvme", count = 10, quantities = {{bandwidth_mb_s = "2 GB/s", capacity_mb = "600 GB"}}}}]
""",
)
COUNT, MEMORY, DRIVES = "clusters.0.nodes.0.count", "clusters.0.nodes.0.memory", "clusters.0.pools.0.count"


class Problem(NamedTuple):
    text: str
    goals: Sequence[str]
    varies: Sequence[str]
    share: float = 0.8


def batch(policies: str, gap: float) -> str:
    return BATCH.format(policies=policies, gap=gap)


def pooled(policies: str, load: float) -> str:
    return POOLED.format(policies=policies, load=load)


PROBLEMS = [
    *(Problem(batch("'easy'", gap), [f"wait_s_p95 < {wait} s"], [f"{COUNT}=2..12"])
      for gap, wait in ((60, 600), (60, 60), (30, 1200), (30, 2000), (90, 5))),
    *(Problem(batch(f"'{policy}'", 60), ["wait_s_mean < 2 min"], [f"{COUNT}=2..10"], share)
      for policy, share in (("fcfs", 0.5), ("fcfs", 1.0), ("conservative", 0.8), ("easy(order=sjf)", 0.7))),
    Problem(batch("'fcfs', 'easy'", 40), ["bounded_slowdown_mean < 4", "utilisation_cores > 30 %"], [f"{COUNT}=3..12"]),
    Problem(batch("'easy'", 60), ["served > 60 %", "wait_s_mean < 10 min"], [f"{COUNT}=1..6"]),
    Problem(batch("'easy'", 60), ["served >= 99 %"], [f"{COUNT}=1..8"]),
    Problem(batch("'easy'", 60), ["wait_s_p95 < 15 min"], [f"{COUNT}=3..8", f"{MEMORY}=8 GB,12 GB,16 GB"]),
    Problem(batch("'disaggregated'", 60), ["wait_s_mean < 5 min"], [f"{COUNT}=3..6", f"{MEMORY}=2..8 GB/2"]),
    Problem(batch("'easy'", 60), ["wait_s_mean < 0.001 s"], [f"{COUNT}=2..4"]),
    *(Problem(pooled(f"'{policy}'", load), [f"missed_deadlines <= {missed} %"], [f"{DRIVES}=2..14"])
      for policy, load, missed in (
          ("first-fit", 0.6, 20), ("disaggregation-aware", 0.6, 5), ("best-fit", 0.7, 30),
          ("min-fragmentation", 0.5, 10))),
    Problem(pooled("'first-fit', 'disaggregation-aware'", 0.7), ["wait_s_p95 < 10 min"], [f"{DRIVES}=1..12"]),
]  # fmt: skip


def document(tmp_path: Path, text: str) -> Document:
    (tmp_path / "study.toml").write_text(text)
    return Document.read(tmp_path / "study.toml")


def planned(tmp_path: Path, problem: Problem, processes: int = 1, out: str = "out", **said: Any) -> dict[str, Any]:
    written = document(tmp_path, problem.text)
    settings = make_settings(
        written,
        [read_goal(goal) for goal in problem.goals],
        [read_vary(vary) for vary in problem.varies],
        **{"share": problem.share, "seeds": SEEDS, **said},
    )
    plan = Plan(written, settings)
    with open_workers(parse_on("processes"), processes) as workers:
        return answer(plan, execute(plan, workers, tmp_path / out))


def grid(tmp_path: Path, problem: Problem, label: str, varies: Sequence[Vary]) -> dict[str, int]:
    """Values of every system as JSON → on how many seeds it meets the goals, all run."""
    sweep = "".join(f"'{vary.key}' = {json.dumps(list(vary.values))}\n" for vary in varies)
    written = document(tmp_path, f"{problem.text}\n[sweep]\n{sweep}")
    study = load_study(str(tmp_path / "study.toml"), document=Document(
        written.path, written.folder, {**written.table, "seeds": SEEDS}))  # fmt: skip
    goals = with_served(tuple(read_goal(goal) for goal in problem.goals))
    met: dict[str, int] = {}
    for run in study.runs:
        if run.policy.label == label:
            values = simulated(run).metrics
            key = json.dumps(dict(run.parameters))
            met[key] = met.get(key, 0) + all(goal.met(values[goal.metric]) for goal in goals)
    return met


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(PROBLEMS)))
def test_the_answer_is_the_cheapest_of_the_exhaustive_grid(number: int, tmp_path: Path) -> None:
    problem = PROBLEMS[number]
    found = planned(tmp_path, problem)
    need = -(-round(problem.share * SEEDS * 1000) // 1000)
    for line in found["lines"]:
        met = grid(tmp_path, problem, line["policy"], [read_vary(vary) for vary in problem.varies])
        good = {key for key, count in met.items() if count >= need}
        if not good:
            assert line["answer"] is None
            continue
        own = line["answer"]
        assert json.dumps(own["values"]) in good
        cheaper = [one for one in line["tried"] if one["cost"]["total"] < own["cost"]["total"]]
        assert not any(json.dumps(one["values"]) in good for one in cheaper)
        assert len(cheaper) + line["believed"] >= sum(1 for one in line["tried"] if one["verdict"] == "fails") - len(
            line["worse_above"]
        )
        for one in line["tried"]:
            if one["verdict"] in ("fails", "meets"):
                assert (json.dumps(one["values"]) in good) == (one["verdict"] == "meets"), one["values"]


def test_there_are_twenty_problems() -> None:
    assert len(PROBLEMS) >= 20


@pytest.mark.long
def test_the_answer_is_the_same_for_any_number_of_processes_and_when_resumed(tmp_path: Path) -> None:
    problem = PROBLEMS[9]
    first = json.dumps(planned(tmp_path, problem))
    assert json.dumps(planned(tmp_path, problem, processes=2, out="other")) == first
    kept = sorted((tmp_path / "out" / "runs").iterdir())
    written = {path: path.stat().st_mtime_ns for path in kept if path.is_dir()}
    assert json.dumps(planned(tmp_path, problem)) == first
    assert {path: path.stat().st_mtime_ns for path in kept if path.is_dir()} == written


def test_runs_are_shared_with_a_sweep_over_the_same_key(tmp_path: Path) -> None:
    problem = PROBLEMS[0]
    found = planned(tmp_path, problem)
    document(tmp_path, f"{problem.text}\n[sweep]\n'{COUNT}' = [2, 3, 4]\n")
    study = load_study(str(tmp_path / "study.toml"), seed=0)
    tried = {one["values"][COUNT] for one in found["lines"][0]["tried"]}
    kept = {path.name for path in (tmp_path / "out" / "runs").iterdir()}
    assert {run.id in kept for run in study.runs if run.parameters[COUNT] in tried} == {True}


@pytest.mark.long
def test_with_a_confidence_a_clear_case_is_decided_and_a_close_one_may_not_be(tmp_path: Path) -> None:
    clear = Problem(batch("'easy'", 60), ["wait_s_p95 < 100 min"], [f"{COUNT}=6..8"])
    own = planned(tmp_path, clear, share=None, confidence=0.95, seeds=20)["lines"][0]
    assert own["answer"]["seeds"] in (5, 10)
    count = own["answer"]["values"][COUNT]
    mean = own["answer"]["metrics"]["wait_s_p95"]["mean"]
    close = Problem(batch("'easy'", 60), [f"wait_s_p95 < {mean:.0f} s"], [f"{COUNT}={count}..9"])
    own = planned(tmp_path, close, out="close", share=None, confidence=0.99, seeds=10)["lines"][0]
    assert own["tried"][0]["verdict"] == "undecided"
    assert own["undecided"][0] == 0
    assert "cannot be decided with 10 seeds" in own["sentence"]


@pytest.mark.long
def test_a_goal_may_be_relative_to_a_reference(tmp_path: Path) -> None:
    goal = "throughput_jobs_per_h >= 90 % of reference"
    problem = Problem(batch("'easy', 'fcfs'", 30), [goal], [f"{COUNT}=2..12"], share=0.8)
    found = planned(tmp_path, problem, reference={COUNT: 12, "policy": "easy"})
    for line in found["lines"]:
        met = grid(tmp_path, problem._replace(goals=[]), line["policy"], [read_vary(f"{COUNT}=2..12")])
        assert len(met) == 11
        for one in line["tried"]:
            assert one["verdict"] != "meets" or one["goals"][0]["margin"] > -0.02
    assert 6 <= found["lines"][0]["answer"]["values"][COUNT] <= 12, "the reference itself meets it"


def test_what_is_least_may_be_a_key_or_a_metric(tmp_path: Path) -> None:
    text = batch("'easy'", 60)
    by_key = planned(tmp_path, Problem(text, ["wait_s_mean < 20 min"], [f"{COUNT}=9,3,6"]), objective=COUNT)
    assert by_key["lines"][0]["tried"][0]["values"] == {COUNT: 9}, "the first value is the least"
    problem = Problem(text, ["cost < 70000", "served > 50 %"], [f"{COUNT}=4..9"])
    by_wait = planned(tmp_path, problem, out="wait", objective="wait_s_mean", share=1.0)
    own = by_wait["lines"][0]
    good = [one for one in own["tried"] if one["verdict"] == "meets"]
    means = {one["values"][COUNT]: one["metrics"]["wait_s_mean"]["mean"] for one in good}
    assert 1 < len(means) < 6
    assert own["answer"]["values"][COUNT] == min(means, key=lambda count: means[count])


def test_the_line_that_needs_least_is_the_best_by_a_metric_of_which_more_is_better(tmp_path: Path) -> None:
    problem = Problem(batch("'fcfs', 'easy'", 20), ["served > 50 %"], [f"{COUNT}=6..7"])
    found = planned(tmp_path, problem, objective="utilisation_cores", share=1.0)
    means = [line["answer"]["metrics"]["utilisation_cores"]["mean"] for line in found["lines"]]
    assert means[0] != means[1]
    assert found["least"] == means.index(max(means))
    assert f" with utilisation_cores of {100 * max(means):.4g} %, " in found["headline"]


def test_of_systems_with_as_little_of_the_key_that_is_to_be_least_the_cheapest_is_taken(tmp_path: Path) -> None:
    problem = Problem(batch("'easy'", 60), ["wait_s_mean < 100 h"], [f"{MEMORY}=9 GB,16 GB", f"{COUNT}=9,7,8"])
    own = planned(tmp_path, problem, objective=MEMORY)["lines"][0]
    assert [own["answer"]["values"], *(one["values"][COUNT] for one in own["tried"][1:3])] == [
        {MEMORY: "9 GB", COUNT: 7}, 8, 9]  # fmt: skip


def test_of_lines_that_need_as_little_of_the_key_the_cheapest_needs_least(tmp_path: Path) -> None:
    problem = Problem(batch("'fcfs', 'easy'", 60), ["wait_s_mean < 20 min"], [f"{MEMORY}=16 GB,9 GB", f"{COUNT}=10,12"])
    found = planned(tmp_path, problem, objective=MEMORY)
    assert [line["answer"]["values"] for line in found["lines"]] == [
        {MEMORY: "16 GB", COUNT: 12}, {MEMORY: "16 GB", COUNT: 10}]  # fmt: skip
    assert found["least"] == 1


def test_of_a_metric_of_a_kind_of_device_the_best_is_taken_by_its_own_direction(tmp_path: Path) -> None:
    metric = "asked_nvme_bandwidth_mb_s"
    problem = Problem(pooled("'first-fit'", 0.5), ["served > 1 %"], [f"{DRIVES}=10..11"])
    own = planned(tmp_path, problem, objective=metric, share=0.5)["lines"][0]
    means = [one["metrics"][metric]["mean"] for one in own["tried"]]
    assert means[0] != means[1]
    assert own["answer"]["metrics"][metric]["mean"] == max(means)
