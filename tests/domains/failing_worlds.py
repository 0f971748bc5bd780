"""Small clusters with levels of failure domains, jobs for them, and random failures of any of their domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from unrack.cluster.spec import Cluster
from unrack.sim.faults import Fault
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000


class Ask(NamedTuple):
    """A job in whole seconds and MB."""

    submit: int
    run: int
    tasks: int = 1
    cores: int = 1
    mb: int = 0


def table(asks: Sequence[Ask]) -> JobTable:
    """The jobs, with ids 1, 2, 3 …"""
    columns = np.array(asks, np.int64).T
    submit, run, tasks, cores, mb = columns
    return job_table(
        submit_us=submit * S, work_us=run * S, request_us=run * S, tasks=tasks, cores=cores, memory_mb=mb,
        priority=np.zeros(len(asks), np.int64),
    )  # fmt: skip


def work(*asks: Ask) -> Workload:
    """The jobs as a workload."""
    return Workload("small", table(asks), Intake("small", "test", len(asks), len(asks)))


def fault(domain: str, at: int, repair: int) -> Fault:
    """A failure in whole seconds."""
    return Fault(domain, at * S, repair * S)


def domains_of(cluster: Cluster) -> list[str]:
    """Every name that can fail."""
    return [*cluster.domains, *(name for level in cluster.levels for name in cluster.domain_names(level))]


@st.composite
def contents(draw: st.DrawFn) -> dict[str, Any]:
    """The keys of a cluster file: up to 8 nodes of equal cores, perhaps memory pools; two levels and a named set."""
    nodes, cores = draw(st.integers(2, 8)), draw(st.sampled_from([1, 2, 4]))
    content: dict[str, Any] = {
        "nodes": [{"count": nodes, "cores": cores, "memory": draw(st.sampled_from([4, 8]))}],
        "nodes_per_rack": draw(st.integers(1, 4)),
        "domains": {"aisle": [f"0-{draw(st.integers(0, nodes - 1))}"]},
        "failure_domains": {
            "chassis": {"nodes_each": draw(st.integers(1, 4))},
            "feed": {"racks_each": draw(st.integers(1, 3))},
        },
    }
    if draw(st.booleans()):
        content["memory_pools"] = [{"name": "shelf", "count": draw(st.integers(1, 3)), "memory": 16}]
    return content


@st.composite
def asks(draw: st.DrawFn, most: int = 8) -> list[Ask]:
    """Up to ``most`` jobs with many equal times, of up to 4 tasks; some ask for more memory than a node has."""
    jobs, submit = [], 0
    for _ in range(draw(st.integers(1, most))):
        submit += draw(st.sampled_from([0, 0, 1, 2, 5]))
        memory = draw(st.sampled_from([0, 1, 4, 6, 10]))
        jobs.append(Ask(submit, draw(st.integers(0, 9)), draw(st.integers(1, 4)), 1, memory))
    return jobs


@st.composite
def faults_of(draw: st.DrawFn, cluster: Cluster) -> list[Fault]:
    """Up to 6 failures of any domains, which may overlap and come at one time."""
    names = st.sampled_from(domains_of(cluster))
    times = st.tuples(names, st.integers(0, 20), st.integers(0, 9))
    return [fault(*drawn) for drawn in draw(st.lists(times, max_size=6))]
