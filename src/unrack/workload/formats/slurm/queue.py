"""Jobs that wait and run now, as ``squeue`` and ``scontrol show job`` tell of them: what a run starts from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import polars as pl

from unrack.errors import InputError
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.job_ids import HOLDING, WAITING
from unrack.slurm_text.values import documents, moment_s, records, said
from unrack.workload.formats.intake import EXTRA, RUNNING, Tally, workload
from unrack.workload.formats.limits import UNLIMITED, limit_us, limits_us, with_limits
from unrack.workload.formats.quantities import choice
from unrack.workload.formats.slurm.jobs import BEGIN, RAN, STATE, Choices, begin_s, described, identified, timed
from unrack.workload.formats.slurm.listing import Listing, ListingColumns, first_said, listing, ours
from unrack.workload.formats.source import Locator, Source, load, text_bytes
from unrack.workload.job import Workload

COMMAND = "the output of: scontrol show job, squeue --json, or squeue -o '%i|%u|%T|%V|%S|%M|%l|%D|%C|%m|%b|%r|%Q|%N'"
_KEPT = frozenset(
    {
        "jobid", "jobidraw", "user", "account", "partition", "qos", "state", "submit", "eligible", "start", "elapsed",
        "timelimit", "timeleft", "nnodes", "ncpus", "minmemorynode", "minmemorycpu", "reqtres", "alloctres", "gres",
        "licenses", "nodelist", "reason", "priority", "dependency", "constraints", "reqnodelist", "deadline",
        "lastschedeval", "excludednodes", "arraytaskthrottle", "reservation", "nice", "jobname",
    }
)  # fmt: skip
_OF_JSON = {
    "user_name": "user", "account": "account", "partition": "partition", "qos": "qos", "job_state": "state",
    "submit_time": "submit", "eligible_time": "eligible", "start_time": "start", "deadline": "deadline",
    "node_count": "nnodes", "cpus": "ncpus", "memory_per_node": "minmemorynode", "memory_per_cpu": "minmemorycpu",
    "tres_req_str": "reqtres", "tres_alloc_str": "alloctres", "tres_per_node": "gres", "licenses": "licenses",
    "nodes": "nodelist", "state_reason": "reason", "priority": "priority", "dependency": "dependency",
    "features": "constraints", "required_nodes": "reqnodelist", "last_sched_evaluation": "lastschedeval",
    "excluded_nodes": "excludednodes", "array_max_tasks": "arraytaskthrottle", "resv_name": "reservation",
    "nice": "nice", "name": "jobname",
}  # fmt: skip
_TIMES = ("submit", "eligible", "start", "deadline", "lastschedeval")
_HOSTS = "hosts"
_HELD = r"(?i)held|dependency|begintime|reservation|deadline"
_TOLD = {"dependency": r"(?i)^\(?dependency\)?$", BEGIN: r"(?i)^\(?begintime\)?$"}
"""What the list may say of a job → the reason for which it waits for that."""


def read_queue(
    path: str | os.PathLike[str] | Source,
    *,
    memory: str = "requested",
    gpus: str = "gpus.count",
    gres: Mapping[str, str] | None = None,
    licences: bool = True,
    held: str = "drop",
    unlimited: float | str = UNLIMITED,
    limits: Mapping[str, float | str] | str | None = None,
    now: str | None = None,
    running: str = "kept",
) -> Workload:
    """Read jobs that run and wait: those that run are on their nodes from the start, for the time that they have left.

    How long jobs really run is not known before they end; here they run until their limits. Time 0 is the time of the
    snapshot: jobs that run are there then, and those that wait are submitted right after it (a µs apart), in the order
    of their submission.

    Parameters
    ----------
    memory
        ``"requested"`` or ``"ignore"``.
    gpus, gres, licences
        As in :func:`unrack.workload.formats.slurm.sacct.read_sacct`.
    held
        Jobs that are held, or wait for something else than resources that the list does not say: ``"drop"`` or
        ``"keep"``.
    unlimited
        How long a job without a limit is taken to run, s or text such as ``"7 d"``.
    limits
        As in :func:`unrack.workload.formats.slurm.sacct.read_sacct`.
    now
        When the snapshot was taken, such as ``2026-01-02T03:04:05``; by default what the times of running jobs tell, or
        else the latest time in it.
    running
        Jobs that run: ``"kept"`` on the nodes that they have, which the cluster has to have by the same names, or
        ``"anew"``: placed by the policy, before those that wait.
    """
    choice("memory", memory, ("requested", "ignore"))
    choice("held", held, ("drop", "keep"))
    choices = Choices("allocated", memory, gpus, gres or {}, licences)
    longest_us, now_us = limit_us("unlimited", unlimited), _moment_us(now)
    by_partition = limits_us(limits or {})
    source = load(path)
    found = _snapshot(source)
    found.need(
        (("jobid", "jobidraw"), ("state",), ("ncpus", "reqtres", "alloctres"), ("timelimit", "timeleft")), COMMAND
    )
    tally = Tally()
    jobs = timed(found.frame.with_row_index("row"), found, "submit")
    read = jobs.height
    ours, more, header = begun(jobs, found, choices, tally, running, by_partition, longest_us, held == "drop", now_us)
    return workload(source, "slurm-queue", read + more, ours, tally, "keep", header)


def begun(
    jobs: pl.DataFrame, found: Listing, choices: Choices, tally: Tally, running: str, by_partition: Mapping[str, int],
    longest_us: int, drop_held: bool = True, now_us: int | None = None,
) -> tuple[pl.DataFrame, int, dict[str, str]]:  # fmt: skip
    """The columns of a workload that begins with what runs; how many jobs lists of members add; what it says of itself.

    ``jobs``: as of :func:`unrack.workload.formats.slurm.jobs.timed`; all else as the options of :func:`read_queue`.
    """
    columns = found.columns(jobs)
    jobs = _with_held(jobs.with_columns(left_us=columns.span_us("timeleft")), columns)
    latest = _latest_us(columns, jobs) if now_us is None else now_us
    jobs = tally.drop(jobs, "already over", ~pl.col(STATE).is_in(HOLDING | WAITING))
    if drop_held:
        jobs = tally.drop(jobs, "held back", pl.col("held"))
    unsaid = jobs["request_us"].is_null() & jobs["left_us"].is_null()
    partition = found.columns(jobs).text("partition")
    jobs = with_limits(jobs, unsaid, partition, by_partition, longest_us, tally).drop("endless")
    jobs = _until_the_limit(jobs, latest, longest_us, tally)
    kept = identified(jobs.drop("left_us", "held"), found, tally)
    ours = described(kept, found, None, choices, tally)
    ours = begin_s(ours, latest)
    ours = _standing(ours, found.columns(kept), tally, running)
    if f"{EXTRA}log_priority" in ours.columns:
        ours = ours.rename({f"{EXTRA}log_priority": "priority"})
        ours = ours.with_columns(pl.col("priority").cast(pl.Int64, strict=False).clip(-(2**53), 2**53))
    where = "on their nodes" if running == "kept" else "placed anew"
    words = f"jobs that run are {where} from the start, with the time that they have left; {choices.memory} memory"
    header = {"Columns": words} | ({} if latest is None else {"UnixStartTime": str(latest // 1_000_000)})
    return ours, kept.height - jobs.height, header


def _with_held(jobs: pl.DataFrame, columns: ListingColumns) -> pl.DataFrame:
    """The jobs with ``held``: which wait for what is neither a resource nor said; and when others are to begin."""
    reason = first_said(columns.text("reason"), columns.text("nodelist"))
    waits = jobs[STATE].is_in(list(WAITING)).fill_null(False)
    begin = reason.str.contains(_TOLD[BEGIN]).fill_null(False)
    begins = first_said(jobs[BEGIN], jobs["start_us"].set(~begin, None))
    jobs = jobs.with_columns(begins.set(~waits, None).alias(BEGIN))
    held = reason.str.contains(_HELD).fill_null(False) & waits
    for there, why in ((columns.text("dependency"), _TOLD["dependency"]), (jobs[BEGIN], _TOLD[BEGIN])):
        held &= ~(reason.str.contains(why).fill_null(False) & there.is_not_null())
    return jobs.with_columns(held.alias("held"))


def _latest_us(columns: ListingColumns, jobs: pl.DataFrame) -> int | None:
    """When the snapshot was taken, µs since 1970, as far as it tells."""
    runs = jobs.filter(pl.col(STATE) == "RUNNING")
    sums = (runs["start_us"] + runs["work_us"]).drop_nulls()
    if len(sums) and ("elapsed" in columns or "elapsedraw" in columns):
        return int(sums.max())  # type: ignore[arg-type]
    seen = [columns.moment_us(name).max() for name in ("submit", "lastschedeval")]
    seen.append(jobs.filter(pl.col(STATE).is_in(HOLDING))["start_us"].max())
    return max((int(one) for one in seen if isinstance(one, int)), default=None)


def _until_the_limit(jobs: pl.DataFrame, now_us: int | None, longest_us: int, tally: Tally) -> pl.DataFrame:
    """Run times and requests: what is left of the limit, and for those that wait all of it; submitted in this order."""
    runs, limit = pl.col(STATE).is_in(HOLDING), pl.col("request_us")
    tally.change_where(jobs, "holds from the start", runs)
    has_run = pl.col("work_us") if {"elapsed", "elapsedraw"} & set(jobs.columns) else pl.lit(None, pl.Int64)
    since_start = pl.lit(now_us, pl.Int64) - pl.col("start_us")
    jobs = jobs.with_columns(ran_us=pl.coalesce(has_run, since_start, pl.lit(0, pl.Int64)))
    left = pl.coalesce("left_us", limit.fill_null(longest_us) - pl.col("ran_us"))
    jobs = jobs.with_columns(work_us=pl.when(runs).then(left).otherwise(limit.fill_null(longest_us)))
    ends = pl.col(STATE) == "COMPLETING"
    tally.change_where(jobs, "being ended", ends)
    tally.change_where(jobs, "past its limit", (pl.col("work_us") < 1_000_000) & ~ends)
    jobs = jobs.with_columns(work_us=pl.when(ends).then(1_000_000).otherwise(pl.col("work_us").clip(1_000_000)))
    waited_s = (pl.lit(now_us, pl.Int64) - pl.col("submit_us")) / 1e6
    order = pl.struct(pl.col("submit_us").fill_null(0), "row").rank("ordinal").cast(pl.Int64)
    deadline = pl.col("deadline_us") - pl.lit(now_us, pl.Int64)
    return jobs.with_columns(
        request_us=pl.col("work_us"),
        submit_us=pl.when(runs).then(0).otherwise(order),
        deadline_us=deadline,
        **{RAN: pl.when(runs).then(pl.col("ran_us").clip(lower_bound=0))},
        **{f"{EXTRA}waited_s": pl.when(~runs & (waited_s >= 0)).then(waited_s)},
    ).drop("ran_us", f"{EXTRA}log_wait_s")


def _moment_us(now: str | None) -> int | None:
    if now is None:
        return None
    try:
        if (found := moment_s(str(now))) is not None:
            return found * 1_000_000
    except ValueError:
        pass
    raise InputError("option now", repr(now), "a time such as 2026-01-02T03:04:05")


def _standing(ours: pl.DataFrame, kept: ListingColumns, tally: Tally, running: str) -> pl.DataFrame:
    """The jobs of a snapshot, those that run on the nodes that they have, as their columns ``kept`` say.

    ``ours``: as of :func:`unrack.workload.formats.slurm.jobs.described`, with what is left of each run, and :data:`RAN`
    for how long those that run have: null of all others.
    """
    choice("running", running, RUNNING)
    ran = pl.col(RAN)
    if running == "anew":
        return ours.drop(RAN)
    hosts = kept.column("nodelist", _host_count, pl.Int64)
    ours = ours.with_columns(kept.text("nodelist").alias("on"), hosts.alias(_HOSTS))
    ours = ours.with_columns(tasks=pl.when(pl.col(STATE) == "COMPLETING").then(_HOSTS).otherwise("tasks"))
    stands = ran.is_not_null() & (pl.col(_HOSTS) == pl.col("tasks")).fill_null(False)
    tally.change_where(ours, "place not known", ran.is_not_null() & ~stands)
    ran = pl.when(stands).then(ran).otherwise(0)
    whole = {name: pl.col(name) + ran for name in ("work_us", "request_us")}
    return ours.with_columns(on=pl.when(stands).then("on"), ran_us=ran, **whole).drop(RAN, _HOSTS)


def _host_count(entry: str) -> int | None:
    return None if entry.startswith("(") or "None assigned" in entry else len(expand(entry))


def _snapshot(source: Source) -> Listing:
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
        rows.append(row | {"jobid": job_name(number, array, member, "", het, part), "jobidraw": number})
        lines.append(record.line)
    return Listing(as_frame(rows), Locator(source, lambda row: lines[row]))


def job_name(number: str, array: str, member: str, members: str, het: str, part: str) -> str:
    """The name of a job, ``101``, ``101_7``, ``101_[3-9%2]`` or ``101+1``; empty or 0: it is not said.

    It is a ``member`` of an ``array``, or stands for some ``members``; or it is a ``part`` of a heterogeneous job.

    Examples
    --------
    >>> [job_name("8", *rest, "", "") for rest in (("", "", ""), ("7", "1", ""), ("7", "", "3-9%2"))]
    ['8', '7_1', '7_[3-9%2]']
    >>> job_name("8", "0", "", "", "7", "1")
    '7+1'
    """
    if array not in ("", "0") and (listed := members or member) not in ("", "N/A"):
        return f"{array}_{listed}" if listed.isdigit() else f"{array}_[{listed.strip('[]')}]"
    return f"{het}+{part}" if het not in ("", "0", "N/A") and part not in ("", "N/A") else number


def as_frame(rows: list[dict[str, str]]) -> pl.DataFrame:
    """Rows as columns of text, in order of name."""
    names = sorted({name for row in rows for name in row}) or ["jobid"]
    return pl.DataFrame(
        [pl.Series(name, [row.get(name) or None for row in rows], pl.String).str.strip_chars() for name in names]
    )


def jobs_in(source: Source, command: str) -> list[Mapping[str, Any]]:
    """The jobs of JSON that Slurm printed, of one document or of several one after the other."""
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
    return row | {"jobid": job_name(*(said(job.get(key)) for key in keys)), "jobidraw": said(job["job_id"])}
