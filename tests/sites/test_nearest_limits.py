"""Limits of qualities of service, users and accounts: all of them hold, or as in Slurm the nearest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6
PARENTS = {"lab": "", "left": "lab", "right": "lab", "deep": "left"}
USERS = ("ann", "bob", "cy")
Limits = dict[tuple[str, str], int]
"""Per whom, of what → the most."""


@dataclass
class Job:
    submit: int
    run: int
    cores: int
    user: str
    account: str
    qos: str


@dataclass
class Bounds:
    """Limits of a site at random."""

    qos: dict[str, Limits]
    accounts: dict[str, Limits]
    users: dict[tuple[str, str], Limits]  # account, user
    site: Limits

    @property
    def table(self) -> dict[str, Any]:
        """As the table of a cluster file."""

        def listed(limits: Limits) -> list[dict[str, Any]]:
            return [{"per": per, "amounts": {what: most}} for (per, what), most in limits.items()]

        accounts = [
            {"name": name, **({"parent": parent} if parent else {}), "limits": listed(self.accounts[name]),
             "users": [{"name": user, "limits": listed(self.users[name, user])} for user in USERS]}
            for name, parent in PARENTS.items()
        ]  # fmt: skip
        qos = [{"name": name, "limits": listed(limits)} for name, limits in self.qos.items()]
        return {"accounts": accounts, "qos": qos, "limits": listed(self.site)}

    def of(self, job: Job, nearest: bool) -> list[tuple[str, Limits]]:
        """Owners and limits that count for a job, from its quality of service and itself up."""
        found = [(f"qos {job.qos}", self.qos.get(job.qos, {})), (f"user {job.user} of {job.account}",
                                                                 self.users[job.account, job.user])]  # fmt: skip
        account = job.account
        while account:
            found.append((f"account {account}", self.accounts[account]))
            account = PARENTS[account]
        found.append(("site", self.site))
        if not nearest:
            return found
        left = []
        for place, (owner, limits) in enumerate(found):
            own = {}
            for (per, what), most in limits.items():
                nearer = found[1:place] if owner.startswith(("account", "site")) else []
                quality = found[0][1] if place else {}
                replaced = {"all": ("all", what) in quality, "user": ("user", what) in quality}.get(per, False)
                if owner.startswith("user") and per != "account":
                    replaced = ("all", what) in quality or ("user", what) in quality
                elif per == "user":
                    replaced = replaced or any(
                        ("user", what) in more or (whose.startswith("user") and ("all", what) in more)
                        for whose, more in nearer
                    )
                if not replaced:
                    own[per, what] = most
            left.append((owner, own))
        return left


def random_bounds(seed: int) -> tuple[Bounds, list[Job]]:
    """Limits and jobs by a seed."""
    draw = np.random.default_rng(seed)

    def limits(often: float) -> Limits:
        return {
            (per, what): int(draw.integers(1, 5 if what == "jobs" else 12))
            for per in ("all", "user", "account", "job")
            for what in ("jobs", "cores")
            if draw.random() < often and (per, what) != ("job", "jobs")
        }

    bounds = Bounds(
        {name: limits(0.3) for name in ("fast", "slow")}, {name: limits(0.3) for name in PARENTS},
        {(name, user): limits(0.2) for name in PARENTS for user in USERS}, limits(0.2),
    )  # fmt: skip
    jobs, at = [], 0
    for _ in range(60):
        at += int(draw.exponential(6))
        user, account = USERS[int(draw.integers(0, 3))], [*PARENTS][int(draw.integers(0, 4))]
        qos = ("fast", "slow", "")[int(draw.integers(0, 3))]
        jobs.append(Job(at, int(draw.integers(1, 60)), int(draw.integers(1, 5)), user, account, qos))
    return bounds, jobs


def amount(job: Job, what: str) -> int:
    return 1 if what == "jobs" else job.cores


def expected(bounds: Bounds, jobs: list[Job], nearest: bool) -> list[int | None]:
    """When each starts where nothing but limits is lacking: whoever has room, in order."""

    def places(job: Job) -> list[tuple[tuple[str, ...], int, int]]:
        """What it counts for, how much, and of how much."""
        who = {"all": "", "user": job.user, "account": job.account}
        return [
            ((owner, per, what, who[per]), amount(job, what), most)
            for owner, limits in bounds.of(job, nearest)
            for (per, what), most in limits.items()
            if per != "job"
        ]

    def possible(job: Job) -> bool:
        over = set[str]()
        for _, limits in bounds.of(job, False):
            for (per, what), most in limits.items():
                if per == "job" and what not in over and amount(job, what) > most:
                    return False
            over |= {what for per, what in limits if per == "job"} if nearest else set()
        return all(asked <= most for _, asked, most in places(job))

    starts: list[int | None] = [None] * len(jobs)
    held: dict[tuple[str, ...], int] = {}
    running: dict[int, int] = {}
    waiting: list[int] = []
    times = sorted({job.submit for job in jobs})
    while times:
        now = times.pop(0)
        for number in [number for number, end in running.items() if end == now]:
            del running[number]
            for place, asked, _ in places(jobs[number]):
                held[place] -= asked
        waiting += [number for number, job in enumerate(jobs) if job.submit == now and possible(job)]
        for number in list(waiting):
            own = places(jobs[number])
            if all(held.get(place, 0) + asked <= most for place, asked, most in own):
                for place, asked, _ in own:
                    held[place] = held.get(place, 0) + asked
                running[number], starts[number] = now + jobs[number].run, now
                waiting.remove(number)
                times = sorted({*times, running[number]})
    return starts


@pytest.mark.parametrize("nearest", [False, True])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "list(backfill=any)"])
@pytest.mark.parametrize("seed", range(25))
def test_limits_count_as_plain_ones_do(seed: int, policy: str, nearest: bool) -> None:
    bounds, jobs = random_bounds(seed)
    site = {**bounds.table, **({"nearest_limits": True} if nearest else {})}

    def column(name: str) -> Any:
        return np.array([getattr(job, name) for job in jobs], np.int64)

    table = job_table(
        submit_us=column("submit") * S, work_us=column("run") * S, request_us=column("run") * S,
        tasks=np.ones(len(jobs), np.int64), cores=column("cores"), memory_mb=np.zeros(len(jobs), np.int64),
        user=pl.Series([job.user for job in jobs]),
        extra=pl.DataFrame({"account": [job.account for job in jobs], "qos": [job.qos for job in jobs]}),
    )  # fmt: skip
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 1000}], "site": site})
    found = unrack.simulate(cluster, Workload("limits", table, Intake("", "", 0, 0)), policy).jobs
    assert found.sort("job")["start_s"].to_list() == expected(bounds, jobs, nearest)


def test_the_nearest_says_how_long_a_job_may_ask_to_run_and_what_one_job_may_ask() -> None:
    one = [{"per": "job", "amounts": {"cores": 2}}]
    accounts = [
        {"name": "lab", "max_time": 10, "limits": one},
        {"name": "below", "parent": "lab", "max_time": 100, "users": [{"name": "ann", "limits": [
            {"per": "job", "amounts": {"cores": 4}}]}]},
    ]  # fmt: skip
    qos = [{"name": "long", "max_time": 1000}]
    rows = [("ann", "below", "", 50, 4), ("bob", "below", "", 50, 4), ("ann", "below", "", 500, 1),
            ("ann", "below", "long", 500, 4), ("ann", "lab", "", 50, 1), ("ann", "below", "", 50, 5)]  # fmt: skip
    ones = np.ones(len(rows), np.int64)
    run = np.array([row[3] for row in rows]) * S
    table = job_table(
        submit_us=0 * ones, work_us=run, request_us=run, tasks=ones, cores=np.array([row[4] for row in rows]),
        memory_mb=0 * ones, user=pl.Series([row[0] for row in rows]),
        extra=pl.DataFrame({"account": [row[1] for row in rows], "qos": [row[2] for row in rows]}),
    )  # fmt: skip

    def served(**more: Any) -> list[bool]:
        site = {"accounts": accounts, "qos": qos, **more}
        cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 1000}], "site": site})
        found = unrack.simulate(cluster, Workload("x", table, Intake("", "", 0, 0)), "fcfs").jobs
        return found.sort("job")["start_s"].is_not_null().to_list()

    assert served() == [False] * 6
    assert served(nearest_limits=True) == [True, False, False, True, False, False]


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm"])
def test_a_job_that_needs_more_nodes_of_its_partition_than_a_limit_has_is_turned_away(policy: str) -> None:
    one = [{"per": "user", "amounts": {"nodes": 1}}]
    cluster = Cluster.from_dict({
        "nodes": [{"count": 2, "cores": 2}, {"count": 1, "cores": 6}],
        "site": {"partitions": [{"name": "small", "nodes": ["0-1"], "limits": one}]},
    })  # fmt: skip
    table = job_table(
        submit_us=np.array([0, 1]) * S, work_us=np.full(2, 9 * S), request_us=np.full(2, 9 * S),
        tasks=np.array([2, 1]), cores=np.full(2, 2), memory_mb=np.zeros(2, np.int64), user=pl.Series(["ann", "bob"]),
        extra=pl.DataFrame({"partition": ["small", "small"]}),
    )  # fmt: skip
    found = unrack.simulate(cluster, Workload("x", table, Intake("", "", 0, 0)), policy).jobs
    assert found["state"].to_list() == ["rejected", "finished"]
    assert found["reason"][0] == "too-big: nodes of user ann, partition small (asked 2, free 1)"
