"""Overestimation and dynamic provisioning: numbers that are derived, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack_papers.measured import Measured
from unrack_papers.reproduction import Numbers, Place, Values
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import Verdict
from unrack_papers.within import Within
from unrack_papers.zacarias.dynamic import cost, initial, memory, sharing, throughput
from unrack_papers.zacarias.dynamic.counts import LEVELS, lending_over_time
from unrack_papers.zacarias.dynamic.systems import ALL_SYSTEMS, BASELINE, DYNAMIC, REFERENCE, STATIC, SYSTEMS, title
from unrack_papers.zacarias.overestimation import everyone
from unrack_papers.zacarias.overestimation.users import ALL, Band, Responses, ahead, by_band, compared, with_bands
from unrack_papers.zacarias.response import FoundNumber, Headline, greatest, headlines_sheet


def rates(**jobs_per_h: float) -> tuple[Numbers, ...]:
    return (dict(jobs_per_h),)


def test_responses_on_a_line_give_that_line_in_every_band() -> None:
    share = np.tile([0.0, 0.25, 1.0], 4)
    base_s = np.repeat([10.0, 20.0, 30.0, 40.0], 3)
    found = by_band(base_s, share, base_s * 2 + 4 * share, 4)
    assert [band.base_s for band in found if band is not None] == [
        10.0,
        20.0,
        35.0,
    ]  # 40 s is where the last one begins
    last = found[-1]
    assert last is not None
    assert (last.jobs, last.exact_s, last.slope_s) == (6, pytest.approx(70.0), pytest.approx(4.0))


def test_bands_are_of_equal_length_and_the_longest_jobs_are_in_the_last() -> None:
    base_s = np.array([0.0, 1.0, 5.0, *[10.0] * 90, 900.0])
    found = by_band(base_s, np.zeros(94), base_s, 2)
    assert [band and band.jobs for band in found] == [2, 92]
    assert [band and band.slope_s for band in found] == [0.0, 0.0]
    assert by_band(np.zeros(3), np.ones(3), np.ones(3), 2)[1] is None
    assert by_band(np.zeros(0), np.zeros(0), np.zeros(0), 2) == [None, None]


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 1), st.floats(0, 1e4)), min_size=1, max_size=40))
def test_no_job_is_lost_and_lines_go_through_the_means(jobs: list[tuple[int, float, float]]) -> None:
    base_s, share, response_s = (np.array(column, np.float64) for column in zip(*jobs, strict=True))
    bands = [band for band in by_band(base_s, share, response_s, 6) if band is not None]
    assert sum(band.jobs for band in bands) == len(jobs)
    assert sum(band.jobs * band.base_s for band in bands) == pytest.approx(base_s.sum())


def test_a_careless_user_is_weighed_by_the_jobs_of_each_band() -> None:
    bands = [Band(3, 1.0, 10.0, 2.0), Band(1, 5.0, 30.0, -8.0)]
    assert ahead(bands, 1.0) == pytest.approx((3 * 12 + 22) / (3 * 10 + 30) - 1)
    assert ahead([], 1.0) is None


def test_jobs_are_compared_with_themselves_over_several_draws() -> None:
    base = Responses(np.array([1, 2, 3]), np.array([100.0, 100.0, 100.0]), np.zeros(3))
    first = Responses(np.array([1, 3]), np.array([150.0, 250.0]), np.array([0.0, 1.0]))  # job 2 never ended
    second = Responses(np.array([2, 3]), np.array([200.0, 200.0]), np.array([0.5, 0.5]))
    found = compared(base, [first, second])
    assert found["base_s"] == 100.0
    assert found["everyone"] == pytest.approx(1.0)  # 800 / 4 against 100
    assert found["diligent"] == pytest.approx(0.5)  # the line through (0, 150), (0.5, 200), (1, 250)
    assert found["alone.100"] == pytest.approx(250 / 150 - 1)
    assert found["alone.60"] == pytest.approx(210 / 150 - 1)
    assert found["6.at.50"] == pytest.approx(200.0)
    assert "1.base_s" not in found


def test_bands_become_places_of_their_own() -> None:
    values: Values = {("a", ALL, STATIC): ({"base_s": 5.0, "1.base_s": 2.0, "6.base_s": 9.0},)}
    found = with_bands(values)
    assert found["a", ALL, STATIC] == ({"base_s": 5.0},)
    assert found["a", "1 of 6", STATIC] == ({"base_s": 2.0},)
    assert found["a", "2 of 6", STATIC] == ({},)


def test_throughput_per_dollar_is_by_the_prices_of_the_thesis() -> None:
    assert cost.dollars(100) == 1024 * (10_154 + 1_280)
    assert cost.dollars(25) == 1024 * (10_154 + 320)
    names = (BASELINE, STATIC, DYNAMIC)
    values: Values = {
        (cost.title(at, over), large, name): ({"jobs_per_h": 10.0 if name != DYNAMIC or over == 0 else 12.0},)
        for at in cost.SYSTEMS for over in cost.OVER for large in cost.MIXES for name in names
    }  # fmt: skip
    one = REPRODUCTIONS["dynamic-cost"]
    found = Measured(one, replace(one.defaults, seeds=1), cost.per_dollar(values))
    at_full = found.at((cost.title(100, 0), 0, STATIC), cost.PER_DOLLAR.label)
    assert at_full is not None
    assert at_full.mean == pytest.approx(10 / 11.708416)
    gains = {headline.words: headline.find(found).mean for headline in cost.HEADLINES}
    means = {words: gain.mean for words, gain in gains.items() if gain is not None}
    assert [round(mean, 6) for mean in means.values()] == [round(100 * (11434 / 10474 - 1), 6), 0.0, 20.0]


def test_the_least_memory_is_that_of_the_smallest_system_in_a_row_that_is_enough() -> None:
    dynamic = dict(zip(ALL_SYSTEMS, (0.9, 0.94, 0.96, 0.97, 1, 1, 1, 1, 1), strict=True))
    static = dict(zip(ALL_SYSTEMS, (0.5, 0.96, 0.7, 0.8, 0.9, 0.95, 1, 1, 1), strict=True))
    values: Values = {}
    for over in memory.OVER:
        for at in ALL_SYSTEMS:
            values[memory.title(over), at, DYNAMIC] = ({"jobs_per_h": 20 * dynamic[at]},)
            values[memory.title(over), at, STATIC] = ({"jobs_per_h": 20 * static[at] * (0.5 if over == 100 else 1)},)
    values[memory.title(0), 100, BASELINE] = ({"jobs_per_h": 20.0},)
    found = memory.with_least(values)
    assert found[memory.title(0), memory.LEAST, DYNAMIC][0]["least"] == pytest.approx(0.375)
    assert found[memory.title(0), memory.LEAST, STATIC][0]["least"] == pytest.approx(0.625)
    between = found[memory.title(0), memory.LEAST, DYNAMIC][0]["least.between"]
    assert between == pytest.approx(0.2875 + 0.0875 * 0.5)
    unmet = found[memory.title(100), memory.LEAST, STATIC][0]
    assert (unmet["least"], unmet["least.unmet"]) == (1.0, 1.0)
    one = REPRODUCTIONS["dynamic-memory"]
    saved = memory.saved(Measured(one, replace(one.defaults, seeds=1), found))
    assert saved.where == memory.title(100)
    assert saved.values == [Within(pytest.approx(62.5), pytest.approx(62.5), 100.0)]  # type: ignore[arg-type]


def test_nodes_that_share_are_a_median_over_time_and_over_systems_alike() -> None:
    usage = pl.DataFrame({"time_s": [0.0, 1.0, 7.0, 10.0], "nodes_lending": [9, 2, 5, 0]})  # 6 s, 3 s, 1 s
    shares = lending_over_time(usage, 10)
    assert shares[LEVELS.index(50)] == 0.2
    assert shares[LEVELS.index(60)] == 0.2
    assert shares[LEVELS.index(65)] == 0.5
    assert shares[LEVELS.index(95)] == 0.9
    assert set(lending_over_time(usage.drop("nodes_lending"), 10)) == {None}
    runs = tuple({f"lending.{level}": share for level in LEVELS} for share in (0.1, 0.4, 0.7))
    assert sharing.pooled(runs)["lending.50"] == pytest.approx(0.4)
    assert sharing.pooled(({},))["lending.50"] is None


def test_throughput_is_over_that_of_exact_requests_on_all_of_the_memory() -> None:
    values: Values = {
        (title(15, 0), 100, BASELINE): rates(jobs_per_h=10.0),
        (title(15, 60), 25, STATIC): rates(jobs_per_h=8.0),
        (title(15, 60), 25, DYNAMIC): rates(jobs_per_h=9.6),
    }
    assert REPRODUCTIONS["dynamic-throughput"].derive is not None
    found = REPRODUCTIONS["dynamic-throughput"].derive(values)
    assert found[title(15, 60), 25, DYNAMIC][0]["throughput_normalised"] == pytest.approx(0.96)
    one = REPRODUCTIONS["dynamic-throughput"]
    measured = Measured(one, replace(one.defaults, seeds=1), found)
    assert throughput.gain(measured, title(15, 60), 25).values == [pytest.approx(20.0)]
    assert throughput.HEADLINES[2].find(measured).values == [pytest.approx(96.0)]


def test_what_starting_with_less_costs_is_over_starting_with_the_request() -> None:
    group, name = initial.title(100), initial.NONE_LARGE
    values: Values = {
        (group, 0, REFERENCE): rates(jobs_per_h=20.0, memory_stops=0.0, jobs_finished=50.0),
        (group, 0, name): rates(jobs_per_h=10.0, memory_stops=1.0, jobs_finished=50.0),
        (group, 100, name): rates(jobs_per_h=9.0, memory_stops=5.0, jobs_finished=50.0),
    }
    (found,) = initial.with_losses(values)[group, 100, name]
    assert found["throughput_normalised"] == pytest.approx(0.45)
    assert found["lost"] == pytest.approx(0.1)
    assert found["stops_per_job"] == pytest.approx(0.1)


def test_everybody_is_compared_with_exact_requests_seed_by_seed() -> None:
    place: Place = (everyone.title(50), 60, everyone.system(0))
    values: Values = {
        (place[0], 0, place[2]): ({"jobs_per_h": 10.0, "response.all.mean": 100.0}, {"jobs_per_h": 8.0}),
        place: ({"jobs_per_h": 7.5, "response.all.mean": 500.0}, {"jobs_per_h": 6.0}),
    }
    found = everyone.with_ratios(values)[place]
    assert [seed["throughput_kept"] for seed in found] == [0.75, 0.75]
    assert [seed["response_longer"] for seed in found] == [5.0, None]


def test_a_headline_is_a_line_of_a_table_and_a_claim_with_the_same_verdict() -> None:
    one = REPRODUCTIONS["dynamic-throughput"]
    nothing = Measured(one, one.defaults, {})
    near = Headline("gain", "It gains 12 %", "§1", 12, lambda _: FoundNumber("here", [11.0, 11.2, 11.4]), 8, 16)
    far = Headline(
        "gain", "It gains 40 %", "§1", 40, lambda _: FoundNumber("here", [11.0, 11.2, 11.4]), 36, 44, sign=">"
    )
    none = Headline("gain", "It gains", "§1", 40, lambda _: FoundNumber("nowhere", []), 36)
    lines = headlines_sheet(nothing, [near, far, none]).lines
    assert [cell.lines[0] for cell in lines[0]] == ["gain, %", "here", "12 ✓", "11.2±0.5", "−0.8"]
    assert [cell.lines[0] for cell in lines[1]] == ["gain, %", "here", "> 40 ✗", "11.2±0.5", "−28.8"]
    assert [cell.lines[0] for cell in lines[2]] == ["gain, %", "nowhere", "40", "–", "–"]
    verdicts = [one.claim.judge(nothing).verdict for one in (near, far, none)]
    assert verdicts == [Verdict.AGREES, Verdict.DIFFERS, Verdict.OPEN]


def test_the_greatest_is_by_the_mean_and_the_first_of_equals() -> None:
    several = [
        FoundNumber("a", [1.0, 2.0]),
        FoundNumber("b", [2.0, 1.0]),
        FoundNumber("c", [None, 0.0]),
        FoundNumber("d", []),
    ]
    assert greatest(several).where == "a"
    assert greatest(several, -1).where == "c"
    assert greatest([FoundNumber("d", [])]) == FoundNumber("nowhere", ())


def test_the_systems_of_the_figures_are_among_all() -> None:
    assert set(SYSTEMS) <= set(ALL_SYSTEMS)
