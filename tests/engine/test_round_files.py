"""How many files of the package a round that starts one job enters, and how often it goes from one to another.

Counted are calls, those of compiled kernels too, from when the core asks the policy to when what it decided is done;
of each kind of jobs and discipline in a round of the middle, over the rounds of two random worlds in which one job
starts. Few may be more when what is placed takes more; a bound that is passed says that the way has got longer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import Any, NamedTuple

import numba
import pytest
from law_worlds import World, lending, mixed, plain, pooled, tiered
from mixed_worlds import MIXES, with_rules
from twins import random_site

import unrack
from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.policy.contract import Decision, Start
from unrack.policy.table import parse_policy
from unrack.sim.simulate import prepared
from unrack.sim.world import World as Physics
from unrack.workload.job import JobTable

SOURCE = str(Path(unrack.__file__).parent)
Made = tuple[Cluster, JobTable, tuple[str, ...]]
Make = Callable[[int], Made]


def of(world: Callable[[int], World]) -> Make:
    """A world of the laws."""
    return lambda seed: world(seed)[:3]


def site(seed: int) -> Made:
    """Partitions that overlap, and limits."""
    made = random_site(seed, 30)
    return made.cluster, made.workload.jobs, ()


KINDS: dict[str, tuple[Make, dict[str, str]]] = {
    "cores": (of(plain), {}),
    "memory": (of(mixed), {}),
    "whole": (of(mixed), {"nodes": "whole"}),
    "drives": (of(pooled), {}),
    "lent": (of(lending), {"memory": "disaggregated", "nodes": "whole"}),
    "tiers": (of(tiered), {"memory": "slo"}),
    "site": (site, {}),
    **{name: MIXES[name] for name in ("counted", "gpus", "links", "power", "everything")},
}
DISCIPLINES = ("fcfs", "easy", "conservative", "slurm(interval=60 s)", "flow(interval=10 s)")
MOST = {
    "cores": ((11, 22), (11, 21), (12, 30), (12, 26), (21, 83)),
    "memory": ((11, 22), (11, 21), (12, 26), (12, 26), (21, 81)),
    "whole": ((11, 22), (11, 21), (12, 30), (12, 26), (21, 177)),
    "drives": ((18, 65), (31, 188), (23, 98), (31, 183), (37, 1196)),
    "lent": ((20, 44), (21, 48), (21, 51), (22, 53), (32, 159)),
    "tiers": ((23, 68), (24, 72), (29, 139), (25, 73), (34, 152)),
    "site": ((14, 31), (14, 30), (14, 36), (15, 31), (28, 101)),
    "counted": ((26, 119), (31, 345), (33, 224), (31, 263), (35, 361)),
    "gpus": ((30, 128), (31, 164), (36, 206), (33, 149), (32, 152)),
    "links": ((31, 189), (36, 238), (39, 275), (37, 250), (30, 203)),
    "power": ((22, 56), (23, 59), (21, 47), (24, 61), (30, 104)),
    "everything": ((35, 234), (36, 498), (35, 228), (37, 306), (39, 398)),
}
"""Kind → files and switches at most, by discipline."""


class Way(NamedTuple):
    """Of one round."""

    files: int
    switches: int


def ways(kind: str, discipline: str) -> list[Way]:
    """Of the rounds in which one job starts."""
    make, rules = KINDS[kind]
    found = list[Way]()
    for seed in (0, 1):
        cluster, jobs, models = make(seed)
        for watched in (False, True):  # kernels are loaded and modules imported before
            kernel = prepared(cluster, jobs, parse_policy(with_rules(discipline, **rules)), 5, Physics(models=models))
            if watched:
                watch(kernel.core, found)
            kernel.run()
    return found


def watch(core: Core, found: list[Way]) -> None:
    """Note the way of each round in which one job starts."""
    decide = core._decide

    def watched(now: int) -> list[Decision]:
        entered = list[str]()

        def note(frame: FrameType, event: str, arg: Any) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
                entered.append(frame.f_code.co_filename)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            decisions = decide(now)
        finally:
            sys.setprofile(before)
        if [type(one) for one in decisions] == [Start]:
            switches = sum(one != other for one, other in pairwise(entered))
            found.append(Way(len(set(entered)), switches))
        return decisions

    core._decide = watched  # type: ignore[method-assign]


def middle(kind: str, discipline: str) -> Way:
    """Files and switches of a round of the middle, each by itself."""
    found = ways(kind, discipline)
    return Way(median_low(way.files for way in found), median_low(way.switches for way in found))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="kernels are entered as Python")
@pytest.mark.parametrize(("kind", "discipline"), [(kind, one) for kind in MOST for one in DISCIPLINES])
def test_a_round_that_starts_a_job_enters_no_more_files_than_it_did(kind: str, discipline: str) -> None:
    files, switches = MOST[kind][DISCIPLINES.index(discipline)]
    found = middle(kind, discipline)
    assert (max(found.files, files), max(found.switches, switches)) == (files, switches)
