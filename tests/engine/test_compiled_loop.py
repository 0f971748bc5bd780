"""The compiled loop and the one in Python: the same run, to the last number; and first fit that skips full blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import J, S, clusters, job_lists, table
from tries import draws, seeds, some

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.jit import compiled
from unrack.ledger.nodes import SIZE, give_rows, take_rows, whole_summary
from unrack.policy.contract import Decision
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.placement.node_kernel import first_fit, place_job
from unrack.policy.table import parse_policy
from unrack.sim.compiled import kinds, stretch
from unrack.sim.compiled.kinds import stretch_of
from unrack.sim.compiled.stretch import Stretch
from unrack.sim.faults import Fault
from unrack.sim.kernel import Kernel
from unrack.sim.simulate import prepared
from unrack.sim.world import Ties, World
from unrack.workload.job import JobTable

POLICIES = (
    "fcfs", "easy", "easy(depth=2)", "easy(nodes=whole)", "easy(place=best-fit)", "easy(estimates=exact)",
    "easy(order=sjf)", "easy(backfill_order=sjf)", "easy(order=largest, backfill_order=fcfs, depth=2)",
    "list(order=smallest-area)", "easy(order=edf, backfill_order=ljf)", "list(order=priority-edf, backfill=any)",
    "list(backfill=any)", "list(backfill=any, place=worst-fit, nodes=whole)", "fcfs(place=worst-fit)",
    "conservative", "conservative(compress=ends)", "conservative(order=sjf, place=best-fit)",
    "conservative(nodes=whole)", "conservative(estimates=exact)",
)  # fmt: skip


def everything(
    cluster: Cluster, jobs: JobTable, policy: str, ties: str, faults: Sequence[Fault], compiled: bool
) -> dict[str, Any]:
    """A run, and all that is left behind by it; asking to be told of rounds keeps it in Python."""
    kernel = prepared(cluster, jobs, parse_policy(policy), 0, World(faults=faults, ties=ties))
    log = kernel.run(after_round=None if compiled else lambda now: None)
    state, memory = kernel.core.state, kernel.core.memory
    arrays = (
        "state attempt_job attempt_start_us attempt_end_us attempt_outcome span_rows rows capacity attempt_failure "
        "claims claim_span"
    )
    claimed = state.claimed
    running = map(state.lease, state.running[1, : state.running_count].tolist())
    assert state.pool_used - state.pool_dead == sum(len(lease.rows) for lease in running)
    return {
        **{name: getattr(log, name).tolist() for name in arrays.split()},
        "end_us": log.end_us,
        "reasons": log.reasons,
        "rules": log.rules,
        "claimed": None if claimed is None else (claimed.free.tolist(), claimed.holders.tolist(), claimed.asking),
        "numbers": (state.version, state.releases, state.known, state.free_cores, state.running_count, kernel.sequence),
        "free": state.free.tolist(),
        "queue": state.queue[state.queue_start : state.queue_end].tolist(),
        "unforeseen": state.unforeseen,
        "promised": state.promises.by_job() if isinstance(memory, Plan) else None,
        "memory": memory.freed if isinstance(memory, Plan) else (memory.releases, memory.last_job, memory.complete),
    }


@pytest.fixture
def stretches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs had been submitted after every stretch of the compiled loop, for workloads of any size."""
    monkeypatch.setattr(kinds, "LEAST_JOBS", 0)
    told: list[int] = []
    run = Stretch.run

    def noting(self: Stretch, *arguments: Any) -> tuple[int, int, int]:
        submitted, now, wake = run(self, *arguments)
        told.append(submitted)
        return submitted, now, wake

    monkeypatch.setattr(Stretch, "run", noting)
    return told


@pytest.mark.draws(40)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ties", list(Ties))
def test_both_loops_give_the_same_run_on_random_worlds(policy: str, ties: str, stretches: list[int]) -> None:
    @draws(40)
    @given(clusters(), st.one_of(job_lists(honest=True), job_lists(honest=False), job_lists(False, single=True)))
    def check(cluster: Cluster, jobs: list[J]) -> None:
        both = [everything(cluster, table(jobs), policy, ties, (), way) for way in (False, True)]
        assert both[0] == both[1]

    check()
    assert len(stretches) >= some(40) * 3 // 4  # a plan waits for its first job of several cores


