"""Disaggregated GPUs by flow rounds: what is drawn, counted, compared and timed."""

from __future__ import annotations

import polars as pl
import pytest
from disaggregated_pretend import few

from unrack.policy.table import parse_policy
from unrack.sim.simulate import simulate
from unrack_papers.amaral.flow.makespan import ALL, EARLY, EASY, EASY_WITH, MAKESPAN, SMALL, SPEEDUP, TEN, USED
from unrack_papers.amaral.flow.network import AWARE, LATE, SENDING, STEP, WITH_AWARE, most_by_awareness
from unrack_papers.amaral.flow.network import SMALL as SIXTY_FOUR
from unrack_papers.amaral.flow.solvers import CYCLES, GROUP, ROWS, growth
from unrack_papers.amaral.flow.utilisation import REPRODUCTION as UTILISATION
from unrack_papers.amaral.flow.utilisation import TimedRounds
from unrack_papers.amaral.flow.worlds import (
    APART,
    POOL,
    SENT_BY_WARM_UP,
    WITH,
    WITHOUT,
    cluster_of,
    in_use,
    jobs_of,
    needed,
    own_jobs,
)
from unrack_papers.measured import Measured
from unrack_papers.pages.page import as_page, judged
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import Verdict

KEYS = {"machines": 4, "jobs": 40, "step_s": 50, "until_s": 100}


def value(found: Measured, group: str, row: str, label: str) -> float:
    own = found.at((group, ALL, row), label)
    assert own is not None
    return own.mean


@pytest.mark.long
def test_without_disaggregation_only_gpus_beside_free_cores_are_in_use_and_with_it_all() -> None:
    found = few("flow-makespan")
    assert value(found, SMALL, WITHOUT.name, EARLY.label) == 6
    assert value(found, SMALL, EASY.name, EARLY.label) == 6
    assert value(found, SMALL, WITH.name, EARLY.label) == 16
    assert value(found, SMALL, EASY_WITH.name, EARLY.label) == 16
    assert value(found, TEN, WITHOUT.name, EARLY.label) == 10
    assert value(found, SMALL, WITH.name, SPEEDUP.label) > value(found, TEN, WITH.name, SPEEDUP.label) > 1
    assert value(found, SMALL, WITH.name, USED.label) > value(found, SMALL, WITHOUT.name, USED.label)


@pytest.mark.long
def test_the_speed_up_is_that_of_the_same_jobs() -> None:
    found = few("flow-makespan")
    makespans = [found.each((SMALL, ALL, row.name), MAKESPAN.label) for row in (WITHOUT, WITH)]
    ratios = [a / b for a, b in zip(*makespans, strict=True) if a and b]
    assert found.each((SMALL, ALL, WITH.name), SPEEDUP.label) == pytest.approx(ratios)


def test_gpus_in_use_are_counted_from_starts_and_ends() -> None:
    jobs = pl.DataFrame({"start_s": [0.0, 10.0, 10.0], "end_s": [10.0, 30.0, 20.0]})
    assert in_use(jobs, [0, 5, 10, 20, 30]).tolist() == [1, 1, 2, 1, 0]


def test_a_row_takes_gpus_of_a_pool_or_of_its_machine_and_the_jobs_are_the_same() -> None:
    pooled, apart = (jobs_of(KEYS, 3, design).jobs for design in (POOL, APART))
    assert pooled.submit_us.tolist() == apart.submit_us.tolist()
    assert pooled.work_us.tolist() == apart.work_us.tolist()
    assert (set(pooled.devices), set(apart.devices)) == ({("gpu", "devices")}, {("gpus", "count")})
    result = simulate(cluster_of(KEYS, POOL), jobs_of(KEYS, 3, POOL), "flow")
    assert (result.jobs.height, own_jobs(result).height) == (43, 40)


def test_the_makespans_of_a_run_time_and_of_gpus_beside_free_cores_give_both_back() -> None:
    run_s, beside, gpus, jobs = 70.0, 9, 16, 512
    with_s = jobs * run_s / gpus
    without_s = 800 + (jobs * run_s - 800 * beside) / gpus
    assert needed(without_s, with_s, jobs, gpus) == pytest.approx((run_s, beside))
    assert needed(64 * run_s / beside, 64 * run_s / gpus, 64, gpus) == pytest.approx((run_s, beside))


