from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError, TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

SAMPLES = Path(__file__).parent / "samples"
LOG = (SAMPLES / "sacct.txt").read_text()
ALIGNED = (SAMPLES / "sacct-aligned.txt").read_text()


def read(text: str, **options: object) -> Workload:
    return read_trace(Source("jobs.txt", text.encode()), **options)


def test_a_job_has_a_task_a_node_with_its_part_of_everything() -> None:
    made = read(LOG)
    assert made.intake.format == "sacct"
    assert made.jobs.ids.to_list() == [101, 109, 105]
    assert made.jobs.submit_us.tolist() == [0, 55_000_000, 295_000_000]
    assert made.jobs.tasks.tolist() == [2, 1, 1]
    assert made.jobs.cores.tolist() == [8, 4, 10]
    assert made.jobs.memory_mb.tolist() == [65536, 4096, 0]
    assert made.jobs.devices["gpus", "count"].tolist() == [2, 0, 0]
    assert made.jobs.devices["counted", "matlab"].tolist() == [1, 0, 0]
    assert made.jobs.request_us.tolist() == [93_784_000_000, 1_800_000_000, 600_000_000]
    assert made.jobs.extra["gpu_models"].to_list() == ["a100", None, None]
    assert made.jobs.extra["job_id"].to_list() == ["101", "102_7", "105"]


def test_every_line_that_is_no_job_is_counted() -> None:
    intake = read(LOG).intake
    assert dict(intake.dropped) == {
        "step": 2, "run before a requeue": 1, "still waiting": 1, "still running": 1, "never started": 1,
    }  # fmt: skip
    assert intake.read == intake.kept + sum(intake.dropped.values()) == 9
    assert intake.changed["run cut at request"] == 1


def test_a_job_that_ended_well_in_less_than_a_second_is_kept_where_starts_are_not_listed() -> None:
    made = read("JobID|Submit|ElapsedRaw|State|AllocCPUS\n1|2026-01-02T03:04:05|0|COMPLETED|1\n")
    assert made.jobs.work_us.tolist() == [0]


def test_unfinished_jobs_can_run_until_their_limit() -> None:
    made = read(LOG, unfinished="limit")
    assert "102_9" in made.jobs.ids.to_list()
    assert made.intake.changed["run until the limit"] == 2  # one of them has no limit: 7 d
    assert made.intake.changed["member of an array"] == 3
    assert made.intake.read == made.intake.kept + sum(made.intake.dropped.values())
    waiting = made.jobs.ids.to_list().index("102_9")
    assert made.jobs.work_us[waiting] == 1_800_000_000
    assert made.jobs.cores[waiting] == 4


def test_memory_that_was_used_is_that_of_the_step_that_used_most() -> None:
    assert read(LOG, memory="used").jobs.memory_mb.tolist() == [61440, 0, 0]
    assert read(LOG, memory="max").jobs.memory_mb.tolist() == [65536, 4096, 0]
    assert read(LOG, memory="ignore").jobs.memory_mb.tolist() == [0, 0, 0]


def test_other_devices_are_asked_for_as_the_option_says() -> None:
    assert read(LOG, unfinished="limit").intake.ignored["other devices"] == 1
    made = read(LOG, unfinished="limit", gres={"nvme": "nvme.devices"}, gpus="gpu.devices", licences=False)
    assert made.jobs.devices["nvme", "devices"].max() == 1
    assert made.jobs.devices["gpu", "devices"].max() == 2
    assert made.intake.changed["licences ignored"] == 1
    assert ("gpus", "count") not in made.jobs.devices


def test_gpus_that_do_not_come_out_even_get_a_task_each() -> None:
    line = "1|2026-01-02T03:04:05|60|COMPLETED|12|2|cpu=12,gres/gpu=3,mem=30G,node=2"
    made = read(f"JobID|Submit|ElapsedRaw|State|AllocCPUS|NNodes|AllocTRES\n{line}\n")
    assert (made.jobs.tasks[0], made.jobs.cores[0], made.jobs.memory_mb[0]) == (3, 4, 10240)
    assert made.jobs.devices["gpus", "count"].tolist() == [1]
    assert made.intake.changed["a task a GPU"] == 1


def test_old_lists_say_gpus_for_each_node() -> None:
    line = "1|2026-01-02T03:04:05|60|COMPLETED|8|2|gpu:k80:2|16Gc"
    made = read(f"JobID|Submit|ElapsedRaw|State|AllocCPUS|NNodes|AllocGRES|ReqMem\n{line}\n")
    assert made.jobs.devices["gpus", "count"].tolist() == [2]
    assert made.jobs.memory_mb.tolist() == [65536]


@pytest.mark.parametrize("mark", [",", ";", "\t", "^", "~"])
def test_any_delimiter_is_found(mark: str) -> None:
    lines = [line.split("|") for line in LOG.splitlines()]
    made = read("\n".join(mark.join(line[:19]) for line in lines))
    assert made.jobs.memory_mb.tolist() == [65536, 4096, 0]


def test_a_delimiter_behind_every_field_is_no_column() -> None:
    assert len(read(LOG.replace("\n", "|\n"))) == 3


