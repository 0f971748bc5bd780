"""What is in a system now, as a frame of text: ``squeue``, ``scontrol show job``, and both as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from unrack.slurm_text.records import records
from unrack.slurm_text.values import documents, said
from unrack.workload.formats.slurm.listing import Listing, listing, ours
from unrack.workload.formats.source import Locator, Source, text_bytes

COMMAND = "the output of: scontrol show job, squeue --json, or squeue -o '%i|%u|%T|%V|%S|%M|%l|%D|%C|%m|%b|%r|%Q|%N'"
_KEPT = frozenset(
    {
        "jobid", "jobidraw", "user", "account", "partition", "qos", "state", "submit", "eligible", "start", "elapsed",
        "timelimit", "timeleft", "nnodes", "ncpus", "minmemorynode", "minmemorycpu", "reqtres", "alloctres", "gres",
        "licenses", "nodelist", "reason", "priority", "dependency", "constraints", "reqnodelist", "deadline",
        "lastschedeval",
    }
)  # fmt: skip
_OF_JSON = {
    "user_name": "user", "account": "account", "partition": "partition", "qos": "qos", "job_state": "state",
    "submit_time": "submit", "eligible_time": "eligible", "start_time": "start", "deadline": "deadline",
    "node_count": "nnodes", "cpus": "ncpus", "memory_per_node": "minmemorynode", "memory_per_cpu": "minmemorycpu",
    "tres_req_str": "reqtres", "tres_alloc_str": "alloctres", "tres_per_node": "gres", "licenses": "licenses",
    "nodes": "nodelist", "state_reason": "reason", "priority": "priority", "dependency": "dependency",
    "features": "constraints", "required_nodes": "reqnodelist", "last_sched_evaluation": "lastschedeval",
}  # fmt: skip
_TIMES = ("submit", "eligible", "start", "deadline", "lastschedeval")


def snapshot(source: Source) -> Listing:
    """Read what one of the tools printed.

    Raises
    ------
    TraceError
        It is none of them, or a part of it is not what it should be.
    """
    start = source.data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"{", b"[")):
        return _of_json(source)
    if not start.startswith(b"JobId="):
        return listing(source)
    rows, lines = [], []
    for record in records(text_bytes(source).decode("utf-8", "replace"), "JobId"):
        row = {name: value for key, value in record.fields.items() if (name := ours(key)) in _KEPT}
        number, member, part = (record.fields.get(key, "") for key in ("JobId", "ArrayTaskId", "HetJobOffset"))
        array, het = (record.fields.get(key) or number for key in ("ArrayJobId", "HetJobId"))
        rows.append(row | {"jobid": job_name(JobName(number, array, member, "", het, part)), "jobidraw": number})
        lines.append(record.line)
    return Listing(as_frame(rows), Locator(source, lambda row: lines[row]))


class JobName(NamedTuple):
    """What the name of a job is made of, as text; empty or 0: it is not said.

    Attributes
    ----------
    job
        Its number.
    array, member, members
        The array that it is of, and which member it is, or which it stands for.
    het, part
        The heterogeneous job that it is of, and which component.
    """

    job: str
    array: str = ""
    member: str = ""
    members: str = ""
    het: str = ""
    part: str = ""


def job_name(of: JobName) -> str:
    """``101``, ``101_7``, ``101_[3-9%2]`` or ``101+1``.

    Examples
    --------
    >>> job_name(JobName("7")), job_name(JobName("8", "7", "1")), job_name(JobName("8", "7", "", "3-9%2"))
    ('7', '7_1', '7_[3-9%2]')
    >>> job_name(JobName("8", "0", "", "", "7", "1"))
    '7+1'
    """
    if of.array not in ("", "0") and (members := of.members or of.member) not in ("", "N/A"):
        return f"{of.array}_{members}" if members.isdigit() else f"{of.array}_[{members.strip('[]')}]"
    return f"{of.het}+{of.part}" if of.het not in ("", "0", "N/A") and of.part not in ("", "N/A") else of.job


def as_frame(rows: list[dict[str, str]]) -> pl.DataFrame:
    """Rows as columns of text, in order of name."""
    names = sorted({name for row in rows for name in row}) or ["jobid"]
    return pl.DataFrame(
        [pl.Series(name, [row.get(name) or None for row in rows], pl.String).str.strip_chars() for name in names]
    )


def jobs_in(source: Source, command: str) -> list[Mapping[str, Any]]:
    """The jobs of JSON that Slurm printed, of one document or of several one after the other.

    Raises
    ------
    TraceError
        It is no JSON, or there are no jobs in it.
    """
    try:
        found = documents(source.data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise source.fault(None, "", f"damaged JSON ({str(error)[:80]})", "whole JSON") from None
    lists = [content.get("jobs") if isinstance(content, dict) else None for content in found]
    jobs: list[Any] = [job for jobs in lists if isinstance(jobs, list) for job in jobs]
    if not all(isinstance(some, list) for some in lists) or not all(
        isinstance(job, dict) and said(job.get("job_id")) for job in jobs
    ):
        raise source.fault(None, "jobs", "no list of jobs", command)
    return jobs


def _of_json(source: Source) -> Listing:
    jobs = jobs_in(source, COMMAND)
    if any("job_state" not in job for job in jobs):
        raise source.fault(None, "jobs", "jobs without job_state", COMMAND)
    return Listing(as_frame([_job(job) for job in jobs]), Locator(source, lambda row: None))


def _job(job: Mapping[str, Any]) -> dict[str, str]:
    row = {name: said(job[key]) for key, name in _OF_JSON.items() if key in job}
    row |= {name: "" for name in _TIMES if row.get(name) == "0"}
    row["timelimit"] = said(job.get("time_limit"))
    for key in ("minmemorynode", "minmemorycpu"):
        row |= {key: ""} if row.get(key) == "0" else {}
    keys = ("job_id", "array_job_id", "array_task_id", "array_task_string", "het_job_id", "het_job_offset")
    return row | {"jobid": job_name(JobName(*(said(job.get(key)) for key in keys))), "jobidraw": said(job["job_id"])}
