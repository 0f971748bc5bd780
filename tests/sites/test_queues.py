"""Queues with quotas: the engine against schedulers in plain Python, and laws of what is borrowed and lent."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from queue_twins import Loop, QueueSite, Reserving, easy, fcfs, random_queues
from reclaim_twins import Reclaiming, random_reclaim
from test_site_laws import jobs_of
from test_site_laws import starts as law_starts

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import explain
from unrack.sim.recorder import Outcome
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table
from unrack.workload.site.settled import SAID


def starts(site: QueueSite, policy: str) -> dict[int, int]:
    """Job → start, of those that ran."""
    jobs = unrack.simulate(site.cluster, site.workload, policy).jobs
    ran = jobs.filter(jobs["state"] == "finished")
    return {int(job) - 1: round(start) for job, start in zip(ran["job"], ran["start_s"], strict=True)}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_first_come_first_served(seed: int, several: bool) -> None:
    site = random_queues(seed, several=several)
    assert starts(site, "fcfs") == Loop(site).run(fcfs)


@pytest.mark.parametrize("seed", range(60))
def test_easy(seed: int) -> None:
    site = random_queues(seed)
    assert starts(site, "easy") == Loop(site).run(easy)


@pytest.mark.parametrize("seed", range(60))
def test_conservative(seed: int) -> None:
    site = random_queues(seed, jobs=40, exact=True)
    assert starts(site, "conservative") == Reserving(site).plan()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", [*range(60), 5158, 5178])
def test_reclaim_under_first_come_first_served(seed: int, several: bool) -> None:
    site = random_reclaim(seed, several=several)
    found = unrack.simulate(site.cluster, site.workload, "fcfs").placements
    rows = found.select("job", "start_s", "end_s", "outcome").iter_rows()
    wanted = set(Reclaiming(site).over())
    assert {(int(job) - 1, round(start), round(end), outcome) for job, start, end, outcome in rows} == wanted


POLICIES = (
    "fcfs",
    "list(backfill=any, order=sjf)",
    "easy",
    "conservative",
    "slurm",
    "flow(interval=2000 s)",
    "best-fit",
)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(4))
def test_no_quota_is_exceeded_and_what_is_borrowed_shrinks_with_every_reclaim(seed: int, policy: str) -> None:
    site = random_reclaim(seed, 40, several=seed % 2 == 0)
    assert site.preempt is not None
    site.preempt["victims"] = ("youngest", "fewest", "cheapest")[seed % 3]
    told, jobs = unrack.simulate(site.cluster, site.workload, policy), site.jobs  # what was held is audited
    log = told.log
    spans = spans_of(site, told)
    for moment in sorted({start for _, start, *_ in spans}):
        use: dict[tuple[str, str], int] = {}
        for job, start, end, flavour in spans:
            if start <= moment < end:
                key = jobs[job].queue, flavour
                use[key] = use.get(key, 0) + jobs[job].asked
        assert all(site.room(use, queue, flavour, 0) for queue, flavour in use)
    assert told.metrics["preemptions"] == len(log.preempted) < 10 * len(jobs)
    ids = [str(job) for job in site.workload.jobs.ids]
    starts_of = {(int(j), int(t)) for j, t in zip(log.attempt_job, log.attempt_start_us, strict=True)}
    stopped: set[tuple[int, int]] = set()
    for attempt, preempted in log.preempted.items():
        job, end = int(log.attempt_job[attempt]), int(log.attempt_end_us[attempt])
        other = ids.index(preempted.reason.what.removeprefix("for job "))
        assert (other, end) in starts_of, "it was preempted in vain"
        assert Reclaiming(site).may(jobs[other], jobs[job])
        assert (job, end) not in stopped, "it was stopped twice at one time"
        stopped.add((job, end))
        if jobs[job].queue != jobs[other].queue:  # who lends is within its nominal quota then
            queue = jobs[other].queue
            mine = next(f for j, start, _, f in spans if j == other and start == end / 1e6)
            used = sum(jobs[j].asked for j, s, e, f in spans
                       if jobs[j].queue == queue and f == mine and s < end / 1e6 < e)  # fmt: skip
            assert used + jobs[other].asked <= site.quotas[queue][mine].nominal
    finished = log.attempt_job[log.attempt_outcome == Outcome.FINISHED].tolist()
    assert sorted(finished) == [n for n, job in enumerate(jobs) if site.possible(job)]


def spans_of(site: QueueSite, told: unrack.Result) -> list[tuple[int, float, float, str]]:
    """Job, start, end and the flavour whose quota it held, of every attempt."""
    held = told.tables["claims"].filter(pl.col("place").str.starts_with("cores of queue "))
    return [
        (int(job) - 1, start, end, place.rpartition(", flavour ")[2])
        for job, start, end, place in held.select("job", "start_s", "end_s", "place").iter_rows()
    ]


NODES = {"nodes": [{"count": 4, "cores": 2, "memory": 4}]}
PLAIN = ("fcfs", "easy", "conservative", "slurm(interval=10 s)", "flow(interval=0)", "best-fit")


@pytest.mark.parametrize("policy", PLAIN)
@pytest.mark.parametrize("by_quota", [False, True])
def test_quotas_that_nobody_reaches_change_nothing(policy: str, by_quota: bool) -> None:
    jobs = jobs_of(2)
    count = len(jobs["tasks"])
    much = {"cores": 10**6, "memory": "900 TB"}
    own = {"cohort": "all", "reclaim": "any", "within": "lower-priority"}
    quotas = [{"flavour": "any", "nominal": much, "lend": {"cores": 10}}]
    site: dict[str, Any] = {
        "partitions": [{"name": "any"}],
        "queues": [{"name": name, "quotas": quotas, **own} for name in "ab"],
    }
    site |= {"preempt": {"by": "quota"}} if by_quota else {}
    after = law_starts(NODES | {"site": site}, jobs, policy, queue=["a", "b"] * (count // 2))
    assert after == law_starts(NODES, jobs, policy)


def test_what_is_waited_for_is_told_by_queue_and_flavour() -> None:
    site = {
        "partitions": [{"name": "spot"}],
        "queues": [
            {"name": "a", "cohort": "z", "quotas": [{"flavour": "spot", "nominal": {"cores": 3}}]},
            {"name": "b", "cohort": "z", "quotas": [{"flavour": "spot", "nominal": {"cores": 1}}]},
        ],
    }
    jobs = {
        "submit_us": np.array([0, 1]) * 10**6, "work_us": np.full(2, 100 * 10**6), "tasks": np.array([4, 1]),
    }  # fmt: skip
    table = job_table(**jobs, extra=pl.DataFrame({"queue": ["a", "b"]}))
    story = explain(Cluster.from_dict(NODES | {"site": site}), table, parse_policy("easy"), 1)
    told = [str(spell.reason) for spell in story.spells]
    assert told == ["limit: cores of cohort z, flavour spot (asked 1, free 0)"]


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ({"quotas": [{"nominal": {"cores": -1}}]}, "whole number of 0 or more"),
        ({"quotas": [{"nominal": {"cores": 1}, "borrow": {"cores": 1}}]}, "only in a cohort"),
        ({"cohort": "z", "quotas": [{"nominal": {"cores": 1}, "lend": {"memory": 1}}]}, "not memory"),
        (
            {"cohort": "z", "quotas": [{"nominal": {"cores": 1}, "lend": {"cores": 2}}]},
            "at most the 1 cores of nominal",
        ),
        ({"quotas": [{"flavour": "x", "nominal": {"cores": 1}}]}, "not 'x'"),
        ({"quotas": [{"nominal": {"nodes": 1}}]}, "not nodes"),
        ({"quotas": [{"nominal": {"cores": 1}}, {"nominal": {"memory": 1}}]}, "each flavour once"),
        ({"also": ["q"]}, "not two 'q'"),
        ({"reclaim": "often"}, "reclaim"),
    ],
)
def test_queues_that_make_no_sense_are_refused(queue: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        Cluster.from_dict(NODES | {"site": {"queues": [{"name": "q", **queue}]}})


def test_too_many_queues_that_keep_something_are_refused() -> None:
    own = [{"nominal": {"cores": 2}, "lend": {"cores": 1}}]
    queues = [{"name": f"q{n}", "cohort": "z", "quotas": own} for n in range(9)]
    with pytest.raises(ClusterError, match="at most 8 queues of a cohort"):
        Cluster.from_dict(NODES | {"site": {"queues": queues}})


def test_who_asks_for_a_queue_that_is_shut_unknown_or_too_small_never_runs() -> None:
    site = {"queues": [
        {"name": "a", "also": ["team/a"], "quotas": [{"nominal": {"cores": 1}}]},
        {"name": "shut", "open": False}, {"name": "rest", "default": True},
    ]}  # fmt: skip
    jobs = {"submit_us": np.zeros(6, np.int64), "work_us": np.full(6, 10**6), "tasks": np.array([1, 2, 1, 1, 1, 1])}
    said = {"queue": ["a", "a", "shut", "other", "", "a"], "account": ["", "", "", "", "", "team"]}
    assert [start is None for start in law_starts(NODES | {"site": site}, jobs, "easy", **said)] == [
        False, True, True, True, False, False,
    ]  # fmt: skip


def test_columns_that_say_two_things_are_kept_once() -> None:
    assert len(set(SAID)) == len(SAID)


def test_a_job_that_others_are_stopped_for_counts_for_the_flavour_in_which_it_borrows_nothing() -> None:
    """The node that is given back is of both flavours, of the first of which the queue uses its all."""
    quotas = [{"flavour": "wide", "nominal": {"cores": 4}}, {"flavour": "narrow", "nominal": {"cores": 4}}]
    other = [{"flavour": "wide", "nominal": {"cores": 4}}, {"flavour": "narrow", "nominal": {"cores": 0}}]
    for order in (quotas, quotas[::-1]):
        site = {
            "partitions": [{"name": "wide", "nodes": ["0-1"]}, {"name": "narrow", "nodes": ["0"]}],
            "preempt": {"by": "quota"},
            "queues": [
                {"name": "mine", "cohort": "c", "reclaim": "any", "quotas": order},
                {"name": "theirs", "cohort": "c", "quotas": other},
            ],
        }
        rows = {
            "submit_us": np.array([0, 0, 2]) * 10**6, "work_us": np.array([500, 100, 10]) * 10**6,
            "request_us": np.array([500, 100, 10]) * 10**6, "tasks": np.ones(3, np.int64), "cores": np.full(3, 4),
        }  # fmt: skip
        extra = {"queue": ["mine", "theirs", "mine"], "partition": ["wide", "narrow", ""], "req_nodes": ["1", "", ""]}
        jobs = job_table(**rows, extra=pl.DataFrame(extra))
        cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "site": site})
        found = unrack.simulate(cluster, Workload("w", jobs, Intake("", "", 0, 0)), "fcfs")
        assert found.jobs["start_s"].to_list()[2] == 2.0
        held = found.tables["claims"].filter(pl.col("job") == 3)["place"].to_list()
        assert set(held) == {"cores of queue mine, flavour narrow", "cores of cohort c, flavour narrow"}


def test_a_cohort_asks_back_what_it_lent_and_keeps_what_it_does_not_lend() -> None:
    """Of 8 cores ``left`` has 4, of which it lends 3; its queue ``a`` has none of its own."""
    own = {"nominal": {"cores": 4}}
    site: dict[str, Any] = {
        "queues": [{"name": "a", "cohort": "left", "reclaim": "any", "quotas": [{"nominal": {"cores": 0}}]},
                   {"name": "b", "cohort": "top", "quotas": [own]}],
        "cohorts": [{"name": "left", "cohort": "top", "quotas": [own | {"lend": {"cores": 3}}]}],
        "preempt": {"by": "quota"},
    }  # fmt: skip
    submit, cores, queues = [0, 1, 2, 3], [7, 1, 1, 3], ["b", "b", "a", "a"]
    columns = {name: np.array(some, np.int64) for name, some in (("tasks", [1] * 4), ("cores", cores))}
    columns |= {name: np.full(4, 100 * 10**6) for name in ("work_us", "request_us")}
    table = job_table(submit_us=np.array(submit) * 10**6, **columns, extra=pl.DataFrame({"queue": queues}))
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 8}], "site": site})
    rows = unrack.simulate(cluster, Workload("few", table, Intake("", "", 0, 0)), "fcfs").placements
    spans = [(int(job), round(start), round(end)) for job, start, end in
             rows.select("job", "start_s", "end_s").sort("start_s", "job").iter_rows()]  # fmt: skip
    # 7 of 7 are b's; the core that left keeps is free at 2; at 3 b gives all of its job back, and goes on behind a's
    assert spans[:4] == [(1, 0, 3), (3, 2, 102), (2, 3, 103), (4, 3, 103)]


def test_cohorts_in_a_circle_and_quotas_in_no_partition_are_refused() -> None:
    circle = [{"name": "x", "cohort": "y"}, {"name": "y", "cohort": "x"}]
    with pytest.raises(ClusterError, match="not in themselves, not x → y → x"):
        Cluster.from_dict({**NODES, "site": {"cohorts": circle}})
    quota = {"flavour": "f", "partitions": ["gone"], "nominal": {"cores": 1}}
    with pytest.raises(ClusterError, match="that are partitions, not 'gone'"):
        Cluster.from_dict({**NODES, "site": {"queues": [{"name": "q", "quotas": [quota]}]}})
    with pytest.raises(ClusterError, match="only in a cohort, which cohort x has none of"):
        Cluster.from_dict({**NODES, "site": {"cohorts": [{"name": "x", "quotas": [
            {"nominal": {"cores": 1}, "lend": {"cores": 1}}]}]}})  # fmt: skip


def test_who_has_quota_back_does_not_depend_on_who_comes_later() -> None:
    """Jobs of other priorities, which come when all is over, change nothing before."""
    rows = [
        (1, 49, 1, 3, "b", 1), (7, 103, 2, 3, "a", 3), (25, 154, 2, 3, "b", 3), (27, 64, 3, 2, "a", 3),
        (30, 152, 2, 3, "a", 3), (43, 140, 1, 1, "a", 3), (94, 134, 3, 1, "a", 3), (111, 126, 1, 2, "a", 3),
        (122, 193, 1, 2, "c", 3), (138, 30, 2, 3, "c", 3), (140, 65, 3, 2, "b", 3), (148, 124, 3, 2, "a", 3),
    ]  # fmt: skip
    rules = (("a", 2, "any", "never"), ("b", 4, "lower-priority", "lower-priority"),
             ("c", 4, "lower-priority", "lower-priority"))  # fmt: skip
    queues = [
        {"name": name, "cohort": "lab", "reclaim": reclaim, "within": within, "quotas": [{"nominal": {"cores": cores}}]}
        for name, cores, reclaim, within in rules
    ]
    qos = [{"name": f"p{level}", "priority": level} for level in range(4)]
    site = {"queues": queues, "qos": qos, "preempt": {"by": "quota"}}
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "site": site})
    found = []
    for later in ([], [(100_000, 5, 1, 1, queue, level) for queue in "abc" for level in (0, 2)]):
        submit, work, tasks, cores, of, level = zip(*rows, *later, strict=True)
        jobs = job_table(
            submit_us=np.array(submit) * 10**6, work_us=np.array(work) * 10**6, tasks=np.array(tasks),
            cores=np.array(cores), extra=pl.DataFrame({"queue": of, "qos": [f"p{one}" for one in level]}),
        )  # fmt: skip
        result = unrack.simulate(cluster, Workload("later", jobs, Intake("", "", 0, 0)), "easy")
        found.append(result.placements.filter(pl.col("start_s") < 100_000).select("job", "attempt", "start_s").rows())
    assert found[0] == found[1]
