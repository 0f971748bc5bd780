"""Every law with leases that change every few minutes, and what dynamic provisioning promises."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from curves_by_hand import usage_curves
from tries import seeds
from used_worlds import S, some, work

from unrack.policy.table import parse_policy
from unrack.sim.kernel import Kernel
from unrack.sim.result import Result
from unrack.sim.simulate import prepared, simulate
from unrack.sim.world import World as Physics
from unrack.units import NEVER_US
from unrack.workload.job import JobTable

sys.path.append(str(Path(__file__).parents[1] / "laws"))
from law_worlds import World, faults
from test_laws import LAWS, Make, in_turn

DYNAMIC = "provisioning=dynamic"
POLICIES = (
    f"disaggregated({DYNAMIC}, main=interval)",
    f"disaggregated(scheduler=fcfs, {DYNAMIC}, monitor=1 min, stop=youngest, reserve_after=1)",
    f"disaggregated(scheduler=conservative, {DYNAMIC}, initial=0.3, lenders_compute=yes)",
    f"contention-aware(scheduler=easy, {DYNAMIC}, band=0.1, keep=0.2)",
    f"naive(scheduler=easy, {DYNAMIC}, admit=0.5, stop=least-lost)",
    f"strawman(scheduler=easy, {DYNAMIC}, initial=0, pull=yes, restart=checkpoint)",
    f"local-spread(scheduler=easy, {DYNAMIC}, pull=yes)",
    f"easy(memory=disaggregated, {DYNAMIC})",
    f"conservative(memory=local, {DYNAMIC}, initial=0.5)",
    f"slurm(memory=disaggregated, nodes=whole, {DYNAMIC})",
    f"fcfs({DYNAMIC})",
    f"disaggregated(scheduler=easy, {DYNAMIC}, stop=block, lenders_compute=yes, initial=0.2)",
    f"conservative({DYNAMIC}, initial=0.5)",
    f"slurm({DYNAMIC}, interval=60 s)",
    f"baseline(scheduler=conservative, {DYNAMIC}, keep=0.1)",
    f"baseline({DYNAMIC})",
    f"easy({DYNAMIC}, nodes=whole)",
    f"disaggregated(scheduler=conservative, {DYNAMIC}, growth=1)",
    f"easy(memory=disaggregated, {DYNAMIC}, growth=0.5)",
    f"slurm({DYNAMIC}, growth=1)",
)


def world(seed: int) -> World:
    """A world of use; in every second memory is contended and nodes fail."""
    cluster, jobs = some(seed)
    struck = faults(np.random.default_rng(seed), 6, 4000, most=3) if seed % 2 else ()
    return World(cluster, jobs, (), "synthetic" if seed % 2 else None, struck)


def every_cell() -> Iterator[Any]:
    """Every law for every policy: three laws for each in turn always, the others with the slow tests."""
    for case, policy in enumerate(POLICIES):
        for law, marks in in_turn(case, 3):
            yield pytest.param(law, policy, id=f"{policy}-{law.__name__.removeprefix('check_')}", marks=marks)


@pytest.mark.parametrize("other", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("law", "policy"), list(every_cell()))
def test_every_law_holds_while_leases_change(law: Callable[[Make, World], None], policy: str, other: int) -> None:
    law(lambda: policy, world((LAWS.index(law) + other) % 2))


def static(text: str) -> str:
    """The same policy with memory that stays."""
    own = [part for part in text[text.index("(") + 1 : -1].split(", ")
           if part.split("=")[0] not in ("provisioning", "monitor", "band", "keep", "initial", "admit", "pull", "stop",
                                         "restart", "reserve_after", "growth")]  # fmt: skip
    return f"{text[: text.index('(')]}({', '.join(own)})"


def starts(result: Result) -> list[Any]:
    return result.jobs.select("job", "start_s", "end_s", "state").rows()


def at_request(jobs: JobTable) -> JobTable:
    """All use what they ask, from their start to their end."""
    return replace(jobs, usage=usage_curves([[[(0, float(mb))]] for mb in jobs.memory_mb.tolist()]))


@pytest.mark.parametrize("policy", [one for one in POLICIES if "initial" not in one and "admit" not in one])
@pytest.mark.parametrize("contention", [None, "synthetic"])
def test_with_use_at_the_request_dynamic_is_static_start_for_start(policy: str, contention: str | None) -> None:
    if "fcfs(p" in policy or policy.startswith("easy(p"):
        contention = None  # nobody lends
    for seed in range(4):
        cluster, jobs = some(seed)
        if "pull" in policy:  # what is lent may move back
            continue
        same = work(at_request(jobs))
        dynamic = simulate(cluster, same, policy, world=Physics(contention=contention))
        fixed = simulate(cluster, same, static(policy), world=Physics(contention=contention))
        plain = simulate(cluster, work(replace(jobs, usage=None)), static(policy), world=Physics(contention=contention))
        assert starts(dynamic) == starts(fixed) == starts(plain), seed


@pytest.mark.long
@pytest.mark.draws(20)
def test_nobody_is_stopped_for_ever() -> None:
    """Requests of almost nothing, use of almost everything: each job ends, or could never be held."""
    stopped = 0
    for seed in seeds(20):
        cluster, jobs = some(seed, over=0.0, level=0.2)
        for policy in (POLICIES[1], POLICIES[2], POLICIES[5], POLICIES[8], POLICIES[11]):
            result = simulate(cluster, work(jobs), policy)
            assert set(result.jobs["state"].unique()) <= {"finished", "rejected"}
            rejected = result.jobs.filter(pl.col("state") == "rejected")
            assert all("too-big" in reason for reason in rejected["reason"].to_list())
            stopped += int(result.jobs["memory_stops"].sum())
    assert stopped


@pytest.mark.parametrize("policy", POLICIES[:6])
def test_no_task_ever_uses_more_than_its_job_holds_where_it_is(policy: str) -> None:
    """Looked at after every round, on every node, from the ledger and the true curves."""
    for seed in (0, 1, 2):
        cluster, jobs = some(seed)
        kernel = prepared(cluster, jobs, parse_policy(policy), 0, Physics(contention="synthetic" if seed else None))
        seen = []

        def look(now: int, kernel: Any = kernel, jobs: Any = jobs, seen: Any = seen, seed: int = seed) -> None:
            usage = jobs.usage
            for job in kernel.running:
                lease, done = kernel.core.state.lease(job), kernel.following.use.progress(job, now)
                curves = range(int(usage.first[job]), int(usage.first[job + 1]))
                if not curves:
                    continue
                used = []
                for curve in curves:
                    at, mb = usage.points_of(curve)
                    used.append(int(mb[np.searchsorted(at, done, side="right") - 1]))
                task = 0
                for first, count, tasks, _, local in lease.rows.tolist():
                    for node in range(first, first + count):
                        mine = sum(used[t if len(used) > 1 else 0] for t in range(task, task + tasks))
                        task += tasks
                        held = local + int(lease.borrowed[lease.borrowed[:, 0] == node, 2].sum())
                        lacks = kernel.following.use._lacks_at.get(job, 10**9)
                        assert mine <= held or done >= lacks, (seed, job, node, now / S)
                        seen.append(mine > 0)

        kernel.run(after_round=look)
        assert any(seen)


def test_no_end_is_planned_for_a_job_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if its lease changes meanwhile, and that takes time."""
    push = Kernel.push

    def watched(kernel: Kernel, time: int, rank: int, what: int, version: int) -> None:
        assert time < NEVER_US
        push(kernel, time, rank, what, version)

    monkeypatch.setattr(Kernel, "push", watched)
    still = 0.0
    for seed in (33, 45, 57):
        cluster, jobs = some(seed, over=0.0, level=0.3)
        for policy in (
            f"disaggregated(scheduler=easy, {DYNAMIC}, stop=block, lenders_compute=yes, initial=0.2, pull=yes)",
            f"naive(scheduler=fcfs, {DYNAMIC}, stop=block, pull=yes, initial=0.3)",
        ):
            result = simulate(cluster, work(jobs), policy, world=Physics(changes={"pause": "7 s"}))
            still += result.jobs["node_s_blocked"].sum()
    assert still > 0
