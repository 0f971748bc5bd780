"""Short listings of jobs and nodes: what changed, what JSON lacks, and what is there when JSON cannot be read.

Fields are set apart by a word that is drawn for each listing, so that no user can have written it into a name or a
comment beforehand: a name with line feeds and separators in it stays one field.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from unrack.slurm_text.values import span_s

JOB_FIELDS = (
    "jobid", "jobarrayid", "state", "reason", "prioritylong", "submittime", "eligibletime", "timelimit", "numnodes",
    "maxnodes", "numtasks", "numcpus", "cpus-per-task", "mincpus", "minmemory", "tres-per-node", "tres-per-job",
    "tres-per-task", "cpus-per-tres", "mem-per-tres", "tres-per-socket", "tres-alloc", "licenses", "reqnodes",
    "nodelist", "oversubscribe", "dependency", "restartcnt", "hetjobid", "hetjobidset", "hetjoboffset", "feature",
    "reservation", "partition", "username", "account", "qos", "nice", "contiguous", "ntpernode", "ntpercore", "sct",
    "name", "comment", "admin_comment",
)  # fmt: skip
"""What may change of a job and matters; when it began or is expected to is left out, as that changes all the time."""
NODE_FIELDS = ("nodelist", "statecomplete", "gres", "cpus", "memory", "partition", "features_act", "reason")
PLACED_FIELDS = ("jobid", "jobarrayid", "state", "reqnodes", "nodelist")
"""What tells whether a job may still be placed."""


def separator() -> str:
    """A word that occurs nowhere else."""
    return f"~{secrets.token_urlsafe(6)}"


def fields_option(fields: Sequence[str], between: str) -> list[str]:
    """The option of ``squeue`` and ``sinfo`` that asks for these fields."""
    return ["-O", ",".join(f"{name}:{between}" for name in fields)]


def jobs_command(squeue: str, fields: Sequence[str], between: str) -> list[str]:
    """A listing of all jobs that Slurm remembers."""
    return [squeue, "--noheader", "--all", "--states=all", "--sort=i", *fields_option(fields, between)]


def excluded_command(squeue: str) -> list[str]:
    """Which nodes jobs exclude, which only the short way of asking tells."""
    return [squeue, "--noheader", "--all", "--states=PENDING", "--sort=i", "--format=%A %x"]


def nodes_command(sinfo: str, between: str) -> list[str]:
    """A listing of all nodes, a line for each partition that they are in."""
    return [sinfo, "--noheader", "--all", "--Node", *fields_option(NODE_FIELDS, between)]


def rows(printed: bytes, fields: Sequence[str], between: str) -> list[dict[str, str]]:
    """The rows of a listing.

    Raises
    ------
    ValueError
        It breaks off in the middle of a row.
    """
    parts = printed.decode("utf-8", "replace").split(between)
    if parts.pop().strip() or len(parts) % len(fields):
        raise ValueError("a listing that breaks off")
    found = []
    for first in range(0, len(parts), len(fields)):
        values = [part.strip() for part in parts[first : first + len(fields)]]
        found.append(dict(zip(fields, values, strict=True)))
    return found


def as_records(listed: Sequence[Mapping[str, str]]) -> dict[str, list[dict[str, Any]]]:
    """The jobs of a listing in the layout of 22.05, as far as it goes: without what is held of which node."""
    return {"jobs": [_record(row) for row in listed]}


def _record(row: Mapping[str, str]) -> dict[str, Any]:
    said = {key: ("" if value in ("N/A", "(null)", "None", "Unknown") else value) for key, value in row.items()}
    array, _, member = said["jobarrayid"].partition("_")
    listed = member.startswith("[")
    throttle = member.strip("[]").partition("%")[2]
    sockets, _, threads = (*said["sct"].replace("*", "").split(":"), "", "")[:3]
    try:
        limit_s = span_s(said["timelimit"])
    except ValueError:
        limit_s = None
    return {
        "job_id": said["jobid"],
        "job_state": said["state"],
        "state_reason": said["reason"],
        "array_job_id": array if member else 0,
        "array_task_id": None if listed or not member else member,
        "array_task_string": member.strip("[]") if listed else "",
        "array_max_tasks": throttle,
        "het_job_id": said["hetjobid"],
        "het_job_id_set": said["hetjobidset"],
        "het_job_offset": said["hetjoboffset"],
        "priority": said["prioritylong"],
        "submit_time": said["submittime"],
        "eligible_time": said["eligibletime"],
        "time_limit": None if limit_s is None else int(limit_s) // 60,
        "node_count": said["numnodes"].partition("-")[0],
        "max_nodes": said["maxnodes"],
        "tasks": said["numtasks"],
        "cpus": said["numcpus"].partition("-")[0],
        "cpus_per_task": said["cpus-per-task"],
        "tres_per_node": said["tres-per-node"],
        "tres_per_job": said["tres-per-job"],
        "tres_per_task": said["tres-per-task"],
        "tres_per_socket": said["tres-per-socket"],
        "cpus_per_tres": said["cpus-per-tres"],
        "memory_per_tres": said["mem-per-tres"],
        "minimum_cpus_per_node": said["mincpus"],
        "tasks_per_core": said["ntpercore"].replace("*", ""),
        "sockets_per_node": sockets,
        "threads_per_core": threads,
        "tres_alloc_str": said["tres-alloc"],
        "tres_req_str": said["tres-alloc"],  # of one that waits
        "licenses": said["licenses"],
        "required_nodes": said["reqnodes"],
        "nodes": said["nodelist"],
        "shared": "none" if said["oversubscribe"] in ("NO", "EXCLUSIVE") else "",
        "dependency": said["dependency"],
        "restart_cnt": said["restartcnt"],
        "features": said["feature"],
        "contiguous": said["contiguous"] == "1",
        "resv_name": said["reservation"],
        "partition": said["partition"],
        "user_name": said["username"],
        "account": row["account"],
        "qos": said["qos"],
        "nice": said["nice"],
        "name": row["name"],
        "comment": row["comment"],
        "admin_comment": row["admin_comment"],
    }
