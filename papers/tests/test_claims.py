"""Claims are judged by whole confidence intervals, seed by seed where two rows are compared."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.metric.estimate import Estimate
from unrack_papers.claim import MORE, Check, Claim, changes, close, exceeds, largest_gap, lies, narrows, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.reproduction import Place
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import NOT_MEASURED, ONE_SEED, TOO_WIDE, Verdict

S1 = REPRODUCTIONS["nvme-s1"]


def measured(missed: dict[tuple[float, str], list[float]]) -> Measured:
    """Missed deadlines in per cent: (load, row) → a value a seed."""
    values: dict[Place, list[dict[str, float | None]]] = {
        ("S1", load, row): [{"missed_deadlines": value / 100} for value in own] for (load, row), own in missed.items()
    }
    return Measured(S1, Options(seeds=2), values)


def verdict(claim_checks: object, world: Measured) -> Verdict:
    return Claim("", "", claim_checks).judge(world).verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mean", "half", "count", "expected"),
    [
        (5.0, 1.0, 20, Verdict.AGREES),
        (2.5, 1.0, 20, Verdict.OPEN),
        (0.5, 1.0, 20, Verdict.DIFFERS),
        (9.5, 1.0, 20, Verdict.OPEN),
        (12.0, 1.0, 20, Verdict.DIFFERS),
        (5.0, 0.0, 1, Verdict.OPEN),
        (2.0, 0.0, 20, Verdict.AGREES),
    ],
)
def test_a_check_holds_or_fails_only_with_its_whole_interval(
    mean: float, half: float, count: int, expected: Verdict
) -> None:
    assert Check("x", "", Estimate(mean, half, count), 2, 10).verdict is expected


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, NOT_MEASURED),
        (Estimate(48.6, 0.0, 1), ONE_SEED),
        (Estimate(-2.3, 41.3, 3), TOO_WIDE),
        (Estimate(5.0, 1.0, 20), ""),
    ],
)
def test_what_cannot_be_judged_says_why(value: Estimate | None, why: str) -> None:
    check = Check("x", "", value, 2, 10)
    assert (check.verdict is Verdict.OPEN) == bool(why)
    assert check.why == why


def test_one_run_judges_what_is_not_drawn() -> None:
    assert Check("x", "", Estimate(5.0, 0.0, 1), 2, 10, exact=True).verdict is Verdict.AGREES
    assert Check("x", "", Estimate(1.0, 0.0, 1), 2, 10, exact=True).verdict is Verdict.DIFFERS


def test_an_interval_wider_than_the_range_never_agrees() -> None:
    assert Check("x", "", Estimate(6.0, 4.1, 20), 2, 10).verdict is Verdict.OPEN


@given(st.floats(-100, 100), st.floats(0, 50), st.floats(-100, 100), st.floats(0, 100))
def test_verdicts_say_how_the_interval_meets_the_range(mean: float, half: float, low: float, width: float) -> None:
    high = low + width
    found = Check("x", "", Estimate(mean, half, 20), low, high).verdict
    samples = [mean - half, mean, mean + half]
    inside = [low <= value <= high for value in samples]
    if found is Verdict.AGREES:
        assert all(inside)
    if found is Verdict.DIFFERS:
        assert not any(inside)


def test_rows_are_compared_seed_by_seed_so_that_common_noise_cancels() -> None:
    world = measured({(0.8, "First Fit"): [20.0, 80.0], (0.8, "Disagg-Aware"): [19.0, 78.9]})
    checks = exceeds("% missed", "First Fit", "Disagg-Aware", ["S1"], [0.8], by=0.4)
    assert verdict(checks, world) is Verdict.AGREES
    assert Claim("", "", checks).judge(world).checks[0].value == Estimate(
        pytest.approx(1.05), pytest.approx(12.7062047364 * 0.1 / 2), 2
    )  # type: ignore[arg-type]


def test_fewer_does_not_mean_as_many() -> None:
    world = measured({(0.5, "First Fit"): [0.0, 0.0], (0.5, "Disagg-Aware"): [0.0, 0.0]})
    assert verdict(exceeds("% missed", "First Fit", "Disagg-Aware", ["S1"], [0.5]), world) is Verdict.DIFFERS
    assert verdict(close("% missed", "First Fit", "Disagg-Aware", ["S1"], [0.5], by=2), world) is Verdict.AGREES
    assert MORE > 0


def test_a_share_compares_with_a_part_of_the_larger() -> None:
    world = measured({(0.8, "First Fit"): [90.0, 90.0], (0.8, "Disagg-Aware"): [4.0, 4.0]})
    row = ("First Fit", "Disagg-Aware", ["S1"], [0.8])
    assert verdict(exceeds("% missed", *row, by=0, share=0.1), world) is Verdict.AGREES
    assert verdict(exceeds("% missed", *row, by=0, share=0.04), world) is Verdict.DIFFERS


def test_one_place_that_differs_decides_and_a_missing_one_leaves_the_claim_open() -> None:
    world = measured({(0.5, "First Fit"): [0.0, 0.0], (0.6, "First Fit"): [9.0, 9.0]})
    low = lies("% missed", "First Fit", ["S1"], [0.5], 0, 2)
    assert verdict(low, world) is Verdict.AGREES
    assert verdict(lies("% missed", "First Fit", ["S1"], [0.5, 0.6], 0, 2), world) is Verdict.DIFFERS
    assert verdict(together(low, lies("% missed", "First Fit", ["S1"], [0.7], 0, 2)), world) is Verdict.OPEN


def test_the_largest_gap_and_changes_along_the_axis_are_found() -> None:
    world = measured(
        {
            (0.5, "First Fit"): [1.0, 1.0],
            (0.5, "PA First Fit"): [11.0, 11.0],
            (0.6, "First Fit"): [2.0, 2.0],
            (0.6, "PA First Fit"): [62.0, 62.0],
        }
    )
    gap = largest_gap("% missed", "PA First Fit", "First Fit", "S1", [0.5, 0.6], at_least=49)
    finding = Claim("", "", gap).judge(world)
    assert finding.verdict is Verdict.AGREES
    assert [check.where for check in finding.checks] == ["0.6"]
    assert verdict(narrows("% missed", "PA First Fit", "First Fit", ["S1"], 0.6, 0.5, by=50), world) is Verdict.AGREES
    assert verdict(narrows("% missed", "PA First Fit", "First Fit", ["S1"], 0.5, 0.6), world) is Verdict.DIFFERS
    grows = changes("% missed", "PA First Fit", ["S1"], 0.5, 0.6, 51, math.inf)
    assert verdict(grows, world) is Verdict.AGREES
    assert verdict(changes("% missed", "First Fit", ["S1"], 0.5, 0.6, -1, 0.5), world) is Verdict.DIFFERS


def test_the_papers_own_numbers_can_be_judged_and_bear_out_its_main_claims() -> None:
    paper = Measured(S1, Options(), {}).of_the_paper()
    found = {claim.sentence: claim.judge(paper).verdict for claim in S1.claims}
    assert found[next(s for s in found if s.startswith("Under first fit, pooling cuts"))] is Verdict.AGREES
    assert found[next(s for s in found if s.startswith("The aware policy misses at most 2 %"))] is Verdict.AGREES
    assert found[next(s for s in found if s.startswith("Under the aware policy, pooled, more than two"))] is (
        Verdict.DIFFERS  # 1.96 at 0.8
    )
    assert found[next(s for s in found if s.startswith("Our own policy"))] is Verdict.OPEN