@pytest.mark.parametrize("ties", list(Ties))
@pytest.mark.parametrize("policy", ["easy", "fcfs", "easy(nodes=whole)", "conservative", "conservative(nodes=whole)"])
@pytest.mark.draws(25)
def test_both_loops_give_the_same_run_where_nodes_fail_now_and_then(
    policy: str, ties: str, stretches: list[int]
) -> None:
    for seed in seeds(25):
        draws = np.random.default_rng(seed)
        cluster = Cluster.homogeneous(nodes=7, cores=2, memory=10)
        jobs = table([
            J(int(s), *map(int, draws.integers((0, 1, 0, 1, 0), (25, 8, 30, 3, 5))))
            for s in np.sort(draws.integers(0, 300, 120))
        ])  # fmt: skip
        faults = [
            Fault(f"node{node}", int(at) * S, int(repair) * S)
            for node, at, repair in zip(draws.integers(0, 7, 4), draws.integers(0, 320, 4), (0, 9, 40, 40), strict=True)
        ]
        both = [everything(cluster, jobs, policy, ties, faults, way) for way in (False, True)]
        assert both[0] == both[1]
    assert len(stretches) > 2 * len(seeds(25))  # one run has several


def with_licences(jobs: JobTable, seed: int, most: int) -> JobTable:
    """Jobs of which two in three ask for some of one licence, or of two."""
    draws = np.random.default_rng(seed)
    asks = draws.integers(0, most + 1, (2, len(jobs))) * (draws.integers(0, 3, (2, len(jobs))) > 0)
    return replace(jobs, devices={("counted", name): asked for name, asked in zip("ab", asks, strict=True)})


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.draws(30)
def test_both_loops_give_the_same_run_where_jobs_need_licences(policy: str, stretches: list[int]) -> None:
    for seed in seeds(30):
        draws = np.random.default_rng(seed)
        amounts = draws.integers(1, 9, 2).tolist()
        counted = [{"name": name, "amount": amount} for name, amount in zip("ab", amounts, strict=True)]
        cluster = Cluster.from_dict({"nodes": [{"count": 5, "cores": 2, "memory": 10}], "counted": counted})
        jobs = table([
            J(int(s), *map(int, draws.integers((0, 1, 0, 1, 0), (25, 5, 30, 3, 5))))
            for s in np.sort(draws.integers(0, 150, 60))
        ])  # fmt: skip
        faults = [Fault("node3", int(draws.integers(0, 90)) * S, 100 * S)] if seed % 2 else []
        ties = list(Ties)[seed % len(Ties)]
        asking = with_licences(jobs, seed, 3)
        both = [everything(cluster, asking, policy, ties, faults, way) for way in (False, True)]
        assert both[0] == both[1]
        assert both[0]["claims"]
    assert len(stretches) >= len(seeds(30))


def crowd(jobs: int, nodes: int, seed: int = 0) -> JobTable:
    """Many jobs of one core a task on nodes that are nearly always full."""
    draws = np.random.default_rng(seed)
    tasks = np.minimum(draws.geometric(0.02, jobs), nodes)
    run = draws.integers(0, 400, jobs)
    submit = np.sort(draws.integers(0, int(run.mean() * tasks.sum() / nodes), jobs))
    request = np.maximum(0, run + draws.integers(-20, 200, jobs))
    return table([J(*map(int, each)) for each in zip(submit, run, tasks, request, strict=True)])


@pytest.mark.parametrize("policy", ["easy", "fcfs", "conservative"])
def test_both_loops_give_the_same_run_where_columns_and_the_log_have_to_grow(
    policy: str, stretches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretch, "LOG", 7)
    monkeypatch.setattr(stretch, "ROUNDS", 5)
    cluster, jobs = Cluster.homogeneous(nodes=1500, cores=1), crowd(900, 1500)
    both = [everything(cluster, jobs, policy, "together", (), way) for way in (False, True)]
    assert both[0] == both[1]
    assert stretches == [900]
    counted = [{"name": f"of{i}", "amount": 20} for i in range(40)]
    licensed = Cluster.from_dict({"nodes": [{"count": 1500, "cores": 1}], "counted": counted})
    asked = {("counted", f"of{i}"): (np.arange(900) % 40 == i) + 0 for i in range(40)}
    both = [everything(licensed, replace(jobs, devices=asked), policy, "together", (), way) for way in (False, True)]
    assert both[0] == both[1]
    assert stretches == [900, 900]


