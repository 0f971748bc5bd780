"""Jobs that wait and run now, as ``squeue`` and ``scontrol show job`` tell of them: what a run starts from."""

from __future__ import annotations

import os
from collections.abc import Mapping

import polars as pl

from unrack.errors import InputError
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.states import HOLDING, WAITING
from unrack.slurm_text.times import moment_s
from unrack.workload.formats.intake import EXTRA, RUNNING, Tally, workload
from unrack.workload.formats.limits import UNLIMITED, limit_us, limits_us, with_limits
from unrack.workload.formats.quantities import choice
from unrack.workload.formats.slurm.asked import Choices
from unrack.workload.formats.slurm.jobs import RAN, STATE, at_rows, described, identified, timed
from unrack.workload.formats.slurm.listing import Listing
from unrack.workload.formats.slurm.parsing import Columns
from unrack.workload.formats.slurm.snapshots import COMMAND, snapshot
from unrack.workload.formats.source import Locator, Source, load
from unrack.workload.job import Workload

_HOSTS = "hosts"
LONGEST_US = 7 * 86_400_000_000
_HELD = r"(?i)held|dependency|begintime|reservation|deadline"
_NEEDED = (("jobid", "jobidraw"), ("state",), ("ncpus", "reqtres", "alloctres"), ("timelimit", "timeleft"))


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
    path
        The file.
    memory
        ``"requested"`` or ``"ignore"``.
    gpus, gres, licences
        As in :func:`unrack.workload.formats.slurm.sacct.read_sacct`.
    held
        Jobs that are held or wait for something else than resources: ``"drop"`` or ``"keep"``.
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

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or has a value that cannot be.
    InputError
        An option has a value it cannot have.
    """
    for option, value, allowed in (("memory", memory, ("requested", "ignore")), ("held", held, ("drop", "keep"))):
        if value not in allowed:
            raise InputError(f"option {option}", repr(value), f"one of {', '.join(allowed)}")
    choices = Choices("allocated", memory, gpus, gres or {}, licences)
    longest_us, now_us = limit_us("unlimited", unlimited), _moment_us(now)
    by_partition = limits_us(limits or {})
    source = load(path)
    found = snapshot(source)
    for needed in _NEEDED:
        if not set(needed) & set(found.frame.columns):
            raise source.fault(None, f"column {' or '.join(needed)}", "no such column", COMMAND)
    tally = Tally()
    jobs = timed(found.frame.with_row_index("row"), found, "submit")
    read = jobs.height
    ours, more, header = begun(jobs, found, choices, tally, running, held == "drop", longest_us, now_us, by_partition)
    return workload(source, "slurm-queue", read + more, ours, tally, "keep", header)


def begun(
    jobs: pl.DataFrame, found: Listing, choices: Choices, tally: Tally, running: str, drop_held: bool = True,
    longest_us: int = LONGEST_US, now_us: int | None = None, by_partition: Mapping[str, int] | None = None,
) -> tuple[pl.DataFrame, int, dict[str, str]]:  # fmt: skip
    """The columns of a workload that begins with what runs; how many jobs lists of members add; what it says of itself.

    Parameters
    ----------
    jobs
        Rows of the listing, as of :func:`unrack.workload.formats.slurm.jobs.timed`.
    running, drop_held, longest_us, now_us, by_partition
        As the options of :func:`read_queue`.
    """
    columns = Columns(jobs, at_rows(found, jobs))
    jobs = jobs.with_columns(left_us=columns.span_us("timeleft"), held=_held(columns, jobs))
    latest = latest_us(columns, jobs) if now_us is None else now_us
    jobs = tally.drop(jobs, "already over", ~pl.col(STATE).is_in(HOLDING | WAITING))
    if drop_held:
        jobs = tally.drop(jobs, "held back", pl.col("held"))
    unsaid = jobs["request_us"].is_null() & jobs["left_us"].is_null()
    partition = Columns(jobs, at_rows(found, jobs)).text("partition")
    jobs = with_limits(jobs, unsaid, partition, by_partition or {}, longest_us, tally).drop("endless")
    jobs = until_the_limit(jobs, latest, longest_us, tally)
    kept = identified(jobs.drop("left_us", "held"), found, tally)
    ours = described(kept, found, None, choices, tally)
    at = at_rows(found, kept)
    ours = standing(ours, Columns(kept, at).text("nodelist"), at, tally, running)
    if "log_priority" in (name.removeprefix(EXTRA) for name in ours.columns):
        ours = ours.rename({f"{EXTRA}log_priority": "priority"})
        ours = ours.with_columns(pl.col("priority").cast(pl.Int64, strict=False).clip(-(2**53), 2**53))
    where = "on their nodes" if running == "kept" else "placed anew"
    words = f"jobs that run are {where} from the start, with the time that they have left; {choices.memory} memory"
    header = {"Columns": words} | ({} if latest is None else {"UnixStartTime": str(latest // 1_000_000)})
    return ours, kept.height - jobs.height, header


def _held(columns: Columns, jobs: pl.DataFrame) -> pl.Series:
    """Which jobs wait for something else than resources."""
    reason = pl.select(pl.coalesce(columns.text("reason"), columns.text("nodelist"))).to_series()
    return reason.str.contains(_HELD).fill_null(False) & jobs[STATE].is_in(list(WAITING)).fill_null(False)


def latest_us(columns: Columns, jobs: pl.DataFrame) -> int | None:
    """When the snapshot was taken, µs since 1970, as far as it tells."""
    runs = jobs.filter(pl.col(STATE) == "RUNNING")
    sums = (runs["start_us"] + runs["work_us"]).drop_nulls()
    if len(sums) and ("elapsed" in columns or "elapsedraw" in columns):
        return int(sums.max())  # type: ignore[arg-type]
    seen = [columns.moment_us(name).max() for name in ("submit", "lastschedeval")]
    seen.append(jobs.filter(pl.col(STATE).is_in(HOLDING))["start_us"].max())
    return max((int(one) for one in seen if isinstance(one, int)), default=None)


def until_the_limit(jobs: pl.DataFrame, now_us: int | None, longest_us: int, tally: Tally) -> pl.DataFrame:
    """Run times and requests: what is left of the limit, and for those that wait all of it; submitted in this order."""
    runs, limit = pl.col(STATE).is_in(HOLDING), pl.col("request_us")
    tally.change_where(jobs, "holds from the start", runs)
    ran = pl.coalesce("ran_us", pl.lit(now_us, pl.Int64) - pl.col("start_us"), pl.lit(0, pl.Int64))
    has_run = pl.col("work_us") if {"elapsed", "elapsedraw"} & set(jobs.columns) else pl.lit(None, pl.Int64)
    jobs = jobs.with_columns(ran_us=has_run).with_columns(ran_us=ran)
    left = pl.coalesce("left_us", limit.fill_null(longest_us) - pl.col("ran_us"))
    jobs = jobs.with_columns(work_us=pl.when(runs).then(left).otherwise(limit.fill_null(longest_us)))
    ends = pl.col(STATE) == "COMPLETING"
    tally.change_where(jobs, "being ended", ends)
    tally.change_where(jobs, "past its limit", (pl.col("work_us") < 1_000_000) & ~ends)
    jobs = jobs.with_columns(work_us=pl.when(ends).then(0).otherwise("work_us"))
    jobs = jobs.with_columns(pl.col("work_us").clip(lower_bound=1_000_000))
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


def standing(ours: pl.DataFrame, nodes: pl.Series, at: Locator, tally: Tally, running: str) -> pl.DataFrame:
    """The jobs of a snapshot, those that run on the nodes that they have.

    Parameters
    ----------
    ours
        As of :func:`unrack.workload.formats.slurm.jobs.described`, with what is left of each run, and :data:`RAN` for
        how long those that run have: null of all others.
    nodes
        What is said of the nodes of each.
    at
        Where the rows are.
    running
        ``"kept"`` or ``"anew"``.

    Raises
    ------
    TraceError
        What is said of the nodes is no list of hosts.
    """
    choice("running", running, RUNNING)
    ran = pl.col(RAN)
    if running == "anew":
        return ours.drop(RAN)
    hosts = Columns(pl.DataFrame([nodes.alias("nodelist")]), at).column("nodelist", _host_count, pl.Int64)
    ours = ours.with_columns(nodes.alias("on"), hosts.alias(_HOSTS))
    ours = ours.with_columns(tasks=pl.when(pl.col(STATE) == "COMPLETING").then(_HOSTS).otherwise("tasks"))
    stands = ran.is_not_null() & (pl.col(_HOSTS) == pl.col("tasks")).fill_null(False)
    tally.change_where(ours, "place not known", ran.is_not_null() & ~stands)
    ran = pl.when(stands).then(ran).otherwise(0)
    whole = {name: pl.col(name) + ran for name in ("work_us", "request_us")}
    return ours.with_columns(on=pl.when(stands).then("on"), ran_us=ran, **whole).drop(RAN, _HOSTS)


def _host_count(entry: str) -> int | None:
    return None if entry.startswith("(") or "None assigned" in entry else len(expand(entry))
