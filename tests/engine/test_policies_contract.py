"""One kit for every entry of the table of policies: determinism, purity, ties, empty input, reasons, names."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from small_worlds import (
    J,
    S,
    audit,
    is_lending,
    is_tiered,
    is_whole,
    starts,
    suited,
    suited_jobs,
    table,
    work,
    workload_of,
)

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import PolicyError
from unrack.events import Submitted
from unrack.policy.contract import Decision, Estimates, Policy, Start
from unrack.policy.orders import ORDERS
from unrack.policy.table import POLICIES, canonical, make_policy, parse_policy
from unrack.reasons import Code, Reason
from unrack.sim.kernel import Kernel
from unrack.sim.simulate import simulate

VARIANTS = [
    *POLICIES,
    *(f"{name}(nodes=whole, place=best-fit)" for name in POLICIES if "nodes" in POLICIES[name].parameters),
    *(
        f"{name}(place=worst-fit, estimates=exact)"
        for name in POLICIES
        if {"nodes", "estimates"} <= set(POLICIES[name].parameters)
    ),
    "easy++(place=worst-fit, correction=request, rounds=events)",
    "easy++(correction=double, predict_at=submission)",
    *(
        f"{name}(order=fcfs)"
        for name in POLICIES
        if {"nodes", "order"} & set(POLICIES[name].parameters) == {"order"} and not is_tiered(name)
    ),
    *(f"first-fit(order={order})" for order in ORDERS),
    *(f"list(order={order}, backfill=easy, depth=3)" for order in ORDERS),
    *(f"conservative(order={order})" for order in ORDERS),
    "list(backfill=any)",
    "slurm(interval=7 s, depth=2, queue=3)",
    "slurm(order=wfp3, interval=1 s)",
    "slurm(interval=7 s, reserve=nodes, place=tightest-run)",
    "slurm(interval=7 s, reserve=slurm)",
]
CLUSTER = Cluster.from_dict({"nodes": [{"count": 3, "cores": 2, "memory": 8}, {"count": 2, "cores": 6, "memory": 24}]})


def some_jobs(seed: int = 7, count: int = 60, gap: float = 1.5) -> list[J]:
    random = np.random.default_rng(seed)
    return [
        J(int(i * gap), int(random.integers(0, 20)), int(random.integers(1, 5)), int(random.integers(0, 30)),
          int(random.integers(1, 3)), int(random.integers(0, 5)), int(random.integers(0, 3)))
        for i in range(count)
    ]  # fmt: skip


def leases(decisions: list[Decision]) -> list[tuple[int, list[list[int]]]]:
    assert all(isinstance(decision, Start) for decision in decisions)
    return [(decision.lease.job, decision.lease.rows.tolist()) for decision in decisions]


class Watched:
    """Lets a policy decide twice and checks that the first time left no trace."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.rounds = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def decide(self, view, memory, now):
        self.rounds += 1
        state = view._state
        before = state.free.tobytes(), bytes(state.conditions), state.version, view.queue.tobytes(), view.asks.tobytes()
        first, _ = self.inner.decide(view, copy.deepcopy(memory), now)
        decisions, memory = self.inner.decide(view, memory, now)
        assert leases(first) == leases(decisions), "the same memory gave other decisions"
        after = state.free.tobytes(), bytes(state.conditions), state.version, view.queue.tobytes(), view.asks.tobytes()
        assert after == before, "decide changed the state"
        return decisions, memory


@pytest.mark.parametrize("text", VARIANTS)
def test_a_policy_is_pure_and_deterministic_and_has_a_reason_for_every_waiting_job(text: str) -> None:
    jobs = table(suited_jobs(text, some_jobs(gap=0.8 if text.startswith("slo") else 1.5)))
    watched = Watched(parse_policy(text))
    cluster = suited(text, CLUSTER)
    core = Core(cluster, jobs, watched)
    waits = 0

    def after_round(now: int) -> None:
        nonlocal waits
        version = core.state.version
        for job in core.view.queue.tolist():
            reason = core.why(job, now)
            assert isinstance(reason, Reason)
            assert reason.code in set(Code)
            assert str(reason)
            waits += 1
        assert core.state.version == version
        wanted = core.next_round(now)
        assert wanted is None or wanted > now

    log = Kernel(core).run(after_round=after_round)
    audit(log, is_whole(text), lends=is_lending(text))
    assert waits > 50, "the workload must make jobs wait"
    assert watched.rounds > 60
    again = simulate(cluster, workload_of(jobs), parse_policy(text)).log
    for name in ("attempt_job", "attempt_start_us", "attempt_end_us", "rows", "state"):
        assert getattr(log, name).tobytes() == getattr(again, name).tobytes()


@pytest.mark.parametrize("text", VARIANTS)
def test_a_policy_does_with_no_jobs_and_starts_a_single_one_at_once(text: str) -> None:
    cluster = suited(text, CLUSTER)
    empty = simulate(cluster, work(), text)
    assert empty.jobs.height == empty.placements.height == 0
    assert empty.metrics["jobs_finished"] == 0
    assert empty.metrics["wait_s_mean"] is None
    if not text.startswith("slurm"):
        assert starts(simulate(cluster, work(*suited_jobs(text, [J(5, 3, 4, mb=2)])), text).log) == [5]


