"""Reservations that keep whole devices of a pool in number: as licences that each task asks for are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_kept_licences import plain
from test_site_laws import POLICIES, S
from twins import RandomSite, random_licences

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import explain
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

FOUR: dict[str, Any] = {"nodes": [{"count": 4, "cores": 4}], "pools": [{"kind": "fpga", "count": 4}]}
COURSE = {"name": "course", "devices": {"fpga": 3}, "start": 100, "duration": 100}
TELLING = [one for one in POLICIES if one not in ("easy++", "disaggregated(scheduler=slurm)")]


def table_of(jobs: dict[str, Any], fpgas: Any, **columns: Any) -> JobTable:
    devices = {("fpga", "devices"): np.array(fpgas, np.int64)}
    return job_table(**jobs, devices=devices, extra=pl.DataFrame(columns) if columns else None)


def run(cluster: dict[str, Any], table: JobTable, policy: str) -> Any:
    workload = Workload("kept", table, Intake("", "", 0, 0))
    return unrack.simulate(Cluster.from_dict(cluster), workload, policy)


def random_devices(seed: int, exact: bool) -> RandomSite:
    """A random site of one node, so that nobody's devices depend on where he runs; seats are those of a task."""
    site = random_licences(seed, 40, exact)
    site.nodes, site.partitions, site.limits = [9], {}, {}
    site.windows = [(name, start, end, {0} if nodes else nodes) for name, start, end, nodes in site.windows]
    for job in site.jobs:
        job.partition, job.seats = "", job.seats if job.seats * job.tasks <= site.seats else 0
    return site


def ran(site: RandomSite, policy: str, pooled: bool) -> Any:
    """A random site whose tasks ask for licences, or for devices of a pool that all nodes reach."""
    cluster = {"nodes": [{"count": 1, "cores": cores} for cores in site.nodes], **site.cluster.places.written()}
    cluster["counted"] = [{"name": "fpga", "amount": site.seats, "asked_by": "task"}]
    for one in cluster["site"]["reservations"]:
        if "licences" in one:
            one["devices" if pooled else "licences"] = {"fpga": one.pop("licences")["seat"]}
    if pooled:
        del cluster["counted"]
        cluster["pools"] = [{"kind": "fpga", "count": site.seats}]
    key = ("fpga", "devices") if pooled else ("counted", "fpga")
    jobs = replace(site.workload.jobs, devices={key: np.array([job.seats for job in site.jobs], np.int64)})
    return unrack.simulate(Cluster.from_dict(cluster), replace(site.workload, jobs=jobs), policy)


@pytest.mark.long
@pytest.mark.parametrize("policy", TELLING)
def test_devices_are_kept_as_licences_are_that_each_task_asks_for(policy: str) -> None:
    """Under conservative where jobs run for as long as they ask; flow looks at devices, and not at licences."""
    for seed in range(30, 36) if not policy.startswith("flow") else ():
        site = random_devices(seed, exact="conservative" in policy)
        found = [ran(site, policy, pooled).jobs.sort("job")["start_s"].to_list() for pooled in (False, True)]
        assert found[0] == found[1], seed


@pytest.mark.parametrize("policy", TELLING)
def test_nobody_holds_devices_that_are_kept(policy: str) -> None:
    for seed in range(40, 44):
        site = random_devices(seed, exact=False)
        held = ran(site, policy, pooled=True).tables["placements"].select("job", "start_s", "end_s").rows()
        for at in {row[1] for row in held}:
            there = {name for name, start, end, _ in site.windows if name in site.keeps and start <= at < end}
            own, others = dict.fromkeys(there, 0), 0
            for number, start, end in held:
                job = site.jobs[number - 1]
                if start <= at < end and job.reservation in there:
                    own[job.reservation] += job.seats * job.tasks
                elif start <= at < end:
                    others += job.seats * job.tasks
            assert others + sum(max(own[name], site.keeps[name]) for name in there) <= site.seats, (seed, at)


