"""What ran on a real API server beside a simulation of the same pods: gangs, priorities and claims in one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from dra_bed import DRIVER, add_claiming, add_class, add_slice, add_template, given, wants
from driven_pods import DrivenPods
from k8s_bed import KubernetesBed
from test_gangs import add_group, add_member

from unrack.live.driver.history.order import UNEXPLAINED, compare
from unrack.live.driver.history.past import past_of
from unrack.live.driver.service.folders import JOURNAL
from unrack.live.journal.journal import Journal

PRIORITIES = {"low": 1, "middle": 100, "high": 1000}
ADDED = 40


def furnish(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2", "n3"], {"cpu": "4", "memory": "16Gi"})
    for name, value in PRIORITIES.items():
        body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
        bed.admin.post("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    add_class(bed, "card", f'device.driver == "{DRIVER}"')
    add_template(bed, "card", wants("card"))
    for name in ("n1", "n2"):
        add_slice(bed, f"{name}-cards", [{"name": "a"}, {"name": "b"}], nodeName=name)


def add_some(bed: KubernetesBed, random: Random, number: int) -> int:
    """A gang, a pod with a claim, or a pod of some priority; returns how many jobs that are."""
    run_s = random.choice([0.5, 1.0, 2.0])
    what = random.choice(["gang", "claim", "pod", "pod", "pod"])
    if what == "gang":
        add_group(bed, f"g{number}", 3)
        for i in range(3):
            add_member(bed, f"g{number}", i, {"cpu": "1"}, run_s=run_s)
    elif what == "claim":
        add_claiming(bed, f"c{number}", template="card", run_s=run_s)
    else:
        cpu, of = random.choice(["500m", "2", "4"]), random.choice([*PRIORITIES])
        bed.add_pod(f"p{number}", {"cpu": cpu}, run_s=run_s, priorityClassName=of)
    return 1


def test_a_simulation_of_the_same_pods_gives_the_same_order_and_places_or_says_why_not(
    new_kubernetes: Callable[..., KubernetesBed], tmp_path: Path
) -> None:
    bed, random, jobs = new_kubernetes(), Random(3), 0
    furnish(bed)
    with DrivenPods(bed, {"name": "list", "order": "priority", "backfill": "any"}) as driven:
        for number in range(ADDED):
            jobs += add_some(bed, random, number)
            until = time.monotonic() + 0.15
            while time.monotonic() < until:
                driven.go()
        driven.until_all(timeout_s=180)
        driven.until(lambda: given(bed) == {} and not len(driven.driver.table), 60)
    first, *rest = driven.journal.records()
    with Journal.open(tmp_path / JOURNAL) as journal:
        journal.rotate(first)
        journal.append(rest)
    past = past_of(tmp_path)
    found = compare(past)
    assert found.jobs == jobs
    assert found.pairs > 300
    assert UNEXPLAINED not in found.causes, found.different
    assert found.differing <= found.pairs // 20
    assert found.differing > 0 or found.elsewhere == 0
