"""Random sites of all that a site may say, at once, and what holds of their schedules, seen in result tables alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

import unrack
from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

Row = dict[str, Any]
WORDS = ("partition", "constraint", "exc_nodes", "reservation", "account", "qos", "array", "dependency", "queue")
ALL = "hours", "limits", "windows", "cores", "licences", "arrays", "graph", "preempt", "shares", "features", "queues"


@dataclass
class WideSite:
    """Nodes (cores, MB), the table ``site`` of a cluster file, and jobs as rows of a table, times in seconds."""

    nodes: list[tuple[int, int]]
    site: dict[str, Any]
    jobs: list[Row]
    seats: int = 0
    checkpoints: bool = field(default=False)

    @property
    def cluster(self) -> Cluster:
        """As a cluster."""
        nodes = [{"count": 1, "cores": cores, "memory": mb} for cores, mb in self.nodes]
        counted = {"counted": [{"name": "seat", "amount": self.seats}]} if self.seats else {}
        return Cluster.from_dict({"nodes": nodes, "site": self.site, **counted})

    @property
    def workload(self) -> Workload:
        """As a workload."""

        def column(name: str, scale: int = 1) -> Any:
            return np.array([job[name] * scale for job in self.jobs], np.int64)

        times = {f"{name}_us": column(name, 10**6) for name in ("submit", "work", "request")}
        seats = {("counted", "seat"): column("seats")} if self.seats else {}
        said: dict[str, Any] = {word: [job.get(word, "") for job in self.jobs] for word in WORDS}
        said |= {"begin_s": [float(job.get("begin", 0)) for job in self.jobs]}
        said |= {"array_limit": [job.get("array_limit", 0) for job in self.jobs]}
        user = pl.Series([job["user"] for job in self.jobs])
        asks = {name: column(name) for name in ("tasks", "cores", "memory_mb")}
        table = job_table(**times, **asks, devices=seats, user=user, extra=pl.DataFrame(said))
        return Workload("wide", table, Intake("", "", 0, 0))


def wide_site(seed: int, count: int = 40, has: set[str] | None = None) -> WideSite:
    """A site by a seed, with each of ``ALL`` in two of three; ``has``: with these."""
    draw = np.random.default_rng(seed)
    has = {name for name in ALL if draw.random() < 0.6} if has is None else has
    if "preempt" in has and draw.random() < 0.5:
        has -= {"cores"}

    def some(*values: Any) -> Any:
        return values[int(draw.integers(len(values)))]

    nodes = [(int(draw.integers(1, 9)), int(draw.integers(2, 9))) for _ in range(int(draw.integers(2, 8)))]
    size, cores = len(nodes), sum(cores for cores, _ in nodes)

    def of_nodes() -> list[str]:
        return [str(at) for at in sorted(draw.choice(size, int(draw.integers(1, size + 1)), replace=False).tolist())]

    def limits(chance: float) -> list[Row]:
        most = {"jobs": 5, "cores": cores, "nodes": size, "tasks": 2 * size, "memory": 6 * size}
        found = []
        while "limits" in has and draw.random() < chance and len(found) < 2:
            what = some(*most)
            least = {"jobs": 1, "cores": 4, "nodes": 2, "tasks": 3, "memory": 6}[what]
            amount = int(draw.integers(least, max(most[what], least) + 1))
            found.append({"per": some("all", "user", "account", "job"), "amounts": {what: amount}})
        return found

    span = count * int(draw.integers(5, 30))
    parts: list[Row] = []
    for name in "abcd"[: int(draw.integers(1, 5))]:
        part: Row = {"name": name, "nodes": of_nodes(), "limits": limits(0.4), "tier": some(1, 1, 2, 3)}
        part |= {"max_time": int(draw.integers(60, 200))} if draw.random() < 0.2 else {}
        part |= {"max_nodes": int(draw.integers(1, 4))} if draw.random() < 0.2 else {}
        part |= {"denied_accounts": ["y"]} if draw.random() < 0.2 else {}
        if "hours" in has and draw.random() < 0.5:
            length = int(draw.integers(120, 300))
            part["hours"] = [{"start": int(draw.integers(0, span)), "duration": length,
                              "every": some(400, 400, length), "until": 10**5}]  # fmt: skip
        parts.append(part)
    if draw.random() < 0.4:
        parts[0]["default"] = True
    accounts: list[Row] = [
        {"name": "x", "users": ["u0", {"name": "u1", "limits": limits(0.4)}], "limits": limits(0.3), "shares": 3},
        {"name": "y", "parent": "x", "users": ["u1", "u2"], "limits": limits(0.4)},
        {"name": "z", "users": ["u2"], "limits": []},
    ]  # fmt: skip
    qos: list[Row] = [{"name": name, "priority": 4 * at, "limits": limits(0.3)} for at, name in enumerate("lmh")]
    site: Row = {"partitions": parts, "accounts": accounts, "qos": qos, "limits": limits(0.2)}
    if "features" in has:
        site["features"] = {"f": of_nodes(), "g": of_nodes()}
    if "shares" in has:
        site["priority"] = {"fair_share": 1000, "age": some(0, 300), "qos": some(0, 500), "job_size": some(0, 200),
                            "half_life": some(0, 100), "calc_period": some(5, 60)}  # fmt: skip
    checkpoints = False
    if "preempt" in has:
        by = some("qos", "partition")
        modes = ["requeue", "cancel", "checkpoint", "off", *(["suspend"] if "cores" not in has else [])]
        site["preempt"] = {"by": by, "mode": some(*modes), "exempt_time": some(0, 0, 20),
                           "victims": some("youngest", "lowest", "fewest", "cheapest")}  # fmt: skip
        for one in parts if by == "partition" else qos:
            one |= {"preempt_mode": some(*modes)} if draw.random() < 0.4 else {}
        if by == "qos":
            qos[2]["preempts"], qos[1]["preempts"] = ["l", "m"][: some(1, 2)], some([], ["l"])
    if "queues" in has:
        site["queues"] = [
            {"name": name, "cohort": "k", "quotas": [{"nominal": {"cores": int(draw.integers(2, cores + 2))}}]}
            for name in "pq"
        ]  # fmt: skip
        site["queues"][0]["quotas"][0]["lend"] = {"cores": some(0, 1, 2)}
        site["queues"][1]["quotas"][0]["borrow"] = {"cores": some(0, 2, 4)}
    seats = int(draw.integers(2, 7)) if "licences" in has else 0
    kept: list[Row] = []
    left, left_seats = [cores for cores, _ in nodes], seats
    for name in "rst"[: int(draw.integers(1, 4))] if has & {"windows", "cores"} else "":
        one: Row = {"name": name, "nodes": of_nodes(), "start": int(draw.integers(0, span)),
                    "duration": int(draw.integers(60, 200))}  # fmt: skip
        one |= {"every": 300, "until": span} if draw.random() < 0.5 else {}
        if "windows" not in has or ("cores" in has and draw.random() < 0.5):
            there = [node for node in one["nodes"] if left[int(node)] > 0]
            most = [int(draw.integers(1, left[int(node)] + 1)) for node in there]
            if not there:
                continue
            one |= {"nodes": there, "cores": most}
            for node, amount in zip(there, most, strict=True):
                left[int(node)] -= amount
        if left_seats and draw.random() < 0.4:
            one["licences"] = {"seat": int(draw.integers(1, left_seats + 1))}
            left_seats -= one["licences"]["seat"]
        one |= {"flex": True} if draw.random() < 0.3 else {"maintenance": True} if draw.random() < 0.3 else {}
        one |= {"denied_users": ["u2"]} if draw.random() < 0.2 and "maintenance" not in one else {}
        kept.append(one)
    site |= {"reservations": kept} if kept else {}
    jobs, at = list[Row](), 0
    for number in range(count):
        at += int(draw.exponential(span / count))
        request = int(draw.integers(5, 110))
        job: Row = {"submit": at, "request": request, "work": int(draw.integers(1, request + 1))}
        job |= {"tasks": int(draw.integers(1, 5)), "cores": int(draw.integers(1, 4)), "memory_mb": some(0, 0, 1, 2)}
        job |= {"user": some("u0", "u1", "u2"), "account": some("", "x", "y", "z"), "qos": some("", "l", "m", "h")}
        names = [part["name"] for part in parts]
        job["partition"] = some("", *names, *names, ",".join(draw.choice(names, min(2, len(names)), replace=False)))
        job |= {"constraint": some("", "", "f", "g", "f&g", "f|g")} if "features" in has else {}
        job |= {"exc_nodes": str(draw.integers(size))} if draw.random() < 0.1 else {}
        job |= {"seats": int(draw.integers(0, 3)) if seats else 0}
        if kept and draw.random() < 0.2:
            job["reservation"] = some(*kept)["name"]
        if "arrays" in has and draw.random() < 0.4:
            which = int(draw.integers(1, 4))
            job |= {"array": f"array{which}", "array_limit": which}
        if "graph" in has and number and draw.random() < 0.35:
            kinds = [some("afterany", "afterany", "afterok", "after", "afternotok") for _ in range(some(1, 1, 2))]
            job["dependency"] = ",".join(f"{kind}:{int(draw.integers(number)) + 1}" for kind in kinds)
        if "graph" in has and draw.random() < 0.15:
            job["begin"] = at + int(draw.integers(-20, 200))
        job |= {"queue": some("", "p", "q")} if "queues" in has else {}
        jobs.append(job)
    return WideSite(nodes, site, jobs, seats, checkpoints)


@dataclass
class Attempt:
    """What a job held, from when until when: node → (tasks, cores, MB)."""

    job: int
    number: int
    start: float
    end: float
    holds: dict[int, tuple[int, int, int]]
    outcome: str
    done: float = 0.0  # work of earlier attempts that was kept


def attempts_of(result: unrack.Result) -> list[Attempt]:
    """The spans of a run, in order of start."""
    found = dict[tuple[int, int, int], Attempt]()
    names = ("job", "attempt", "span", "start_s", "end_s", "first_node", "nodes", "tasks_per_node", "cores_per_node")
    rows = result.placements.select(*names, "memory_mb_per_node", "outcome").iter_rows()
    for job, attempt, span, start, end, first, nodes, tasks, cores, mb, outcome in rows:
        one = found.setdefault((job, attempt, span), Attempt(job - 1, attempt, start, end, {}, outcome))
        for node in range(first, first + nodes):
            before = one.holds.get(node, (0, 0, 0))
            one.holds[node] = before[0] + tasks, before[1] + cores, before[2] + mb
    return sorted(found.values(), key=lambda one: (one.start, one.job))


class Rules:
    """What a site says, in plain Python."""

    def __init__(self, made: WideSite) -> None:
        self.made, self.site, self.jobs = made, made.site, made.jobs
        self.parts = {part["name"]: part for part in self.site["partitions"]}
        self.default = next((name for name, part in self.parts.items() if part.get("default")), None)
        self.accounts = {one["name"]: one for one in self.site["accounts"]}
        self.qos = {one["name"]: one for one in self.site["qos"]}
        self.kept = {one["name"]: one for one in self.site.get("reservations", [])}
        self.queues = {one["name"]: one for one in self.site.get("queues", [])}

    def windows(self, one: Row) -> list[tuple[int, int]]:
        """When it is."""
        every, until = one.get("every", 0), one.get("until", 0)
        begins = [one["start"]] if not every else range(one["start"], max(until, one["start"] + 1), every)
        return [(begin, begin + one["duration"]) for begin in begins]

    def hours(self, name: str) -> list[tuple[int, int]]:
        """When jobs run in a partition; none: always. What follows without a gap is one stretch."""
        found = list[tuple[int, int]]()
        for begin, end in sorted(span for one in self.parts[name].get("hours", []) for span in self.windows(one)):
            last = found.pop() if found and begin <= found[-1][1] else (begin, end)
            found.append((last[0], max(last[1], end)))
        return found

    def lineage(self, account: str) -> list[str]:
        """An account and those above."""
        return [account, *self.lineage(self.accounts[account].get("parent", ""))] if account else []

    def allowed(self, job: Row) -> list[str] | None:
        """The partitions that let it in, whatever nodes; ``None``: it names none, and there is no default."""
        names = [name for name in job["partition"].split(",") if name] or ([self.default] if self.default else [])
        if not names:
            return None
        found = []
        for name in names:
            part = self.parts[name]
            barred = set(part.get("denied_accounts", ())) & set(self.lineage(job["account"]))
            fewest = -(-job["tasks"] // max(1, self.most(name, job)))
            late = job["request"] > part.get("max_time", 10**9)
            over = any(limit["per"] == "job" and self.asked(job, *limit["amounts"], name) > amount
                       for limit in part["limits"] for amount in limit["amounts"].values())  # fmt: skip
            if not (barred or late or over or fewest > part.get("max_nodes", 10**9)):
                found.append(name)
        return found

    def most(self, name: str, job: Row) -> int:
        """How many of its tasks the largest node of a partition holds, as far as cores say."""
        return max(self.made.nodes[int(node)][0] for node in self.parts[name]["nodes"]) // job["cores"]

    def asked(self, job: Row, measure: str, name: str = "") -> int:
        """How much a job asks for by itself; of nodes: 1 at least."""
        amounts = {"jobs": 1, "cores": job["tasks"] * job["cores"], "tasks": job["tasks"], "nodes": 1}
        return amounts.get(measure, job["tasks"] * job["memory_mb"])

    def open_nodes(self, job: Row, name: str | None) -> set[int]:
        """The nodes that it may use of a partition, whatever the time."""
        own = set(range(len(self.made.nodes))) if name is None else {int(node) for node in self.parts[name]["nodes"]}
        features = {word: {int(node) for node in nodes} for word, nodes in self.site.get("features", {}).items()}
        said = job.get("constraint", "")
        if "|" in said:
            own &= features["f"] | features["g"]
        else:
            for word in said.split("&") if said else ():
                own &= features[word]
        own -= {int(job["exc_nodes"])} if job.get("exc_nodes") else set()
        kept = self.kept.get(job.get("reservation", ""), {})
        inside = kept and (not kept.get("flex") or (name is not None and self.parts[name].get("hours")))
        return own & {int(node) for node in kept["nodes"]} if inside else own

    def limits(self, job: Row, name: str | None) -> Iterator[tuple[str, str, str, int]]:
        """Of whom, per what, of what, and how much at most: what a job counts for in a partition."""
        owners = [("site", self.site["limits"])]
        owners += [] if name is None else [(f"partition {name}", self.parts[name]["limits"])]
        owners += [(f"qos {job['qos']}", self.qos[job["qos"]]["limits"])] if job["qos"] else []
        for account in self.lineage(job["account"]):
            owners.append((f"account {account}", self.accounts[account]["limits"]))
            for user in self.accounts[account]["users"] if account == job["account"] else ():
                if isinstance(user, dict) and user["name"] == job["user"]:
                    owners.append((f"user {job['user']} of {account}", user["limits"]))
        for owner, limits in owners:
            for limit in limits:
                whom = {"all": "all", "job": "job"}.get(limit["per"], job.get(limit["per"], ""))
                if whom:
                    for measure in limit["amounts"]:
                        alike = [one["amounts"] for one in limits if one["per"] == limit["per"]]
                        most = min(one.get(measure, 10**9) for one in alike)
                        yield f"{owner}, of {whom}, per {limit['per']}", limit["per"], measure, most
        if job.get("array_limit"):
            yield f"array {job['array']}", "all", "jobs", job["array_limit"]

    def in_time(self, job: Row, name: str | None, start: float, length: float) -> bool:
        """Whether it would be inside of the hours of a partition."""
        hours = [] if name is None else self.hours(name)
        return not hours or any(a <= start and start + length <= b for a, b in hours)

    def shut(self, job: Row, start: float, length: float) -> set[int]:
        """The nodes that others have whole while it would run."""
        return {
            int(node) for name, one in self.kept.items() if name != job.get("reservation") and "cores" not in one
            for a, b in self.windows(one) if start < b and a < start + length for node in one["nodes"]
        }  # fmt: skip


def amount_of(one: Attempt, job: Row, measure: str) -> int:
    """How much of a limit an attempt counts for."""
    if measure == "jobs":
        return 1
    if measure == "nodes":
        return len(one.holds)
    if measure == "memory":
        return int(job["tasks"] * job["memory_mb"])
    return int(job["tasks"] * (job["cores"] if measure == "cores" else 1))


def faults(made: WideSite, result: unrack.Result) -> list[str]:
    """Whatever is wrong with a schedule."""
    rules, spans, wrong = Rules(made), attempts_of(result), list[str]()
    first = dict[tuple[int, int], float]()
    kept_work, homes = dict[int, float](), dict[tuple[int, int], list[str | None]]()
    for one in spans:
        key, job = (one.job, one.number), made.jobs[one.job]
        one.done = kept_work.get(one.job, 0.0)
        running = any(cores for _, cores, _ in one.holds.values())
        fresh = key not in first
        first.setdefault(key, one.start)
        if fresh and not running:
            wrong.append(f"job {one.job} holds no cores at {one.start}")
        names = rules.allowed(job)
        ways = [None] if names is None else names
        if all(rules.parts[name].get("hours") for name in names or []):
            ways = ways[:1]
        else:
            ways = [name for name in ways if name is None or not rules.parts[name].get("hours")]
        nodes = set(one.holds)
        homes[key] = [name for name in ways if nodes <= rules.open_nodes(job, name)]
        if not homes[key]:
            wrong.append(f"job {one.job} is on {nodes}, not in {ways}")
        if fresh:
            wrong += started_wrongly(rules, one, job, homes[key])
        if one.outcome == "preempted" and rules_mode(rules, job) == "checkpoint":
            kept_work[one.job] = one.done + one.end - one.start
    wrong += over_limits(rules, spans, homes)
    wrong += too_much(made, rules, spans)
    return wrong


def rules_mode(rules: Rules, job: Row) -> str:
    """What becomes of it when it is preempted."""
    preempt = rules.site["preempt"]
    if preempt["by"] == "qos":
        return str(rules.qos[job["qos"]].get("preempt_mode", preempt["mode"]))
    names = rules.allowed(job) or []
    return str(rules.parts[names[0]].get("preempt_mode", preempt["mode"]))


def started_wrongly(rules: Rules, one: Attempt, job: Row, homes: list[str | None]) -> Iterator[str]:
    """What is wrong with when it started."""
    length, name = job["request"] - one.done, job.get("reservation", "")
    if one.start < max(job["submit"], job.get("begin", 0)):
        yield f"job {one.job} starts at {one.start}, before it may"
    if shut := rules.shut(job, one.start, length) & set(one.holds):
        yield f"job {one.job} starts at {one.start} on nodes kept for others: {shut}"
    if homes and not name and not any(rules.in_time(job, home, one.start, length) for home in homes):
        yield f"job {one.job} starts at {one.start} outside of the hours of {homes}"
    if name:
        windows = rules.windows(rules.kept[name])
        if rules.kept[name].get("flex") and not any(home and rules.parts[home].get("hours") for home in homes):
            good = one.start < windows[-1][1]
        else:
            good = any(a <= one.start and one.start + length <= b for a, b in windows)
        if not good or rules.kept[name].get("maintenance"):
            yield f"job {one.job} starts at {one.start} outside of reservation {name}"
        if job["user"] in rules.kept[name].get("denied_users", ()):
            yield f"job {one.job} may not use {name}"


def over_limits(rules: Rules, spans: list[Attempt], homes: dict[tuple[int, int], list[str | None]]) -> Iterator[str]:
    """Limits and quotas that are exceeded at some moment."""
    for moment in sorted({one.start for one in spans}):
        held, most_of = dict[tuple[str, str], int](), dict[tuple[str, str], int]()
        use = dict.fromkeys(rules.queues, 0)
        for one in spans:
            if not one.start <= moment < one.end:
                continue
            job = rules.jobs[one.job]
            own = [set(rules.limits(job, home)) for home in homes[one.job, one.number]] or [set()]
            for owner, per, measure, most in set.intersection(*own):  # of several partitions that it may be in: of all
                amount = amount_of(one, job, measure)
                if per == "job":
                    if amount > most and measure != "nodes":  # of one job the fewest are looked at when it comes
                        yield f"job {one.job} has {amount} {measure}, over the {most} of {owner}"
                    continue
                held[owner, measure] = held.get((owner, measure), 0) + amount
                most_of[owner, measure] = min(most, most_of.get((owner, measure), most))
            if job.get("queue"):
                use[job["queue"]] += job["tasks"] * job["cores"]
        for key, amount in held.items():
            if amount > most_of[key]:
                yield f"at {moment} {key[1]} of {key[0]}: {amount} of {most_of[key]}"
        if use and not quota_holds(rules, use):
            yield f"at {moment} quotas are exceeded: {use}"


def quota_holds(rules: Rules, use: dict[str, int]) -> bool:
    """Whether two queues of one cohort may use so much."""
    own = {name: one["quotas"][0] for name, one in rules.queues.items()}
    kept = {name: one["nominal"]["cores"] - one["lend"]["cores"] if "lend" in one else 0 for name, one in own.items()}
    shared = sum(one["nominal"]["cores"] - max(0, kept[name]) for name, one in own.items())
    beyond = sum(max(0, use[name] - max(0, kept[name])) for name in use)
    borrows = all(use[name] <= one["nominal"]["cores"] + one.get("borrow", {"cores": 10**9})["cores"]
                  for name, one in own.items())  # fmt: skip
    return beyond <= shared and borrows


def too_much(made: WideSite, rules: Rules, spans: list[Attempt]) -> Iterator[str]:
    """Nodes and licences of which more is held than there is, or than others leave."""
    for moment in sorted({one.start for one in spans}):
        there = [one for one in spans if one.start <= moment < one.end]
        for node, (cores, mb) in enumerate(made.nodes):
            now = [(one, one.holds[node]) for one in there if node in one.holds]
            if sum(each[1] for _, each in now) > cores or sum(each[2] for _, each in now) > mb:
                yield f"at {moment} node {node} is overfull"
        for name, kept in rules.kept.items():
            if not any(a <= moment < b for a, b in rules.windows(kept)):
                continue
            mine = {one.job for one in there if rules.jobs[one.job].get("reservation") == name}
            for at, node in enumerate(kept["nodes"] if "cores" in kept else ()):
                others = sum(one.holds[int(node)][1] for one in there if int(node) in one.holds and one.job not in mine)
                if others > made.nodes[int(node)][0] - kept["cores"][at]:
                    yield f"at {moment} {others} cores of node {node} are held outside of {name}"
            seats = kept.get("licences", {}).get("seat", 0)
            others = sum(rules.jobs[one.job]["seats"] for one in there if one.job not in mine)
            if seats and others > made.seats - seats:
                yield f"at {moment} {others} seats are held outside of {name}"
        if sum(rules.jobs[one.job]["seats"] for one in there) > made.seats > 0:
            yield f"at {moment} too many seats are held"