def test_jobs_send_something_where_all_do_and_remote_gpus_add_to_it() -> None:
    plain = jobs_of({**KEYS, "links": True}, 0, POOL).jobs
    sending = jobs_of({**KEYS, "links": True, "sends": True}, 0, POOL).jobs
    remote, sent = (sending.devices["links", name] for name in ("remote_mb_s", "mb_s"))
    assert ("links", "mb_s") not in plain.devices
    assert remote.tolist() == plain.devices["links", "remote_mb_s"].tolist()
    assert sent[:3].tolist() == [SENT_BY_WARM_UP] * 3
    assert sent[3:].tolist() == remote[3:].tolist()


@pytest.mark.long
def test_without_remote_gpus_awareness_changes_nothing_unless_jobs_send_something() -> None:
    found = few("flow-network")
    steps = [x for group, x, _ in found.values if group == f"{SIXTY_FOUR}, slowdown"]
    assert steps
    for row in (WITHOUT, AWARE):
        assert value(found, SIXTY_FOUR, row.name, LATE.label) == 0
    assert value(found, SENDING[SIXTY_FOUR], WITHOUT.name, LATE.label) > 0
    ranked = [found.at((f"{SIXTY_FOUR}, slowdown", x, WITH_AWARE.name), STEP.label) for x in dict.fromkeys(steps)]
    means = [one.mean for one in ranked if one is not None]
    assert means == sorted(means, reverse=True)
    assert means[-1] >= 1


def test_no_awareness_reaches_the_published_speed_up_by_the_published_profiles() -> None:
    by_hand = 0.998 / 0.99 + 0.83 / 0.51 + 0.95 / 0.94 + 0.99 / 0.91 + 0.98 / 0.97 + 0.98 / 0.89 + 0.97 / 0.92 + 1
    assert most_by_awareness() == pytest.approx(by_hand / 8) == pytest.approx(1.112, abs=0.001)


def test_a_stopwatch_counts_rounds_and_changes_no_schedule() -> None:
    ticks = iter(range(10**9))
    cluster, jobs = cluster_of(KEYS, POOL), jobs_of(KEYS, 1, POOL)
    timed = TimedRounds(parse_policy("flow"), lambda: float(next(ticks)))
    own, plain = simulate(cluster, jobs, timed), simulate(cluster, jobs, "flow")
    assert own.jobs.equals(plain.jobs)
    assert timed.rounds_s
    assert set(timed.rounds_s) == {1.0}
    assert len(timed.rounds_s) < timed.asked


@pytest.mark.parametrize("name", ["flow-utilisation", "flow-solvers"])
def test_time_on_the_wall_is_printed_and_not_written(name: str) -> None:
    found = few(name)
    aside = REPRODUCTIONS[name].aside
    assert aside is not None
    assert "Measured on this machine" in aside(found)[0]
    assert "Measured on this machine" not in as_page(found, judged(found))
    assert len(aside(found)) == (7 if name == "flow-utilisation" else 1 + len(ROWS))


def test_waits_are_places_of_their_own_and_grow_with_the_share() -> None:
    found = few("flow-utilisation")
    own = [found.at(place, "wait") for place in found.values if place[0] == f"{SMALL}, waits" and place[2] == "With"]
    means = [one.mean for one in own if one is not None]
    assert len(means) == 21
    assert means == sorted(means)
    assert all("." not in one.metric for one in UTILISATION.quantities)


def test_every_algorithm_finds_the_same_cost() -> None:
    found = few("flow-solvers")
    assert {finding.verdict for _, finding in judged(found)} == {Verdict.AGREES}


def test_growth_is_the_power_between_two_sizes() -> None:
    one = few("flow-solvers")
    values = {(GROUP, x, CYCLES.name): ({"took_s": 1e-6 * x**2},) for x in (10, 100, 1000, 10_000)}
    assert growth(Measured(one.reproduction, one.options, values), CYCLES.name) == pytest.approx(2)
