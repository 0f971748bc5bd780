"""What lending costs, part by part: worlds of rows, traces whose arrivals are moved, and the parts that are shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pretend import rows_of
from pretend_memory import engine

from unrack.errors import InputError
from unrack_papers.execution import execute, tasks_of
from unrack_papers.measured import Measured
from unrack_papers.pages.page import as_page, command, judged, stem
from unrack_papers.reproduction import Task
from unrack_papers.simulation import contentions, workload_of
from unrack_papers.zacarias.published import (
    AGAINST,
    ALL_COMPUTE,
    ALL_OF_IT,
    BY_SHARE,
    CONTENDING,
    CONTENTION,
    CROWDED,
    IDLE,
    LENDING,
    NET,
    NOBODY,
    SOME,
    SOME_COMPUTE,
    against_disaggregated,
    cost,
    costs_sheet,
    steps,
)  # fmt: skip
from unrack_papers.zacarias.published import REPRODUCTION as PUBLISHED
from unrack_papers.zacarias.systems import BASELINE, DISAGGREGATED, REFERENCE, mix, row
from unrack_papers.zacarias.throughput import REPRODUCTION as THROUGHPUT
from unrack_papers.zacarias.throughput import STEPS, title

JOBS = "submit_s,run_s,tasks,cores,memory\n" + "".join(
    f"{600 * i},900,2,32,{20 + 20 * (i % 2)}000\n" for i in range(30)
)


def measured() -> Measured:
    """Two seeds of throughputs at one place."""
    names = {(0, ALL_COMPUTE): (9.8, 19.0), (0, SOME_COMPUTE): (8.5, 17.0), (0, DISAGGREGATED): (8.2, 16.6),
             (0, CONTENDING): (8.4, 16.2), (100, BASELINE): (10.0, 20.0)}  # fmt: skip
    group = title(50)
    values = {
        (group, x, name): ({"throughput_normalised": one / 10}, {"throughput_normalised": other / 20})
        for (x, name), (one, other) in names.items()
    }
    return Measured(THROUGHPUT, THROUGHPUT.defaults, values)


def test_the_parts_add_up_and_are_differences_seed_by_seed() -> None:
    found = {
        step: cost(measured(), title(50), 0, step) for step in (LENDING, IDLE, CONTENTION, ALL_OF_IT, CROWDED, NET)
    }
    means = {step.words: value.mean for step, value in found.items() if value is not None}
    assert means == {
        "lending itself": pytest.approx((2 + 5) / 2),
        "lenders do not compute": pytest.approx((13 + 10) / 2),
        "contention": pytest.approx((3 + 2) / 2),
        "all together": pytest.approx((18 + 17) / 2),
        "more contention if lenders compute": pytest.approx(((14 - 3) + (14 - 2)) / 2),
        "lenders that compute gain": pytest.approx((2 - 2) / 2),
    }
    assert means["all together"] == pytest.approx(sum(means[step.words] for step in (LENDING, IDLE, CONTENTION)))
    assert means["lenders that compute gain"] == pytest.approx(means[IDLE.words] - means[CROWDED.words])
    assert cost(measured(), title(50), 25, IDLE) is None


def test_the_parts_are_shown_on_the_page_of_throughput_and_the_rows_say_their_world() -> None:
    rows = {(p.group, p.x): {one.name: one for one in p.rows} for p in THROUGHPUT.points}
    for place in STEPS:
        own = rows[place]
        assert {name: one.contention for name, one in own.items() if name != BASELINE} == {
            DISAGGREGATED: "whole", ALL_COMPUTE: "off", SOME_COMPUTE: "off", CONTENDING: "whole",
        }  # fmt: skip
        assert all(("no contention" in name) == (one.contention == "off") for name, one in own.items())
        assert not any(own[name].printed for name in (ALL_COMPUTE, SOME_COMPUTE, CONTENDING))
    done = execute(THROUGHPUT, replace(THROUGHPUT.defaults, seeds=3), solve=engine)
    sheet = costs_sheet(done, STEPS, lambda group, x: f"{group} on {x} % large nodes")
    assert [line[0].lines[0] for line in sheet.lines] == [f"{title(50)} on {x} % large nodes" for x in (0, 25, 50)]
    assert sheet.lines[0][2].lines[0].startswith("20."), "as pretended"
    page = as_page(done, judged(done))
    assert "lenders do not compute" in page
    assert "two effects cancel" in page


def test_worlds_differ_in_contention_alone() -> None:
    task = Task({}, 0, (), None, (), "")
    whole, share, off = (contentions(task)[kind] for kind in ("whole", "share", "off"))
    assert off is None
    assert whole is not None
    assert share is not None
    assert (whole.traffic, share.traffic) == ("whole", "share")
    assert whole.profiles.digest() == share.profiles.digest()
    assert set(contentions(replace(task, profiles=None)).values()) == {None}


def test_a_row_without_contention_is_run_without() -> None:
    one = replace(PUBLISHED, points=PUBLISHED.points[:1])
    task = tasks_of(one, replace(one.defaults, seeds=1, jobs=300))[0]
    stretched = {
        row.name: values.get("stretch_mean") for row, values in zip(task.rows, rows_of(one, task), strict=True)
    }
    assert stretched[ALL_COMPUTE] == stretched[SOME_COMPUTE] == 1.0
    assert (stretched[CONTENDING] or 0) > (stretched[DISAGGREGATED] or 0) > 1
    assert 1 < (stretched[BY_SHARE] or 0) <= (stretched[DISAGGREGATED] or 0)


def test_a_trace_is_itself_for_seed_0_and_a_copy_with_moved_arrivals_for_others(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    tasks = tasks_of(PUBLISHED, replace(PUBLISHED.defaults, seeds=3, trace=str(path)))
    assert [task.seed for task in tasks] == [0, 1, 2, 0, 1, 2]
    assert all(task.workload["trace"] == str(path) for task in tasks)
    submits = [workload_of(task).jobs.submit_us for task in tasks]
    assert (submits[0] == [600_000_000 * i for i in range(30)]).all()
    moved = abs(submits[1] - submits[0])
    assert 0 < moved.max() <= 30_000_000
    assert (submits[1] == submits[4]).all(), "all rows of a seed run the same jobs"
    assert not (submits[1] == submits[2]).all()


@pytest.mark.parametrize("given", [{"jobs": 5}, {"load": 0.5}])
def test_a_trace_has_its_own_jobs_and_load(given: dict[str, float]) -> None:
    with pytest.raises(InputError, match="beside --trace"):
        tasks_of(PUBLISHED, replace(PUBLISHED.defaults, trace="jobs.csv", **given))


def test_files_and_commands_name_the_trace() -> None:
    options = replace(PUBLISHED.defaults, trace="a/jobs.csv", profiles="b/measured")
    done = Measured(PUBLISHED, options, {})
    assert stem(done) == "memory-published-jobs-jobs-measured"
    assert command(done) == "unrack reproduce memory-published-jobs --trace jobs.csv --profiles measured"


def test_responses_are_compared_with_those_under_disaggregated_on_the_same_jobs() -> None:
    values = {
        (SOME, 25, DISAGGREGATED): ({"response.all.mean": 10.0, "jobs_per_h": 1.0}, {"response.all.mean": 20.0}),
        (SOME, 25, "Contention-aware"): ({"response.all.mean": 9.0, "jobs_per_h": 1.0}, {"response.all.mean": 22.0}),
        (SOME, 25, REFERENCE): ({"jobs_per_h": 2.0}, {}),
        (NOBODY, 0, REFERENCE): ({}, {}),
    }
    found = against_disaggregated(values)
    own = [seed[AGAINST.metric] for seed in found[SOME, 25, "Contention-aware"]]
    assert own == pytest.approx([-0.1, 0.1])
    assert AGAINST.metric not in found[SOME, 25, DISAGGREGATED][0]
    assert found[SOME, 25, "Contention-aware"][0]["throughput_normalised"] == 0.5


def test_the_steps_are_the_policy_itself_but_for_threshold_and_world() -> None:
    assert [one.policy.replace("threshold=0", "threshold=1") for one in steps(25)] == [
        row(DISAGGREGATED, 25, threshold=1).policy
    ] * 3
    assert mix(50)["large_share"] == 0.5
