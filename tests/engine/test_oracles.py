"""Schedules and placements against naive ones: textbook backfill by counting, plain Python passes, sorted nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_first_fit import first_fit
from small_worlds import J, S, clusters, job_lists, starts, table, workload_of
from tries import draws, seeds

from unrack.cluster.spec import Cluster
from unrack.errors import PolicyError
from unrack.ledger.lease import nodes_of
from unrack.policy.discipline.list_scheduler import ListScheduler
from unrack.policy.placement.lent_memory import FITS
from unrack.policy.placement.node_kernel import place_one, room_for
from unrack.policy.table import parse_policy
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.workload.job import JobTable

Running = dict[int, int]
"""Job → booked end."""


def naive_easy(
    queue: list[int], jobs: JobTable, running: Running, free: int, now: int, shortest: bool = False
) -> list[int]:
    """EASY by counting processors (Mu'alem and Feitelson 2001, section 2.2): who starts now.

    ``shortest``: whoever may pass the head is tried by shortest first (EASY-SJBF, Tsafrir et al. 2007).
    """
    size, length = jobs.tasks.tolist(), jobs.request_us.tolist()
    begun: list[int] = []
    left = list(queue)
    while left and size[left[0]] <= free:
        free -= size[left[0]]
        begun.append(left.pop(0))
    if not left:
        return begun
    ends = sorted((max(end, now + 1), size[job]) for job, end in running.items())
    ends = sorted(ends + [(max(now + length[job], now + 1), size[job]) for job in begun])
    shadow, extra, available = None, 0, free
    for end, released in ends:
        if shadow is not None and end > shadow:
            break
        available += released
        if available >= size[left[0]]:
            shadow = end
            extra = available - size[left[0]]
    for job in sorted(left[1:], key=lambda job: length[job] if shortest else 0):
        if size[job] > free:
            continue
        if now + length[job] > shadow:
            if size[job] > extra:
                continue
            extra -= size[job]
        free -= size[job]
        begun.append(job)
    return begun


class NaiveConservative:
    """Conservative backfill by counting processors (the same paper, section 2.1), with a reservation a job."""

    def __init__(self, jobs: JobTable) -> None:
        self.size, self.length = jobs.tasks.tolist(), [max(1, length) for length in jobs.request_us.tolist()]
        self.reserved: dict[int, int] = {}
        self.plans: Running = {}

    def earliest(self, job: int, now: int, running: Running, free: int) -> int:
        def available(time: int) -> int:
            ended = sum(self.size[other] for other, end in running.items() if max(end, now + 1) <= time)
            taken = sum(
                self.size[other] for other, start in self.reserved.items() if start <= time < start + self.length[other]
            )
            return free + ended - taken

        times = {now, *(max(end, now + 1) for end in running.values())}
        for other, start in self.reserved.items():
            times |= {start, start + self.length[other]}
        for start in sorted(times):
            points = [start, *(time for time in times if start < time < start + self.length[job])]
            if all(available(time) >= self.size[job] for time in points):
                return start
        raise AssertionError("after all others have ended it fits")

    def __call__(self, queue: list[int], jobs: JobTable, running: Running, free: int, now: int) -> list[int]:
        early = any(end > now for job, end in self.plans.items() if job not in running)
        for job in queue:
            if early or job not in self.reserved:
                self.reserved.pop(job, None)
                self.reserved[job] = self.earliest(job, now, running, free)
        begun = [job for job in queue if self.reserved[job] == now]
        for job in begun:
            del self.reserved[job]
        self.plans = running | {job: now + self.length[job] for job in begun}
        return begun


def naive_run(jobs: JobTable, processors: int, decide) -> list[int | None]:
    """Start times in s, by the plainest loop: at each time the ends, then the submissions, then one round."""
    running: Running = {}
    ends: dict[int, int] = {}
    queue: list[int] = []
    found: list[int | None] = [None] * len(jobs)
    coming = [job for job in range(len(jobs)) if jobs.tasks[job] <= processors]
    while coming or ends or getattr(decide, "reserved", None):
        promised = list(getattr(decide, "reserved", {}).values())
        now = min([int(jobs.submit_us[job]) for job in coming[:1]] + list(ends.values()) + promised)
        for job in [job for job, end in ends.items() if end == now]:
            del ends[job], running[job]
        while coming and jobs.submit_us[coming[0]] == now:
            queue.append(coming.pop(0))
        free = processors - sum(int(jobs.tasks[job]) for job in running)
        for job in decide(queue, jobs, running, free, now):
            running[job] = now + int(jobs.request_us[job])
            ends[job] = now + int(jobs.work_us[job])
            found[job] = now // S
            queue.remove(job)
    assert not queue
    return found


def random_table(seed: int, over: bool, least: int = 0) -> tuple[JobTable, int]:
    """About 30 jobs on up to 12 processors, loaded enough to queue.

    ``over``: some run longer than they asked; ``least``: all ask for so many seconds.
    """
    random = np.random.default_rng(seed)
    jobs, submit = [], 0
    for _ in range(random.integers(5, 30)):
        submit += int(random.integers(0, 4))
        run = int(random.integers(0, 15))
        request = int(random.integers(0, 20)) if over else run + int(random.integers(0, 3)) * int(random.integers(0, 9))
        jobs.append(J(submit, run, int(random.integers(1, 9)), max(request, least)))
    return table(jobs), int(random.integers(6, 12))


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.draws(300)
def test_easy_is_the_textbook_schedule_on_hundreds_of_random_traces(over: bool) -> None:
    passed = 0
    for seed in seeds(300):
        jobs, processors = random_table(seed, over)
        log = simulate(Cluster.homogeneous(processors, 1), workload_of(jobs), "easy").log
        assert starts(log) == naive_run(jobs, processors, naive_easy), f"seed {seed}"
        first = [start for start in starts(log) if start is not None]
        passed += first != sorted(first)
    assert passed > len(seeds(300)) * 2 // 3, "the traces must make jobs pass each other"


@pytest.mark.long
@pytest.mark.draws(300)
@pytest.mark.parametrize("over", [False, True])
def test_easy_sjbf_is_the_textbook_schedule_and_keeps_the_head_by_arrival(over: bool) -> None:
    unlike_easy = unlike_sjf = 0
    for seed in seeds(300):
        jobs, processors = random_table(seed, over)
        cluster = Cluster.homogeneous(processors, 1)
        begun = starts(simulate(cluster, workload_of(jobs), "easy(backfill_order=sjf)").log)
        assert begun == naive_run(jobs, processors, partial(naive_easy, shortest=True)), f"seed {seed}"
        easy, sjf = (
            starts(simulate(cluster, workload_of(jobs), name, audit=False).log) for name in ("easy", "easy(order=sjf)")
        )
        unlike_easy, unlike_sjf = unlike_easy + (begun != easy), unlike_sjf + (begun != sjf)
    assert min(unlike_easy, unlike_sjf) > len(seeds(300)) // 6


@pytest.mark.long
@pytest.mark.draws(200)
def test_a_limit_of_depth_means_the_same_whether_or_not_a_pass_could_be_spared() -> None:
    moved = 0
    for seed in seeds(200):
        jobs, processors = random_table(seed, over=False)
        cluster = Cluster.homogeneous(processors, 1)
        for backfill in ("any", "easy"):
            spared, plain, free = (
                starts(simulate(cluster, workload_of(jobs), ListScheduler("fcfs", place, backfill, depth=depth)).log)
                for place, depth in (("first-fit", 1), (first_fit, 1), (first_fit, 100))
            )
            assert spared == plain, f"seed {seed}, {backfill}"
            moved += spared != free
    assert moved > len(seeds(200)) // 4, "the limit must matter"


def test_an_order_of_those_who_pass_is_refused_where_nobody_may_pass() -> None:
    with pytest.raises(PolicyError, match="backfill_order"):
        parse_policy("fcfs(backfill_order=sjf)")
    assert parse_policy("fcfs(backfill=easy, backfill_order=sjf)").backfill_order == "sjf"


@pytest.mark.draws(200)
def test_conservative_is_the_textbook_schedule_on_hundreds_of_random_traces() -> None:
    passed = 0
    for seed in seeds(200):
        jobs, processors = random_table(1000 + seed, over=False, least=1)
        log = simulate(Cluster.homogeneous(processors, 1), workload_of(jobs), "conservative").log
        assert starts(log) == naive_run(jobs, processors, NaiveConservative(jobs)), f"seed {seed}"
        passed += starts(log) != starts(simulate(log.cluster, workload_of(jobs), "easy").log)
    assert passed > len(seeds(200)) // 10, "the traces must tell conservative from EASY"


@pytest.mark.long
@pytest.mark.draws(60)
def test_counting_cores_of_wide_nodes_is_counting_processors() -> None:
    for seed in seeds(60):
        jobs, _ = random_table(5000 + seed, over=False)
        wide = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}, {"count": 1, "cores": 2}]})
        for name in ("easy", "conservative", "fcfs", "easy(order=largest)", "conservative(order=sjf)"):
            narrow = simulate(Cluster.homogeneous(10, 1), workload_of(jobs), name).log
            for place in ("first-fit", "worst-fit"):
                spread = replace(parse_policy(name), place=place)
                assert starts(simulate(wide, workload_of(jobs), spread).log) == starts(narrow)


@draws(300)
@given(
    cluster=clusters(), jobs=st.booleans().flatmap(lambda honest: job_lists(honest, most=20)),
    backfill=st.sampled_from(["none", "any", "easy"]), depth=st.sampled_from([1, 3, 2**40]),
    order=st.sampled_from(["fcfs", "sjf", "largest", "wfp3"]), exact=st.booleans(),
    second=st.sampled_from([None, "fcfs", "sjf", "wfp3"]),
    ties=st.sampled_from(["together", "submit-first", "finish-first"]),
)  # fmt: skip
def test_the_compiled_pass_and_the_plain_one_make_the_same_schedule_on_the_same_nodes(
    cluster: Cluster, jobs: list[J], backfill: str, depth: int, order: str, exact: bool, second: str | None, ties: str
) -> None:
    estimates, second = "exact" if exact else "requested", None if backfill == "none" else second
    logs = [
        simulate(
            cluster,
            workload_of(table(jobs)),
            ListScheduler(order, place, backfill, depth=depth, estimates=estimates, backfill_order=second),
            world=World(ties=ties),
        ).log
        for place in ("first-fit", first_fit)
    ]
    assert starts(logs[0]) == starts(logs[1])
    held = [[nodes_of(log.rows[a:b]).tolist() for a, b in pairs(log)] for log in logs]
    assert held[0] == held[1]


def pairs(log) -> list[tuple[int, int]]:
    return list(zip(log.attempt_rows[:-1].tolist(), log.attempt_rows[1:].tolist(), strict=True))


def sorted_fit(free: np.ndarray, total: np.ndarray, ask: list[int], whole: bool, fit: str) -> dict[int, int] | None:
    """Node → tasks, by sorting the nodes and filling them one task at a time."""
    tasks, cores, mb = ask
    sign = {"first-fit": 0, "best-fit": 1, "worst-fit": -1}[fit]
    nodes = sorted(range(free.shape[1]), key=lambda n: (sign * free[0, n], sign * free[1, n], n))
    found: dict[int, int] = {}
    for node in nodes:
        if whole and free[0, node] != total[0, node]:
            continue
        while (
            tasks
            and (found.get(node, 0) + 1) * cores <= free[0, node]
            and (found.get(node, 0) + 1) * mb <= free[1, node]
        ):
            found[node] = found.get(node, 0) + 1
            tasks -= 1
    return None if tasks else found


SORTED = ("first-fit", "best-fit", "worst-fit")
"""Those of FITS that go by an order of the nodes."""


@draws(300)
@given(
    nodes=st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 9), st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=9
    ),
    tasks=st.integers(1, 12),
    cores=st.integers(1, 4),
    mb=st.integers(0, 4),
    whole=st.booleans(),
    fit=st.sampled_from(SORTED),
)
def test_first_best_and_worst_fit_choose_the_nodes_that_sorting_chooses(
    nodes: list[tuple[int, int, int, int]], tasks: int, cores: int, mb: int, whole: bool, fit: str
) -> None:
    total = np.array([[n[0] for n in nodes], [n[1] for n in nodes]])
    free = np.array([[min(n[0], n[2]) for n in nodes], [min(n[1], n[3]) for n in nodes]])
    before = free.copy()
    rows = place_one(free, total, tasks, cores, mb, whole, FITS[fit])
    assert (free == before).all()
    want = sorted_fit(free, total, [tasks, cores, mb], whole, fit)
    got = {}
    for first, count, here, held, held_mb in rows.tolist():
        for node in range(first, first + count):
            got[node] = here
            assert held == (total[0, node] if whole else here * cores)
            assert held_mb == here * mb
    assert got == (want or {})
    assert (room_for(free, total, cores, mb, whole) >= tasks) == (want is not None)


def test_best_fit_fills_the_fullest_node_first_and_worst_fit_the_emptiest() -> None:
    total = np.array([[8, 8, 8], [9, 9, 9]])
    free = np.array([[6, 2, 8], [9, 9, 9]])
    chosen = {fit: nodes_of(place_one(free, total, 1, 2, 0, False, FITS[fit])).tolist() for fit in SORTED}
    assert chosen == {"first-fit": [0], "best-fit": [1], "worst-fit": [2]}
