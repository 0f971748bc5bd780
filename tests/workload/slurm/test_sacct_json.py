"""``sacct --json`` reads alike whichever version wrote it, and as the same jobs in a table do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unrack.errors import TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

TABLE = (
    "JobID|JobIDRaw|User|Partition|Submit|Start|End|ElapsedRaw|Timelimit|State|ReqCPUS|ReqMem|ReqTRES|AllocTRES|MaxRSS\n"
    "101|101|ann|long|2026-01-02T03:04:00|2026-01-02T03:05:00|2026-01-02T03:15:00|600|01:00:00|COMPLETED|8|4000Mn"
    "|cpu=8,mem=8000M,node=2,gres/gpu=2|cpu=8,mem=8000M,node=2,gres/gpu=2,gres/gpu:a100=2,license/matlab=1|\n"
    "101.0|||||||||||||cpu=8|2048K\n"
    "102_7|103|ben|long|2026-01-02T03:04:10|2026-01-02T03:05:00|2026-03-03T03:05:00|5184000|UNLIMITED|TIMEOUT|2|1000Mc"
    "|cpu=2,mem=2000M,node=1|cpu=2,mem=2000M,node=1|\n"
    "104|104|ben|long|2026-01-02T03:04:20|||0|Partition_Limit|PENDING|2|1000Mc|cpu=2,mem=2000M,node=1||\n"
)
START = 1767323040  # 2026-01-02T03:04:00


def tres(*listed: tuple[str, str, int]) -> list[dict[str, Any]]:
    return [
        {"type": kind, "name": name, "id": place, "count": count} for place, (kind, name, count) in enumerate(listed)
    ]


def layout(version: int) -> str:
    """The same jobs as a version of the data parser writes them: 37, 39 or 43."""

    def count(value: int | None, infinite: bool = False) -> Any:
        if version < 39:
            return 2**32 - 1 if infinite else 2**32 - 2 if value is None else value
        return {"set": value is not None, "infinite": infinite, "number": value or 0}

    def state(word: str) -> dict[str, Any]:
        return {"current": [word] if version >= 40 else word, "reason": "None"}

    def required(cpus: int, mb: int, each_core: bool) -> dict[str, Any]:
        if version < 39:
            return {"CPUs": cpus, "memory": mb + (1 << 63 if each_core else 0)}
        of_node, of_core = (None, mb) if each_core else (mb, None)
        return {"CPUs": cpus, "memory_per_node": count(of_node), "memory_per_cpu": count(of_core)}

    def job(number: int, user: str, after: int, began: int, ran: int, **rest: Any) -> dict[str, Any]:
        times = {"submission": START + after, "start": began, "end": began + ran, "elapsed": ran, "eligible": 0}
        return {
            "job_id": number, "user": user, "association": {"user": user}, "partition": "long",
            "array": {"job_id": 0, "task_id": count(None), "task": ""},
            "het": {"job_id": 0, "job_offset": count(None)}, "steps": [],
            "reservation": {"id": 0, "name": 0 if version < 39 else ""},
            "exit_code": {"status": "SUCCESS", "return_code": 0 if version < 39 else count(0)},
        } | rest | {"time": times | {"limit": rest["limit"]}}  # fmt: skip

    two = tres(("cpu", "", 2), ("mem", "", 2000), ("node", "", 1))
    eight = tres(("cpu", "", 8), ("mem", "", 8000), ("node", "", 2), ("gres", "gpu", 2))
    more = tres(("gres", "gpu:a100", 2), ("license", "matlab", 1))
    step = {
        "step": {"id": "101.0", "name": "x"}, "tasks": {"count": 2}, "nodes": {"count": 2},
        "tres": {"requested": {"max": tres(("mem", "", 2**21))}},
    }  # fmt: skip
    jobs = [
        job(101, "ann", 0, START + 60, 600, limit=count(60), state=state("COMPLETED"),
            required=required(8, 4000, False), tres={"requested": eight, "allocated": [*eight, *more]}, steps=[step]),
        job(103, "ben", 10, START + 60, 5_184_000, limit=count(0, infinite=True), state=state("TIMEOUT"),
            required=required(2, 1000, True), tres={"requested": two, "allocated": two},
            array={"job_id": 102, "task_id": count(7), "task": ""}),
        job(104, "ben", 20, 0, 0, limit=count(None), state=state("PENDING"), required=required(2, 1000, True),
            tres={"requested": two, "allocated": []}),
    ]  # fmt: skip
    return json.dumps({"meta": {"plugin": {"data_parser": f"v0.0.{version}"}}, "jobs": jobs, "errors": []})


def read(text: str, **options: object) -> Workload:
    return read_trace(Source("jobs.json", text.encode()), **options)


@pytest.mark.parametrize("version", [37, 39, 43])
@pytest.mark.parametrize("options", [{}, {"memory": "used"}, {"unfinished": "limit", "size": "requested"}])
def test_every_layout_gives_the_jobs_of_the_table(version: int, options: dict[str, Any]) -> None:
    made, same = read(layout(version), **options), read(TABLE, **options)
    assert made.intake.format == same.intake.format == "sacct"
    assert made.jobs.ids.to_list() == same.jobs.ids.to_list()
    for column in ("submit_us", "work_us", "asks"):
        assert getattr(made.jobs, column).tolist() == getattr(same.jobs, column).tolist(), column
    assert {key: each.tolist() for key, each in made.jobs.devices.items()} == {
        key: each.tolist() for key, each in same.jobs.devices.items()
    }
    assert made.jobs.user_names == same.jobs.user_names
    assert made.intake.dropped == same.intake.dropped
    assert made.intake.ignored == same.intake.ignored
    assert "reservation" not in made.jobs.extra.columns


def test_a_job_without_a_limit_is_not_cut_in_json_either() -> None:
    made = read(layout(43))
    assert (made.jobs.work_us[1], made.jobs.request_us[1]) == (5_184_000_000_000, 604_800_000_000)


def test_files_put_together_are_read_one_after_the_other() -> None:
    made = read(layout(43) + "\n" + layout(43))
    assert len(made) == 2
    assert made.intake.dropped["run before a requeue"] == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (layout(43)[:-40], "damaged JSON"),
        (layout(43).replace('"number": 60', '"number": "soon"'), "timelimit"),
        (layout(43).replace('["COMPLETED"]', '["DONE"]'), "state"),
        (layout(37).replace('"time": {', '"time": 3, "no": {'), "jobs.0"),
    ],
)
def test_json_that_cannot_be_is_refused(text: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        read(text)
