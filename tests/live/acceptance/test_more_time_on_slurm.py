"""More time for running jobs of a real Slurm: it is told before the limit is used up, and stops them at the new one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from driven_bed import Driven, audit
from slurm_bed import Bed
from test_together_on_slurm import submit as submit_together

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_who_delays_nobody_runs_on_and_who_would_is_stopped(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    bed = new_bed(nodes=6, scheduler="backfill", remember_s=3000)
    driven = Driven(bed, tmp_path, "easy(extension=1 min, extension_most=1 min)")
    asked = {"hold": True, "mem": 100, "time": "1", "partition": "main"}
    longer = bed.submit("sleep 85", nodelist="n1", exclusive=True, **asked)
    endless = bed.submit("sleep 400", nodelist="n2", exclusive=True, **asked)
    array = bed.submit("sleep 85", nodelist="n3", array="1-2", **asked)
    first, second = submit_together(bed, "sleep 85", "-N1 -c8 -wn4", "-N1 -c8 -wn5")
    stopped = bed.submit("sleep 400", nodelist="n6", exclusive=True, **asked)
    theirs = bed.submit("sleep 400", nodelist="n1", time="1", partition="main", begin="now+100")  # nobody gives it any
    driven.start()
    bed.wait_for([longer, endless, f"{array}_1", f"{array}_2", first, second, stopped], "RUNNING", timeout_s=30)
    waits = bed.submit("sleep 1", nodelist="n6", exclusive=True, **asked)
    time.sleep(33)
    driven.stop(signal.SIGKILL)
    driven.start()
    bed.wait_for([longer, f"{array}_1", f"{array}_2", first, second], "COMPLETED", timeout_s=120)
    bed.wait_for([stopped, endless], "TIMEOUT", timeout_s=180)
    bed.wait_for([waits], "COMPLETED", timeout_s=60)
    bed.cancel(theirs)
    driven.wait_until(lambda: driven.all_over([longer, endless, array, first, second, stopped, waits]))
    time.sleep(2)
    assert driven.stop() == 0
    limits = {job: bed.job(job)["TimeLimit"] for job in (longer, endless, first, second, stopped, waits)}
    more, usual = "00:02:00", "00:01:00"
    assert list(limits.values()) == [more, more, more, more, usual, usual], limits
    assert {bed.job(f"{array}_{member}")["TimeLimit"] for member in (1, 2)} == {more}
    decided = [one for record in driven.records() for one in record.get("decided", ()) if one[0] == "extend"]
    assert len(decided) == 5, decided
    audit(driven, [longer, endless, stopped, waits])
