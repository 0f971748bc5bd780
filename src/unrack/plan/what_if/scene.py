"""A moment of a system: its nodes, its jobs, its policy; read from a study, with changes of keys."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError
from unrack.ledger.lease import FIRST, NODES, TASKS
from unrack.plan.settings import values_of
from unrack.policy.contract import Policy
from unrack.resources.places import is_resource
from unrack.resources.site.installed import Site
from unrack.sim.log import RunLog
from unrack.sim.simulate import prepared
from unrack.sim.world import World
from unrack.study.grid import Sources, runs_of
from unrack.study.input.file import StudyTable
from unrack.study.input.inputs import Document, PolicySpec, written_out
from unrack.study.input.sweep import set_value
from unrack.units import SECOND_US, seconds_text
from unrack.workload.formats.asks.columns import COLUMNS
from unrack.workload.formats.asks.dependencies import parts_of, waits_for
from unrack.workload.formats.intake import DEVICE
from unrack.workload.formats.source import Source as TraceSource
from unrack.workload.formats.table.read import read_table
from unrack.workload.formats.writers import as_frame
from unrack.workload.job import CORES, ESTIMATE, JobTable
from unrack.workload.site.graph import After, graph_of
from unrack.workload.standing import said_on
from unrack.workload.under_way import UnderWay, order_of

SOON_US = SECOND_US
"""Jobs that are submitted so soon after the beginning are the queue of now. Starts that are less apart are equal."""
Change = tuple[str, Any] | Callable[[dict[str, Any]], dict[str, Any]]
"""A dotted key of the study, as of ``[sweep]``, and its value; or what makes another content of the cluster file."""
_TOO_MANY = 10**8
"""Cores that no node has."""
_NOT_OF_A_MOMENT = ("sweep", "plan", "measure", "spare")


@dataclass(frozen=True, eq=False)
class Scene:
    """A moment, and how it goes on."""

    cluster: Cluster
    jobs: JobTable
    spec: PolicySpec
    policy: Policy[Any]
    seed: int
    world: World
    notes: tuple[str, ...] = ()

    @property
    def now_us(self) -> int:
        """The moment itself, µs."""
        return int(self.jobs.submit_us[0]) if len(self.jobs) else 0

    @property
    def queued(self) -> int:
        """How many of the first rows are there now: jobs that run, and then those that wait."""
        return int(np.searchsorted(self.jobs.submit_us, self.now_us + SOON_US))

    @property
    def runs(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """bool[jobs]: which run now."""
        return self.jobs.standing.runs.copy()

    def number(self, job: str, option: str) -> int:
        """The row of a job by its id; an InputError if there is none."""
        found = np.flatnonzero(np.array(list(map(str, self.jobs.ids.to_list()))) == job)
        if not len(found):
            some = ", ".join(map(str, self.jobs.ids.head(5).to_list()))
            raise InputError(option, repr(job), f"a job of the {len(self.jobs)} that there are: {some} …")
        return int(found[0])

    def lost_core_h(self, row: int) -> float:
        """The work that is lost if a job is stopped, core-hours."""
        jobs = self.jobs
        return int(jobs.standing.ran_us[row]) * int(jobs.tasks[row] * jobs.cores[row]) / 3.6e9

    def partitions(self) -> list[str]:
        """The partitions of its site."""
        site = self.cluster.places.installed.get("site")
        return list(site.partitions) if isinstance(site, Site) else []


class StudySource:
    """The study from which scenes are made; its trace is read once.

    Parameters
    ----------
    document
        The study.
    policy
        In place of its first.
    left_out
        A job of it that is in no scene, so that there may be none; ``""``: all are.
    """

    def __init__(self, document: Document, policy: str | None = None, left_out: str = "") -> None:
        self.document, self.left_out = document, left_out
        self._sources = Sources(document)
        first = {key: value for key, value in document.table.items() if key not in _NOT_OF_A_MOMENT}
        whole = document.validated(StudyTable, first)
        for key in ("clusters", "workloads", "policies"):
            first[key] = list(first[key][:1]) if isinstance(first.get(key), list) else first.get(key)
        self.table = first | ({} if policy is None else {"policies": [policy]})
        self.seed = whole.seeds[0]

    def scene(self, changes: Sequence[Change] = (), spare: bool = False) -> Scene:
        """The moment, with changes.

        Parameters
        ----------
        changes
            Of the study.
        spare
            Whether what the system has beyond what its jobs ask for (the study's table ``spare``) is there.

        Raises
        ------
        InputError
            The study, or one of the changes, cannot be.
        """
        table = copy.deepcopy(self.table)
        clusters = table["clusters"]
        if spare and "spare" in self.document.table:
            clusters[0] = _with_spare(written_out(clusters[0], self.document, 0), self.document.table["spare"])
        for change in changes:
            if callable(change):
                with self.document.part("clusters", 0, kind=ClusterError):
                    clusters[0] = change(written_out(clusters[0], self.document, 0))
            elif not set_value(table, *change, self.document):
                got, want = repr(change[0]), "a key of this study, such as clusters.0.site.limits.0.amounts.cores"
                raise InputError("--set", got, want)
        whole = self.document.validated(StudyTable, table)
        run = next(iter(runs_of(whole, [self.seed], {}, self._sources, (0, 0))))
        jobs = run.workload.jobs
        if self.left_out:
            jobs = jobs.take((jobs.ids != self.left_out).to_numpy())
        return Scene(run.cluster, jobs, run.policy, run.policy.make(), run.seed, run.world)


def _with_spare(cluster: dict[str, Any], spare: Mapping[str, Any]) -> dict[str, Any]:
    lists = {key: [*cluster.get(key, []), *value] for key, value in spare.items() if isinstance(value, list)}
    return {**spare, **cluster, **lists}


def read_set(text: str) -> tuple[str, Any]:
    """A change of a key, ``KEY=VALUE``; an InputError if it is none."""
    key, equals, value = text.partition("=")
    values = values_of([value.strip()] if not value.strip() else value.strip(), "--set") if equals else ()
    if not key.strip() or not value.strip() or len(values) != 1:
        raise InputError("--set", repr(text), "KEY=VALUE, such as clusters.0.site.queues.0.quotas.0.nominal.cores=64")
    return key.strip(), values[0]


FORGOTTEN = "Ages of waiting jobs, and what was used before, are forgotten."


def state_at(scene: Scene, time_us: int) -> tuple[Scene, JobTable]:
    """The state of a run at a time: what runs stays where it is, what waits is in the queue; later jobs are unknown.

    Returns
    -------
    Scene, JobTable
        The moment, and the jobs that were over by then.

    Raises
    ------
    InputError
        There is no job then, or what happened before is nothing to begin from.
    """
    when = seconds_text(time_us / SECOND_US)
    if scene.runs.any():
        raise InputError("--at", when, "no time for a study that begins with running jobs: it is a moment already")
    if any(fault.at_us <= time_us for fault in scene.world.faults):
        raise InputError("--at", f"{when}, after failures of nodes", "a time before the first failure")
    jobs = _among_themselves(scene.jobs.take(scene.jobs.submit_us <= time_us))
    log = prepared(scene.cluster, jobs, scene.policy, scene.seed, scene.world).run()
    began, ends = log.attempt_start_us <= time_us, log.attempt_end_us > time_us
    running = {int(log.attempt_job[i]): int(i) for i in np.flatnonzero(began & ends)}
    later = set(log.attempt_job[~began].tolist())
    over = set(log.attempt_job[began & ~ends].tolist()) - running.keys() - later
    over |= log.reasons.keys() - set(log.attempt_job.tolist())  # turned away
    waits = [job for job in range(len(jobs)) if job not in over and job not in running]
    if not running and not waits:
        raise InputError("--at", when, "a time at which jobs run or wait")
    for job, why in _unlike_a_beginning(log, running, over, time_us).items():
        raise InputError("--at", f"{when}, when job {jobs.ids[job]} {why}", "a time at which no job does")
    submit, ran = jobs.submit_us.copy(), np.zeros(len(jobs), np.int64)
    on: list[str | None] = [None] * len(jobs)
    for job, attempt in running.items():
        on[job] = _on(scene.cluster, log, attempt, time_us)
        submit[job], ran[job] = time_us, time_us - log.attempt_start_us[attempt]
    submit[waits] = time_us + 1
    least = ran + SECOND_US * (ran > 0)  # a job that overruns what it asks ends soon
    asks = jobs.asks.copy()
    asks[ESTIMATE] = np.maximum(asks[ESTIMATE], least)
    under_way = UnderWay(pl.Series(on, dtype=pl.String), ran) if running else None
    extra, work_us = _with_delays(jobs, log, over), np.maximum(jobs.work_us, least)
    moved = replace(jobs, submit_us=submit, work_us=work_us, asks=asks, under_way=under_way, extra=extra)
    moved = _among_themselves(moved.take(np.array([job for job in range(len(jobs)) if job not in over], np.int64)))
    ended = jobs.take(np.array(sorted(over), np.int64))
    return replace(scene, jobs=moved.take(order_of(moved)), notes=(FORGOTTEN,)), ended


def _among_themselves(jobs: JobTable) -> JobTable:
    """Jobs that wait for no others than these."""
    left = waits_for(jobs.ids, jobs.extra.to_dict())
    return jobs if left is None else replace(jobs, extra=jobs.extra.with_columns(**left.columns))


def _with_delays(jobs: JobTable, log: RunLog, over: Container[int]) -> pl.DataFrame:
    """The further columns of jobs, of which some begin a time after others that are over."""
    if (graph := graph_of(jobs)) is None:
        return jobs.extra
    begin_us, began, ended = graph.begin_us.copy(), *np.zeros((2, len(jobs)), np.int64)
    began[log.attempt_job], ended[log.attempt_job] = log.attempt_start_us, log.attempt_end_us
    for job, waits in graph.waits.items():
        for ways in waits:
            met = [(began if kind == After.START else ended)[one] + more for one, kind, more in ways if one in over]
            begin_us[job] = max(begin_us[job], min(met, default=0))
    return jobs.extra.with_columns(begin_s=begin_us / SECOND_US)


def _span_at(log: RunLog, attempt: int, time_us: int) -> int:
    spans = range(int(log.attempt_spans[attempt]), int(log.attempt_spans[attempt + 1]))
    return max((one for one in spans if log.span_start_us[one] <= time_us), default=spans[0])


def _unlike_a_beginning(log: RunLog, running: Mapping[int, int], over: Container[int], time_us: int) -> dict[int, str]:
    """Job → what a run that begins with it, as it is at a time, would have wrong of it.

    A run begins with jobs that have their own size on memory of their own, and have done as much work as they ran for.
    ``running``: job → its attempt; ``over``: the jobs that are.
    """
    ran_us = log.attempt_end_us - log.attempt_start_us
    found = {
        int(log.attempt_job[one]): "keeps work that it did before it was stopped" for one, stop in log.preempted.items()
        if log.attempt_end_us[one] <= time_us and ran_us[one] > stop.lost_us and log.attempt_job[one] not in over
    }  # fmt: skip
    for job, attempt in running.items():
        span = _span_at(log, attempt, time_us)
        rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]]
        for why, wrong in (
            ("is slowed down", ran_us[attempt] > log.jobs.work_us[job]),
            ("has another size than its own", (rows[:, NODES] * rows[:, TASKS]).sum() != log.jobs.tasks[job]),
            ("holds memory of other nodes", log.span_loans[span] < log.span_loans[span + 1]),
            ("is suspended, or was", any(one.at_us <= time_us for one in log.suspended.get(job, ()))),
        ):
            if wrong:
                found[job] = why
    return found


def _on(cluster: Cluster, log: RunLog, attempt: int, time_us: int) -> str:
    """The nodes of an attempt at a time, as the column ``on`` has them."""
    span, tasks = _span_at(log, attempt, time_us), dict[int, int]()
    for row in log.rows[log.span_rows[span] : log.span_rows[span + 1]].tolist():
        for node in range(row[FIRST], row[FIRST] + row[NODES]):
            tasks[node] = tasks.get(node, 0) + row[TASKS]
    names = cluster.names or tuple(map(str, range(len(cluster))))
    return ",".join(said_on([names[node] for node in sorted(tasks)], [tasks[node] for node in sorted(tasks)]))


Columns = Mapping[str, Any]
"""A job as columns of a table of jobs, with ``request`` in s; what it does not say is left out."""
NEW = "asked"
"""What a job is called that has no name."""


def columns_of(jobs: JobTable, row: int) -> dict[str, Any]:
    """A job as columns."""
    found = as_frame(jobs.take(np.array([row])), numbers=True).cast({"id": pl.String}).row(0, named=True)
    passed = {"submit", "run", "on", "ran", *jobs.extra.columns} - COLUMNS.keys()
    found = {name.removeprefix(DEVICE): value for name, value in found.items() if name not in passed}
    return {name: value for name, value in found.items() if value not in (None, "", 0)}


def with_jobs(scene: Scene, asked: Sequence[Columns], submit_us: int | None = None) -> Scene:
    """The scene with further jobs, which are submitted at a time; ``None``: now, behind those that wait.

    Raises
    ------
    InputError
        A job asks for something that cannot be, or the jobs of the study ask for what single rows do not have.
    """
    jobs = scene.jobs
    if jobs.slo is not None or jobs.usage is not None:
        got = "jobs that ask for tiers of memory" if jobs.slo is not None else "jobs of known use of memory"
        raise InputError("what-if", got, "jobs that ask for cores, memory, and what is counted")
    if not asked:
        return scene
    last_us = int(jobs.submit_us[scene.queued - 1]) if len(jobs) else 0
    at_us = [last_us + place if submit_us is None else submit_us for place in range(1, len(asked) + 1)]
    rows = [_row(columns, at / SECOND_US, scene) for columns, at in zip(asked, at_us, strict=True)]
    there = as_frame(jobs, numbers=True).cast({"id": pl.String})
    frame = pl.concat([there, pl.DataFrame(rows)], how="diagonal_relaxed")
    frame.write_parquet(buffer := io.BytesIO())
    read = read_table(TraceSource("what-if", buffer.getvalue()), overrun="keep")
    for columns in (one for one in asked if "dependency" in one):
        kept, said = read.jobs.extra.filter(read.jobs.ids == columns["id"])["dependency"][0], columns["dependency"]
        if "dependency not there" in read.intake.changed or len(parts_of(kept or "")) < len(parts_of(said)):
            raise InputError(f"job {columns['id']}, dependency", repr(said), "jobs that there are, such as afterok:12")
    return replace(scene, jobs=read.jobs)


def stopped(scene: Scene, end: list[int], again: list[int]) -> Scene:
    """The scene in which some jobs are cancelled, so that they never start, and others queued again behind all."""
    jobs, asks, submit_us = scene.jobs, scene.jobs.asks.copy(), scene.jobs.submit_us.copy()
    submit_us[again] = submit_us[scene.queued - 1] + 1 + np.arange(len(again))
    asks[CORES, end], submit_us[end] = _TOO_MANY, scene.now_us
    runs = scene.runs
    runs[[*end, *again]] = False
    on = pl.select(pl.when(pl.Series(runs)).then(jobs.standing.on)).to_series()
    under_way = UnderWay(on, np.where(runs, jobs.standing.ran_us, 0)) if runs.any() else None
    jobs = replace(jobs, asks=asks, submit_us=submit_us, under_way=under_way)
    return replace(scene, jobs=jobs.take(order_of(jobs)))


def without(scene: Scene, rows: Sequence[int]) -> Scene:
    """The scene without some of its jobs."""
    return replace(scene, jobs=scene.jobs.take(np.setdiff1d(np.arange(len(scene.jobs)), rows)))


def _row(columns: Columns, submit_s: float, scene: Scene) -> dict[str, Any]:
    known = {kind for kind, _ in scene.cluster.devices.named} | set(scene.cluster.places.installed)
    for name in columns:
        kind, dot, quantity = name.partition(".")
        there = (kind, quantity) in scene.cluster.devices.named or (kind, quantity) in scene.cluster.places.quantities
        if dot and not there:
            what = "a resource" if is_resource(kind) and kind not in known else "a quantity"
            raise InputError(f"job {columns['id']}, {name}", f"{what} that this system does not have", _there(scene))
    one = {DEVICE * ("." in name) + name: value for name, value in columns.items()}
    return {**one, "submit": submit_s, "run": columns["request"]}


def _there(scene: Scene) -> str:
    pairs = sorted({*scene.cluster.devices.named, *scene.cluster.places.quantities})
    names = [".".join(pair) for pair in pairs if pair[0] not in ("site", "power")]  # which no job asks for by name
    return f"one of {', '.join(names)}" if names else "cores and memory alone: nothing else is counted"
