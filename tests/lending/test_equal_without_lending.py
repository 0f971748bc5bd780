"""Where no job needs memory of another node, lending changes nothing; without contention, run times are the trace's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lending_worlds import attempts_of, contents, jobs_of
from small_worlds import J, table, work, workload_of
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.sim.log import RunLog
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.workload.formats.readers import read_trace
from unrack.workload.job import JobTable

PLAIN = {
    "slurm": ("slurm(nodes=whole)", "scheduler=slurm"),
    "slurm, often": ("slurm(nodes=whole, interval=2 s, depth=4, queue=6)",
                     "scheduler=slurm, interval=2 s, depth=4, queue=6"),
    "fcfs": ("fcfs(nodes=whole)", "scheduler=fcfs"),
    "easy": ("easy(nodes=whole)", "scheduler=easy"),
    "conservative": ("conservative(nodes=whole)", "scheduler=conservative"),
}  # fmt: skip


def same(cluster: Cluster, jobs: JobTable, plain: str, lending: str, ties: str = "together") -> RunLog:
    """Two policies start the same jobs at the same times on the same nodes; the plain one's log."""
    ours, theirs = (
        simulate(cluster, workload_of(jobs), policy, world=World(ties=ties)).log for policy in (lending, plain)
    )
    assert attempts_of(ours) == attempts_of(theirs)
    assert len(ours.loans) == 0
    assert ours.state.tolist() == theirs.state.tolist()
    return theirs


def modest(jobs: list[J], cluster: Cluster) -> list[J]:
    """The jobs with no more memory than every node has for as many tasks as its cores hold."""
    kinds = {(c, mb) for c, mb in zip(cluster.cores.tolist(), cluster.memory_mb.tolist(), strict=True) if c}
    return [
        job._replace(mb=min(job.mb, *(mb // max(c // job.cores, 1) for c, mb in kinds), 2**40)) for job in jobs
    ]  # fmt: skip


@pytest.mark.parametrize("rule", ["disaggregated", "local", "local-spread", "contention-aware"])
@pytest.mark.parametrize("scheduler", PLAIN)
@draws(40)
@given(content=contents(), jobs=st.booleans().flatmap(jobs_of), ties=st.sampled_from(["together", "submit-first"]))
def test_jobs_that_fit_everywhere_run_as_under_the_plain_scheduler(
    rule: str, scheduler: str, content: dict[str, Any], jobs: list[J], ties: str
) -> None:
    cluster = Cluster.from_dict(content)
    plain, lending = PLAIN[scheduler]
    same(cluster, table(modest(jobs, cluster)), plain, f"{rule}({lending})", ties)


@pytest.mark.parametrize("scheduler", ["slurm", "slurm, often", "fcfs", "easy"])
@draws(40)
@given(content=contents(), jobs=st.booleans().flatmap(jobs_of))
def test_a_job_that_no_cluster_could_hold_makes_no_difference(
    scheduler: str, content: dict[str, Any], jobs: list[J]
) -> None:
    cluster = Cluster.from_dict(content)
    plain, lending = PLAIN[scheduler]
    jobs = [*modest(jobs, cluster), J(jobs[-1].submit, 1, mb=1000)]
    same(cluster, table(jobs), plain, f"disaggregated({lending})")


@pytest.mark.long
@pytest.mark.needs_data
@pytest.mark.parametrize("scheduler", ["slurm", "fcfs", "easy", "conservative"])
@pytest.mark.parametrize(
    ("file", "nodes", "cores", "count"),
    [("KTH-SP2-1996-2.1-cln.swf.gz", 100, 1, 2500), ("LLNL-Atlas-2006-2.1-cln.swf.gz", 600, 8, 1500)],
)
def test_real_logs_run_as_under_the_plain_scheduler(
    data: Path, file: str, nodes: int, cores: int, count: int, scheduler: str
) -> None:
    cluster = Cluster.homogeneous(nodes, cores, memory=16_000)
    jobs = read_trace(data / "swf" / file).jobs.take(np.arange(count))
    jobs.asks[2] = np.arange(count) % 4 * (4_000 // cores)
    plain, lending = PLAIN[scheduler]
    log = same(cluster, jobs, plain, f"disaggregated({lending})")
    waits = log.attempt_start_us - jobs.submit_us[log.attempt_job]
    assert (waits > 0).mean() > 0.01, "the slice must make jobs wait"


def test_without_contention_run_times_are_the_traces_however_much_is_borrowed() -> None:
    cluster = Cluster.homogeneous(6, 2, memory=8)
    jobs = [J(i % 7, 3 + i % 5, 1 + i % 4, 9, 1, 3 * (i % 6)) for i in range(60)]
    for rule in ("strawman", "naive", "local", "local-spread", "disaggregated", "contention-aware"):
        log = simulate(cluster, work(*jobs), rule).log
        assert len(log.loans) > 10
        assert (log.attempt_end_us - log.attempt_start_us == log.jobs.work_us[log.attempt_job]).all()
