"""Reservations over what is scarce, against a twin in plain Python: nodes, licences and links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plain_skyline import Ask, Plain, Site
from small_worlds import S, workload_of

from unrack.cluster.spec import Cluster
from unrack.policy.discipline.skyline.plan import Plan
from unrack.sim.simulate import simulate
from unrack.workload.job import job_table

ROUND = Plan._round
SITE = Site(((4, 8, 10), (4, 8, 10), (2, 4, 10), (6, 8, 10)), 3)


def asks_of(seed: int, links: bool, count: int = 40) -> list[Ask]:
    """Jobs that crowd. The first asks for two cores, so that nodes are told apart; who uses a link is one task."""
    random = np.random.default_rng(seed)
    submit = np.sort(random.integers(0, 3 * count, count))
    run = random.integers(1, 25, count)
    over = np.where(random.random(count) < 0.4, 0, random.integers(0, 20, count))
    link = np.where(random.random(count) < 0.5, random.integers(2, 9, count), 0) if links else np.zeros(count, np.int64)
    tasks = np.where(link > 0, 1, random.integers(1, 5, count))
    licences = np.where(random.random(count) < 0.5, random.integers(1, 4, count), 0)
    cores, mb = random.integers(1, 3, count), random.integers(0, 3, count)
    submit[0], cores[0], mb[0] = 0, 2, 1
    rows = np.stack([submit, run, run + over, tasks, cores, mb, licences, link], axis=1)
    return [Ask(*row) for row in rows.tolist()]


def starts(asks: list[Ask], policy: str = "conservative") -> list[int]:
    """When each job starts."""
    submit, run, estimate, tasks, cores, mb, licences, link = np.array(asks, np.int64).T
    nodes = [{"count": 1, "cores": each[0], "memory": each[1], "name": f"n{i}"} for i, each in enumerate(SITE.nodes)]
    counted = [{"name": "licence", "amount": SITE.licences}]
    described: dict[str, Any] = {"nodes": nodes, "counted": counted, "links": {"mb_s": SITE.nodes[0][2]}}
    devices = {("counted", "licence"): licences, ("links", "mb_s"): link}
    jobs = job_table(
        submit_us=submit * S, work_us=run * S, request_us=estimate * S, tasks=tasks, cores=cores, memory_mb=mb,
        devices={key: asked for key, asked in devices.items() if asked.any()},
    )  # fmt: skip
    log = simulate(Cluster.from_dict(described), workload_of(jobs), policy).log
    found = np.full(len(asks), -1, np.int64)
    found[log.attempt_job] = log.attempt_start_us
    return (found // S).tolist()


@pytest.mark.parametrize("links", [False, True])
def test_every_start_is_that_of_the_twin(links: bool) -> None:
    for seed in range(40):
        asks = asks_of(seed, links)
        assert starts(asks) == Plain(SITE, asks).run(), f"world {seed}"


def never_forward(made: Plan, *told: Any) -> Any:
    """Reservations never move forward."""
    *others, what, choices = told
    return ROUND(made, *others, what._replace(compress=False), choices)


def too_far(made: Plan, *told: Any) -> Any:
    """Reservations move a second further than they may."""
    found, start = ROUND(made, *told), made.columns.start
    start[start > told[2]] -= S
    return found


def dropped(made: Plan, *told: Any) -> Any:
    """What was promised is forgotten."""
    made.columns.start[:] = -1
    return ROUND(made, *told)


def missed(made: Plan, view: Any, jobs: Any, now: int, running: int, *told: Any) -> Any:
    """A step of the plan is missed: the last that runs is not seen."""
    return ROUND(made, view, jobs, now, max(0, running - 1), *told)


@pytest.mark.parametrize("bug", [never_forward, too_far, dropped, missed])
@pytest.mark.parametrize("links", [False, True])
def test_a_planted_bug_is_caught(bug: Callable[..., Any], links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "_round", bug)
    with pytest.raises(AssertionError, match="world"):
        test_every_start_is_that_of_the_twin(links)
