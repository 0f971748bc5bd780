"""The test cluster itself: other tests believe what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_bed import Bed

pytestmark = pytest.mark.live


@pytest.mark.live_quick
def test_a_job_runs_on_the_nodes_that_it_asked_for(bed: Bed) -> None:
    job = bed.submit("sleep 60", nodes=2, nodelist="n[3-4]", mem="100", gres="nvme:1")
    bed.wait_for([job], "RUNNING")
    assert bed.job(job)["NodeList"] == "n[3-4]"
    bed.cancel(job)
    bed.wait_for([job], "CANCELLED")


def test_many_jobs_are_queued_in_the_order_of_their_numbers(bed: Bed) -> None:
    jobs = bed.submit_many([{"hold": True, "job_name": f"job{number}"} for number in range(40)])
    assert [bed.job(job)["JobName"] for job in jobs] == [f"job{number}" for number in range(40)]


def test_two_clusters_live_side_by_side_and_remember_jobs_over_a_restart(new_bed: Callable[..., Bed]) -> None:
    one, other = new_bed(nodes=2), new_bed(nodes=3, scheduler="backfill")
    job = one.submit("sleep 60", hold=True)
    one.restart_controller()
    assert one.kills == []
    one.kill_controller()
    one.start_controller()
    assert one.state(job) == "PENDING"
    assert 0 <= one.kills[0].at_s - one.kills[0].written_s < 60  # it wrote down what it knew as it was restarted
    assert [other.jobs(), len(other.names)] == [[], 3]


def test_nodes_go_down_drain_come_back_and_are_added(new_bed: Callable[..., Bed]) -> None:
    bed = new_bed(nodes=2)
    bed.node_down("n1")
    assert "DOWN" in bed.node("n1")["State"]
    bed.node_up("n1")
    bed.drain("n2")
    assert "DRAIN" in bed.node("n2")["State"]
    bed.resume("n2")
    bed.rewrite(nodes=4)
    assert [bed.node(name)["State"] for name in bed.names] == ["IDLE"] * 4


def test_nothing_is_left_when_a_cluster_has_stopped(new_bed: Callable[..., Bed]) -> None:
    bed = new_bed(nodes=2)
    job = bed.submit("sleep 600", mem="100")
    bed.wait_for([job], "RUNNING")
    assert bed._left_over()
    bed.stop()
    assert not bed._left_over()


def test_a_job_submit_script_and_hooks_are_run(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    folder = tmp_path
    hook = folder / "epilog"
    hook.write_text(f"#!/bin/sh\ntouch {folder}/$SLURM_JOB_ID\n")
    hook.chmod(0o755)
    script = "function slurm_job_submit(job, parts, uid) job.admin_comment = 'seen' return slurm.SUCCESS end\n"
    script += "function slurm_job_modify(job, old, parts, uid) return slurm.SUCCESS end\nreturn slurm.SUCCESS\n"
    bed = new_bed(nodes=1, job_submit=script, hooks={"EpilogSlurmctld": hook})
    job = bed.submit("true")
    bed.wait_until(lambda: (folder / str(job)).exists())
    assert bed.job(job)["AdminComment"] == "seen"