def test_progress_is_told_as_often_by_both_loops(stretches: list[int]) -> None:
    jobs = table([J(i, 1) for i in range(9000)])
    told: list[list[tuple[int, int]]] = []
    for hook in (None, lambda now: None):
        told.append([])
        kernel = prepared(Cluster.homogeneous(1, 1), jobs, parse_policy("fcfs"))
        kernel.run(lambda done, count: told[-1].append((done, count)), hook)
    assert told[0] == told[1] == [(4096, 9000), (8192, 9000), (9000, 9000)]


def loop_of(policy: str, cluster: Cluster, least: int = 0, **attributes: Any) -> Stretch | None:
    core = Core(cluster, table([J(0, 1), J(1, 1)]), parse_policy(policy))
    for name, value in attributes.items():
        setattr(core, name, value)
    return stretch_of(Kernel(core))


def test_the_compiled_loop_stays_out_of_what_it_does_not_know(stretches: list[int]) -> None:
    plain = Cluster.homogeneous(nodes=2, cores=2)
    pooled = Cluster.from_dict({
        "nodes": [{"count": 2, "cores": 2}],
        "pools": [{"kind": "nvme", "count": 2, "quantities": {"bandwidth_mb_s": 10}}],
    })  # fmt: skip

    def silent(event: object, now: int) -> list[Decision]:
        return []

    assert loop_of("easy", plain) is not None
    assert loop_of("easy", pooled) is None
    assert loop_of("easy", plain, handle=silent) is None
    assert loop_of("easy(order=wfp3)", plain) is None
    assert loop_of("easy(backfill_order=wfp3)", plain) is None
    assert loop_of("easy(order=sjf)", plain) is not None
    assert loop_of("conservative", plain) is not None
    assert loop_of("conservative(order=wfp3)", plain) is None
    assert loop_of("slurm", plain) is None


def test_a_short_run_does_not_wait_for_the_loop_to_be_compiled() -> None:
    assert loop_of("easy", Cluster.homogeneous(nodes=2, cores=2)) is None


# --- nodes by blocks --------------------------------------------------------------------------------------------------


@compiled
def _place(free: Any, total: Any, most: Any, ask: Any, whole: bool, skip: bool, out: Any) -> int:
    if skip:
        return first_fit(free, total, most, ask[0], ask[1], ask[2], whole, np.array([0, free.shape[1]]), out, 0)
    return place_job(free, total, ask[0], ask[1], ask[2], whole, 0, out, 0)


@compiled
def _take(free: Any, most: Any, rows: Any) -> int:
    return take_rows(free, most, rows, 0, rows.shape[0])


@compiled
def _give(free: Any, most: Any, rows: Any) -> int:
    return give_rows(free, most, rows, 0, rows.shape[0])


def summary(free: np.ndarray) -> list[int]:
    """The most free cores by blocks of nodes, and by blocks of these."""
    blocks = [int(free[0, i : i + SIZE].max()) for i in range(0, free.shape[1], SIZE)]
    return blocks + [max(blocks[i : i + SIZE]) for i in range(0, len(blocks), SIZE)]


@pytest.mark.parametrize(("nodes", "cores"), [(1, 3), (63, 1), (64, 2), (65, 1), (900, 4), (9000, 1)])
@pytest.mark.parametrize("whole", [False, True])
def test_first_fit_by_blocks_takes_the_nodes_that_a_search_of_all_takes(nodes: int, cores: int, whole: bool) -> None:
    draws = np.random.default_rng(nodes)
    total = np.stack([draws.integers(max(0, cores - 1), cores + 1, nodes), draws.integers(0, 9, nodes)])
    free, held, out = total.copy(), [], np.empty((2, nodes, 5), np.int64)
    most = whole_summary(free)
    placed = 0
    for _ in range(400):
        ask = np.array([draws.geometric(min(1.0, 2 / nodes)), draws.integers(0, cores + 1), draws.choice([0, 0, 1, 3])])
        ends = [_place(free, total, most, ask, whole, skip, out[int(skip)]) for skip in (False, True)]
        assert ends[0] == ends[1]
        if ends[0] > 0:
            assert (out[0, : ends[0]] == out[1, : ends[0]]).all()
            held.append(out[0, : ends[0]].copy())
            assert _take(free, most, held[-1]) == int(held[-1][:, 1] @ held[-1][:, 3])
            placed += 1
        if held and (ends[0] < 0 or draws.random() < 0.4):
            _give(free, most, held.pop(int(draws.integers(len(held)))))
        assert most.tolist() == summary(free)
    assert placed > 30
    assert (free >= 0).all()
