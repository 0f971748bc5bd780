"""Levels of a plan that are kept from round to round: every start is the one of a plan that makes them anew."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl
import pytest
from small_worlds import workload_of
from tries import seeds

import unrack
from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import RefusedError
from unrack.events import ROUND, Drained, Event, Expected, Finished, Repaired, StartFailed, Submitted, Withdrawn
from unrack.policy.contract import Start
from unrack.policy.discipline.skyline import plan
from unrack.policy.discipline.skyline.columns import FROM, STAMP
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.sim.faults import Fault
from unrack.sim.world import World
from unrack.workload.job import Demand, Job, JobTable, job_table

S = 1_000_000
POLICIES = (
    "conservative", "conservative(compress=ends)", "conservative(order=sjf, place=best-fit)",
    "conservative(nodes=whole)", "conservative(order=multifactor)", "conservative(molding=earliest-end)",
)  # fmt: skip


def on_a_site(draw: np.random.Generator, licences: bool) -> dict[str, Any]:
    """Nine nodes of two kinds in partitions that overlap, a reservation and maintenance, tiers that preempt."""
    late, kept = int(draw.integers(100, 900)), {"licences": {"solver": 2}} if licences else {}
    return {
        "partitions": [
            {"name": "a", "nodes": ["0-5"]}, {"name": "b", "nodes": ["4-8"], "tier": 2},
            {"name": "c", "nodes": ["0-8"], "limits": [{"per": "user", "amounts": {"cores": 12}}]},
        ],
        "reservations": [
            {"name": "r", "nodes": ["2-4"], "start": late, "duration": 400, "users": ["u0"], **kept,
             "flex": bool(late % 2)},
            {"name": "m", "nodes": ["7"], "start": 500, "duration": 200, "maintenance": True},
        ],
        "preempt": {"by": "partition", "mode": "requeue"},
    }  # fmt: skip


def world(seed: int, single: bool, sited: bool, jobs: int = 70) -> tuple[Cluster, JobTable]:
    """A crowded cluster; jobs run shorter than they ask, now and then longer, and some hold licences."""
    draw = np.random.default_rng(seed)
    site, licences = seed % 3 != 0, seed % 2 == 0
    content: dict[str, Any] = {"nodes": [{"count": 6, "cores": 4, "memory": 8}, {"count": 3, "cores": 8, "memory": 24}]}
    uplinks = [{"name": "uplink", "amount": 5, "per": "node"}] if seed % 5 == 3 else []
    content |= {"counted": [{"name": "solver", "amount": 3}, *uplinks]} if licences or uplinks else {}
    content |= {"site": on_a_site(draw, licences)} if site and sited else {}
    request = draw.integers(0 if seed % 5 == 0 else 1, 150, jobs)
    work = np.where(draw.random(jobs) < 0.05, request + 5, np.maximum(1, request * draw.random(jobs))).astype(np.int64)
    words = [["a", "b", "c", ""][i] for i in draw.integers(0, 4, jobs)]
    kept = [("r" if x < 0.1 else "") for x in draw.random(jobs)]
    table = job_table(
        submit_us=np.cumsum(draw.exponential(9, jobs)).astype(np.int64) * S, work_us=work * S, request_us=request * S,
        tasks=draw.integers(1, 9 if single else 5, jobs), cores=1 if single else draw.integers(1, 4, jobs),
        memory_mb=0 if single else draw.integers(0, 5, jobs),
        user=pl.Series([f"u{i}" for i in draw.integers(0, 3, jobs)]),
        devices={
            **({("counted", "solver"): draw.integers(0, 2, jobs)} if licences else {}),
            **({("counted", "uplink"): (np.arange(jobs) > jobs // 2) * 2} if uplinks else {}),
        },
        extra=pl.DataFrame({"partition": words, "reservation": kept}) if site and sited else pl.DataFrame(),
    )  # fmt: skip
    return Cluster.from_dict(content), table


def run(seed: int, policy: str, single: bool, sited: bool, audit: bool = True) -> list[dict[str, Any]]:
    """Who held what, from when to when; and what became of each job."""
    cluster, jobs = world(seed, single, sited)
    faults = [Fault(f"node{seed % 9}", (100 + 41 * seed % 300) * S, 60 * S)] if seed % 4 == 1 else []
    result = unrack.simulate(cluster, workload_of(jobs), policy, world=World(faults=faults), audit=audit)
    return [*result.jobs.to_dicts(), *result.holdings.to_dicts()]


@pytest.mark.draws(16)
@pytest.mark.parametrize(("single", "sited"), [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("policy", POLICIES)
def test_starts_are_those_of_levels_made_anew(
    policy: str, single: bool, sited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, seen = Plan.round, list[bool]()

    def noting(self: Plan, *given: Any) -> Any:
        before = self.columns.cursor[STAMP]
        starts = found(self, *given)
        seen.append(bool(self.columns.cursor[STAMP] > before and self.columns.cursor[FROM] > 0))
        return starts

    monkeypatch.setattr(plan, "FEW_ROUNDS", 0)
    for seed in seeds(16):
        with monkeypatch.context() as with_notes:
            with_notes.setattr(Plan, "round", noting)
            kept = run(seed, policy, single, sited)
        with monkeypatch.context() as anew:
            anew.setattr(Plan, "keeps", False)
            assert run(seed, policy, single, sited, audit=False) == kept, seed
    assert np.mean(seen) > 0.15  # not where nodes are grouped otherwise than before


def promised(nodes: int, *events: tuple[int, Event]) -> dict[int, int]:
    """Job → the second at which a conservative plan has promised to start it, after what happened at these seconds."""
    core = Core(Cluster.homogeneous(nodes=nodes, cores=1), None, parse_policy("conservative"))
    for at, event in events:
        core.handle(event, at * S)
        core.handle(ROUND, at * S)
    return {job: promise.start_us // S for job, promise in core.state.promises.by_job().items()}


def asking(nodes: int, request: int) -> Event:
    """A job that comes."""
    return Submitted(Job(0, f"{nodes} for {request}", 0, request * S, None, 0, "", "", Demand(nodes, 1, 0)))


@pytest.fixture(params=[True, False])
def _kept_or_anew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels are kept from the first round on; or made anew in each."""
    monkeypatch.setattr(Plan, "keeps", request.param)
    monkeypatch.setattr(plan, "FEW_ROUNDS", 0)


