"""A job without a time limit of its own never asks for its real run time."""

from __future__ import annotations

from pathlib import Path

import pytest

from unrack.errors import InputError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

DAY = 86_400_000_000
HEAD = "JobID|Submit|ElapsedRaw|Timelimit|State|AllocCPUS|Partition\n"


def read(text: str, **options: object) -> Workload:
    return read_trace(Source("jobs.txt", text.encode()), **options)


def sacct(*limits: str, elapsed_s: int = 60, partition: str = "long", **options: object) -> Workload:
    rows = [
        f"{job}|2026-01-02T03:04:0{job}|{elapsed_s}|{limit}|COMPLETED|1|{partition}\n"
        for job, limit in enumerate(limits, 1)
    ]
    return read(HEAD + "".join(rows), **options)


@pytest.mark.parametrize("word", ["UNLIMITED", "Partition_Limit", "INFINITE", "unlimited"])
def test_a_job_without_a_limit_asks_for_what_the_option_says(word: str) -> None:
    made = sacct(word, "01:00:00")
    assert made.jobs.request_us.tolist() == [7 * DAY, 3_600_000_000]
    assert dict(made.intake.changed) == {"limit not known": 1}
    assert sacct(word, unlimited="2 d").jobs.request_us.tolist() == [2 * DAY]


def test_the_limit_of_the_partition_counts_where_it_is_known(tmp_path: Path) -> None:
    made = sacct("UNLIMITED", limits={"long": "3 d", "short": 60})
    assert made.jobs.request_us.tolist() == [3 * DAY]
    assert dict(made.intake.changed) == {"limit of the partition": 1}
    assert sacct("UNLIMITED", partition="short,long", limits={"long": "3 d", "short": 60}).jobs.request_us[0] == 3 * DAY
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "PartitionName=DEFAULT MaxTime=1-00:00:00\nPartitionName=long Nodes=n1 MaxTime=2-00:00:00 State=UP\n"
        "PartitionName=short Nodes=n1\nPartitionName=endless Nodes=n1 MaxTime=UNLIMITED\n"
    )
    for partition, days in (("long", 2), ("short", 1), ("endless", 7), ("other", 7)):
        assert sacct("Partition_Limit", partition=partition, limits=str(conf)).jobs.request_us[0] == days * DAY


def test_months_of_a_job_without_a_limit_are_not_cut() -> None:
    for overrun in ("truncate", "extend", "keep"):
        made = sacct("UNLIMITED", "00:01:00", elapsed_s=5_184_000, overrun=overrun)
        assert (made.jobs.work_us[0], made.jobs.request_us[0]) == (60 * DAY, 7 * DAY)
        assert made.intake.changed["run beyond request"] == (2 if overrun == "keep" else 1)


def test_a_job_does_not_outlast_the_limit_of_its_partition() -> None:
    assert sacct("UNLIMITED", elapsed_s=86_400 * 9, limits={"long": "3 d"}).jobs.work_us[0] == 3 * DAY


def test_a_limit_that_is_not_said_is_told_as_such() -> None:
    made = sacct("")
    assert made.jobs.request_us.tolist() == made.jobs.work_us.tolist()
    assert made.intake.changed["request from run"] == 1


def test_a_limit_of_the_partition_counts_where_the_list_does_not_say_one() -> None:
    made = sacct("", limits={"long": "3 d"})
    assert (made.jobs.request_us[0], dict(made.intake.changed)) == (3 * DAY, {"limit of the partition": 1})


def test_limits_of_jobs_that_are_dropped_are_not_counted() -> None:
    row = "{}|2026-01-02T03:04:05|{}|UNLIMITED|{}|1|long\n"
    text = HEAD + row.format(1, 60, "COMPLETED") + row.format(2, 0, "PENDING") + row.format(3, 0, "CANCELLED")
    intake = read(text).intake
    assert dict(intake.dropped) == {"still waiting": 1, "never started": 1}
    assert dict(intake.changed) == {"limit not known": 1}


def test_unfinished_jobs_without_a_limit_run_as_long_as_the_option_says() -> None:
    text = HEAD + "1|2026-01-02T03:04:05|0|UNLIMITED|PENDING|1|long\n"
    assert read(text, unfinished="limit", unlimited="2 d").jobs.work_us.tolist() == [2 * DAY]


def test_pbs_jobs_without_a_walltime_ask_for_the_limit_of_their_queue() -> None:
    record = (
        "01/02/2026 03:04:05;E;1.s;user=ann queue=q ctime=1767323000 qtime=1767323000 etime=1767323000 "
        "start=1767323001 end=1767323061 Resource_List.ncpus=1\n"
    )
    assert read(record).jobs.request_us.tolist() == [7 * DAY]
    made = read(record, limits={"q": "2 d"})
    assert (made.jobs.request_us[0], dict(made.intake.changed)) == (2 * DAY, {"limit of the partition": 1})


def test_a_queue_knows_the_limits_of_partitions() -> None:
    text = "JOBID|STATE|CPUS|TIME_LIMIT|PARTITION|TIME\n1|PENDING|1|UNLIMITED|long|0:00\n2|PENDING|1|UNLIMITED|x|0:00\n"
    assert read(text, limits={"long": "2 d"}).jobs.work_us.tolist() == [2 * DAY, 7 * DAY]


@pytest.mark.parametrize("options", [{"unlimited": "soon"}, {"limits": 3}, {"limits": {"long": -1}}, {"limits": "no"}])
def test_limits_that_are_none_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="wanted"):
        sacct("UNLIMITED", **options)
