"""Fair share on a real Slurm with accounts: who has used much waits, from the first decision on and after a restart."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from accounting import accounted_bed
from driven_bed import Driven, audit
from slurm_bed import Bed

from unrack.live.driver.state.replay import replay
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.snapshot.scheduler import read_scheduler
from unrack.live.slurm.snapshot.snapshot import snapshot_of
from unrack.sim.simulate import simulate

pytestmark = pytest.mark.live
MINE, OTHERS = "games", "daemon"
EXTRA = (
    "PriorityType=priority/multifactor", "PriorityWeightFairshare=100000", "PriorityCalcPeriod=1",
    "PriorityDecayHalfLife=7-0",
)  # fmt: skip


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """Two users with one share each, of whom one has used much."""
    with accounted_bed("unrack-shares-", EXTRA, nodes=2) as made:
        made.call("sacctmgr", "-i", "add", "account", "phys")
        for user in (MINE, OTHERS):
            made.call("sacctmgr", "-i", "add", "user", user, "account=phys")
        time.sleep(2)
        job = made.submit("sleep 30", user=MINE, account="phys", exclusive=True, nodes=2, time="2")
        made.wait_for([job], "COMPLETED", timeout_s=60)
        used = ("sshare", "-a", "-n", "-P", f"--users={MINE}", "--format=User,RawUsage")
        made.wait_until(lambda: int(made.call(*used).stdout.decode().strip().split("|")[-1]) > 100, 90, "it counts")
        yield made


def test_who_has_used_less_goes_first(bed: Bed, tmp_path: Path) -> None:
    driven = Driven(bed, tmp_path, "easy(order=multifactor)")
    asked = {"script": "sleep 2", "account": "phys", "exclusive": True, "nodes": 2, "time": "1", "hold": True}
    first = [bed.submit(**asked, user=MINE) for _ in range(3)]
    then = [bed.submit(**asked, user=OTHERS) for _ in range(3)]
    driven.start()
    bed.wait_for(then[:1], "COMPLETED", "RUNNING")
    driven.stop(signal.SIGKILL)
    driven.start()
    try:
        bed.wait_until(lambda: driven.all_over([*first, *then]), 60, "all jobs are over")
    finally:
        driven.stop()
    starts = {job: bed.job(job)["StartTime"] for job in (*first, *then)}
    assert max(starts[job] for job in then) < min(starts[job] for job in first), starts
    began = [record["beginning"] for record in driven.records() if record["k"] == "begin"]
    assert all({user: amount for _, user, amount in one["used"]}[MINE] > 100 for one in began)
    assert replay(driven.records()).differences == []
    audit(driven, [*first, *then])


def test_age_is_that_since_a_job_came_to_slurm_and_who_is_nice_steps_back(tmp_path: Path) -> None:
    aging = ("PriorityType=priority/multifactor", "PriorityWeightAge=1000", "PriorityMaxAge=00:01:40")
    with accounted_bed("unrack-ages-", aging, nodes=1) as bed:
        driven = Driven(bed, tmp_path, "easy(order=multifactor)")
        asked = {"script": "sleep 1", "exclusive": True, "nodes": 1, "time": "1", "hold": True}
        late = bed.submit(**asked, begin="now+12")  # it has no age before that
        old, nice = bed.submit(**asked), bed.submit(**asked, nice=150)
        time.sleep(14)
        young, eager = bed.submit(**asked, nice=-60), bed.submit(**asked, nice=-400)  # 14 s are 140
        driven.start()
        try:
            bed.wait_until(lambda: driven.all_over([late, old, nice, young, eager]), 60, "all jobs are over")
        finally:
            driven.stop()
        starts = {job: bed.job(job)["StartTime"] for job in (late, old, nice, young, eager)}
        assert sorted(starts, key=starts.__getitem__) == [eager, old, young, late, nice], starts
        assert replay(driven.records()).differences == []
        audit(driven, list(starts))


def test_a_snapshot_knows_what_was_used(bed: Bed) -> None:
    asked = {"script": "sleep 2", "account": "phys", "exclusive": True, "nodes": 2, "time": "1", "hold": True}
    first, then = (bed.submit(**asked, user=user) for user in (MINE, OTHERS))
    for job in (first, then):
        bed.scontrol("update", f"JobId={job}", "StartTime=now+100")
        bed.scontrol("release", str(job))
    found = snapshot_of(CommandClient(environment=bed.env).read(), read_scheduler(environment=bed.env))
    bed.cancel(first, then)
    jobs = simulate(found.cluster, found.workload, "easy(order=multifactor)").jobs
    starts = dict(zip(map(str, jobs["job"]), jobs["start_s"], strict=True))
    assert starts[str(then)] < starts[str(first)]
