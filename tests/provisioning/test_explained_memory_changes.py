"""What ``unrack explain`` says of memory that changes while a job runs, and of why it ended."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from used_worlds import Points, job, nodes, table

from unrack.cli.study.finished import MOST
from unrack.cli.study.job_story import job_lines
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import Story, explain
from unrack.sim.usage.following import make_memory_changes
from unrack.sim.world import World

DYNAMIC = "disaggregated(scheduler=easy, provisioning=dynamic)"
FIGHT = "disaggregated(scheduler=fcfs, provisioning=dynamic, lenders_compute=yes, initial=0.5{})"
TWO = job(0, 1000, 100, [(0, 50), (0.6, 100)]), job(0, 2000, 100, [(0, 50), (0.4, 100)])
"""Both grow to 100 on nodes that have 150 together."""


def story(policy: str, of: int, cluster: Any, *jobs: dict[str, Any], **how: Any) -> Story:
    """The life of a job, by its number."""
    return explain(cluster, table(*jobs), parse_policy(policy), of, world=World(**how))


def lines(told: Story, most: int | None = MOST) -> list[str]:
    """What is printed of where it ran."""
    every = job_lines(told, "policy", most)
    return [
        line.strip() for line in every[next(i for i, line in enumerate(every) if line.strip().startswith("started")) :]
    ]


def test_a_job_is_told_by_how_much_its_memory_grew_and_shrank_and_where_it_is() -> None:
    """150 on a node of 100; of these 120 from 200 s on, 60 from 500 s, 140 from 900 s, looked at every 300 s."""
    told = story(DYNAMIC, 0, nodes(100, 100, 100), job(0, 1000, 150, [(0, 150), (0.2, 120), (0.5, 60), (0.9, 140)]))
    (attempt,) = told.attempts
    assert (attempt.local_mb, attempt.borrowed_mb) == (100, 50)
    assert [(one.change_mb, one.local_mb, one.borrowed_mb) for one in attempt.changes] == [
        (-30, 100, 20), (-60, 60, 0), (80, 100, 40),
    ]  # fmt: skip
    assert lines(told) == [
        "started     0 s (+0 s) on node(s) 0",
        "with        borrowed 50 MB of node 1",
        "holds       150 MB: 100 MB on its nodes, 50 MB borrowed",
        "shrank      300 s (+5 min) by 30 MB to 120 MB: 100 MB on its nodes, 20 MB borrowed",
        "shrank      600 s (+10 min) by 60 MB to 60 MB, all on its nodes",
        "grew        900 s (+15 min) by 80 MB to 140 MB: 100 MB on its nodes, 40 MB borrowed",
        "ended       1,000 s after 16 min 40 s: finished",
    ]
    assert "40 MB borrowed (40 MB of node 1)" in lines(told, None)[5]


def test_many_changes_are_told_by_the_first_and_the_last_and_what_was_between() -> None:
    """Up and down by 1, 2, 3 … 50 MB: each look finds less and each step up is asked for at once."""
    points: Points = [(i / 100, 50.0 + (i // 2 + 1 if i % 2 else 0)) for i in range(100)]
    told = story(DYNAMIC, 0, nodes(200), job(0, 60_000, 200, points))
    (attempt,) = told.attempts
    count = len(attempt.changes)
    assert count == 100
    short, whole = lines(told), lines(told, None)
    assert len(whole) == count + 3
    assert len(short) == MOST + 4
    left = [change.change_mb for change in attempt.changes[5:-5]]
    grown, shrunk = sum(mb for mb in left if mb > 0), -sum(mb for mb in left if mb < 0)
    assert short[7] == f"… 90 more, in which it grew by {grown:,} MB and shrank by {shrunk:,} MB (--all)"
    assert short[2:7] == whole[2:7]
    assert short[-6:] == whole[-6:]
    assert len(json.loads(json.dumps(asdict(told), default=str))["attempts"][0]["changes"]) == count


def test_a_job_that_grows_and_is_stopped_is_told_what_it_needed_and_lost() -> None:
    """At 800 s it needs 100 and holds 50; the other has the rest."""
    told = story(FIGHT.format(""), 1, nodes(75, 75), *TWO)
    first, second = told.attempts
    assert first.stopped is not None
    assert (first.stopped.grower, first.stopped.lacks_mb, first.stopped.lost_us) == ("2", 50, 800_000_000)
    assert second.stopped is None
    assert lines(told)[:5] == [
        "started     0 s (+0 s) on node(s) 1",
        "holds       50 MB, all on its nodes",
        "ended       800 s after 13 min 20 s: out-of-memory",
        "because     it needed 50 MB more than it held, and could not get that",
        "lost        13 min 20 s of work: 0.2222 node-hours",
    ]


def test_a_job_that_makes_room_for_another_is_told_for_which() -> None:
    """The first asks at 900 s, when the second holds 100 of the 150; that one has to go."""
    jobs = job(0, 1000, 100, [(0, 50), (0.9, 100)]), job(1, 2000, 100, [(0, 50), (0.4, 100)])
    told = story(FIGHT.format(", stop=youngest"), 1, nodes(75, 75), *jobs)
    stopped = told.attempts[0].stopped
    assert stopped is not None
    assert (stopped.grower, stopped.lacks_mb) == ("1", 50)
    assert "because     job 1 needed 50 MB more than it held, and this one had to make room" in lines(told)


def test_what_a_checkpoint_has_kept_is_not_lost() -> None:
    """Stopped at 824 s, after 800 s of work and two checkpoints; the second of these kept 600 s of it."""
    changes = make_memory_changes(
        {"checkpoint_every": "300 s", "checkpoint_cost": "10 s", "restart_cost": "5 s"}
    )  # fmt: skip
    told = story(FIGHT.format(", restart=checkpoint"), 1, nodes(75, 75), *TWO, changes=changes)
    stopped = told.attempts[0].stopped
    assert stopped is not None
    assert stopped.lost_us == (824 - 620 + 5) * 1_000_000
    assert "lost        3 min 29 s of work: 0.05806 node-hours" in lines(told)


def test_a_job_that_uses_more_than_it_asked_for_is_told_so() -> None:
    told = story("disaggregated(scheduler=easy)", 0, nodes(100), job(0, 1000, 60, [(0, 50), (0.5, 70)]))
    assert told.attempts[0].outcome == "out-of-memory"
    assert "because     it needed 10 MB more than it held, and had asked for no more: it is not run again" in lines(
        told
    )


def test_jobs_that_stand_still_are_told_for_how_long_and_of_a_deadlock() -> None:
    """Both stand still, the second from 800 s on, the first from 900 s on: each needs what the other holds."""
    jobs = job(0, 1000, 140, [(0, 50), (0.6, 75), (0.9, 140)]), job(0, 2000, 100, [(0, 50), (0.4, 100)])
    told = story(FIGHT.format(", stop=block"), 1, nodes(75, 75), *jobs)
    said = lines(told)
    assert any(line.startswith("because     every job that ran stood still for lack of memory") for line in said)
    assert told.blocked_node_us == 100_000_000
    assert said[-1] == "stood still 0.02778 node-hours, as memory that it needed was not to be had"
