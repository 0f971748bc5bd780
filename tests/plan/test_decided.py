"""What is told of a verdict: how many of all seeds are certain, what decided, and with which margin."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom
from tries import draws

from unrack.errors import InputError
from unrack.plan.answer import chart, scale_of
from unrack.plan.decided import missed_text, of_goal
from unrack.plan.goal import Goal, Trial, read_goal, shared_means, with_served
from unrack.plan.search import GoalRule, Verdict, at_least
from unrack.plan.settings import Vary, make_settings
from unrack.study.input.inputs import Document

WAIT = read_goal("wait_s_p95 < 100 s")


def trials(values: Sequence[float | None], metric: str = "wait_s_p95", **others: float) -> list[Trial]:
    return [Trial(({metric: value, "served": 1.0, **others},)) for value in values]


def told(rule: GoalRule, those: Sequence[Trial]) -> dict[str, Any]:
    """A system as the answer has it."""
    low, high = rule.of_all_seeds(those) or (None, None)
    goals = [of_goal(rule, goal, those) for goal in rule.goals]
    return {"seeds": len(those), "met": sum(rule.met(those)), "at_least": low, "at_most": high, "goals": goals}


def why(rule: GoalRule, those: Sequence[Trial]) -> str:
    return missed_text(rule, rule.goals, told(rule, those))


@pytest.mark.parametrize(("met", "seeds", "share"), [(18, 20, 0.717), (9, 9, 0.717), (6, 6, 0.607), (20, 20, 0.861)])
def test_the_share_of_all_seeds_is_that_of_clopper_and_pearson(met: int, seeds: int, share: float) -> None:
    assert round(at_least(met, seeds), 3) == share
    assert at_least(met, seeds) == pytest.approx(beta.ppf(0.05, met, seeds - met + 1))


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=4), st.data())
def test_systems_are_compared_by_a_metric_on_the_same_seeds_however_many_each_was_run_on(
    own: list[int], data: st.DataObject
) -> None:
    of_seed = data.draw(st.lists(st.integers(-999, 999), min_size=2, max_size=6))
    there = st.lists(st.booleans(), min_size=1, max_size=len(of_seed) - 1).map(lambda some: [True, *some])
    systems = {
        system: trials([float(base + of_seed[seed]) if has else None for seed, has in enumerate(data.draw(there))])
        for system, base in enumerate(own)
    }
    means = shared_means({**systems, 99: trials([None])}, "wait_s_p95")
    assert [round(means[system] - means[0], 6) for system in systems] == [base - own[0] for base in own]


@pytest.mark.parametrize(("seeds", "share"), [(6, 0.6), (10, 0.9), (20, 0.9), (12, 0.5)])
def test_the_share_told_of_a_system_that_meets_is_wrong_in_five_of_a_hundred_at_most_though_runs_stop_early(
    seeds: int, share: float
) -> None:
    """All sequences of good and bad seeds, weighed: with p of all seeds good, how often is more than p told?"""
    rule = GoalRule((WAIT,), seeds, share)
    outcomes: dict[tuple[int, ...], float] = {}

    def go_on(met: tuple[int, ...]) -> None:
        those = trials([50.0 if one else 150.0 for one in met])
        if len(met) in rule.looks and rule.verdict(those) != Verdict.OPEN:
            if rule.verdict(those) == Verdict.MEETS:
                low, _ = rule.of_all_seeds(those) or (0.0, 1.0)
                outcomes[met] = low
            return
        for one in (0, 1):
            go_on((*met, one))

    if seeds <= 12:
        go_on(())
    else:  # by numbers: 18 of 18, or 18 and more of 20 after 16 or 17 of 18
        for first, tail in [((1,) * 18, ())] + [
            (head, rest)
            for missed in itertools.chain(itertools.combinations(range(18), 1), itertools.combinations(range(18), 2))
            for head in [tuple(int(at not in missed) for at in range(18))]
            for rest in itertools.product((0, 1), repeat=2)
            if sum(head) + sum(rest) >= 18
        ]:
            low, _ = rule.of_all_seeds(trials([50.0 if one else 150.0 for one in (*first, *tail)])) or (0.0, 1.0)
            outcomes[*first, *tail] = low
    for p in [low - 1e-9 for low in set(outcomes.values())]:
        wrong = sum(p ** sum(met) * (1 - p) ** (len(met) - sum(met)) for met, low in outcomes.items() if low > p)
        assert wrong <= 0.05 + 1e-6


def test_a_share_of_all_seeds_is_decided_in_looks_that_share_the_chance_of_error() -> None:
    rule = GoalRule((WAIT,), 640, 0.9, 0.95, 20)
    assert rule.looks == (5, 10, 20, 40, 80, 160, 320, 640)
    assert rule.verdict(trials([50.0] * 40)) == Verdict.OPEN
    assert rule.verdict(trials([50.0] * 80)) == Verdict.MEETS
    assert rule.verdict(trials([50.0] * 79)) == Verdict.OPEN, "no look"
    assert rule.verdict(trials([150.0] * 5)) == Verdict.FAILS
    close = [50.0] * 9 + [150.0]
    assert rule.verdict(trials(close * 64)) == Verdict.UNDECIDED
    assert "met on 576 of the 640 seeds run" in why(rule, trials(close * 64))
    wrong = 0.0  # of one system at exactly the share: it may be called either with error at most the confidence's
    for look in rule.looks:
        least = next((met for met in range(look + 1) if at_least(met, look, rule.error) >= 0.9), look + 1)
        wrong += float(binom.sf(least - 1, look, 0.9))
    assert wrong <= 0.05 / 20


def test_so_few_seeds_that_nothing_could_be_shown_are_known_beforehand() -> None:
    rule = GoalRule((WAIT,), 40, 0.9, 0.95, 20)
    assert 40 < rule.fewest <= 80
    assert rule.verdict(trials([50.0] * 40)) == Verdict.UNDECIDED
    assert GoalRule((WAIT,), 20, 0.9).fewest == 1


def test_the_seeds_that_missed_and_their_values_decide_and_no_mean_that_is_on_the_other_side_is_told() -> None:
    goal = read_goal("missed_deadlines < 5 %")
    rule = GoalRule(with_served((goal,)), 20, 0.9)
    those = trials([0.01, 0.0, 0.09, 0.06, 0.001, 0.07], "missed_deadlines")
    assert rule.verdict(those) == Verdict.FAILS
    words = why(rule, those)
    assert words == (
        "missed on 3 of the 6 seeds run (seeds 2, 3, 5), where 2 of 20 may be: "
        "missed_deadlines is 6 % to 9 %, where < 5 % is wanted, off by 20 % to 80 % of that"
    )
    assert "average" not in words
    assert "3.8" not in words, "the mean, which is below the goal"


def test_of_several_goals_each_is_told_where_it_was_missed_and_larger_may_be_better() -> None:
    goals = (WAIT, read_goal("utilisation_cores >= 60 %"))
    rule = GoalRule(with_served(goals), 4, 0.75)
    those = [
        Trial(({"wait_s_p95": wait, "utilisation_cores": busy, "served": 1.0},))
        for wait, busy in ((150.0, 0.7), (50.0, 0.3), (None, 0.7))
    ]
    words = why(rule, those)
    assert "missed on 3 of the 3 seeds run (seeds 0, 1, 2), where 1 of 4 may be" in words
    assert "wait_s_p95 is 2 min 30 s on 2 of them, where < 1 min 40 s is wanted, off by 50 % of that" in words
    assert "utilisation_cores is 30 % on 1 of them, where >= 60 % is wanted, off by 50 % of that" in words
    assert "wait_s_p95 is undefined, where < 1 min 40 s is wanted" in why(rule, those[2:] * 2)


@draws(200)
@given(
    st.lists(st.one_of(st.none(), st.floats(0, 300)), min_size=1, max_size=20),
    st.integers(1, 20),
    st.floats(0.3, 1.0),
    st.sampled_from(["wait_s_p95 < 100 s", "wait_s_p95 >= 100 s", "wait_s_p95 <= 0 s"]),
)
def test_the_margin_that_is_told_is_on_the_side_of_the_verdict(
    values: list[float | None], seeds: int, share: float, goal: str
) -> None:
    rule = GoalRule((read_goal(goal),), seeds, share)
    those = trials(values[:seeds])
    verdict, own = rule.verdict(those), of_goal(rule, rule.goals[0], those)
    if verdict == Verdict.MEETS:
        assert rule.goals[0].met(own["value"])
    if verdict == Verdict.FAILS:
        assert not rule.goals[0].met(own["value"])
        assert re.search(r"missed on|on the one seed", why(rule, those))


@draws(100)
@given(st.lists(st.floats(1, 300), min_size=2, max_size=10), st.sampled_from(["<", ">="]))
def test_the_bound_of_a_mean_is_on_the_side_of_the_verdict(values: list[float], sign: str) -> None:
    rule = GoalRule((read_goal(f"wait_s_p95 {sign} 100 s"),), len(values), None, 0.9)
    those = trials(values)
    verdict, own = rule.verdict(those), of_goal(rule, rule.goals[0], those)
    assert own["low"] <= own["value"] + 1e-6
    assert own["value"] <= own["high"] + 1e-6
    if verdict == Verdict.MEETS:
        assert own["margin"] >= 0
    if verdict == Verdict.FAILS:
        assert own["margin"] <= 0
        assert "the mean of wait_s_p95" in why(rule, those)


def test_the_bounds_of_a_mean_that_is_told_are_those_that_left_it_open() -> None:
    rule = GoalRule((WAIT, read_goal("wait_s_mean < 100 s")), 5, None, 0.9)
    those = trials([102.0, 101.0, 99.0, 103.0, 101.0], wait_s_mean=50.0)
    verdict, own = rule.verdict(those), of_goal(rule, WAIT, those)
    assert (verdict, own["low"] < 100 < own["high"]) == (Verdict.UNDECIDED, True)


def test_one_seed_is_no_ground_for_a_mean_or_for_others() -> None:
    assert GoalRule((WAIT,), 1, None, 0.95).verdict(trials([50.0])) == Verdict.UNDECIDED
    assert GoalRule((WAIT,), 1).of_all_seeds(trials([50.0])) is None
    assert why(GoalRule((WAIT,), 1), trials([150.0])).startswith("on the one seed: wait_s_p95 is 2 min 30 s")


def settled(goals: Sequence[str], plan: dict[str, Any] | None = None, **said: Any) -> Any:
    document = Document("study", None, {"plan": plan} if plan else {})
    return make_settings(document, [read_goal(goal) for goal in goals], [Vary("a", (1, 2))], **said)


def test_a_goal_may_ask_for_a_share_of_all_seeds() -> None:
    made = settled(["wait_s_p95 < 10 min on 90 % of seeds, at 95 % confidence", "served > 99 %"])
    assert (made.share, made.confidence, made.seeds) == (0.9, 0.95, 640)
    assert [str(goal) for goal in made.goals] == ["wait_s_p95 < 10 min", "served > 99 %"]
    assert settled(["wait_s_p95 < 10 min on 0.8 of all seeds"]).share == 0.8
    assert settled(["wait_s_p95 < 10 min with 99 % confidence"]).share is None
    of_reference = read_goal("throughput_jobs_per_h >= 95 % of reference on at least 75 % of the seeds")
    assert (of_reference.relative, of_reference.value, of_reference.share) == (True, 0.95, 0.75)
    over = settled(["wait_s_p95 < 10 min on 70 % of seeds"], {"share": 0.9, "goals": ["served > 1 %"]})
    assert over.share == 0.7, "the command line goes first"
    same = settled(["wait_s_p95 < 1 s on 90 % of seeds", "served > 1 % on 90 % of seeds"], share=0.9)
    assert same.share == 0.9


@pytest.mark.parametrize(
    ("goals", "said", "words"),
    [
        (["wait_s_p95 < 1 s on 90 % of seeds", "served > 1 % on 80 % of seeds"], {}, "one for all"),
        (["wait_s_p95 < 1 s on 90 % of seeds"], {"share": 0.8}, "0.9 and 0.8"),
        (["wait_s_p95 < 1 s on 100 % of seeds, at 95 % confidence"], {}, "no number of seeds"),
        (["wait_s_p95 < 1 s on 190 % of seeds"], {}, "up to 1"),
        (["wait_s_p95 < 1 s at 100 % confidence"], {}, "above 0.5"),
        (["wait_s_p95 < 1 s on most of seeds"], {}, "most of seeds"),
    ],
)
def test_shares_that_cannot_be_are_refused(goals: list[str], said: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        settled(goals, **said)


def found(values: Sequence[float], costs: Sequence[float], goal: Goal = WAIT) -> dict[str, Any]:
    rule, systems = GoalRule((goal,), 4, 0.75), []
    for at, (value, cost) in enumerate(zip(values, costs, strict=True)):
        those = trials([value, value * 1.1, value * 1.2, value * 1.3])
        own = told(rule, those)
        systems.append(
            {**own, "values": {"nodes": at + 1}, "cost": {"total": cost}, "verdict": str(rule.verdict(those))}
        )
    best = next((one for one in systems if one["verdict"] == "meets"), None)
    below = systems[systems.index(best) - 1] if best else None
    line = {"policy": "easy", "cluster": "c", "tried": systems, "answer": best, "below": below}
    return {"lines": [line], "labels": {}, "currency": "USD", "goals": [str(goal)], "thresholds": [goal.value],
            "relative": [False]}  # fmt: skip


@draws(60)
@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=12), st.floats(1, 1e9), st.floats(1e-4, 1e6))
def test_every_system_is_in_a_chart_at_its_value_and_the_decision_is_on_its_axis(
    values: list[float], cost: float, wanted: float
) -> None:
    drawn = found(values, [cost * (at + 1) for at in range(len(values))], WAIT._replace(value=wanted))
    spec = chart(drawn, 0)
    points, (goal, *_, marks, labels) = spec["data"]["values"], spec["layer"]
    scale, size = marks["encoding"]["y"]["scale"], wanted / goal["data"]["values"][0]["goal"]
    least = scale.get("domainMin", 0.0)
    assert [point["cost"] for point in points] == [cost * (at + 1) for at in range(len(values))]
    for point, system in zip(points, drawn["lines"][0]["tried"], strict=True):
        assert point["value"] == pytest.approx(max(system["goals"][0]["value"] / size, least))
        assert point["low"] <= point["value"] <= point["high"]
        assert least <= point["value"] <= scale.get("domainMax", math.inf) * (1 + 1e-9)
    assert least <= wanted / size <= scale.get("domainMax", math.inf) * (1 + 1e-9)
    assert sum(point["chosen"] for point in points) <= 1
    assert sum(bool(point["label"]) for point in points) <= 2
    assert labels["encoding"]["text"] == {"field": "label"}


def test_values_that_differ_by_orders_are_on_an_axis_by_factors_on_which_the_decision_is_seen() -> None:
    spec = chart(found([90_000.0, 110.0, 60.0, 0.0], [1, 2, 3, 4]), 0)
    encoding = spec["layer"][-2]["encoding"]
    assert encoding["y"]["scale"]["type"] == "log"
    top, fails, meets, zero = (point["value"] for point in spec["data"]["values"])
    assert top > fails > spec["layer"][0]["data"]["values"][0]["goal"] > meets > zero > 0
    assert "≤ " in encoding["y"]["axis"]["labelExpr"], "what is 0 is at the end of the axis"
    assert scale_of([0.0, 9.0], 2.0)["type"] == "linear"
