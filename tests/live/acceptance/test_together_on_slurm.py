"""Heterogeneous jobs of a real Slurm: its backfill scheduler starts their components together, where we say."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from driven_bed import Driven
from slurm_bed import Bed

from unrack.live.driver.state.replay import replay
from unrack.live.journal.reading import read_journal
from unrack.slurm_text.hostlists import expand

pytestmark = pytest.mark.live
PATIENT_S = 90
"""How long is waited for what has to happen, not to happen soon: a driver on a busy machine begins in half a minute."""


def submit(bed: Bed, script: str, *parts: str, user: str | None = None) -> list[int]:
    """A heterogeneous job, held; the numbers of its components."""
    words = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--hold"]
    for place, part in enumerate(parts):
        words += [*([":"] if place else []), "--time=1", "--mem=100", *part.split()]
    done = bed.call(*words, given=f"#!/bin/sh\n{script}\n".encode(), user=user)
    first = int(done.stdout.split()[-1])
    return [first + place for place in range(len(parts))]


def planned(driven: Driven, first: int) -> list[list[list[str]]]:
    """Each place that was decided for a heterogeneous job: the nodes of each component."""
    found = []
    for record in driven.records():
        entry = (record.get("entries") or {}).get(str(first))
        parts = ((entry or {}).get("lease") or {}).get("parts")
        if parts:
            found.append([sorted({row[0] for row in part["rows"]}) for part in parts])
    return found


def whys(driven: Driven, first: int) -> str:
    status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
    return next((str(one.get("why", "")) for one in status["jobs"] if one["key"] == str(first)), "")


def told(bed: Bed, jobs: list[int]) -> list[dict[str, str]]:
    known = {int(one["JobId"]): one for one in bed.jobs()}
    return [known[job] for job in jobs]


def check(driven: Driven, bed: Bed, jobs: list[list[int]]) -> None:
    """All ran once, together, each component where it was planned; and the journal replays."""
    for every in jobs:
        shown = told(bed, every)
        assert {one["JobState"] for one in shown} == {"COMPLETED"}, shown
        assert len({one["StartTime"] for one in shown}) == 1
        places = [sorted(expand(one["NodeList"])) for one in shown]
        assert places in planned(driven, every[0]), places
        assert len({name for names in places for name in names}) == sum(map(len, places))
    records = [dict(record.value) for record in read_journal(driven.state / "journal")]
    assert replay(records).differences == []


def test_components_start_together_where_it_is_decided(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    bed = new_bed(nodes=8, scheduler="backfill", remember_s=3000, partitions={"main": "", "few": "n[1-3]"})
    driven = Driven(bed, tmp_path, "easy", partitions=("main", "few"))
    sizes = [(f"-N{1 + place % 3} -c4", "-N2 -c8", "-N1 -c1 -pfew,main") for place in range(6)]
    jobs = [submit(bed, "sleep 3", *parts) for parts in sizes]
    plain = bed.submit_many([{"script": "sleep 2", "hold": True, "nodes": 3, "mem": 100, "time": "1"}] * 4)
    named = submit(bed, "sleep 1", "-N1 --nodelist=n7", "-N1 --exclude=n[1-6]")
    driven.start()
    try:
        waits = [job for every in [*jobs, named] for job in every] + plain
        bed.wait_until(lambda: driven.all_over(waits), 120, "all are over")
    finally:
        driven.stop()
    check(driven, bed, [*jobs, named])
    assert told(bed, named)[0]["NodeList"] == "n7"
    assert told(bed, named)[1]["NodeList"] == "n8"


def test_components_through_cancels_requeues_failures_and_kills(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    bed = new_bed(nodes=8, scheduler="backfill", remember_s=3000)
    driven = Driven(bed, tmp_path, "conservative", start_timeout="15 s")
    driven.start()
    try:
        first = submit(bed, "sleep 280", "-N2 -c8 --time=5", "-N2 -c8 --time=5", "-N1 -c8 --time=5")
        bed.wait_for(first, "RUNNING", timeout_s=PATIENT_S)
        driven.stop(signal.SIGKILL)
        driven.start()
        bed.cancel(first[2])  # a component alone: what it held is free, and the others go on
        one = bed.submit("sleep 1", hold=True, nodes=4, exclusive=True, mem=100, time="1")
        bed.wait_until(lambda: bed.state(one) == "COMPLETED", PATIENT_S, "what a component held is used")
        assert bed.state(first[0]) == "RUNNING"
        behind = bed.submit("sleep 1", hold=True, nodes=5, exclusive=True, mem=100, time="1")
        bed.cancel(first[0])
        bed.wait_until(lambda: driven.all_over([behind]), PATIENT_S)

        again = submit(bed, "sleep 4", "-N2 -c8", "-N2 -c8")
        bed.wait_for(again, "RUNNING", timeout_s=PATIENT_S)
        bed.scontrol("requeue", str(again[0]))
        bed.wait_until(lambda: bed.job(again[0])["Restarts"] == "1", PATIENT_S)
        bed.wait_until(lambda: driven.all_over(again), PATIENT_S, "it ran again")
        assert {one["JobState"] for one in told(bed, again)} == {"COMPLETED"}, told(bed, again)

        lost = submit(bed, "sleep 280", "-N1 -c8 --time=5", "-N1 -c8 --time=5", "-N1 -c8 --time=5")
        bed.wait_for(lost, "RUNNING", timeout_s=PATIENT_S)
        bed.node_down(bed.job(lost[1])["NodeList"])  # Slurm 22.05 queues the first two again, and the third has failed
        bed.wait_until(
            lambda: (
                "component 2 has ended" in whys(driven, lost[0])
                or all(state == "RUNNING" for state in map(bed.state, lost))
            ),
            PATIENT_S,
            "it is said, or it runs again",
        )
        bed.cancel(lost[0])

        wide = submit(bed, "sleep 1", "-N6 -c1", "-N6 -c1")
        bed.wait_until(lambda: "components" in whys(driven, wide[0]), PATIENT_S, "it is too big as a whole")
        small = bed.submit("sleep 1", hold=True, mem=100, time="1")
        bed.wait_until(lambda: driven.all_over([small]), PATIENT_S)
        bed.cancel(wide[0])
    finally:
        driven.stop()
    records = driven.records()
    assert replay(records).differences == []
    assert not any(len(set().union(*map(set, places))) != sum(map(len, places)) for places in planned(driven, first[0]))


def test_where_slurm_does_not_backfill_it_takes_no_heterogeneous_job(new_bed: Callable[..., Bed]) -> None:
    bed = new_bed(nodes=2, scheduler="builtin")
    words = ["sbatch", "--hold", "-N1", ":", "-N1"]
    done = bed.call(*words, given=b"#!/bin/sh\ntrue\n", check=False)
    assert done.returncode
    assert b"not supported" in done.stderr
