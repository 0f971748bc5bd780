"""Random sites with partitions and limits: the engine against schedulers in plain Python."""

from __future__ import annotations

import pytest
from twins import (
    Graphed,
    Loop,
    RandomSite,
    Reserving,
    easy,
    fcfs,
    random_cores,
    random_days,
    random_graph,
    random_licences,
    random_reservations,
    random_site,
)

import unrack

FEW = range(60)


def starts(site: RandomSite, policy: str) -> dict[int, int]:
    """Job → start, of those that ran."""
    jobs = unrack.simulate(site.cluster, site.workload, policy).jobs
    ran = jobs.filter(jobs["state"] == "finished")
    return {int(job) - 1: round(start) for job, start in zip(ran["job"], ran["start_s"], strict=True)}


@pytest.mark.parametrize("seed", FEW)
def test_first_come_first_served(seed: int) -> None:
    site = random_site(seed, 60)
    assert starts(site, "fcfs") == Loop(site).run(fcfs)


@pytest.mark.parametrize("seed", FEW)
def test_easy(seed: int) -> None:
    site = random_site(seed, 60)
    assert starts(site, "easy") == Loop(site).run(easy)


@pytest.mark.parametrize("seed", FEW)
def test_conservative(seed: int) -> None:
    site = random_site(seed, 60, exact=True)
    twin = Reserving(site)
    assert starts(site, "conservative") == twin.run(twin.decide)


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("seed", FEW)
def test_dependencies_begin_times_and_arrays(seed: int, policy: str) -> None:
    site = random_graph(seed, 60)
    assert starts(site, policy) == Graphed(site).run(fcfs if policy == "fcfs" else easy)


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("seed", FEW)
def test_reservations(seed: int, policy: str) -> None:
    site = random_reservations(seed, 60)
    assert starts(site, policy) == Graphed(site).run(fcfs if policy == "fcfs" else easy)


@pytest.mark.parametrize("seed", FEW)
def test_reservations_in_plans(seed: int) -> None:
    site = random_reservations(seed, 60, exact=True)
    for job in site.jobs:
        job.reservation, job.begin = "", 0
    twin = Reserving(site)
    assert starts(site, "conservative") == twin.run(twin.decide)


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("seed", FEW)
def test_licences_that_are_kept_and_jobs_that_run_outside_of_their_reservation(seed: int, policy: str) -> None:
    site = random_licences(seed, 60)
    assert starts(site, policy) == Graphed(site).run(fcfs if policy == "fcfs" else easy)


@pytest.mark.parametrize("seed", FEW)
def test_licences_that_are_kept_in_plans(seed: int) -> None:
    site = random_licences(seed, 60, exact=True)
    for job in site.jobs:
        if job.reservation not in site.flex:
            job.reservation, job.begin = "", 0
    twin = Reserving(site)
    assert starts(site, "conservative") == twin.run(twin.decide)


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("seed", FEW)
def test_reservations_on_some_days_of_the_week(seed: int, policy: str) -> None:
    site = random_days(seed, 40)
    assert starts(site, policy) == Graphed(site).run(fcfs if policy == "fcfs" else easy)


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("seed", FEW)
def test_cores_of_nodes_that_are_kept(seed: int, policy: str) -> None:
    site = random_cores(seed, 60)
    assert starts(site, policy) == Graphed(site).run(fcfs if policy == "fcfs" else easy)


@pytest.mark.parametrize("seed", FEW)
def test_cores_of_nodes_that_are_kept_in_plans(seed: int) -> None:
    site = random_cores(seed, 60, exact=True)
    for job in site.jobs:
        if job.reservation not in site.flex:
            job.reservation, job.begin = "", 0
    twin = Reserving(site)
    assert starts(site, "conservative") == twin.run(twin.decide)
