"""False verdicts are rare: claims about drawn numbers of which the truth is known, many times over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from unrack.errors import InputError
from unrack.metric.estimate import estimate
from unrack_papers.claim import Check, Claim, Finding, Of, most_telling, until_decided
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.reproduction import Reproduction
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import CHANCE, NOT_MEASURED, ON_ONE_STEP, ONLY_ALONE, Looks, Verdict, chance_of

DRAWS = 250
ALLOWED = CHANCE * DRAWS + 3 * (CHANCE * (1 - CHANCE) * DRAWS) ** 0.5
"""Three standard deviations above the chance; a wrong rule is far beyond it."""
CELLS = 12
INF = float("inf")


@dataclass(frozen=True, eq=False)
class Drawn(Measured):
    """Numbers that are drawn: ``cells[i][seed]``."""

    cells: Sequence[Sequence[float]] = ()


def drawn(cells: np.ndarray, claims: Sequence[Claim] = ()) -> Drawn:
    one: Reproduction = replace(REPRODUCTIONS["nvme-s1"], claims=tuple(claims))
    return Drawn(one, Options(seeds=cells.shape[1]), {}, cells=cells.tolist())


def claim(low: float = -INF, high: float = INF, of: Of | None = None, steps: bool = False) -> Claim:
    """Every number lies in a range; or the greatest, or the least of them does."""

    def checks(measured: Measured) -> Sequence[Check]:
        assert isinstance(measured, Drawn)
        every = [Check("x", str(i), estimate(own), low, high, steps=steps) for i, own in enumerate(measured.cells)]
        return every if of is None else [most_telling(every, of)]

    return Claim("", "", checks)


def noise(cells: int, seeds: int, draw: int, common: float = 0.0) -> np.ndarray:
    """Normal noise of different spreads; ``common``: how far all numbers of a seed go together."""
    rng = np.random.default_rng([cells, seeds, draw])
    own, shared = rng.standard_normal((cells, seeds)), rng.standard_normal(seeds)
    return np.linspace(0.2, 2.0, cells)[:, None] * ((1 - common**2) ** 0.5 * own + common * shared)


def fallen(verdict: Verdict, on: Claim, means: Sequence[float], seeds: int, common: float = 0.0) -> int:
    """How frequently a verdict falls on numbers of these means."""
    true = np.array(means)[:, None]
    found = (on.judge(drawn(true + noise(len(means), seeds, i, common))).verdict for i in range(DRAWS))
    return sum(one is verdict for one in found)


@pytest.mark.parametrize(("seeds", "common"), [(3, 0.0), (3, 0.9), (10, 0.0)])
def test_a_true_claim_of_many_numbers_is_rarely_said_to_differ(seeds: int, common: float) -> None:
    assert fallen(Verdict.DIFFERS, claim(high=1.0), [1.0] * CELLS, seeds, common) <= ALLOWED


def test_numbers_that_were_judged_one_by_one_would_say_so_far_more_frequently() -> None:
    wrong = 0
    for i in range(DRAWS):
        finding = claim(high=1.0).judge(drawn(1.0 + noise(CELLS, 3, i)))
        wrong += any(check._replace(among=1).verdict is Verdict.DIFFERS for check in finding.checks)
    assert wrong > 2 * ALLOWED


def test_a_false_claim_of_many_numbers_is_rarely_said_to_hold() -> None:
    assert fallen(Verdict.AGREES, claim(-99, 0.999), [-50.0] * (CELLS - 1) + [1.0], 6) <= ALLOWED


@pytest.mark.parametrize(
    ("low", "high", "wrong"),
    [
        (1.0, 9.0, Verdict.DIFFERS),
        (1.001, 9.0, Verdict.AGREES),
        (-9.0, 1.0, Verdict.DIFFERS),
        (-9.0, 0.999, Verdict.AGREES),
    ],
)
def test_the_greatest_of_many_is_no_surer_for_being_chosen(low: float, high: float, wrong: Verdict) -> None:
    assert fallen(wrong, claim(low, high, Of.GREATEST), [1.0] * CELLS, 4) <= ALLOWED


def test_a_verdict_on_the_greatest_or_the_least_falls_where_the_numbers_carry_it() -> None:
    cells = np.array([[5.0, 5.1, 4.9, 5.0], [1.0, 1.2, 0.8, 1.0]])
    ranges = {(4, 6): Verdict.AGREES, (7, 9): Verdict.DIFFERS, (0, 4): Verdict.DIFFERS, (5, 6): Verdict.OPEN}
    for (low, high), wanted in ranges.items():
        assert claim(low, high, Of.GREATEST).judge(drawn(cells)).verdict is wanted
        assert claim(-high, -low, Of.LEAST).judge(drawn(-cells)).verdict is wanted
        assert claim(low, high, Of.GREATEST).judge(drawn(cells)).checks[0].where == "0"


def test_all_are_judged_where_the_furthest_is_shown() -> None:
    cells = np.array([[4.0, 0.0, 8.0], [1.0, 1.1, 0.9]])  # the first is further from 0, and says nothing
    finding = claim(-0.5, 0.5, Of.EVERY).judge(drawn(cells))
    assert finding.verdict is Verdict.DIFFERS
    assert finding.checks[0].where == "0"


def test_what_differs_by_itself_only_says_so() -> None:
    cells = np.zeros((CELLS, 3))
    cells[0] = [2.0, 2.3, 1.7]
    assert claim(high=1.0).judge(drawn(cells[:1])).verdict is Verdict.DIFFERS
    finding = claim(high=1.0).judge(drawn(cells))
    assert (finding.verdict, finding.why) == (Verdict.OPEN, ONLY_ALONE)


def test_few_seeds_on_one_step_say_little() -> None:
    for seeds, wanted in ((3, Verdict.OPEN), (5, Verdict.OPEN), (6, Verdict.AGREES)):
        finding = claim(0, 75, steps=True).judge(drawn(np.full((1, seeds), 75.0)))
        assert finding.verdict is wanted
        assert finding.why == (ON_ONE_STEP if wanted is Verdict.OPEN else "")
    assert claim(0, 75).judge(drawn(np.full((1, 3), 75.0))).verdict is Verdict.AGREES
    assert claim(80, 90, steps=True).judge(drawn(np.full((1, 3), 75.0))).verdict is Verdict.OPEN


# --- seeds that are added ----------------------------------------------------------------------------------------


def added(
    means: Sequence[float], claims: Sequence[Claim], most: int, draw: int
) -> tuple[Measured, list[Finding], list[int]]:
    """What was measured and found, and how many seeds were run at each look."""
    every = np.array(means)[:, None] + noise(len(means), 96, draw)
    looked: list[int] = []

    def run(seeds: int) -> Measured:
        looked.append(seeds)
        return drawn(every[:, :seeds], claims)

    measured, judged = until_decided(run, Looks(3, most))
    return measured, [finding for _, finding in judged], looked


def test_looking_again_and_again_makes_false_verdicts_no_more_frequent() -> None:
    each_time, spent = 0, 0
    exactly = claim(1.0, 1.0)
    for i in range(DRAWS):
        _, findings, _ = added([1.0], [exactly], 48, i)
        spent += findings[0].verdict is Verdict.DIFFERS
        every = 1.0 + noise(1, 96, i)
        each_time += any(exactly.judge(drawn(every[:, :n])).verdict is Verdict.DIFFERS for n in Looks(3, 48).seeds)
    assert spent <= ALLOWED < each_time


def test_seeds_are_added_until_every_claim_is_decided_and_each_keeps_its_first_verdict() -> None:
    soon, later, never = claim(-50, 50), claim(-0.2, 0.2), claim(0.0, 50)
    measured, findings, looked = added([0.0], [soon, later], 96, 1)
    assert looked == [3, 6, 12, 24, 48, 96][: len(looked)]
    assert [finding.verdict for finding in findings] == [Verdict.AGREES] * 2
    assert findings[0].seeds == 3 < findings[1].seeds == looked[-1] == measured.options.seeds
    assert measured.chance == chance_of(len(looked))
    _, findings, looked = added([0.0], [soon, never], 25, 2)
    assert looked == [3, 6, 12, 24]  # of 25, as 48 would be the next
    assert [finding.verdict for finding in findings] == [Verdict.AGREES, Verdict.OPEN]


def test_a_greater_budget_goes_on_from_the_same_looks() -> None:
    claims = [claim(0.0, 50)]
    for i in range(20):
        less, more = (added([0.3], claims, most, i)[1][0] for most in (12, 24))
        assert less.verdict is Verdict.OPEN or (less.verdict, less.seeds) == (more.verdict, more.seeds)


def test_what_is_not_measured_takes_no_more_seeds() -> None:
    missing = Claim("", "", lambda measured: [Check("x", "", None, 0, 1)])
    _, findings, looked = added([0.0], [missing], 96, 1)
    assert looked == [3]
    assert findings[0].why == NOT_MEASURED


def test_a_budget_below_the_first_look_is_refused() -> None:
    with pytest.raises(InputError, match="3 or more"):
        added([0.0], [claim(0, 1)], 2, 1)


def test_all_looks_together_spend_the_chance_that_one_has() -> None:
    assert sum(map(chance_of, range(1, 10_000))) == pytest.approx(CHANCE, rel=1e-3)
    assert Looks(3, 2).seeds == ()
    assert Looks(20, 100).seeds == (20, 40, 80)
