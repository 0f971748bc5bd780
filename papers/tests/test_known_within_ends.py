"""Values that are known only within ends: beyond the last that was tried."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack_papers.claim import Check, Of, lies
from unrack_papers.execution import execute
from unrack_papers.measured import Measured, known_within
from unrack_papers.pages.page import as_page, judged, long_rows
from unrack_papers.pages.sheet import number
from unrack_papers.reproduction import Numbers, Task
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import ONLY_WITHIN, Verdict
from unrack_papers.within import Value, Within, mean_of, mirrored, within
from unrack_papers.zacarias.dynamic import memory
from unrack_papers.zacarias.dynamic.systems import DYNAMIC, STATIC

ABOVE = Within(100.0, 100.0, math.inf)
BELOW = Within(25.0, 0.0, 25.0)
numbers = st.floats(0, 1000)


@st.composite
def hidden(draw: st.DrawFn) -> tuple[Within, float]:
    """A value within ends, and what it is in truth."""
    low, width, part = draw(numbers), draw(numbers), draw(st.floats(0, 1))
    return Within(low, low, low + width), min(low + part * width, low + width)


@given(hidden(), hidden(), st.floats(-5, 5))
def test_what_is_reckoned_with_them_holds_the_truth(
    one: tuple[Within, float], other: tuple[Within, float], factor: float
) -> None:
    (a, true_a), (b, true_b) = one, other
    pairs = [(a - b, true_a - true_b), (factor * a + 1, factor * true_a + 1), (1 - a, 1 - true_a), (-a, -true_a)]
    if true_b and b.low:
        pairs += [(a / b, true_a / true_b), (100 * (1 - a / b), 100 * (1 - true_a / true_b))]
    for found, truth in pairs:
        slack = 1e-9 * (1 + abs(truth))
        assert found.low - slack <= truth <= found.high + slack


def test_what_is_saved_of_more_than_was_tried_is_at_least_so_much() -> None:
    saved = 100 * (1 - 75.0 / ABOVE)
    assert saved == Within(25.0, 25.0, 100.0)
    nothing_known = 1 - ABOVE / ABOVE
    assert (nothing_known.low, nothing_known.high) == (-math.inf, 1.0)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([ABOVE, ABOVE], "≥ 100.0±0.0"),
        ([90.0, ABOVE], "≥ 95.0±63.5"),
        ([BELOW, BELOW], "≤ 25.0±0.0"),
        ([BELOW, ABOVE], "≈ 62.5±476.5"),
        ([-ABOVE], "≤ -100.0"),
        ([90.0, 90.0], "90.0±0.0"),
    ],
)
def test_a_mean_says_that_it_is_at_least_or_at_most_so_much(values: list[Value], text: str) -> None:
    assert number(mean_of(values), 1) == text
    assert str(Check("x", "here", mean_of(values))).startswith(f"here: {text[:2] if text[1] == ' ' else ''}")


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(90, math.inf, Verdict.AGREES), (0, 90, Verdict.DIFFERS), (90, 110, Verdict.OPEN), (110, math.inf, Verdict.OPEN)],
)
def test_claims_are_judged_by_what_is_known(low: float, high: float, wanted: Verdict) -> None:
    check = Check("x", "", mean_of(6 * [ABOVE]), low, high, steps=True)
    assert check.verdict is wanted
    assert check.why == (ONLY_WITHIN if wanted is Verdict.OPEN else "")
    value = mean_of(6 * [ABOVE])
    assert value is not None
    other = check._replace(value=mirrored(value), low=-high, high=-low)
    assert other.verdict is wanted
    both = (mean_of(6 * [50.0]), value)
    assert check._replace(several=both, of=Of.GREATEST).verdict is wanted


def engine(task: Task) -> list[Numbers]:
    """Static never keeps 95 % if requests are too high; dynamic does on 75 % of the memory."""
    over = float(task.workload.get("overestimate", 0.0))
    found: list[Numbers] = []
    for row in task.rows:
        size = float(str(row.cluster["name"]).split("-")[2])  # type: ignore[index]
        enough = size >= 75 if "dynamic" in row.policy else size >= 100 and not over
        found.append({"jobs_per_h": 40.0 if enough or row.policy.startswith("baseline") else 20.0})
    return found


def reproduced(seeds: int) -> Measured:
    one = REPRODUCTIONS["dynamic-memory"]
    return execute(one, replace(one.defaults, seeds=seeds), solve=engine)


def test_memory_that_is_saved_is_a_lower_bound_where_all_that_was_tried_is_too_little() -> None:
    found = reproduced(6)
    place = (memory.title(60), memory.LEAST, STATIC)
    assert number(found.at(place, memory.NEEDED.label), 1) == "≥ 100.0±0.0"
    assert number(found.at((memory.title(60), memory.LEAST, DYNAMIC), memory.NEEDED.label), 1) == "75.0±0.0"
    findings = judged(found)
    saved, grows, quarters, more = (finding for _, finding in findings)
    assert (saved.verdict, saved.why) == (Verdict.OPEN, ONLY_WITHIN)  # 25 % or more: 40 % is not out of the question
    assert "≥ 25.0 ± 0.0" in str(saved.checks[0])
    assert (quarters.verdict, more.verdict) == (Verdict.AGREES, Verdict.AGREES)
    assert grows.verdict is Verdict.OPEN  # above 100 less 100
    page = as_page(found, findings)
    assert "≥ 25.0 ± 0.0 ?" in page
    rows = {(row["group"], row["row"]): row for row in long_rows(found) if row["metric"] == memory.NEEDED.label
            and row["x"] == memory.LEAST}  # fmt: skip
    assert (rows["+60 %", STATIC]["low"], rows["+60 %", STATIC]["high"]) == (100.0, None)


def test_values_within_ends_pass_through_what_is_measured() -> None:
    one = replace(REPRODUCTIONS["dynamic-memory"], exact=True)
    seed: Numbers = known_within("least", Within(1.0, 1.0, math.inf))
    found = Measured(one, one.defaults, {("+0 %", memory.LEAST, STATIC): (seed,)})
    (value,) = found.each(("+0 %", memory.LEAST, STATIC), memory.NEEDED.label)
    assert value == ABOVE == within(ABOVE)
    (check,) = lies(memory.NEEDED.label, STATIC, ["+0 %"], [memory.LEAST], 0, 75)(found)
    assert check._replace(exact=True).verdict is Verdict.DIFFERS
