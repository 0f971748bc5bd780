"""Slurm's priority in plain Python: everything from scratch in every round, on random sites with accounts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from tests.policy.priority.plain_fair_share import classic, drawn, ranked
from twins import J, Loop, RandomSite, random_site


def random_priorities(seed: int, jobs: int) -> RandomSite:
    """A random site with weights, accounts and qualities of service; some users and accounts are not declared."""
    site, draw = random_site(seed, jobs), np.random.default_rng(seed + 10**7)

    def some(*values: Any) -> Any:
        return values[int(draw.integers(len(values)))]

    names = [f"a{i}" for i in range(int(draw.integers(1, 5)))]
    accounts = []
    for i, name in enumerate(names):
        users = [
            {"name": f"u{u}", "shares": some(1, 2, 5, "parent"), **some({}, {"priority": 7})}
            for u in range(4)
            if draw.random() < 0.6
        ]
        table = {"name": name, "shares": some(0, 1, 2, 3, 7, "parent"), "users": users, **some({}, {"priority": 3})}
        if i and draw.random() < 0.4:
            table["parent"] = names[int(draw.integers(i))]
        accounts.append(table)
    for name in site.partitions:
        site.ranks[name] = some(1, 1, 1, 2), some(0, 1, 4)
    weights = {name: some(0, 500, 3000) for name in ("age", "job_size", "partition", "qos", "association")}
    priority = {
        **weights, "fair_share": some(2000, 20000), "max_age": some(300, 3000), "favor_small": some(True, False),
        "small_relative_to_time": some(True, False, False), "half_life": some(0, 50, 400), "calc_period": some(7, 60),
        "fair_share_by": some("tree", "classic"), "dampening": some(1.0, 3.0), "tres": some({}, {"cores": 700.0}),
        "billing": some({"cores": 1.0}, {"cores": 2.0, "nodes": 3.5}),
    }  # fmt: skip
    qos = [{"name": "q0", "priority": 5}, {"name": "q1", "priority": 20, "usage_factor": 0.25}]
    site.more = {"priority": priority, "accounts": accounts, "qos": qos}
    for job in site.jobs:
        job.submit //= 3
        job.account, job.qos, job.nice = some("", "a0", "a1", "a2", "b"), some("", "q0", "q1"), some(0, 0, 40, -300)
    return site


class Prioritised(Loop):
    """Sorts who waits before somebody decides, and wakes him when the order is due."""

    def __init__(self, site: RandomSite, decide: Any) -> None:
        super().__init__(site)
        self.decide, self.now, self.keys = decide, 0, site.more["priority"]
        self.over: dict[int, int] = {}

    def end(self, number: int) -> None:
        """A job ends."""
        self.over[number] = self.start[number] + self.site.jobs[number].work
        super().end(number)

    def wake(self, waiting: list[int]) -> list[int]:
        """When priorities are next computed, while the order matters."""
        return [self.looked(self.now) + self.keys["calc_period"]] if len(waiting) > 1 else []

    def looked(self, now: int) -> int:
        """When priorities were computed last."""
        return now - now % int(self.keys["calc_period"])

    def sorted_first(self, _: Loop, waiting: list[int], now: int) -> None:
        """As the other rule says, in order of priority."""
        self.now = now
        factor, at = self.shares(now), self.looked(now)
        key = {number: (-self.tier(number), -self.priority(number, at, factor), number) for number in waiting}
        self.decide(self, sorted(waiting, key=key.__getitem__), now)

    def tier(self, number: int) -> int:
        """Of its partition."""
        return self.site.ranks.get(self.site.jobs[number].partition, (1, 1))[0]

    def nodes(self, job: J) -> int:
        """The fewest nodes that a job may have."""
        return math.ceil(job.tasks / max(1, max(self.site.nodes) // job.cores))

    def home(self, job: J) -> tuple[str, str]:
        """The account and user that a job is of."""
        if job.account:
            return job.account, job.user
        for table in self.site.more["accounts"]:
            if any(user["name"] == job.user for user in table["users"]):
                return table["name"], job.user
        return "", job.user

    def used(self, number: int, at: int) -> float:
        """What a job counts as having used at a time."""
        job, half = self.site.jobs[number], self.keys["half_life"]
        a, b = self.start[number], min(self.over.get(number, at), at)
        if b <= a:
            return 0.0
        rate = sum(w * {"cores": job.tasks * job.cores, "nodes": self.nodes(job)}[k]
                   for k, w in self.keys["billing"].items()) * (0.25 if job.qos == "q1" else 1.0)  # fmt: skip
        if not half:
            return rate * (b - a) * 10**6
        return rate * 10**6 * half / math.log(2) * (2 ** (-(at - b) / half) - 2 ** (-(at - a) / half))

    def shares(self, now: int) -> dict[tuple[str, str], float]:
        """The factors of all users that there are."""
        at, used = self.looked(now), dict[tuple[str, str], float]()
        for number in sorted(self.start):
            whose = self.home(self.site.jobs[number])
            used[whose] = used.get(whose, 0.0) + self.used(number, at)
        shares: dict[tuple[str, str], int] = {}
        parent: dict[tuple[str, str], tuple[str, str] | None] = {}
        tables, placed = list(self.site.more["accounts"]), set[str]()
        while tables:
            table = tables.pop(0)
            if table.get("parent", "") not in {"", *placed}:
                tables.append(table)
                continue
            placed.add(table["name"])
            own = table["name"], ""
            shares[own] = -1 if table["shares"] == "parent" else table["shares"]
            parent[own] = (table["parent"], "") if table.get("parent") else None
            for user in table["users"]:
                shares[table["name"], user["name"]] = -1 if user["shares"] == "parent" else user["shares"]
                parent[table["name"], user["name"]] = own
        for job in self.site.jobs:
            if job.submit > now:
                continue
            account, user = self.home(job)
            if account and (account, "") not in shares:
                shares[account, ""], parent[account, ""] = 1, None
            if (account, user) not in shares:
                shares[account, user], parent[account, user] = 1, (account, "") if account else None
        rows = list(shares)
        users = [user != "" for _, user in rows]
        above = [-1 if parent[row] is None else rows.index(parent[row]) for row in rows]  # type: ignore[arg-type]
        amounts: list[Any] = [used.get(row, 0.0) if user else 0 for row, user in zip(rows, users, strict=True)]
        root = drawn(above, list(shares.values()), users, [_exact(amount) for amount in amounts])
        if self.keys["fair_share_by"] == "tree":
            ranks = ranked(root)
            return {row: ranks.get(i, 0) / sum(users) for i, row in enumerate(rows)}
        found = classic(root)
        return {row: found[i] ** (1 / self.keys["dampening"]) for i, row in enumerate(rows)}

    def priority(self, number: int, at: int, factor: dict[tuple[str, str], float]) -> int:
        """Slurm's formula."""
        job, keys, site = self.site.jobs[number], self.keys, self.site
        cores, all_cores = job.tasks * job.cores, sum(site.nodes)
        if keys["small_relative_to_time"]:
            size = min(1.0, cores / max(1.0, job.request / 60) / all_cores)
        else:
            size = (min(1.0, self.nodes(job) / len(site.nodes)) + min(1.0, cores / all_cores)) / 2
        most = max(priority for _, priority in site.ranks.values())
        part = site.ranks.get(job.partition, (1, 1))[1]
        qos = {"": 0, "q0": 5, "q1": 20}[job.qos]
        total = keys["age"] * min(1.0, max(0, at - job.submit) / keys["max_age"])
        total += keys["fair_share"] * factor[self.home(job)]
        total += keys["job_size"] * (1 - size if keys["favor_small"] else size)
        total += keys["partition"] * (min(1.0, part / most) if most else 0.0)
        total += keys["qos"] * qos / 20
        highest = max(self.association(*key) for key in self.declared())
        total += keys["association"] * (self.association(*self.home(job)) / highest if highest else 0.0)
        total += keys["tres"].get("cores", 0.0) * min(1.0, cores / all_cores)
        return max(1, int(total - job.nice))

    def declared(self) -> list[tuple[str, str]]:
        """Accounts and users of the site."""
        tables = self.site.more["accounts"]
        return [(t["name"], user) for t in tables for user in ("", *(one["name"] for one in t["users"]))]

    def association(self, account: str, user: str) -> int:
        """The priority of a user or account, which is that of the one above if it has none."""
        table = next((t for t in self.site.more["accounts"] if t["name"] == account), None)
        if table is None:
            return 0
        own = next((u for u in table["users"] if u["name"] == user), table)
        if "priority" in own:
            return int(own["priority"])
        return self.association(account, "") if own is not table else self.association(table.get("parent", ""), "")


def _exact(amount: float) -> Any:
    """What counts as the same amount, of numbers that differ by rounding."""
    return Fraction(float(f"{amount:.11g}"))
