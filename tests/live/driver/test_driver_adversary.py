"""Whatever one user submits, changes, holds, requeues and cancels, others get their fair part.

What the adversary does is drawn: nobody chose it. A job that runs is not preempted, so that others may wait for the
longest that there may be, and for a look or two.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_slurm import PREEMPTS, FakeJob
from strict_slurm import StrictSlurm
from test_driver_fair_share import RULES
from test_driver_sites import Sites

from unrack.cluster.formats.site import SaidSite
from unrack.live.driver.state.replay import replay
from unrack.live.driver.used import Used
from unrack.live.slurm.reading import Reading
from unrack.units import SECOND_US

LONGEST_S = 15
"""How long jobs may run in the partitions."""
SHORT_S = 4
"""How long its jobs run at most where parts are measured: all nodes for so long are two fifths of a part."""
LOOKS_S = 5
"""What a start that Slurm refuses, and that of the job that comes then, may take."""
MOST = 60
"""So many jobs of the adversary wait or run at a time at most, as the fake is slow."""
EVE, MODEST = "eve", ("u0", "u1", "u2")
SAID = SaidSite(accounts={"phys": {"users": [EVE, *MODEST]}}, rules={"priority": RULES})
SHARING = ["easy(order=multifactor)"]
PLANNING = ["conservative(order=multifactor)", "slurm(order=multifactor, interval=1 s)"]
"""What was promised stands, or is planned at intervals, whoever has used how much meanwhile: parts are less even."""
POLICIES = ["easy", "conservative", "slurm(interval=1 s)", "easy(gpus=fgd)", "preempts"]
SEEDS = [0]


class Shared(StrictSlurm):
    """A Slurm with an account, whose users have had nothing yet; nodes of one user alone, of which it does not tell."""

    account = "phys"

    def read(self) -> Reading:
        reading = super().read()
        return replace(reading, accounting=SAID, used=Used(reading.at_s, ()))


class Adversary:
    """One user, and all that a user may do."""

    def __init__(self, world: Sites, seed: int, longest_s: int = LONGEST_S) -> None:
        self.slurm, self.draw, self.jobs, self.longest_s = world.slurm, random.Random(seed), list[int](), longest_s

    def asked(self) -> dict[str, Any]:
        """What one of its jobs asks, which may be impossible."""
        draw, nodes = self.draw, f"n{self.draw.randint(1, 9)}"
        asked: dict[str, Any] = {
            "user": EVE, "nodes": draw.choice([1, 1, 2, 4, 8, 9]), "cores": draw.choice([1, 2, 4, 5]),
            "run_s": draw.uniform(0.2, self.longest_s), "limit_s": draw.choice([2, self.longest_s]),
        }  # fmt: skip
        asked["run_s"] = min(asked["run_s"], asked["limit_s"])
        more = [
            {}, {}, {"partition": draw.choice(["left", "right", "left,right", "ours,left", "gone"])},
            {"features": draw.choice(["fast", "fast&big", "fast&slow", "[fast|big]", "((", "fast*3"])},
            {"excluded": tuple(f"n{draw.randint(1, 8)}" for _ in range(3))}, {"required": (nodes,)},
            {"reservation": "mine"}, {"licences": {"none": 1}}, {"nice": draw.randint(0, 99)},
            {"begin_us": (self.slurm.clock.at_us // SECOND_US + draw.randint(0, 20)) * SECOND_US},
            {"memory_mb": draw.choice([1, 999, 5000])},
            *[{"gpus": draw.choice([1, 2, 3])}] * (3 if self.slurm.nodes["n1"].gres else 0),
        ]  # fmt: skip
        if self.jobs:
            kind = draw.choice(["afterok", "afterany", "afternotok", "after"])
            more.append({"dependency": f"{kind}:{draw.choice(self.jobs[-5:])}"})
        return asked | draw.choice(more)

    def act(self) -> None:
        """Do something."""
        draw, slurm = self.draw, self.slurm
        what = draw.randrange(8)
        own = [slurm.jobs[number] for number in self.jobs if slurm.jobs[number].state in ("PENDING", "RUNNING")]
        if len(own) > MOST:
            what = 3
        if what < 2 or not own:
            self.jobs += [slurm.submit(**self.asked()) for _ in range(draw.randint(1, 6))]
        elif what == 2:
            self.jobs += slurm.submit_array(draw.randint(2, 30), draw.choice([0, 1, 5]), **self.asked())
        for job in draw.sample(own, min(len(own), 3)) if what > 2 else ():
            runs = job.state == "RUNNING"
            slurm.touched.add(job.id)  # a member of an array that was touched has a record of its own
            if what == 3:
                slurm.end(job.id, "CANCELLED")
            elif what == 4 and runs:
                slurm.requeue(job.id, held=draw.random() < 0.5)
            elif what == 5 and not runs:  # scontrol hold of one that was let go; scontrol update of any
                job.priority, job.reason = 0, draw.choice(["JobHeldAdmin", "JobHeldUser"])
            elif not runs:
                asked = self.asked()
                for name in draw.sample(sorted(asked), draw.randint(1, len(asked))):
                    setattr(job, name, asked[name])
            elif what == 6:
                job.run_s = min(job.run_s, self.longest_s)
                job.limit_s = draw.choice([1, self.longest_s])
        slurm.dirty = True


def own_policy(policy: str, folder: Path) -> str:
    """A policy as its site names it; of the one that stops jobs the file is written first."""
    (folder / "mine.py").write_text(PREEMPTS)
    return f"{folder / 'mine.py'}:Preempts" if policy == "preempts" else policy


def world_of(policy: str) -> Sites:
    world = Sites(policy)
    world.slurm.__class__ = Shared
    for name, node in world.slurm.nodes.items() if "gpus=" in policy else ():
        world.slurm.nodes[name] = replace(node, gres={"gpu": 2})
    return world


@pytest.mark.long
@pytest.mark.parametrize("policy", [*SHARING, *PLANNING])
@pytest.mark.parametrize("seed", [0])
def test_whatever_one_user_does_others_wait_no_longer_than_the_longest_job_may_run(policy: str, seed: int) -> None:
    world = world_of(policy)
    adversary, modest = Adversary(world, seed), list[int]()
    for step in range(260 + 5 * (LONGEST_S + LOOKS_S)):  # five steps a second: the last ones may wait as long, too
        if step < 160:
            adversary.act()
        if step % 25 == 10 and step < 260:
            modest.append(world.slurm.submit(cores=4, run_s=3, limit_s=10, user=MODEST[step % 3]))
        world.go()
    waits = []
    for number in modest:
        job = world.slurm.jobs[number]
        assert job.starts, f"{number} never ran: {world.why(number)}"
        waits.append(job.starts[0][0] / 1e6 - (job.submit_s - 1_700_000_000))
    assert max(waits) <= LONGEST_S + LOOKS_S, waits
    assert replay(world.journal.records()).differences == []


def could_start(slurm: Shared, job: FakeJob) -> bool:
    """True if a job that waits could start on an idle cluster, as far as the fake can tell; of odd features: no."""
    kind, _, awaited = job.dependency.partition(":")
    of_array = (one for one, (array, _) in slurm.arrays.items() if awaited and array == int(awaited))
    states = {slurm.jobs[one].state for one in ({*of_array} or ({int(awaited)} if awaited else ()))}
    if "PENDING" in states or (kind != "after" and "RUNNING" in states):
        return False
    if kind in ("afterok", "afternotok") and (kind == "afterok") != (states == {"COMPLETED"}):
        return False
    odd = set(job.features) & set("[(*") or job.reservation or job.licences or job.begin_us > slurm.clock.at_us
    if odd or job.reason == "JobHeldUser" or slurm.refused(replace(job, required=(), features="", dependency="")):
        return False
    wanted = {*job.features.split("&"), ""}
    there = {
        name for name, node in slurm.nodes.items()
        if node.cores >= job.cores and node.memory_mb >= job.memory_mb and node.gres.get("gpu", 0) >= job.gpus
        and wanted <= {*node.features, ""}
        and name not in job.excluded and node.partitions & set(job.partition.split(","))
    }  # fmt: skip
    inside = max(sum(part in slurm.nodes[name].partitions for name in there) for part in job.partition.split(","))
    return inside >= job.nodes >= len(job.required) and set(job.required) <= there


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_one_user_does_nothing_is_stuck_or_runs_twice_or_elsewhere_than_planned(
    policy: str, seed: int, tmp_path: Path
) -> None:
    world = world_of(own_policy(policy, tmp_path))
    adversary, draw, slurm = Adversary(world, seed), random.Random(-seed), world.slurm
    quiet = step = 0
    while quiet < 100 and step < 6000:
        step += 1
        quiet = 0 if any(job.state == "RUNNING" for job in slurm.jobs.values()) else quiet + 1
        if step < 160:
            adversary.act()
            if step % 10 == 5:
                slurm.submit(cores=draw.choice([2, 4]), run_s=3, limit_s=10, user=draw.choice(MODEST))
            if draw.random() < 0.03:
                world.driver.acting.close()
                world.driver = world.make()
        world.go()
    records = world.journal.records()
    entries = (item for one in records for item in one["entries"].items())
    planned = {
        (key, tuple(sorted({row[0] for row in entry["lease"]["rows"]})))
        for key, entry in entries if entry and entry.get("ours") and entry.get("lease")
    }  # fmt: skip
    for number, job in slurm.jobs.items():
        entry = world.driver.table.get(slurm.key(number))
        told = "" if entry is None else f"{entry.phase}: {entry.why}"
        assert len(job.starts) <= 1 + job.restarts, (number, job)
        assert all((slurm.key(number), tuple(sorted(nodes))) in planned for _, nodes in job.starts), (number, job)
        if job.state == "PENDING" and set(job.partition.split(",")) <= world.terms.partitions:
            assert told.startswith("aside: "), (number, told, job)
            assert told != "aside: ", (number, job)
            assert not could_start(slurm, job), (number, told, job)
    assert not any(job.state == "RUNNING" for job in slurm.jobs.values())
    assert world.all_free()
    assert replay(records).differences == []


@pytest.mark.long
@pytest.mark.parametrize("policy", SHARING)
@pytest.mark.parametrize("seed", range(10))
def test_of_users_who_all_have_work_none_gets_less_than_its_part_whatever_one_does(policy: str, seed: int) -> None:
    world = world_of(policy)
    adversary, draw, used = Adversary(world, seed, SHORT_S), random.Random(seed), Counter[str]()
    for _ in range(240):
        adversary.act()
        for user in MODEST:
            waiting = sum(job.user == user and job.state == "PENDING" for job in world.slurm.jobs.values())
            if waiting < 4:
                world.slurm.submit(
                    nodes=draw.randint(1, 2), cores=draw.choice([2, 4]), run_s=draw.uniform(1, 6), limit_s=8, user=user
                )
        world.go()
        for job in world.slurm.jobs.values():
            used[job.user] += job.cores * len(job.held_on) if job.state == "RUNNING" else 0
    part = sum(used.values()) / 4
    assert min(used[user] for user in MODEST) >= 0.85 * part, used
    assert used.total() >= 0.6 * 8 * 4 * 240, "much is idle"
