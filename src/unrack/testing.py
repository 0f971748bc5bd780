"""Checks for policies of one's own: the rules that built-in policies are held to, in small random worlds.

>>> from unrack.policy import ListScheduler
>>> from unrack.testing import LAWS, check_policy
>>> check_policy(lambda: ListScheduler(order="sjf", backfill="easy"), seeds=range(1)) == len(LAWS)
True
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import RefusedError
from unrack.policy.contract import Decision, Policy, Start
from unrack.policy.file import complete
from unrack.sim.simulate import prepared, simulate
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000
"""Microseconds in a second."""
MakePolicy = Callable[[], Any]
"""Makes the policy anew, so that no run sees what another left behind."""


class Case(NamedTuple):
    """A cluster, and jobs that just fit on it."""

    cluster: Cluster
    workload: Workload


def world(seed: int, jobs: int = 40) -> Case:
    """A small random world: unequal nodes, gangs, memory, equal times, requests that are too short, priorities, users.

    Every job fits on the empty cluster.
    """
    random = np.random.default_rng(seed)
    classes = [{"count": 3, "cores": 2, "memory": 8}, {"count": 2, "cores": 6, "memory": 24}]
    cluster = Cluster.from_dict({"nodes": classes, "nodes_per_rack": 2})
    work = random.integers(0, 30, jobs) * S
    submit = np.sort(random.integers(0, 120, jobs)) * S
    due = submit + random.integers(10, 300, jobs) * S
    table = job_table(
        submit_us=submit, work_us=work, request_us=np.maximum(work + random.integers(-5, 20, jobs) * S, 0),
        tasks=random.integers(1, 5, jobs), cores=random.integers(1, 3, jobs), memory_mb=random.integers(0, 5, jobs),
        priority=random.integers(0, 3, jobs), deadline_us=np.where(random.random(jobs) < 0.5, due, -1),
        user=pl.Series([f"user {u}" for u in random.integers(0, 4, jobs)], dtype=pl.String),
    )  # fmt: skip
    return Case(cluster, _workload(table))


def _workload(table: JobTable) -> Workload:
    return Workload("small", table, Intake("small", "test", len(table), len(table)))


def _starts(make: MakePolicy, one: Case, before_us: int = 2**62) -> list[tuple[int, ...]]:
    log = simulate(one.cluster, one.workload, make(), audit=False).log
    return [
        (int(job), int(start))
        for job, start in zip(log.attempt_job, log.attempt_start_us, strict=True)
        if start < before_us
    ]


def check_determinism(make: MakePolicy, one: Case) -> None:
    """The same jobs on the same cluster start at the same times."""
    same = _starts(make, one) == _starts(make, one)
    assert same, "two runs of the same jobs differ: does it look at a clock, at random numbers, at the order of a set?"


def check_causality(make: MakePolicy, one: Case) -> None:
    """Jobs that come later change nothing earlier."""
    jobs = one.workload.jobs
    middle = int(jobs.submit_us[len(jobs) // 2])
    early = Case(one.cluster, _workload(jobs.take(jobs.submit_us < middle)))
    same = _starts(make, early, middle) == _starts(make, one, middle)
    assert same, "jobs that came later changed what was decided before: does it remember something outside of memory?"


class _Around:
    """A policy around another that watches or spoils it."""

    def __init__(self, inner: Policy[Any]) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


class _AskedTwice(_Around):
    def decide(self, view: Any, memory: Any, now: int) -> tuple[list[Decision], Any]:
        first, _ = self.inner.decide(view, copy.deepcopy(memory), now)
        decisions, memory = self.inner.decide(view, memory, now)
        same = [_told(one) for one in first] == [_told(one) for one in decisions]
        assert same, f"asked twice at {now} µs it decided differently: does it change itself, or a global?"
        return decisions, memory


class _Forgetful(_Around):
    rounds = 0

    def decide(self, view: Any, memory: Any, now: int) -> tuple[list[Decision], Any]:
        self.rounds += 1
        return self.inner.decide(view, self.inner.begin(view) if self.rounds % 3 == 0 else memory, now)


def _told(decision: Decision) -> tuple[Any, ...]:
    if isinstance(decision, Start):
        return "start", decision.lease.job, decision.lease.rows.tolist(), decision.lease.shares
    return type(decision).__name__, repr(decision)


def _run(policy: Any, one: Case) -> Any:
    return prepared(one.cluster, one.workload.jobs, policy).run()


def check_purity(make: MakePolicy, one: Case) -> None:
    """Asked twice with the same memory, it decides the same: nothing is changed but the memory that it returns."""
    _run(_AskedTwice(complete(make(), "policy")), one)


def check_restart(make: MakePolicy, one: Case) -> None:
    """With its memory made anew in mid-run, as after a restart, nothing is refused and no job is forgotten."""
    usual = _run(complete(make(), "policy"), one)
    try:
        log = _run(_Forgetful(complete(make(), "policy")), one)
    except RefusedError as error:
        raise AssertionError(f"with its memory made anew by begin(view): {error}") from None
    forgotten = int((log.state == 1).sum()) - int((usual.state == 1).sum())
    assert forgotten <= 0, f"with its memory made anew by begin(view), {forgotten} more jobs were never started"


def check_accounting(make: MakePolicy, one: Case) -> None:
    """What was held was there: the audit of the tables of a run."""
    simulate(one.cluster, one.workload, make())


def check_empty(make: MakePolicy, one: Case) -> None:
    """A run without jobs ends."""
    nothing = one.workload.jobs.take(np.zeros(len(one.workload), np.bool_))
    assert simulate(one.cluster, _workload(nothing), make()).jobs.height == 0


LAWS: tuple[Callable[[MakePolicy, Case], None], ...] = (
    check_determinism,
    check_causality,
    check_purity,
    check_restart,
    check_accounting,
    check_empty,
)
"""The rules, each a function that fails with an AssertionError which says what was broken."""


def check_policy(make: MakePolicy, seeds: Iterable[int] = range(3)) -> int:
    """Hold a policy to every law in a random world for each seed.

    Parameters
    ----------
    make
        Makes the policy anew: ``lambda: load_policy("FILE.py:NAME")``, or its class.
    seeds
        Of the worlds.

    Returns
    -------
    int
        How many checks there were.

    Raises
    ------
    AssertionError
        It breaks a law.
    FaultyPolicyError, RefusedError
        It raised something, or decided what cannot be.
    """
    done = 0
    for seed in seeds:
        for law in LAWS:
            law(make, world(seed))
            done += 1
    return done