def test_an_aligned_table_reads_with_names_and_states_that_were_cut_off() -> None:
    made = read(ALIGNED)
    assert made.jobs.ids.to_list() == [201, 202, 203]
    assert made.jobs.extra["state"].to_list() == ["COMPLETED", "OUT_OF_MEMORY", "CANCELLED"]
    assert made.jobs.extra["job_name"].to_list() == ["a name", "long-name+", "x"]
    assert made.jobs.tasks.tolist() == [16, 4, 2]
    assert made.jobs.work_us.tolist() == [600_000_000, 87_000_000_000, 330_000_000]
    assert made.intake.changed["name cut off"] == 1
    assert made.intake.changed["nodes not said"] == 3


def test_files_of_several_months_may_be_put_together() -> None:
    made = read(LOG + LOG)
    assert len(made) == 3
    assert made.intake.changed["header repeated"] == 1


def test_a_job_can_arrive_when_it_became_eligible() -> None:
    assert read(LOG, arrival="eligible").jobs.submit_us.tolist() == [0, 55_000_000, 265_000_000]


def test_a_member_that_its_array_held_back_may_begin_when_the_first_may() -> None:
    header = "JobID|Submit|Eligible|Start|ElapsedRaw|TimelimitRaw|State|AllocCPUS|NNodes|SubmitLine"
    rows = [
        f"{name}|2026-01-02T03:00:00|2026-01-02T03:{eligible}|2026-01-02T03:{start}|60|5|COMPLETED|1|1|{line}"
        for name, eligible, start, line in (
            ("7_1", "00:00", "01:00", "sbatch --array=1-3%1 x"), ("7_2", "02:00", "02:00", "sbatch --array=1-3%1 x"),
            ("8_1", "05:00", "05:00", "sbatch --begin=now+300 -a 1-2 x"), ("8_2", "06:00", "06:30", "sbatch y"),
            ("9", "04:00", "04:00", "sbatch --begin=now+240 x"),
        )
    ]  # fmt: skip
    made = read("\n".join([header, *rows, ""])).jobs
    began = dict(zip(made.ids.to_list(), made.extra["begin_s"].to_list(), strict=True))
    assert began == {"7_1": None, "7_2": None, "8_1": 300.0, "8_2": 300.0, "9": 240.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOG.replace("|3600|1-02", "|3600s|1-02"), "line 2, elapsedraw: got '3600s'"),
        (LOG.replace("TIMEOUT", "TIME OUT"), "line 5, state: got 'TIME OUT', wanted a state of a job such as"),
        (LOG.replace("102_7|109|arr", "102_7|109|a|r"), "line 5: got 23 fields, wanted 22, as in the header"),
        (LOG.replace("4Gn|||b", "4Gx|||b"), "line 5, reqmem: got '4Gx'"),
        (LOG.replace("gres/gpu=4,license", "gres/gpu=x,license"), "line 2, alloctres"),
        (LOG.replace("2026-01-02T03:06:00", "02/01/2026"), "line 7, submit: got '02/01/2026'"),
        (LOG.split("\n", 1)[1], "submit"),
        ("JobID|State|Partition\n1|COMPLETED|x\n", "sacct --allusers --parsable2 --format=JobID"),
        (ALIGNED.replace("203    ", "203_1+ "), "line 6, jobid: got '203_1+'"),
    ],
)
def test_a_broken_list_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(text, strict=True)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{"size": "x"}, {"memory": "x"}, {"gpus": "x"}, {"gres": 1}, {"gres": {"a": "b"}}, {"licences": 1},
     {"arrival": "x"}, {"unfinished": "x"}, {"delimiter": "||"}, {"overrun": "x"}],
)  # fmt: skip
def test_an_option_that_cannot_be_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="option"):
        read_trace(Source("x", LOG.encode()), "sacct", **options)


ODD = ["|", "", "\n", "0", "-1", "9" * 30, "Unknown", "None", "[", "]", "+", "_", "\0", "%", ",", "=", "é", "1e9", ":"]


@draws(150)
@given(st.sampled_from([LOG, ALIGNED]), st.data())
def test_a_mutated_list_is_read_or_refused_in_words(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        text = text[:start] + data.draw(st.sampled_from(ODD)) + text[end:]
    if not text.strip("\0 \n"):
        return
    memory, unfinished = data.draw(st.sampled_from(["requested", "max"])), data.draw(st.sampled_from(["drop", "limit"]))
    try:
        made = read_trace(Source("fuzz", text.encode()), "sacct", memory=memory, unfinished=unfinished)
    except InputError:
        return
    assert len(made) == made.intake.kept <= made.intake.read
    assert (made.jobs.submit_us >= 0).all()
    assert (made.jobs.tasks >= 1).all()
    assert (made.jobs.memory_mb >= 0).all()


@pytest.mark.parametrize("mark", ["|", ";", "^"])
def test_a_last_column_in_which_no_job_says_anything_is_a_column(mark: str) -> None:
    day = "2026-01-01T00:00:0"
    lines = [
        "JobID|Submit|Start|End|AllocCPUS|Reservation|Planned",
        *(f"{job}|{day}0|{day}1|{day}2|4||" for job in (1, 2)),
    ]
    text = "\n".join(lines).replace("|", mark)
    made = read(text)
    assert made.jobs.work_us.tolist() == [1_000_000] * 2
    ended = read(text.replace("\n", f"{mark}\n") + mark)
    assert ended.jobs.ids.to_list() == made.jobs.ids.to_list() == [1, 2]


@pytest.mark.parametrize("text", ['{"jobs": []}', '{"meta": {}, "jobs": [{"time": {}}]}'])
def test_json_of_sacct_without_a_job_says_what_was_wanted(text: str) -> None:
    with pytest.raises(InputError, match="sacct"):
        read(text)
