"""The audit of what really happened: reservations count in it, for others and for their members."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eventful import MEDDLING, Eventful, meddled, reserved
from strict_slurm import StrictSlurm

from unrack.errors import RunError
from unrack.live.driver.history.past import Past, Ran
from unrack.live.driver.history.runs import live_result, workload_of
from unrack.sim.result import audit

BREAKS = "What really happened breaks a rule: "


def exchanged(past: Past, one: Ran, other: Ran, **more: Any) -> Past:
    """The past as if one had run when and where the other did, and the other had not been there."""
    rows = [[other.lease["rows"][0][0], *one.lease["rows"][0][1:]]]
    moved = one._replace(
        decided_us=other.decided_us, started_us=other.started_us, ended_us=other.ended_us, freed_us=other.freed_us,
        lease={**one.lease, "rows": rows}, **more,
    )  # fmt: skip
    left = [moved if job is one else job for job in past.jobs if job is not other]
    return replace(past, jobs=left)


def notes_of(past: Past) -> tuple[str, ...]:
    return live_result(past, workload_of(past, "a journal")).notes


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_past_in_which_reservations_were_kept_breaks_no_rule(tmp_path: Path, policy: str) -> None:
    past = reserved(tmp_path, policy).until_done()
    members = [job for job in past.jobs if job.job["said"].get("reservation")]
    assert len(members) == 2
    assert {row[0] for job in members for row in job.lease["rows"]} <= {"n1", "n2"}
    result = live_result(past, workload_of(past, "a journal"))
    audit(result)
    assert not any(note.startswith(BREAKS) for note in result.notes)


def test_a_job_of_others_on_nodes_that_are_reserved_is_found_and_told_first(tmp_path: Path) -> None:
    past = reserved(tmp_path).until_done()
    member = next(job for job in past.jobs if job.job["said"].get("reservation"))
    other = next(job for job in past.jobs if not job.job["said"].get("reservation"))
    planted = exchanged(past, other, member)
    with pytest.raises(RunError, match=f"job {other.key}, attempt 1, starts on a node kept for others"):
        audit(live_result(planted, workload_of(planted, "a journal")))
    assert notes_of(planted)[0].startswith(f"{BREAKS}the audit of the run's tables failed: at ")


def test_a_member_that_starts_when_its_reservation_is_not_in_force_is_found(tmp_path: Path) -> None:
    past = reserved(tmp_path).until_done()
    member = next(job for job in past.jobs if job.job["said"].get("reservation"))
    last = max(past.jobs, key=lambda job: job.decided_us)
    assert last.decided_us > 8_000_000
    assert "starts when it may not run" in notes_of(exchanged(past, member, last))[0]


def test_a_job_on_a_node_before_a_reservation_was_changed_to_have_it_breaks_no_rule(tmp_path: Path) -> None:
    world = Eventful(tmp_path, slurm=StrictSlurm)
    slurm = world.slurm
    assert isinstance(slurm, StrictSlurm)
    slurm.reserve(0, 60, "n1", Users="ann", Flags="SPEC_NODES")
    world.go()
    before = slurm.submit(3, 4, 2, 4)  # on n2, n3 and n4
    world.go(30)
    slurm.reservations, slurm.dirty = (), True
    slurm.reserve(-6, 54, "n2", Users="ann", Flags="SPEC_NODES")  # the same, with another node
    world.go(3)
    after = slurm.submit(3, 4, 2, 4)
    past = world.until_done()
    nodes = {int(job.key): {row[0] for row in job.lease["rows"]} for job in past.jobs}
    assert nodes == {before: {"n2", "n3", "n4"}, after: {"n1", "n3", "n4"}}
    assert notes_of(past) == ()
    first, second = sorted(past.jobs, key=lambda job: job.decided_us)
    late = replace(past, jobs=[first, second._replace(lease=first.lease)])
    assert f"job {after}, attempt 1, starts on a node kept for others" in notes_of(late)[0]


@pytest.mark.parametrize("seed", range(4))
def test_what_others_do_breaks_no_rule(tmp_path: Path, seed: int) -> None:
    assert not any(note.startswith(BREAKS) for note in notes_of(meddled(tmp_path, "easy", seed, MEDDLING)))
