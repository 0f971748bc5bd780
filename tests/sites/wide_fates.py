"""Which jobs of a random site can run at all, why the others cannot, and who waits in vain, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wide_sites import Attempt, Row, Rules, WideSite, amount_of, attempts_of, quota_holds, rules_mode

import unrack

Homes = list[str | None]


def homes_of(rules: Rules, job: Row) -> Homes:
    """The partitions in which it is looked for a place; ``None``: it is in none."""
    names = rules.allowed(job)
    timed = [name for name in names or [] if rules.parts[name].get("hours")]
    if names is None:
        return [None]
    return [timed[0]] if names and len(timed) == len(names) else [name for name in names if name not in timed]


def room(rules: Rules, job: Row, nodes: dict[int, tuple[int, int]]) -> list[int]:
    """How many tasks there is room for on each of some nodes, of which so many cores and MB are free; most first."""
    fit = [
        min(cores // job["cores"], mb // job["memory_mb"] if job["memory_mb"] else 99) for cores, mb in nodes.values()
    ]
    return sorted(fit, reverse=True)


def causes(rules: Rules, job: Row) -> tuple[set[str], bool]:
    """What may keep a job from ever running, by what reasons say, and whether it does."""
    name, found, good = job.get("reservation", ""), set[str](), False
    named = [one for one in job["partition"].split(",") if one] or [rules.default]
    homes = homes_of(rules, job)
    found |= {"partition"} if set(named) - set(homes) - {None} else set()
    own = rules.kept.get(name, {})
    for home in {*homes, *named}:
        here = set[str]()
        nodes = {node: rules.made.nodes[node] for node in rules.open_nodes(job, home)}
        if own and "cores" in own and not own.get("flex"):
            cores = dict(zip(map(int, own["nodes"]), own["cores"], strict=True))
            nodes = {node: (cores[node], mb) for node, (_, mb) in nodes.items()}
        fit, left, fewest = room(rules, job, nodes), job["tasks"], 0
        while left > 0 and fewest < len(fit) and fit[fewest]:
            left, fewest = left - fit[fewest], fewest + 1
        here |= {"places"} if left > 0 else set()
        for _, _, measure, most in rules.limits(job, home):
            amount = (
                max(fewest, -(-job["tasks"] // max(1, *fit, 1))) if measure == "nodes" else rules.asked(job, measure)
            )
            here |= {"limit"} if amount > most or (measure == "nodes" and left > 0) else set()
        hours = [] if home is None or name else rules.hours(home)
        if hours and not any(max(a, job["submit"]) + job["request"] <= b for a, b in hours):
            here |= {"partition"}
        good = good or (not here and home in homes)
        found |= here
    over = {**dict.fromkeys(rules.queues, 0), job["queue"]: rules.asked(job, "cores")} if job.get("queue") else {}
    found |= {"queue"} if over and not quota_holds(rules, over) else set()
    found |= {"limit"} if job["seats"] > rules.made.seats > 0 else set()
    good = good and not (found & {"queue"}) and job["seats"] <= rules.made.seats
    return found | ({"reservation"} if name else set()), not good  # it may come too late for that


def fates(made: WideSite, result: unrack.Result) -> Iterator[str]:
    """Jobs that ran and could not, or could and did not, or of which another reason is told."""
    rules, ran = Rules(made), {one.job: one for one in attempts_of(result)}
    for number, (state, reason) in enumerate(result.jobs.sort("job").select("state", "reason").iter_rows()):
        job, (why, never) = made.jobs[number], causes(rules, made.jobs[number])
        if number in ran and (never or state not in ("finished", "rejected")):
            yield f"job {number} ran, though {why}: {state}"
        if state == "finished":
            continue
        code, _, what = reason.partition(": ")
        if code == "preempted":
            if rules_mode(rules, job) != "cancel" or ran[number].outcome != "preempted":
                yield f"job {number} is gone, {reason}"
        elif code == "dependency":
            if not job.get("dependency"):
                yield f"job {number} waits for none: {reason}"
        elif not never and not job.get("reservation"):
            yield f"job {number} could run, and did not: {reason}"
        else:
            told = "places" if what.startswith(("places for tasks", "cores (")) else what.partition(" ")[0]
            told = "queue" if "queue" in what or "cohort" in what else told
            told = "reservation" if code == "withdrawn" else told
            told = told if told in ("places", "queue", "reservation", "partition") else "limit"
            if told not in why and not (told == "partition" and "limit" in why):  # its own, of each job
                yield f"job {number}: {reason}, though {why}"


def moments_of(made: WideSite, spans: list[Attempt]) -> list[float]:
    """When anything happens."""
    rules = Rules(made)
    found = {float(at) for one in spans for at in (one.start, one.end)} | {float(job["submit"]) for job in made.jobs}
    found |= {float(job["begin"]) for job in made.jobs if job.get("begin", 0) > 0}
    last = max(found)
    every = [*rules.kept.values(), *(hours for part in rules.parts.values() for hours in part.get("hours", ()))]
    return sorted(found | {float(at) for one in every for span in rules.windows(one) for at in span if at < last})


def came_at(made: WideSite, ends: dict[int, float], first: dict[int, float], states: list[str]) -> list[float]:
    """When each job could first start, as far as it says itself; infinite: never."""
    found = list[float]()
    for job in made.jobs:
        at = float(max(job["submit"], job.get("begin", 0)))
        for text in filter(None, job.get("dependency", "").split(",")):
            kind, _, other = text.partition(":")
            one = int(other) - 1
            if one not in ends:
                at = float("inf")  # when it was dropped is not looked at
            else:
                at = max(at, first[one] if kind == "after" else ends[one])
        found.append(at)
    return found


def idle(made: WideSite, result: unrack.Result, rule: str, every: float = 0.0) -> Iterator[str]:
    """Who waits at some moment and had a place; ``rule``: any such job, the first that waits, or all if nothing runs.

    ``every``: how long after that it is still in time. Sites without preemption, kept cores and kept licences.
    """
    rules, spans = Rules(made), attempts_of(result)
    if "preempt" in made.site or any("cores" in one or "licences" in one for one in rules.kept.values()):
        return
    states = result.jobs.sort("job")["state"].to_list()
    first, ends = {one.job: one.start for one in spans}, {one.job: one.end for one in spans}
    came, homes = came_at(made, ends, first, states), [homes_of(rules, job) for job in made.jobs]
    for moment in moments_of(made, spans):
        there = [one for one in spans if one.start <= moment < one.end]
        waits = [number for number in first if came[number] <= moment < first[number]]
        order = sorted(waits, key=lambda number: (made.jobs[number]["submit"], number))
        lacks = [{lacking(rules, made.jobs[one], home, moment, there, homes) for home in homes[one]} for one in order]
        if rule == "all":
            order, lacks = ([], []) if there or not all("" in some for some in lacks) else (order, lacks)
        elif rule == "first":
            at = next((at for at, some in enumerate(lacks) if some != {"limit"}), len(order))
            order, lacks = order[at : at + 1], lacks[at : at + 1]
        for number, some in zip(order, lacks, strict=True):
            if "" in some and moment + every < first[number]:
                yield f"at {moment} job {number} waits until {first[number]}, and has a place"


def lacking(rules: Rules, job: Row, home: str | None, now: float, there: list[Attempt], homes: list[Homes]) -> str:
    """What keeps a job from starting in a partition; ``""``: nothing."""
    held, use = dict[Any, int](), dict.fromkeys(rules.queues, 0)
    for one in there:
        other = rules.jobs[one.job]
        for owner, per, measure, _ in {limit for name in homes[one.job] for limit in rules.limits(other, name)}:
            if per != "job":
                held[owner, measure] = held.get((owner, measure), 0) + amount_of(one, other, measure)
        if other.get("queue"):
            use[other["queue"]] += rules.asked(other, "cores")
    limits = list(dict.fromkeys(rules.limits(job, home)))
    if any(measure == "nodes" for *_, measure, _ in limits):
        return "limit"
    if any(per != "job" and held.get((owner, measure), 0) + rules.asked(job, measure) > most
           for owner, per, measure, most in limits):  # fmt: skip
        return "limit"
    if job.get("queue") and not quota_holds(
        rules, {**use, job["queue"]: use[job["queue"]] + rules.asked(job, "cores")}
    ):
        return "limit"
    if rules.made.seats and sum(rules.jobs[one.job]["seats"] for one in there) + job["seats"] > rules.made.seats:
        return "seats"
    name = job.get("reservation", "")
    if name and not any(a <= now and now + job["request"] <= b for a, b in rules.windows(rules.kept[name])):
        return "window"
    if not name and not rules.in_time(job, home, now, job["request"]):
        return "window"
    nodes = rules.open_nodes(job, home) - rules.shut(job, now, job["request"])
    free = {
        node: tuple(
            rules.made.nodes[node][i] - sum(one.holds.get(node, (0, 0, 0))[1 + i] for one in there) for i in (0, 1)
        )
        for node in nodes
    }
    return "" if sum(room(rules, job, free)) >= job["tasks"] else "places"  # type: ignore[arg-type]
