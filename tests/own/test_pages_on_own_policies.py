"""The policies that the page on writing one shows run as they stand there, and do what it says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unrack
from unrack.policy.file import load_policy

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "writing-a-policy.md").read_text()
CLASSES = [
    {
        "name": "wide",
        "run_s": {"kind": "lognormal", "median": 1800, "sigma": 1},
        "tasks": {"kind": "power-of-two", "max": 16},
    },
    {"name": "long", "run_s": 9000, "tasks": 3},
]
CLUSTER = unrack.Cluster.homogeneous(nodes=16, cores=4)


def jobs(load: float = 0.9, count: int = 150) -> unrack.Workload:
    arrivals = {"load": load, "cores": 64}
    return unrack.generate({"jobs": count, "users": 4, "arrivals": arrivals, "classes": CLASSES}, seed=3)


def blocks_with(name: str) -> list[str]:
    """The blocks of the page that define a name."""
    every = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return [block for block in every if re.search(rf"^(class )?{name}\b", block, re.MULTILINE)]


def shown(name: str, which: int = 0) -> Any:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(blocks_with(name)[which], "page.py", "exec"), names)
    return names[name]


def starts(policy: Any) -> list[float]:
    result = unrack.simulate(CLUSTER, jobs(), policy)
    assert result.metrics["jobs_finished"] == 150
    return result.jobs["start_s"].to_list()


@pytest.mark.parametrize("name", ["SHORT_AND_OLD", "LEAST_LOADED", "FULLEST", "FewestFirst", "SHORTEST_WAIT"], ids=str)
def test_a_policy_of_the_page_has_less_than_25_lines(name: str) -> None:
    for block in blocks_with(name):
        assert len(block.strip().splitlines()) < 25


def test_an_order_by_a_formula_is_that_over_columns_and_that_of_the_example() -> None:
    example = load_policy(f"{ROOT / 'examples' / 'my_policy.py'}:SHORT_AND_OLD")
    first = starts(shown("SHORT_AND_OLD", 0))
    assert first == starts(shown("SHORT_AND_OLD", 1)) == starts(example)
    assert first != starts("easy")


def test_least_loaded_takes_the_nodes_with_fewest_cores_in_use() -> None:
    policy = shown("LEAST_LOADED")
    asked = []

    def watching(view: Any, job: int, now: int) -> Any:
        found = policy.place(view, job, now)
        asked.append(job)
        shares = [1 - view.nodes.free_cores[one.node] / view.nodes.cores[one.node] for one in found]
        assert shares == sorted(shares)
        assert {one.node for one in found} == set(np.flatnonzero(view.nodes.free_cores > 0).tolist())
        return found

    assert starts(type(policy)(watching, order="fcfs")) == starts(policy)
    assert len(asked) > 150


def test_a_placement_under_backfill_holds_the_fullest_nodes() -> None:
    worst = "list(place=best-fit, backfill=easy)"
    assert starts(shown("FULLEST")) == starts(worst)  # on nodes that are alike, the fullest are the best fit


def test_fewest_first_starts_whose_user_runs_least() -> None:
    policy = shown("FewestFirst")()
    passed = 0

    class Watched(type(policy)):  # type: ignore[misc]
        def decide(self, view: Any, memory: Any, now: int) -> Any:
            nonlocal passed
            decisions, memory = super().decide(view, memory, now)
            running = Counter(view.job(job).user for job in view.running_jobs.tolist())
            for decision in decisions:
                user = view.job(decision.lease.job).user
                for other in view.waiting_jobs():
                    if running[other.user] < running[user]:
                        assert sum(one.tasks for one in view.candidates(other)) < other.tasks
                        passed += 1
            return decisions, memory

    starts(Watched())
    assert passed


def test_the_pool_policy_of_the_page_shares_drives_and_serves_everybody() -> None:
    workload = unrack.generate({"scenario": "nvme-s1", "load": 0.8, "jobs": 120}, seed=1)
    result = unrack.simulate(
        unrack.Cluster.preset("nvme-pool"), workload, shown("SHORTEST_WAIT"), world=unrack.World(models=["smufin"])
    )
    assert result.metrics["jobs_finished"] == 120
    assert result.table("shares").group_by("composition").len()["len"].max() > 1
