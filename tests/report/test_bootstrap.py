"""The block bootstrap over time against a loop over the same draws, and against what is known of random series."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from unrack.errors import InputError
from unrack.metric.bootstrap import blocks_of, pieces, resampled, spread
from unrack.metric.estimate import ComparedRow, marks, standings
from unrack.units import SECOND_US

DAY = 86_400


def frame(submit, wait, state=None, **more):
    """Jobs of 100 s that waited so long."""
    count = len(submit)
    wait = np.asarray(wait, float)
    columns = {
        "job": np.arange(count), "submit_s": np.asarray(submit, float), "state": state or ["finished"] * count,
        "wait_s": wait, "response_s": wait + 100, "slowdown": (wait + 100) / 100,
        "bounded_slowdown": (wait + 100) / 100, "deadline_s": [None] * count, "missed": [None] * count,
        "priority": [0] * count, **more,
    }  # fmt: skip
    return pl.DataFrame(columns, schema_overrides={"deadline_s": pl.Float64, "missed": pl.Boolean})


def hourly(count, rng):
    return np.sort(rng.integers(0, 30 * DAY, count)).astype(float)


def twin(jobs, blocks, begins):
    """The same draws, job by job."""
    rows = jobs.sort("submit_s", "job").to_dicts()
    origin, span = rows[0]["submit_s"], blocks.span_us / SECOND_US
    found = {}
    for draw in begins:
        drawn = []
        for place, begin in enumerate(draw):
            length = blocks.length_us if place < blocks.count - 1 else blocks.span_us - place * blocks.length_us
            begin, end = begin / SECOND_US, (begin + length) / SECOND_US
            drawn += [
                row for row in rows for turn in (0, span) if begin <= row["submit_s"] - origin + turn < end
            ]  # fmt: skip
        for name in ("wait_s", "bounded_slowdown"):
            values = [row[name] for row in drawn if row["state"] == "finished"]
            found.setdefault(f"{name}_mean", []).append(math.fsum(values) / len(values))
            found.setdefault(f"{name}_median", []).append(float(np.quantile(values, 0.5)))
            found.setdefault(f"{name}_p95", []).append(float(np.quantile(values, 0.95)))
        if rows[0]["missed"] is not None:
            found.setdefault("missed_deadlines", []).append(sum(row["missed"] for row in drawn) / len(drawn))
    return found


def test_every_draw_is_that_of_a_loop_over_jobs():
    rng = np.random.default_rng(5)
    count = 150
    submit = np.repeat(hourly(count // 2, rng), 2)  # two at a time
    states = rng.choice(["finished", "finished", "finished", "rejected", "queued"], count).tolist()
    waits = rng.exponential(900, count)
    waits[[state != "finished" for state in states]] = np.nan
    more = {"deadline_s": np.arange(count) * 1.0, "missed": rng.random(count) < 0.3}
    jobs = frame(submit, waits, states, **more)
    shuffled = jobs.sample(fraction=1, shuffle=True, seed=2)
    found = resampled({"one": shuffled}, 4 * DAY)["one"]
    blocks = found.blocks
    begins = np.random.Generator(np.random.PCG64(1)).integers(0, blocks.span_us, (blocks.draws, blocks.count))[:40]
    for name, values in twin(jobs, blocks, begins).items():
        assert found.values[name][:40] == pytest.approx(values, rel=1e-9), name
    assert not {"makespan_s", "utilisation_cores", "wait_s_max"} & set(found.values)


def test_twice_the_same_bytes_and_the_same_blocks_for_all():
    rng = np.random.default_rng(1)
    submit = hourly(400, rng)
    wait = rng.exponential(100, 400)
    one, two = (resampled({"a": frame(submit, wait), "b": frame(submit, wait + 60)}) for _ in range(2))
    assert all(one["a"].values[name].tobytes() == two["a"].values[name].tobytes() for name in one["a"].values)
    gap = one["b"].difference(one["a"], "wait_s_mean", 60.0)
    assert gap.half < 1e-6 < one["a"].estimate("wait_s_mean", wait.mean()).half  # paired: the noise is common


@pytest.mark.parametrize("days", [8, 60])
def test_intervals_of_independent_jobs_cover_the_truth(days):
    rng = np.random.default_rng(days)
    covered, logs = 0, 200
    for _ in range(logs):
        submit = np.arange(days * 24) * 3600.0
        values = rng.normal(50, 10, days * 24)
        times = (submit * SECOND_US).astype(np.int64)
        blocks = replace(blocks_of(times), draws=300)
        begin, end = pieces(blocks, times)
        up_to = np.concatenate([[0.0], np.cumsum(np.tile(values, 2))])
        drawn = (up_to[end] - up_to[begin]).sum(axis=1) / (end - begin).sum(axis=1)
        found = spread(values.mean(), drawn, blocks.count)
        covered += abs(found.mean - 50) <= found.half
    assert 0.90 <= covered / logs <= 0.99


def test_what_hangs_together_in_time_has_a_wider_interval():
    rng = np.random.default_rng(3)
    count = 2000
    noise = rng.normal(0, 1, count)
    values = np.zeros(count)
    for place in range(1, count):
        values[place] = 0.95 * values[place - 1] + noise[place]
    submit = np.arange(count) * 3600.0

    def half(series, length_s):
        found = resampled({"one": frame(submit, 1000 + series)}, length_s)["one"]
        return found.estimate("wait_s_mean", float(1000 + series.mean())).half

    whole_days, single_jobs = half(values, 4 * DAY), half(values, 3600)
    assert whole_days > 2.5 * single_jobs  # √((1 + 0.95) / (1 - 0.95)) = 6.2 is the whole of it
    mixed = rng.permutation(values)
    assert half(mixed, 4 * DAY) == pytest.approx(half(mixed, 3600), rel=0.35)


@pytest.mark.parametrize(("days", "length"), [(5, 1), (8, 1), (12, 2), (30, 3), (365, 7), (1000, 10)])
def test_the_rule_of_the_length(days, length):
    times = np.arange(0, days * DAY + 1, 3600) * SECOND_US
    assert blocks_of(times).length_us == length * DAY * SECOND_US


@pytest.mark.parametrize(
    ("submit", "length_s", "words"),
    [
        ([0.0], 0.0, "a log without two jobs submitted at different times"),
        ([], 0.0, "a log without two jobs"),
        ([5.0] * 40, 0.0, "a log without two jobs"),
        (np.arange(96) * 3600.0, 0.0, r"blocks of 1 d in a log of 3 d 23 h: 3.96 of them"),
        (np.arange(400) * 3600.0, 7 * DAY, r"blocks of 7 d in a log of 16 d 15 h"),
        ([0.0, 1.0, 2.0, 300.0 * DAY], 0.0, r"jobs in 2 of them"),
    ],
)
def test_too_few_blocks_are_refused(submit, length_s, words):
    with pytest.raises(InputError, match=words):
        resampled({"one": frame(submit, np.ones(len(submit)))}, length_s)


def test_different_jobs_are_not_compared():
    submit = np.arange(400) * 3600.0
    with pytest.raises(InputError, match="different jobs"):
        resampled({"a": frame(submit, submit), "b": frame(submit + 1, submit)})


def test_no_interval_where_some_draw_has_no_job_of_the_metric():
    submit = np.arange(400) * 3600.0
    states = ["finished"] + ["queued"] * 399
    found = resampled({"one": frame(submit, np.ones(400), states)})["one"]
    assert "wait_s_mean" not in found.values
    assert found.estimate("wait_s_mean", 1.0).count == 1


def test_the_best_must_be_more_than_noise():
    rng = np.random.default_rng(8)
    submit, wait = hourly(500, rng), rng.exponential(100, 500)
    waits = {"a": wait, "b": wait + 5, "c": rng.permutation(wait)}
    drawn = resampled({name: frame(submit, own) for name, own in waits.items()})
    means = {"a": wait.mean(), "b": wait.mean() + 5, "c": wait.mean() + 0.1}
    rows = {name: ComparedRow({0: {"wait_s_mean": means[name]}}, "", drawn[name]) for name in drawn}
    assert marks(rows, "wait_s_mean", "low") == {"a": "among", "c": "among"}
    (own,) = standings(rows, "wait_s_mean", "low")
    assert own.gaps["b"].excludes_0
    assert own.over == f"{drawn['a'].blocks.count} blocks of time"
    two = {name: rows[name] for name in "ab"}
    assert marks(two, "wait_s_mean", "low") == {"a": "best"}
