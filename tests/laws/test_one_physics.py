"""The same leases at the same times give the same run times, whatever the policy is called and whatever it declares."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import both_slowdowns
import numpy as np
import pytest
from device_worlds import PLACERS, World, table, worlds
from hypothesis import given
from tries import draws

from unrack import Cluster, generate
from unrack.core import Core
from unrack.errors import PolicyError, RefusedError
from unrack.ledger.lease import Lease
from unrack.policy.around import traits_of
from unrack.policy.contract import Decision, Estimates, Need, Start
from unrack.policy.file import complete
from unrack.policy.table import POLICIES, make_policy, parse_policy
from unrack.reasons import Code, Reason
from unrack.sim import simulate as simulating
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.sim.world import World as Physics
from unrack.slowdown.combined import Together
from unrack.slowdown.memory.settings import make_contention
from unrack.view import View
from unrack.workload.job import JobTable, Workload

LENDERS = ["disaggregated", "strawman", "naive", "local", "local-spread", "contention-aware", "baseline"]
When = tuple[int, int]
"""A time, µs, and which of the rounds at that time."""


class Noting(Kernel):
    """A kernel that notes what was started when."""

    def run(self, *args: Any, **keys: Any) -> RunLog:
        self.when: When = (-1, 0)
        self.noted: dict[When, list[Lease]] = defaultdict(list)
        return super().run(*args, **keys)

    def round(self, now: int) -> int:
        self.when = (now, self.when[1] + 1 if self.when[0] == now else 0)
        return super().round(now)

    def carry_out(self, decisions: list[Decision], now: int) -> None:
        self.noted[self.when] += [decision.lease for decision in decisions if isinstance(decision, Start)]
        super().carry_out(decisions, now)


@dataclass(frozen=True)
class Scripted:
    """Starts what another policy started, when that did; it looks at nothing."""

    script: dict[When, list[Lease]]
    name: str
    lends: bool
    devices: ClassVar[bool] = True
    estimates: Estimates = Estimates.REQUESTED
    needs: frozenset[Need] = field(default=frozenset())

    def begin(self, view: View) -> When:
        return (-1, 0)

    def decide(self, view: View, memory: When, now: int) -> tuple[list[Decision], When]:
        when = (now, memory[1] + 1 if memory[0] == now else 0)
        return [Start(lease) for lease in self.script.get(when, ())], when

    def next_round(self, view: View, memory: When, now: int) -> int | None:
        return min((time for time, _ in self.script if time > now), default=None)

    def why(self, view: View, memory: When, job: int, now: int) -> Reason:
        return Reason(Code.NOT_YET)

    def possible(self, cluster: Cluster, jobs: JobTable) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.ones(len(jobs), np.bool_)


class Case(NamedTuple):
    """A run, but for its policy."""

    cluster: Cluster
    jobs: JobTable
    faults: tuple[Any, ...] = ()
    models: tuple[Any, ...] = ()
    contention: Any = None
    how: Together = Together.ADD


def run(case: Case, policy: Any) -> tuple[RunLog, dict[When, list[Lease]]]:
    """As ``simulate`` runs it: the world is what :func:`unrack.sim.simulate.prepared` makes of it."""
    kernel = simulating.prepared(
        case.cluster,
        case.jobs,
        policy,
        0,
        Physics(models=case.models, contention=case.contention, slowdowns=case.how, faults=case.faults),
    )
    log = kernel.run()
    assert isinstance(kernel, Noting)
    return log, kernel.noted


def lives(log: RunLog) -> list[tuple[int, int, int, int]]:
    """Every attempt: its job, start, end and outcome."""
    columns = (log.attempt_job, log.attempt_start_us, log.attempt_end_us, log.attempt_outcome)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def assert_one_physics(case: Case, policy: Any, may_not_lend: bool = True) -> RunLog:
    """Replay what a policy started under other names and declarations; returns the log of the first run.

    Not ``may_not_lend``: jobs ask for more memory beside devices than a node has, and without lending they are refused.
    """
    log, script = run(case, parse_policy(policy) if isinstance(policy, str) else policy)
    for name, lends in (("first-fit", True), ("another", not may_not_lend)):
        try:
            again, _ = run(case, Scripted(script, name, lends))
        except RefusedError as error:  # what was held until then is held for longer
            raise AssertionError(f"{policy} as {name}: {error}") from error
        assert lives(again) == lives(log), (policy, name, lends)
    return log


@pytest.fixture(autouse=True)
def _noting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulating, "Kernel", Noting)


def case_of(world: World) -> Case:
    return Case(world.cluster, table(world.jobs), world.faults, world.models)


@pytest.mark.parametrize("policy", PLACERS)
@draws(25)
@given(world=worlds())
def test_on_pools_run_times_follow_from_who_held_what(policy: str, world: World) -> None:
    assert_one_physics(case_of(world), policy)


def lending(seed: int) -> Case:
    """Jobs under contention, many of which must borrow."""
    run_s, tasks = {"kind": "exponential", "mean": 400}, {"kind": "choice", "values": [1, 2, 4]}
    classes = [
        {"name": app, "run_s": run_s, "tasks": tasks, "cores": 8, "memory_mb": mb}
        for app, mb in {"1": 20_000, "2": 90_000, "3": 50_000, "5": 120_000}.items()
    ]
    jobs = generate({"jobs": 60, "arrivals": {"gap_s": 60}, "classes": classes}, seed).jobs
    groups = [{"count": 6, "cores": 8, "memory": 65_536}, {"count": 2, "cores": 8, "memory": 131_072}]
    return Case(Cluster.from_dict({"nodes": groups}), jobs, contention=make_contention("synthetic"))


@pytest.mark.parametrize("policy", LENDERS)
@pytest.mark.parametrize("seed", range(2))
def test_under_contention_run_times_follow_from_who_held_what(policy: str, seed: int) -> None:
    case = lending(seed)
    log = assert_one_physics(case, policy)
    slowed = log.attempt_end_us - log.attempt_start_us != case.jobs.work_us[log.attempt_job]
    assert slowed.any() == (policy != "baseline"), "nobody was slowed down: the case tests nothing"


@pytest.mark.parametrize("how", Together)
@draws(10)
@given(world=both_slowdowns.cases())
def test_with_devices_and_contention_run_times_follow_from_who_held_what(
    how: Together, world: tuple[Cluster, Workload]
) -> None:
    cluster, workload = world
    case = Case(cluster, workload.jobs, (), (both_slowdowns.MODEL,), both_slowdowns.SETTINGS, how)
    assert_one_physics(case, both_slowdowns.BOTH, may_not_lend=False)


# --- planted bugs -----------------------------------------------------------------------------------------------------


def test_a_core_that_lets_a_policy_switch_models_off_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lenient(Core):
        def __init__(self, cluster: Any, jobs: Any, policy: Any, pace: Any, *more: Any) -> None:
            super().__init__(cluster, jobs, policy, None if policy.name == "first-fit" else pace, *more)

    jobs = generate({"scenario": "nvme-s1", "load": 0.7, "jobs": 60}, 0).jobs
    case = Case(Cluster.preset("nvme-pool"), jobs, models=("smufin",))
    assert_one_physics(case, "max-composition")
    monkeypatch.setattr(simulating, "Core", Lenient)
    with pytest.raises(AssertionError, match="first-fit"):
        assert_one_physics(case, "best-fit")


def test_contention_that_only_policies_which_lend_feel_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lenient(Core):
        def __init__(self, cluster: Any, jobs: Any, policy: Any, pace: Any, keeps_memory: bool, *more: Any) -> None:
            super().__init__(cluster, jobs, policy, pace, keeps_memory and traits_of(policy).lends, *more)

    monkeypatch.setattr(simulating, "Core", Lenient)
    with pytest.raises(AssertionError, match="another"):
        assert_one_physics(lending(0), "disaggregated")


# --- nobody can ask for it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("key", ["models", "world"])
def test_a_world_asked_of_a_policy_is_refused_saying_where_it_is_chosen(name: str, key: str) -> None:
    with pytest.raises(PolicyError, match=f'policy {re.escape(name)}, {key}.*keys of a study.*world = "base"'):
        make_policy(name, {key: "on"})


def test_a_policy_of_ones_own_that_switches_models_off_is_refused() -> None:
    class Mine:
        models = False

        def decide(self, view: View, memory: None, now: int) -> tuple[list[Decision], None]:
            return [], None

    with pytest.raises(PolicyError, match=r"models: got False, wanted .*the world's"):
        complete(Mine(), "policy")
