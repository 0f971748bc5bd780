"""Disciplines over jobs that hold several kinds of things at once: the laws, and what was promised is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from law_worlds import World, attempts, begun, faults
from mixed_worlds import ASKS, DISCIPLINES, DRIVES, MIXES, everything, honest, mixed_cases, with_rules
from test_laws import Make, in_turn
from tries import seeds

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.events import Round, Submitted
from unrack.kernels.arrays import Ints
from unrack.ledger.copies import device_line
from unrack.ledger.devices.line_kernel import least
from unrack.ledger.lease import LENDER
from unrack.ledger.state import FINISHED, REJECTED
from unrack.policy.contract import Start
from unrack.policy.discipline.list_scheduler import UNLIMITED, ListScheduler
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.discipline.walk import HEADS, SHADOW
from unrack.policy.placement.lent_memory import LentMemory
from unrack.policy.table import parse_policy
from unrack.reasons import Code
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.view import View
from unrack.workload.job import JobTable, job_table
from unrack.workload.tier_asks import NO_CEILING, tier_asks

CASES = list(mixed_cases())
S = 1_000_000


def world_of(mix: str, seed: int) -> World:
    """A world of a mix with faults; memory that is lent is contended in every second."""
    make, rules = MIXES[mix]
    cluster, jobs, models = make(seed)
    lent = rules.get("memory", "slo") != "slo"
    computing, span = int((cluster.cores > 0).sum()), int(jobs.submit_us[-1]) // S
    struck = faults(np.random.default_rng(seed), computing, span, most=5)
    return World(cluster, jobs, models, "synthetic" if lent and seed % 2 else None, struck)


def every_cell() -> Iterator[Any]:
    """Every law over every case: two laws of each in turn always, the others with the slow tests."""
    for case, (text, mix) in enumerate(CASES):
        for law, marks in in_turn(case, 2):
            name = f"{text}-{mix}-{law.__name__.removeprefix('check_')}"
            yield pytest.param(law, text, mix, id=name, marks=marks)


@pytest.mark.parametrize(("law", "text", "mix"), list(every_cell()))
def test_every_discipline_keeps_every_law_over_every_mix(
    law: Callable[[Make, World], None], text: str, mix: str
) -> None:
    law(lambda: text, world_of(mix, seed=CASES.index((text, mix)) % 4))


@pytest.mark.parametrize(
    "mix",
    [
        "everything",
        "everything-whole",
        "counted",
        "counted-lent",
        "gpus-fgd",
        "gpus-whole",
        "links-whole",
        "power",
        "power-lent",
        "tiers-and-pools",
    ],
)
def test_no_reservation_ever_moves_back(mix: str) -> None:
    """Of honest requests, whatever jobs hold: also as sharers join and leave, and compositions come and go.

    Under a model requests are exact: some of its measured times grow as sharers leave, so that an early end may delay.
    """
    make, rules = MIXES[mix]
    for seed in range(6):
        cluster, jobs, models = make(seed)
        kernel = begun(World(cluster, honest(jobs, exact=bool(models)), models), with_rules("conservative", **rules))
        first, log = watch_promises(kernel)
        assert first, "nobody had to wait"
        assert set(log.state.tolist()) <= {FINISHED, REJECTED}


def watch_promises(kernel: Kernel) -> tuple[dict[int, int], RunLog]:
    """A run in which no reservation moves back; the first of each job, and the log."""
    first: dict[int, int] = {}
    handle = kernel.core.handle

    def watched(event: Any, now: int) -> Any:
        decisions = handle(event, now)
        if type(event) is Round:
            for job, promise in kernel.core.state.promises.by_job().items():
                assert promise.start_us <= first.setdefault(job, promise.start_us), (job, now)
            for decision in decisions:
                assert now <= first.get(decision.lease.job, now), (decision.lease.job, now)
        return decisions

    kernel.core.handle = watched  # type: ignore[method-assign]
    return first, kernel.run()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_who_lends_starts_no_tasks_and_who_borrows_stays_in_its_group(discipline: str, seed: int) -> None:
    cluster, jobs, models = everything(seed)
    text = with_rules(discipline, memory="disaggregated")
    kernel = begun(World(cluster, jobs, models), text)
    handle = kernel.core.handle

    def watched(event: Any, now: int, handle: Any = handle, kernel: Any = kernel, text: str = text) -> Any:
        lent = kernel.core.view.lent.copy()
        decisions = handle(event, now)
        for decision in decisions:
            lease = decision.lease if isinstance(decision, Start) else None
            if lease is not None:
                assert not lent[lease.nodes].any(), (text, now, lease)
                group = kernel.core.state.cluster.lending_group
                assert (group[lease.borrowed[:, 0]] == group[lease.borrowed[:, LENDER]]).all()
                lent[lease.borrowed[:, LENDER]] += lease.borrowed[:, 2]
        return decisions

    kernel.core.handle = watched  # type: ignore[method-assign]
    kernel.run()


def test_a_task_with_devices_borrows_what_its_node_lacks() -> None:
    cluster, _, _ = everything(1)
    one = np.ones(1, np.int64)
    drives = {("nvme", "bandwidth_mb_s"): 1800 * one, ("nvme", "capacity_mb"): 40_000 * one}
    jobs = job_table(submit_us=0 * one, work_us=S * one, tasks=one, cores=one, memory_mb=20 * one, devices=drives)
    for text in ("easy", "conservative", "slurm", "list"):
        core = Core(cluster, jobs, parse_policy(f"{text}(memory=disaggregated)"))
        core.handle(Submitted(0), 0)
        (start,) = core.handle(Round(), 0)
        assert isinstance(start, Start)
        assert start.lease.rows[:, 4].sum() + start.lease.borrowed[:, 2].sum() == 20
        assert len(start.lease.shares) == 1
        core = Core(cluster, jobs, parse_policy(text))
        assert core.handle(Submitted(0), 0)[0].reason.code == Code.TOO_BIG, "without lending it has no place"  # type: ignore[union-attr]


def without_devices(jobs: JobTable) -> JobTable:
    """The same, and nobody asks for devices."""
    return replace(jobs, devices={})


@pytest.mark.parametrize("discipline", ["easy", "conservative", "slurm(interval=1 s)"])
def test_replicas_that_are_to_start_at_one_time_keep_apart(discipline: str) -> None:
    """Two wait for two nodes, each of which has room for both."""
    cluster = Cluster.from_dict({
        "nodes": [{"count": 1, "name": f"c{i}", "cores": 2, "memory": "8 MB"} for i in range(2)],
        "memory_pools": [{"name": "far", "count": 1, "memory": "8 MB", "tier": "far"}],
        "tiers": [{"name": "local", "price": 4}, {"name": "far", "cost": 2}],
        "pool_clusters": [["node0", "node2"], ["node1", "node2"]],
    })  # fmt: skip
    group, apart = (pl.Series([None, None, word, word]) for word in ("g", "node"))
    jobs = job_table(
        submit_us=np.array([0, 0, 1, 2]) * S, work_us=np.array([10, 10, 5, 5]) * S, tasks=np.ones(4, np.int64),
        cores=np.array([2, 2, 1, 1]), memory_mb=np.full(4, 2),
        slo=tier_asks(np.full(4, 2), np.full(4, NO_CEILING), group=group, spread=apart),
    )  # fmt: skip
    log = begun(World(cluster, jobs), with_rules(discipline, memory="slo")).run()
    assert (log.attempt_start_us.tolist(), log.rows[:, 0].tolist()) == ([0, 0, 10 * S, 10 * S], [0, 1, 0, 1])


class OneByOne(ListScheduler):
    """A list that places every job by the rules for all that jobs ask for."""

    def how(self, view: View) -> tuple[bool, Any, bool, bool, Ints]:
        """As if nodes and memory could not be chosen alone."""
        whole, _, *others = super().how(view)
        return whole, "", *others


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rule", ["strawman", "naive", "local", "local-spread", "disaggregated", "contention-aware"])
def test_who_asks_for_nothing_but_memory_is_placed_as_by_the_rules_for_all_that_jobs_ask_for(
    rule: str, seed: int
) -> None:
    cluster, jobs, _ = everything(seed, count=40)
    world = World(cluster, without_devices(jobs), (), "synthetic" if seed % 2 else None)
    terms: dict[str, Any] = {"threshold": (None, 0.5, 0.0)[seed % 3], "group": ("all", "rack")[seed % 2]}
    memory = LentMemory(rule, **terms, near=seed % 4 == 1)
    nodes = ("whole", "shared")[seed // 3 % 2]
    for backfill, depth, order in (("none", UNLIMITED, "fcfs"), ("easy", UNLIMITED, "wfp3"), ("easy", 3, "sjf")):
        ours, theirs = (
            begun(world, kind(order, "first-fit", backfill, nodes=nodes, depth=depth, memory=memory)).run()
            for kind in (ListScheduler, OneByOne)
        )
        assert len(ours.loans) or rule == "local"
        assert attempts(ours, 2**60) == attempts(theirs, 2**60), (backfill, depth, order, seed)


def sharers(seed: int, count: int = 20) -> World:
    """Two drives that many share, and slow each other down by it, on two small nodes; requests are exact."""
    random = np.random.default_rng(seed)
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 3, "memory": 8}], "pools": [{**DRIVES, "count": 2}]})
    asks = random.random(count) < 0.6
    submit = np.sort(random.integers(0, 3000, count)) * S
    work = np.where(asks, 1600, random.integers(100, 1500, count)) * S
    jobs = job_table(
        submit_us=submit, work_us=work, request_us=work, memory_mb=np.zeros(count, np.int64),
        tasks=np.where(asks, 1, random.integers(1, 4, count)), cores=np.where(asks, 1, random.integers(1, 3, count)),
        app=pl.Series(np.where(asks, "smufin", "other").tolist()),
        devices={("nvme", name): np.where(asks, most, 0) for name, most in ASKS.items()},
    )  # fmt: skip
    return World(cluster, jobs, ("smufin",))


@pytest.mark.parametrize("place", ["disaggregation-aware", "min-fragmentation"])
@pytest.mark.draws(25)
def test_who_shares_delays_nobody_with_a_reservation(place: str) -> None:
    for seed in seeds(25):
        watch_promises(begun(sharers(seed), f"conservative(place={place})"))


def detached(seed: int, count: int = 25) -> World:
    """Drives that are held for 7 s after their job, and in every third world attached for 3 s before; on four nodes."""
    random = np.random.default_rng(seed)
    pool = {
        "kind": "nvme", "count": 4, "share": 1 + seed % 2, "compose": 2, "quantities": {"capacity_mb": 1000},
        "detach_latency": "7 s", "attach_latency": "3 s" if seed % 3 == 0 else 0,
    }  # fmt: skip
    work = random.integers(5, 40, count) * S
    asks = np.where(random.random(count) < 0.6, random.integers(100, 1900, count), 0)
    jobs = job_table(
        submit_us=np.sort(random.integers(0, 120, count)) * S, work_us=work, request_us=work,
        tasks=random.integers(1, 3, count), cores=random.integers(1, 3, count),
        memory_mb=random.integers(0, 2, count), devices={("nvme", "capacity_mb"): asks},
    )  # fmt: skip
    return World(Cluster.from_dict({"nodes": [{"count": 4, "cores": 4, "memory": 8}], "pools": [pool]}), jobs)


@pytest.mark.draws(40)
def test_no_reservation_moves_back_where_devices_stay_held_for_a_while() -> None:
    for seed in seeds(40):
        watch_promises(begun(detached(seed), "conservative"))


def columns_now(kernel: Kernel) -> Any:
    return kernel.core.memory.columns


def watch_heads(kernel: Kernel) -> int:
    """A run under EASY in the order of arrival in which no head starts later than it was first told; how many heads."""
    told: dict[int, int] = {}
    handle = kernel.core.handle

    def watched(event: Any, now: int) -> Any:
        decisions = handle(event, now)
        if type(event) is Round:
            for decision in decisions:
                job = decision.lease.job
                assert now <= told.get(job, now), (job, now, told[job])
            walk, view, heads = columns_now(kernel).walk, kernel.core.view, columns_now(kernel).heads
            if view.waiting and walk[HEADS] > 0 and heads[0, SHADOW] >= now:
                told.setdefault(int(view.queue[0]), int(heads[0, SHADOW]))
        return decisions

    kernel.core.handle = watched  # type: ignore[method-assign]
    kernel.run()
    return len(told)


@pytest.mark.parametrize(
    "mix", ["everything", "counted", "spread", "spread-lent", "gpus-whole", "links-whole", "power"]
)
def test_easy_never_delays_the_head(mix: str) -> None:
    make, rules = MIXES[mix]
    heads = 0
    for seed in range(6):
        cluster, jobs, models = make(seed)
        world = World(cluster, honest(jobs, exact=bool(models)), models)
        heads += watch_heads(begun(world, with_rules("easy", **rules)))
    assert heads


@pytest.mark.draws(70)
def test_easy_never_delays_the_head_where_devices_stay_held_for_a_while() -> None:
    for seed in seeds(70, 100):
        assert watch_heads(begun(detached(seed), "easy"))


def nobody_is_moved(made: Plan, choices: Any, chosen: Any, start_us: int) -> bool:
    """Who ends later as he shares is not looked at."""
    return True


def nobody_comes(line: Any, start_us: int, end_us: int) -> int:
    """Who is to hold devices later is not looked at."""
    return int(least(line, start_us, start_us))


@pytest.mark.parametrize(
    ("what", "name", "bug"), [(Plan, "_moves", nobody_is_moved), (device_line, "least", nobody_comes)]
)
def test_a_reservation_that_would_delay_another_is_caught(
    what: Any, name: str, bug: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bugs of the promise."""

    def promises() -> None:
        test_who_shares_delays_nobody_with_a_reservation("min-fragmentation")
        test_no_reservation_ever_moves_back("everything")

    monkeypatch.setattr(Plan, "chosen_in_kernel", lambda plan, jobs: False)
    monkeypatch.setattr(what, name, bug)
    with pytest.raises(AssertionError):
        promises()