@pytest.mark.usefixtures("_kept_or_anew")
def test_a_promise_is_kept_for_as_long_as_its_job_runs() -> None:
    assert promised(4, (0, asking(4, 100)), (1, asking(4, 50)), (2, asking(4, 30))) == {1: 100, 2: 150}


@pytest.mark.usefixtures("_kept_or_anew")
def test_a_promise_that_nodes_which_drain_break_becomes_a_later_one() -> None:
    came = (0, asking(2, 10)), (0, asking(1, 50)), (1, asking(4, 20))
    assert promised(5, *came) == {2: 10}
    assert promised(5, *came, (5, Drained((4,)))) == {2: 50}


def told(seed: int, policy: str, single: bool, steps: int = 160) -> list[Any]:
    """What a core decides while others change whatever they can: ends, jobs, nodes and starts."""
    draw = np.random.default_rng(seed)
    core = Core(Cluster.homogeneous(nodes=5, cores=4, memory=40), None, parse_policy(policy))
    state, decided, now = core.state, list[Any](), 0
    for _ in range(steps):
        now += int(draw.integers(0, 12)) * S
        waiting = state.queue[state.queue_start : state.queue_end].tolist()
        running = state.running[1, : state.running_count].tolist()
        one = int(draw.choice(running)) if running else -1
        event: Event = ROUND
        match int(draw.integers(0, 14)):
            case 0 | 1 | 2 | 3 | 4:
                cores, mb = (1, 0) if single else (int(draw.integers(1, 5)), int(draw.integers(0, 12)))
                request = int(draw.integers(1, 90)) * S
                demand = Demand(int(draw.integers(1, 7)), cores, mb)
                event = Submitted(Job(0, f"j{state.jobs}", now, request, None, 0, "", "", demand))
            case 5 | 6 | 7 if running:
                event = Finished(one)
            case 8 if running:
                event = Expected(one, now + int(draw.integers(0, 90)) * S)
            case 9 if waiting:
                event = Withdrawn(int(draw.choice(waiting)), Reason(Code.WITHDRAWN, "cancelled"))
            case 10 if running:
                event = StartFailed(one, Reason(Code.START_FAILED, "no answer"))
            case 11:
                event = Drained((int(draw.integers(0, 5)),))
            case 12:
                event = Repaired(tuple(node for node in range(5) if not state.online[node] or node in state.withheld))
            case 13 if running:
                event = Withdrawn(one, Reason(Code.WITHDRAWN, "cancelled"))
        with suppress(RefusedError):
            core.handle(event, now)
        decided.append([(d.lease.job, d.lease.rows.tolist()) for d in core.handle(ROUND, now) if isinstance(d, Start)])
        decided.append([core.reasons.get(job) for job in waiting])
    return decided


@pytest.mark.draws(16)
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("policy", POLICIES[:4])
def test_decisions_are_the_same_whatever_others_do(policy: str, single: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FEW_ROUNDS", 0)
    for seed in seeds(16):
        kept = told(seed, policy, single)
        with monkeypatch.context() as anew:
            anew.setattr(Plan, "keeps", False)
            assert told(seed, policy, single) == kept, seed


@pytest.mark.usefixtures("_kept_or_anew")
def test_a_licence_that_comes_free_in_one_partition_is_there_for_a_job_of_another() -> None:
    apart = [{"name": name, "nodes": [nodes]} for name, nodes in (("a", "0-1"), ("b", "2-3"))]
    solver = [{"name": "solver", "amount": 1}]
    cluster = Cluster.from_dict({"nodes": [{"count": 4, "cores": 1}], "counted": solver, "site": {"partitions": apart}})
    jobs = job_table(  # the second ends early first, so that it is known from when on who has looked at what
        submit_us=np.array([0, 0, 1, 2]) * S, work_us=np.array([20, 5, 10, 5]) * S,
        request_us=np.array([100, 50, 10, 5]) * S, tasks=[1, 1, 1, 1],
        devices={("counted", "solver"): np.array([1, 0, 1, 1])},
        extra=pl.DataFrame({"partition": ["a", "a", "b", "b"]}),
    )  # fmt: skip
    result = unrack.simulate(cluster, workload_of(jobs), "conservative")
    assert result.jobs.sort("job")["start_s"].to_list() == [0, 0, 20, 30]
