from __future__ import annotations

from pathlib import Path

import pytest

from unrack.errors import InputError, TraceError
from unrack.workload.formats.rules import RULES
from unrack.workload.formats.source import Source
from unrack.workload.formats.swf import FIELDS, read_swf
from unrack.workload.job import Workload

LINE = "1 0 5 100 4 -1 -1 4 200 -1 1 7 3 9 2 1 -1 -1"
USUAL = dict(zip(FIELDS, LINE.split(), strict=True))


def line(**fields: object) -> str:
    named = {name.replace("_", " "): str(value) for name, value in fields.items()}
    assert set(named) <= set(USUAL)
    return " ".join({**USUAL, **named}.values())


def read(*lines: str, **options: object) -> Workload:
    return read_swf(Source("log.swf", "\n".join(lines).encode()), **options)  # type: ignore[arg-type]


def test_a_usual_line_becomes_a_job_of_single_core_tasks() -> None:
    made = read(line())
    job = made.jobs.job(0)
    assert (job.id, job.submit_us, job.request_us, job.user, job.app) == (1, 0, 200_000_000, "7", "9")
    assert (job.demand.tasks, job.demand.cores, job.demand.memory_mb) == (4, 1, 0)
    assert made.jobs.work_us.tolist() == [100_000_000]
    assert made.jobs.extra.row(0, named=True) == {
        "group": 3,
        "queue": 2,
        "partition": 1,
        "status": 1,
        "log_wait_s": 5.0,
    }
    assert made.intake.dropped == made.intake.changed == {}


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"status": 2}, "partial execution"),
        ({"status": 3}, "partial execution"),
        ({"status": 4}, "partial execution"),
        ({"submit_time": -1}, "submit missing"),
        ({"run_time": -1, "status": 5}, "cancelled before start"),
        ({"run_time": 0, "status": 5}, "cancelled before start"),
        ({"run_time": 0, "requested_processors": -1, "allocated_processors": -1}, "cancelled before start"),
        ({"run_time": -1}, "run missing"),
        ({"requested_processors": 0, "allocated_processors": -1}, "size missing"),
    ],
)
def test_a_line_without_a_job_in_it_is_dropped_by_its_rule(fields: dict[str, int], rule: str) -> None:
    made = read(line(), line(**fields))
    assert made.intake.dropped == {rule: 1}
    assert (made.intake.read, made.intake.kept, len(made)) == (2, 1, 1)


def test_a_line_that_is_dropped_is_not_counted_as_changed() -> None:
    odd = line(job_number=-1, run_time=-1, requested_processors=5) + " more"
    made = read(line(requested_processors=5), odd, line(status=2) + " more", procs_per_task=2)
    assert made.intake.dropped == {"run missing": 1, "partial execution": 1}
    assert made.intake.changed == {"size rounded up": 1}


def test_a_run_time_of_zero_with_processors_is_kept() -> None:
    assert read(line(run_time=0)).jobs.work_us.tolist() == [0]


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"requested_processors": -1}, "size from allocation"),
        ({"requested_time": -1}, "request from run"),
        ({"requested_time": 0}, "request from run"),
        ({"run_time": 300}, "run cut at request"),
        ({"preceding_job": 1}, "preceding job not followed"),
        ({"requested_memory": 1024}, "memory ignored"),
        ({"used_memory": 1024}, "memory ignored"),
        ({"job_number": -1}, "id missing"),
        ({}, "id repeated"),
        ({"job_number": 0}, "out of order"),
    ],
)
def test_a_line_taken_with_a_change_is_counted_under_its_rule(fields: dict[str, int], rule: str) -> None:
    made = read(line(submit_time=0), line(**fields))
    assert {**made.intake.changed, **made.intake.ignored}.get(rule) == 1
    assert len(made) == 2


def test_every_rule_counted_has_a_sentence() -> None:
    made = read(line(), line(status=2), line(run_time=300, requested_processors=-1) + " more", line(job_number=0))
    counted = {*made.intake.dropped, *made.intake.changed}
    assert len(counted) == 6
    assert all(RULES[rule].endswith(".") for rule in counted)


