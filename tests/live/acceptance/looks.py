"""What Slurm's backfill did at each of its looks, as its log says, and what ours does in the same state."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

import unrack
from unrack.cluster.spec import Cluster
from unrack.sim.simulate import simulate
from unrack.slurm_text.hostlists import expand

PERIOD_S = 60
"""The groups of ends that Slurm looks at together, and its priorities, are counted on the clock by minutes."""
STAMP = re.compile(r"^\[(\S+)\] (.*)$")
BEGINS = "_attempt_backfill: beginning"
TESTED = re.compile(r"BACKFILL: test for JobId=(\d+) Prio=(\d+)")
STARTED = re.compile(r"_start_job: Started JobId=(\d+) in \S+ on (\S+)")
OVER = re.compile(r"_job_complete: JobId=(\d+) done")
PRICED = re.compile(r"priority for job (\d+) is now (\d+)")


@dataclass
class Look:
    """One look of the backfill: which jobs it tested, in order, and which it started, on which nodes."""

    at_s: float
    until_s: float = 0.0
    priority: dict[int, int] = field(default_factory=dict)  # job → what it had, in the order of the look
    started: dict[int, set[str]] = field(default_factory=dict)


@dataclass
class Story:
    """All looks at which jobs waited, when each job began and ended, and when priorities were computed anew.

    On a busy machine a look goes on into another second, from which those jobs count that it starts then: when each
    began is what accounting says.
    """

    began_s: dict[int, float]
    looks: list[Look] = field(default_factory=list)
    ended_s: dict[int, float] = field(default_factory=dict)
    priced_s: list[float] = field(default_factory=list)

    def before(self, which: int) -> Iterator[tuple[int, float, set[str]]]:
        """The jobs that ran when a look began: job, its start, its nodes."""
        for look in self.looks[:which]:
            for job, nodes in look.started.items():
                if self.ended_s.get(job, float("inf")) > self.looks[which].at_s:
                    yield job, self.began_s[job], nodes

    def slots(self) -> list[int]:
        """How many intervals after the first look each is, however they drift."""
        found = [0]
        for last, look in zip(self.looks, self.looks[1:], strict=False):
            found.append(found[-1] + max(1, round((look.at_s - last.at_s) / 3)))
        return found

    def look_of(self) -> dict[int, int]:
        """At which look each job started."""
        return {job: which for which, look in enumerate(self.looks) for job in look.started}


def story_of(log: Path, accounted: Path) -> Story:
    """Read a log of slurmctld with DebugFlags=Backfill, at level debug2, and when jobs began by what sacct printed."""
    with accounted.open(newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="|") if row["JobID"].isdigit()]
    began_s = {int(row["JobID"]): datetime.fromisoformat(row["Start"]).timestamp() for row in rows}
    story, look = Story(began_s), Look(0.0)
    for line in log.read_text(errors="replace").splitlines():
        stamp = STAMP.match(line)
        if stamp is None:
            continue
        at_s, words = datetime.fromisoformat(stamp[1]).timestamp(), stamp[2]
        if BEGINS in words:
            look = Look(at_s)
        elif "sched/backfill" in words:
            look.until_s = at_s
        if (found := TESTED.search(words)) is not None:
            if not look.priority:
                story.looks.append(look)
            look.priority.setdefault(int(found[1]), int(found[2]))
        elif (found := STARTED.search(words)) is not None:
            look.started[int(found[1])] = set(expand(found[2]))
        elif (found := OVER.search(words)) is not None:
            story.ended_s[int(found[1])] = at_s
        elif PRICED.search(words) and (not story.priced_s or at_s > story.priced_s[-1] + 1):
            story.priced_s.append(at_s)
    return story


def step(
    cluster: Cluster,
    policy: str,
    story: Story,
    which: int,
    jobs: Mapping[int, Mapping[str, Any]],
    folder: Path,
    shift_s: int = 0,
) -> dict[int, set[str]]:
    """What ours starts in the state and by the order of a look, on which nodes.

    ``policy`` looks at every second and goes by ``priority``; ``jobs``: what each asks; ``shift_s``: so much later.
    """
    look = story.looks[which]
    now = int(look.at_s)
    clock = (now + shift_s) % PERIOD_S
    rows = [
        {**jobs[job], "id": job, "submit": clock, "on": ",".join(sorted(nodes)), "ran": now - int(at), "priority": 0}
        for job, at, nodes in story.before(which)
    ]
    order = list(look.priority)
    rows += [{**jobs[job], "id": job, "submit": clock, "on": "", "ran": 0, "priority": len(order) - place}
             for place, job in enumerate(order)]  # fmt: skip
    path = folder / "look.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    placed = simulate(cluster, unrack.read_trace(str(path)), policy, audit=False).placements
    first = placed.filter((pl.col("start_s") == clock) & pl.col("job").is_in(order))
    found: dict[int, set[str]] = {}
    for job, node, nodes in first.select("job", "first_node", "nodes").iter_rows():
        found.setdefault(int(job), set()).update(f"n{node + 1 + k}" for k in range(nodes))
    return found