@pytest.mark.parametrize("text", VARIANTS)
def test_equal_jobs_run_in_the_order_of_their_ids(text: str) -> None:
    ids = [40, 7, 23, 11]
    jobs = table([J(0, 60)] * 4, ids)
    result = simulate(suited(text, Cluster.homogeneous(1, 1)), workload_of(jobs), text)
    assert result.jobs["job"].to_list() == sorted(ids)
    assert starts(result.log) == [0, 60, 120, 180]


@pytest.mark.parametrize("text", VARIANTS)
def test_a_policy_is_called_what_the_user_wrote_and_told_apart_by_what_it_does(text: str) -> None:
    policy = parse_policy(text)
    assert isinstance(policy, Policy)
    assert policy.name == text
    assert isinstance(policy.traits.estimates, Estimates)
    assert canonical(parse_policy(text, label="other")) == canonical(policy)
    assert canonical(parse_policy(policy.name)) == canonical(policy)


def test_policies_that_decide_differently_have_different_canonical_names() -> None:
    assert canonical(parse_policy("easy")) == canonical(parse_policy("list(order=fcfs, backfill=easy)"))
    different = ["easy", "fcfs", "sjf", "easy(order=sjf)", "easy(place=best-fit)", "easy(nodes=whole)", "easy(depth=5)",
                 "easy(estimates=exact)", "conservative", "slurm", "slurm(interval=1 h)", "slurm(queue=7)"]  # fmt: skip
    assert len({canonical(parse_policy(text)) for text in different}) == len(different)


def test_the_arrays_of_a_view_cannot_be_written() -> None:
    core = Core(CLUSTER, table([J(0, 5)]), parse_policy("fcfs"))
    view = core.view
    core.handle(Submitted(0), 0)
    for name in ("asks", "free", "total", "online", "status", "submit_us", "priority", "deadline_us", "lease_at",
                 "running", "pool", "queue", "estimate_us"):  # fmt: skip
        with pytest.raises(ValueError, match="read-only"):
            getattr(view, name)[...] = 0


def test_requested_estimates_do_not_tell_a_policy_how_long_jobs_run() -> None:
    jobs = table([J(0, 5, request=50)])
    for text, told in (("easy", 50 * S), ("easy(estimates=exact)", 5 * S)):
        core = Core(CLUSTER, jobs, parse_policy(text))
        assert core.view.estimate_us.tolist() == []
        core.handle(Submitted(0), 0)
        assert core.view.estimate_us.tolist() == [told]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a name such as"),
        ("easier", "'easy' perhaps"),
        ("easy(", "a name such as"),
        ("easy)", "a name such as"),
        ("easy(order)", "key=value"),
        ("easy(order=)", "key=value"),
        ("easy(=sjf)", "key=value"),
        ("easy(,)", "key=value"),
        ("easy(order=sjf,)", "key=value"),
        ("easy(order=sjf, order=ljf)", "each key once"),
        ("easy(order=random)", "one of"),
        ("easy(backfill=any)", "one of order"),
        ("easy(place=firstfit)", "first-fit"),
        ("easy(nodes=half)", "shared"),
        ("easy(estimates=perfect)", "requested"),
        ("easy(depth=0)", "1 or more"),
        ("easy(depth=-3)", "1 or more"),
        ("easy(depth=many)", "1 or more"),
        ("easy(depth=1.5)", "1 or more"),
        ("slurm(interval=0)", "above 0"),
        ("slurm(interval=-5 s)", "above 0"),
        ("slurm(interval=30 parsecs)", "above 0"),
        ("slurm(queue=no)", "1 or more"),
        ("conservative(depth=3)", "one of order"),
        ("fcfs(order=sjf)", "one of backfill"),
        ("easy easy", "a name such as"),
        ("easy(order=sjf) now", "a name such as"),
        ("easy; fcfs", "a name such as"),
        ("EASY", "one of"),
    ],
)
def test_a_malformed_policy_is_refused_with_what_was_wanted(text: str, words: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse_policy(text)
    assert words in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    "parameters",
    [{"order": ["sjf"]}, {"order": None}, {"order": {}}, {"depth": True}, {"depth": [3]}, {"depth": 2.5}, {"nodes": 1},
     {"estimates": ["exact"]}, {"estimates": None}],
)  # fmt: skip
def test_a_parameter_of_the_wrong_type_is_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(PolicyError):
        make_policy("easy", parameters)


@pytest.mark.parametrize("interval", [True, float("nan"), float("inf"), [30], "1e99 s"])
def test_an_interval_that_is_no_time_is_refused(interval: object) -> None:
    with pytest.raises(PolicyError, match="interval"):
        make_policy("slurm", {"interval": interval})


def test_a_depth_larger_than_any_queue_is_unlimited() -> None:
    assert starts(simulate(CLUSTER, work(J(0, 1)), f"easy(depth={10**30})").log) == [0]
    assert canonical(parse_policy(f"easy(depth={10**30})")) == canonical(parse_policy("easy"))