def test_a_run_beyond_the_request_is_cut_extended_or_kept_as_asked() -> None:
    seen = {}
    for overrun in ("truncate", "extend", "keep"):
        jobs = read(line(run_time=300), overrun=overrun).jobs
        seen[overrun] = (jobs.work_us[0] // 10**6, jobs.request_us[0] // 10**6)
    assert seen == {"truncate": (200, 200), "extend": (300, 300), "keep": (300, 200)}


def test_lines_are_sorted_by_submission_then_id_and_equal_ids_stay_in_file_order() -> None:
    made = read(
        line(job_number=3, submit_time=9),
        line(job_number=2, submit_time=4),
        line(job_number=1, submit_time=4),
        line(job_number=1, submit_time=4, run_time=7),
    )
    assert made.jobs.ids.to_list() == [1, 1, 2, 3]
    assert (made.jobs.work_us[:2] // 10**6).tolist() == [100, 7]
    assert made.intake.changed == {"id repeated": 1, "out of order": 2}


@pytest.mark.parametrize(
    ("options", "expected_mb"),
    [
        ({"memory": "requested"}, 2),  # 1500 KB per processor, rounded up
        ({"memory": "used"}, 3),
        ({"memory": "max"}, 3),
        ({"memory": "requested", "memory_unit": "MB"}, 1500),
        ({"memory": "requested", "memory_unit": "B"}, 1),
        ({"memory": "requested", "memory_unit": "MB", "procs_per_task": 2}, 3000),
        ({"memory": "requested", "memory_unit": "MB", "procs_per_task": 2, "memory_per": "task"}, 1500),
        ({"memory": "requested", "memory_unit": "MB", "procs_per_task": 2, "memory_per": "job"}, 750),
        ({"memory": "ignore"}, 0),
    ],
)
def test_memory_is_taken_as_the_options_say(options: dict[str, object], expected_mb: int) -> None:
    made = read(line(requested_memory=1500, used_memory=2500), **options)
    assert made.jobs.memory_mb.tolist() == [expected_mb]


def test_processors_are_grouped_into_tasks_and_rounded_up() -> None:
    made = read(line(requested_processors=10), procs_per_task=4)
    assert (made.jobs.tasks[0], made.jobs.cores[0], made.intake.changed) == (3, 4, {"size rounded up": 1})


def test_a_node_specification_is_used_only_on_request() -> None:
    text = line(requested_processors=24) + " {1,2} q_2w 2:ppn=12:x86_64"
    plain, asked = read(text), read(text, node_spec=True)
    assert (plain.jobs.tasks[0], plain.jobs.cores[0]) == (24, 1)
    assert (asked.jobs.tasks[0], asked.jobs.cores[0]) == (2, 12)
    assert plain.intake.changed == {"extra fields": 1}
    assert asked.intake.changed == {"extra fields": 1, "size from node spec": 1}


def test_header_comments_are_kept_with_their_further_lines() -> None:
    made = read("; MaxProcs: 100", "; Note: cleaned:", ";       two jobs removed", ";", "; Note: no memory", line())
    assert made.intake.header == {"MaxProcs": "100", "Note": "cleaned:\ntwo jobs removed\nno memory"}


@pytest.mark.parametrize("between", ["", ":", " -", " ="])
def test_numbers_are_what_the_header_calls_them_one_name_each(between: str) -> None:
    heads = [
        f"; Partition:  2{between}  pdebug (small)",
        f"; Partition: 1{between} pbatch",
        "; Queue: 2 x",
        "; Queue: 3 x",
        "; User: 7 ann",
    ]
    heads.append("; User: 7 ann")
    jobs = read(*heads, line(), line(job_number=2, partition=5, user=8), line(job_number=3, partition=-1)).jobs
    assert jobs.extra["partition"].to_list() == ["pbatch", "5", None]
    assert jobs.extra["queue"].to_list() == [2, 2, 2]  # x is two of them
    assert [jobs.job(job).user for job in range(3)] == ["ann", "8", "ann"]


def test_a_name_that_is_the_number_of_another_leaves_all_by_their_numbers() -> None:
    """As of the users @ and 1, numbered in that order: the first is no name that is read."""
    made = read("; User: 1 @", "; User: 2 1", line(user=1), line(job_number=2, user=2))
    assert made.jobs.user_names == ("1", "2")


def test_tabs_blank_lines_late_comments_and_foreign_line_ends_do_no_harm() -> None:
    text = "; MaxProcs: 8\r\n\r\n \t" + line().replace(" ", "\t ") + " \r\n; späte Bemerkung\r\n" + line(job_number=2)
    assert read_swf(Source("log.swf", text.encode("latin-1"))).jobs.ids.to_list() == [1, 2]


def test_decimal_times_are_rounded_to_the_microsecond() -> None:
    made = read(line(submit_time="1356996147.1234564", run_time="0.5"))
    assert (made.jobs.submit_us[0], made.jobs.work_us[0]) == (1_356_996_147_123_456, 500_000)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"run_time": "abc"}, "run time"),
        ({"run_time": "1e999"}, "run time"),
        ({"submit_time": "nan"}, "submit time"),
        ({"submit_time": "inf"}, "submit time"),
        ({"submit_time": "99999999999"}, "submit time"),
        ({"requested_processors": "4.5"}, "requested processors"),
        ({"requested_processors": 10**10}, "requested processors"),
        ({"requested_processors": 10**30}, "requested processors"),
        ({"user": "alice"}, "user"),
        ({"status": "1,5"}, "status"),
        ({"think_time": "--1"}, "think time"),
        ({"average_CPU_time": "0x10"}, "average CPU time"),
        ({"job_number": "1_000"}, "job number"),
        ({"requested_memory": "NaN"}, "requested memory"),
    ],
)
def test_a_field_that_is_no_number_in_range_is_refused_with_its_line(fields: dict[str, object], field: str) -> None:
    with pytest.raises(TraceError) as caught:
        read("; Computer: x", "", line(), line(**fields), line())
    assert (caught.value.line, caught.value.field, caught.value.path) == (4, field, "log.swf")


@pytest.mark.parametrize("fields", [1, 2, 10, 17])
def test_a_line_with_too_few_fields_is_refused_with_its_line(fields: int) -> None:
    with pytest.raises(TraceError) as caught:
        read("; Computer: x", line(), " ".join(line().split()[:fields]))
    assert caught.value.line == 3
    assert caught.value.got.startswith(f"{fields} field")


def test_memory_beyond_reason_is_refused_with_the_line_in_the_file() -> None:
    with pytest.raises(TraceError, match="line 3") as caught:
        read(line(), line(status=3), line(requested_memory=2**60), memory="requested", memory_unit="TB")
    assert caught.value.field == "memory"


@pytest.mark.parametrize(
    "options",
    [
        {"overrun": "shrug"},
        {"memory": True},
        {"memory_unit": "MiBs"},
        {"memory_unit": 5},
        {"memory_per": "node"},
        {"procs_per_task": 0},
        {"procs_per_task": True},
        {"procs_per_task": "two"},
        {"procs_per_task": 1.5},
        {"node_spec": "yes"},
    ],
)
def test_an_option_with_a_wrong_value_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="option"):
        read(line(), **options)


def test_a_log_of_comments_only_is_a_workload_without_jobs(tmp_path: Path) -> None:
    assert len(read("; MaxProcs: 4")) == 0