@pytest.mark.parametrize(
    "policy", [one for one in TELLING if one not in ("fcfs", "sjf", "topo-aware") and "10 s" not in one]
)
def test_who_would_hold_a_device_when_it_is_kept_does_not_start_and_its_own_jobs_may_take_more(policy: str) -> None:
    jobs, own = plain((0, 50), (0, 150), (0, 40), (5, 20), (10, 30), (150, 60)), ["", "", "", "", "course", ""]
    table = table_of(jobs, [1, 2, 1, 2, 4, 0], reservation=own)
    found = run(FOUR | {"site": {"reservations": [COURSE]}}, table, policy).jobs.sort("job")["start_s"].to_list()
    assert found == [0, 200, 0, 5, 100, 150]


def test_who_waits_for_devices_that_are_kept_is_told_so_and_the_audit_finds_who_does_not() -> None:
    table = table_of(plain((0, 150), (110, 20)), [2, 2])
    story = explain(Cluster.from_dict(FOUR | {"site": {"reservations": [COURSE]}}), table, parse_policy("easy"), 0)
    words = "no-room: fpga.devices outside of reservation course, from 100 s on (asked 2, free 1)"
    assert str(story.spells[0].reason) == words
    found = run(FOUR | {"site": {"reservations": [COURSE | {"start": 1000}]}}, table, "easy")
    tables = dict(found.tables.items())
    assert violations(Tables(found.log.cluster, tables)) == []
    kept = run(FOUR | {"site": {"reservations": [COURSE]}}, table, "easy").log.cluster
    wrong = [one for one in violations(Tables(kept, tables)) if "kept for others" in one.what]
    assert [one.at_us for one in wrong] == [0 * S]


RACKS = {"nodes": [{"count": 4, "cores": 4}], "nodes_per_rack": 2}


@pytest.mark.parametrize(
    ("cluster", "devices", "words"),
    [
        (FOUR, {"gpu": 1}, "got 'gpu', wanted kinds of whole devices alone, in one pool that all nodes reach"),
        (FOUR, {"fpga": 5}, "at most 4 of fpga.devices kept at a time"),
        (FOUR, {"fpga": 0}, "1 or more of fpga"),
        (RACKS | {"pools": [{"kind": "fpga", "count": 4, "per": "rack"}]}, {"fpga": 1}, "of which there are none"),
        (RACKS | {"pools": [{"kind": "fpga", "count": 4, "reach": ["rack0"]}]}, {"fpga": 1}, "there are none"),
        (FOUR | {"pools": [{"kind": "fpga", "count": 4, "split": 2}]}, {"fpga": 1}, "there are none"),
        ({"nodes": [{"count": 4, "cores": 4, "gpus": 2}]}, {"gpu": 1}, "there are none"),
        (
            FOUR | {"pools": [{"kind": "fpga", "count": 4, "quantities": {"bandwidth_mb_s": 100}}]},
            {"fpga": 1}, "there are none",
        ),
    ],
)  # fmt: skip
def test_devices_of_which_a_number_says_too_little_are_refused(
    cluster: dict[str, Any], devices: dict[str, int], words: str
) -> None:
    with pytest.raises(ClusterError) as error:
        Cluster.from_dict(cluster | {"site": {"reservations": [COURSE | {"devices": devices}]}})
    assert words in str(error.value)


def test_who_asks_for_more_devices_than_there_are_is_turned_away_beside_windows() -> None:
    closed = {"name": "m", "nodes": ["0"], "start": 30, "duration": 10, "maintenance": True}
    jobs = plain((0, 5), (1, 5))
    jobs["tasks"] = np.array([2, 1])  # of 3 devices each, where there are four
    found = run(FOUR | {"site": {"reservations": [closed]}}, table_of(jobs, [3, 1]), "slurm(interval=10 s)").jobs
    assert found.sort("job")["start_s"].to_list() == [None, 1]
