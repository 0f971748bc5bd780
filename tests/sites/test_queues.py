"""Queues with quotas: the engine against schedulers in plain Python, and laws of what is borrowed and lent."""

from __future__ import annotations

import pytest
from queue_twins import Loop, QueueSite, Reserving, easy, fcfs, random_queues

import unrack


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
