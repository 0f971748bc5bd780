"""What is in a system now, as a frame of text: ``squeue``, ``scontrol show job``, and both as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from unrack.slurm_text.records import records
from unrack.workload.formats.slurm.listing import Listing, listing
from unrack.workload.formats.slurm.names import ours
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
        whole, number = record.fields.get("ArrayJobId") or record.fields["JobId"], record.fields["JobId"]
        members = record.fields.get("ArrayTaskId", "")
        rows.append(row | {"jobid": _named(whole, members, record.fields.get("HetJobOffset", "")), "jobidraw": number})
        lines.append(record.line)
    return Listing(_frame(rows), Locator(source, lambda row: lines[row]))


def _named(job: str, members: str, part: str) -> str:
    if members and members != "N/A":
        return f"{job}_{members}" if members.isdigit() else f"{job}_[{members}]"
    return f"{job}+{part}" if part and part != "N/A" else job


def _frame(rows: list[dict[str, str]]) -> pl.DataFrame:
    names = sorted({name for row in rows for name in row}) or ["jobid"]
    return pl.DataFrame(
        [pl.Series(name, [row.get(name) or None for row in rows], pl.String).str.strip_chars() for name in names]
    )


def _of_json(source: Source) -> Listing:
    try:
        content = json.loads(source.data)
    except (ValueError, RecursionError) as error:
        raise source.fault(None, "", f"damaged JSON ({str(error)[:80]})", "whole JSON") from None
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) and _said(job.get("job_id")) for job in jobs):
        raise source.fault(None, "jobs", "no list of jobs", COMMAND)
    if any("job_state" not in job for job in jobs):
        raise source.fault(None, "jobs", "jobs without job_state", f"{COMMAND}; of the past: sacct --parsable2")
    return Listing(_frame([_job(job) for job in jobs]), Locator(source, lambda row: None))


def _job(job: Mapping[str, Any]) -> dict[str, str]:
    row = {name: _said(job[key]) for key, name in _OF_JSON.items() if key in job}
    row |= {name: "" for name in _TIMES if row.get(name) == "0"}
    limit = job.get("time_limit")
    row["timelimit"] = _said(limit)
    for key in ("minmemorynode", "minmemorycpu"):
        row |= {key: ""} if row.get(key) == "0" else {}
    array, member = _said(job.get("array_job_id")), _said(job.get("array_task_id"))
    listed = _said(job.get("array_task_string"))
    if array in ("", "0"):
        array, member, listed = _said(job["job_id"]), "", ""
    offset = _said(job.get("het_job_offset")) if _said(job.get("het_job_id")) not in ("", "0") else ""
    return row | {"jobid": _named(array, listed or member, offset), "jobidraw": _said(job["job_id"])}


def _said(value: object) -> str:
    """A value as text: a number, or a table of one with ``set``, or a list of words of which the first counts."""
    if isinstance(value, Mapping):
        if value.get("infinite"):
            return "UNLIMITED"
        return _said(value.get("number")) if value.get("set", True) else ""
    if isinstance(value, list):
        return _said(value[0]) if value else ""
    return "" if value is None or isinstance(value, bool) else _line(value)


def _line(value: object) -> str:
    return " ".join(str(value).split())[:10_000]
