"""Jobs of the past as ``sacct --json`` prints them, in the layouts of Slurm 21.08 to 25.05, as a listing of text.

What differs between versions: numbers are plain or tables with ``set`` and ``infinite``; states are a word or a list;
memory is ``required.memory``, ``memory_per_node`` or ``memory_per_cpu``.

References
----------
The OpenAPI models ``dbv0.0.37_job`` to ``v0.0.43_job`` of Slurm's REST service, whose layout ``sacct --json`` has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unrack.slurm_text.values import listed, number, said, table
from unrack.workload.formats.slurm.listing import COMMAND, Listing
from unrack.workload.formats.slurm.snapshots import JobName, as_frame, job_name, jobs_in
from unrack.workload.formats.source import Locator, Source

_PER_CPU = 1 << 63
"""In ``required.memory`` of old versions: the amount is of each core."""
_TIMES = {"submission": "submit", "eligible": "eligible", "start": "start", "end": "end"}
_WORDS = {
    "account": "account", "partition": "partition", "qos": "qos", "constraints": "constraints", "nodes": "nodelist",
    "licenses": "licenses", "priority": "priority", "name": "jobname", "user": "user", "group": "group",
}  # fmt: skip


def past_json(source: Source) -> Listing:
    """The jobs and their steps, a row each.

    Raises
    ------
    TraceError
        It is no such JSON, or a job of it is not what it should be.
    """
    rows: list[dict[str, str]] = []
    for place, job in enumerate(jobs_in(source, COMMAND)):
        try:
            rows += _rows(job)
        except (ValueError, TypeError) as error:
            raise source.fault(None, f"jobs.{place}", str(error)[:100], "a job of sacct --json") from None
    return Listing(as_frame(rows), Locator(source, lambda row: None))


def _rows(job: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    time, array, required = (table(job.get(key)) for key in ("time", "array", "required"))
    state, tres, het = (table(job.get(key)) for key in ("state", "tres", "het"))
    association = table(job.get("association"))
    row = {ours: text for key, ours in _WORDS.items() if (text := said(job.get(key)))}
    row.setdefault("user", said(association.get("user")))
    row |= {ours: text for key, ours in _TIMES.items() if (text := said(time.get(key))) not in ("", "0")}
    ran = said(time.get("start")) not in ("", "0")
    limit = said(time.get("limit"))
    alloc, asked = _tres(tres.get("allocated")), _tres(tres.get("requested"))
    name = job_name(
        JobName(
            said(job.get("job_id")),
            said(array.get("job_id")),
            said(array.get("task_id")),
            said(array.get("task")),
            said(het.get("job_id")),
            said(het.get("job_offset")),
        )
    )
    row |= {
        "jobid": name,
        "jobidraw": said(job.get("job_id")),
        "elapsedraw": said(time.get("elapsed")) if ran else "",
        "timelimit": limit or "Partition_Limit",
        "state": said(state.get("current")),
        "reqcpus": said(required.get("CPUs", required.get("cpus"))),
        "reqmem": _memory(required),
        "alloctres": alloc,
        "reqtres": asked,
        "reservation": said(table(job.get("reservation")).get("name")),
        "exitcode": said(table(job.get("exit_code")).get("return_code")),
    }
    yield row
    for place, step in enumerate(listed(job.get("steps"))):
        yield _step(f"{name.partition('.')[0]}.{place}", table(step))


def _step(name: str, step: Mapping[str, Any]) -> dict[str, str]:
    most = listed(table(table(step.get("tres")).get("requested")).get("max"))
    used = max((number(table(one).get("count")) for one in most if table(one).get("type") == "mem"), default=0)
    return {
        "jobid": name,
        "maxrss": f"{-(-used // 1024)}K" if used else "",
        "ntasks": said(table(step.get("tasks")).get("count")),
        "nnodes": said(table(step.get("nodes")).get("count")),
    }


def _memory(required: Mapping[str, Any]) -> str:
    """MB of each node or core, as ReqMem has it."""
    for key, per in (("memory_per_node", "n"), ("memory_per_cpu", "c")):
        if mb := number(required.get(key)):
            return f"{mb}M{per}"
    old = required.get("memory")
    mb = old if isinstance(old, int) else 0
    per = "c" if mb >= _PER_CPU else "n"
    return f"{mb}M{per}" if (mb := number(mb % _PER_CPU)) else ""


def _tres(value: Any) -> str:
    """A list of resources as a text: ``cpu=8,gres/gpu:a100=2,mem=65536M``."""
    parts = []
    for one in map(table, listed(value)):
        kind, name, count = said(one.get("type")), said(one.get("name")), number(one.get("count"))
        if kind and count:
            parts.append(f"{kind}/{name}={count}" if name else f"{kind}={count}{'M' if kind == 'mem' else ''}")
    return ",".join(parts)
