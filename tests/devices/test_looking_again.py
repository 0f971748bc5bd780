"""Policies that refuse a job because of deadlines look again at the moment from which they would not: by time alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from device_worlds import D, S, World, cluster, play, pool, pressing
from hypothesis import given
from hypothesis import strategies as st
from naive import Naive
from tries import draws

from unrack.policy.table import parse_policy
from unrack.sim.log import RunLog
from unrack.view import View

AWARE = ["max-composition", "min-fragmentation", "disaggregation-aware", "resource-aware", "lookahead"]
SMUFIN = {"model": "smufin"}
ALONE, SHARED = 1600 / 1489.15, 1600 / 1601.25
"""Speeds of SMUFIN on one drive, alone and with another."""


def starts(log: RunLog) -> list[tuple[int, int]]:
    """When which job started, in order."""
    return sorted(zip(log.attempt_start_us.tolist(), log.attempt_job.tolist(), strict=True))


@dataclass(frozen=True)
class Watched:
    """A policy, and what it did at each round; with ``every``, asked at least so often while jobs wait."""

    policy: Any
    rounds: list[tuple[int, int, int, int | None]]
    every: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

    def seeded(self, seed: int) -> Watched:
        return self

    def next_round(self, view: View, memory: Any, now: int) -> int | None:
        wanted = self.policy.next_round(view, memory, now)
        self.rounds.append((now, view.version, view.running_count, wanted))
        if self.every is not None and view.waiting and view.running_count:
            return now + self.every if wanted is None else min(wanted, now + self.every)
        return wanted


def watched(policy: str, every: int | None = None) -> Watched:
    return Watched(parse_policy(policy), [], every)


def one_drive(*jobs: D, **keys: Any) -> World:
    return World(cluster([25], pool("nvme", 1, 2000, 600, **keys)), jobs, (SMUFIN,))


def genome(submit: float, due: float | None, run: float = 1600, **keys: Any) -> D:
    return D(submit, run, 6, app="smufin", nvme=(1800, 43), due=due, **keys)


DUE = 1531.166
"""When the first job must be done so that the second one harms it until 931 s."""


def borne_from(due: float, shared: float = SHARED) -> int:
    """From when on a job that began at 0 bears others, µs: t + (W - t P) / p <= D, in whole numbers."""
    before, after = Fraction(ALONE), Fraction(shared)
    return ceil((1600 * S - round(due * S) * after) / (before - after))


@pytest.mark.parametrize("policy", AWARE)
def test_a_second_job_joins_as_soon_as_the_first_one_bears_it(policy: str) -> None:
    log = play(one_drive(genome(0, DUE), genome(100, 6500)), policy).log
    assert [start for start, _ in starts(log)] == [0, borne_from(DUE)]
    assert borne_from(DUE) // S == 931
    assert log.attempt_end_us.tolist()[0] <= DUE * S


@pytest.mark.parametrize("policy", AWARE)
def test_a_second_job_that_would_be_late_itself_by_then_waits_for_the_end(policy: str) -> None:
    due = 931 + 1601.25 - 1
    log = play(one_drive(genome(0, DUE), genome(100, due)), policy).log
    second = 1489_150_000 if policy != "lookahead" else round((due - 1489.15) * S) + 1  # where nothing helps it
    assert starts(log)[1][0] == second


def test_a_job_that_is_late_on_the_only_node_for_it_does_not_wait_while_nothing_runs() -> None:
    """Six drives would be fast enough, and are at a node with too few cores."""
    drives = [
        pool("nvme", n, 2000, 600, name=f"of {node}", compose=n, reach=[node]) for node, n in (("0", 6), ("1", 1))
    ]
    job = D(0, 1600, cores=4, app="smufin", nvme=(100, 10), due=1480)
    assert starts(play(World(cluster([1, 25], *drives), [job], (SMUFIN,)), "lookahead").log) == [(0, 0)]


@pytest.mark.parametrize("policy", AWARE)
def test_a_job_that_is_late_in_any_case_closes_its_composition_except_to_lookahead(policy: str) -> None:
    log = play(one_drive(genome(0, 1400), genome(100, 6500)), policy).log
    assert starts(log)[1][0] == (100 * S if policy == "lookahead" else 1489.15 * S)


@pytest.mark.parametrize("policy", AWARE)
def test_work_begins_to_be_used_up_only_when_the_devices_are_attached(policy: str) -> None:
    world = World(
        cluster([25, 25], pool("nvme", 1, 2000, 600, attach_latency=50)),
        (genome(0, DUE + 50), genome(100, 6500)),
        (SMUFIN,),
    )
    log = play(world, policy).log
    assert [start for start, _ in starts(log)] == [0, borne_from(DUE) + 50 * S]


def test_frozen_speeds_stay_but_the_rules_of_the_papers_ask_the_model() -> None:
    world = World(*one_drive(genome(0, DUE), genome(100, 6500))[:2], ({**SMUFIN, "frozen": True},))
    assert starts(play(world, "max-composition").log)[1][0] == borne_from(DUE)
    assert starts(play(world, "lookahead").log)[1][0] == 100 * S


@pytest.mark.parametrize("policy", AWARE)
def test_a_gang_waits_until_all_its_tasks_are_borne(policy: str) -> None:
    log = play(one_drive(genome(0, DUE), genome(100, 9000, tasks=2)), policy).log
    assert starts(log)[1][0] == borne_from(DUE, 1600 / 1677.35) > borne_from(DUE)


def test_lookahead_gives_up_the_deadline_of_a_job_the_moment_it_cannot_be_kept() -> None:
    """The second job would be late on what is in use, until it is late wherever it goes."""
    log = play(one_drive(genome(0, None), genome(100, 1650)), "lookahead").log
    assert starts(log)[1][0] == round((1650 - 1489.15) * S) + 1


@pytest.mark.parametrize("policy", ["first-fit", "best-fit", "random-fit"])
def test_hard_limits_need_no_second_look(policy: str) -> None:
    chosen = watched(policy)
    play(one_drive(genome(0, DUE), genome(100, 6500), genome(200, None)), chosen)
    assert {wanted for *_, wanted in chosen.rounds} == {None}


# --- at random --------------------------------------------------------------------------------------------------------


def first_difference(one: Iterable[Any], other: Iterable[Any]) -> tuple[Any, Any] | None:
    return next(((a, b) for a, b in zip(one, other, strict=False) if a != b), None)


@pytest.mark.parametrize("policy", AWARE)
@draws(60)
@given(world=st.integers(0, 2**32).map(pressing), every=st.sampled_from([S, S // 8, 70_001]))
def test_no_start_is_found_earlier_by_asking_all_the_time(policy: str, world: World, every: int) -> None:
    ours, polled = starts(play(world, policy).log), starts(play(world, watched(policy, every)).log)
    differing = first_difference(ours, polled)
    assert differing is None or differing[0][0] < differing[1][0], differing


@pytest.mark.parametrize("policy", AWARE)
@draws(60)
@given(seed=st.integers(0, 2**32), gangs=st.booleans())
def test_every_round_that_a_policy_asks_for_starts_a_job(policy: str, seed: int, gangs: bool) -> None:
    chosen = watched(policy)
    play(pressing(seed, gangs), chosen)
    for before, after in zip(chosen.rounds, chosen.rounds[1:], strict=False):
        now, version, running, wanted = before
        if wanted is not None and after[0] == wanted and after[1] == version:
            raise AssertionError(f"asked at {now} for a round at {wanted}, and nothing started: {running} run")


@pytest.mark.parametrize("policy", [name for name in AWARE if name != "lookahead"])
@draws(40)
@given(seed=st.integers(0, 2**32), gangs=st.booleans(), order=st.sampled_from(["edf", "fcfs"]))
def test_the_moments_are_those_of_the_plain_twins(policy: str, seed: int, gangs: bool, order: str) -> None:
    world = pressing(seed, gangs)
    ours = play(world, f"{policy}(order={order})").log
    theirs = play(world, Naive(policy, order, world.models)).log
    assert starts(ours) == starts(theirs)


@pytest.mark.parametrize("policy", ["max-composition", "min-fragmentation"])
@draws(40)
@given(seed=st.integers(0, 2**32))
def test_deadlines_that_are_past_open_compositions_too_in_the_authors_reading(policy: str, seed: int) -> None:
    world = pressing(seed)
    ours = play(world, f"{policy}(reading=authors)").log
    assert starts(ours) == starts(play(world, Naive(policy, "edf", world.models, authors=True)).log)


def test_the_worlds_at_random_make_policies_look_again() -> None:
    """Else the tests above would test nothing."""
    seen = 0
    for seed in range(40):
        chosen = watched("max-composition")
        play(pressing(seed), chosen)
        seen += any(wanted is not None for *_, wanted in chosen.rounds)
    assert seen >= 12
