"""What is asked: one job for people and policies, a table of jobs for the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any, Protocol, SupportsIndex

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.errors import InputError
from unrack.facts import line, table
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_TASKS, ASKED_US
from unrack.resources.places import is_resource
from unrack.vocabulary import Need
from unrack.workload.formats.rules import Intake as Intake
from unrack.workload.formats.rules import job_facts, workload_facts
from unrack.workload.tier_asks import NO_CEILING, TierAsks, coded, first_fault
from unrack.workload.under_way import UnderWay, check_under_way, order_of
from unrack.workload.usage.curves import UsageCurves, check_usage

TASKS, CORES, MEMORY, ESTIMATE = ASKED_TASKS, ASKED_CORES, ASKED_MB, ASKED_US
"""Rows of :attr:`JobTable.asks`: tasks, and per task cores and MB; and the run time the job asked for, in µs."""
_COLUMNS = ("submit_us", "work_us", "priority", "deadline_us", "user", "app")
_PARTS = ("slo", "usage", "under_way")


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job asks for: a gang of equal tasks that start and end together.

    Attributes
    ----------
    tasks
        How many tasks, 1 or more. Each is placed whole on one node; several may share a node.
    cores, memory_mb
        Per task.
    devices
        Per task: kind of device → quantity → amount, for example ``{"nvme": {"bandwidth_mb_s": 1800}}``.
    local_mb
        Memory that must be local to the cores: a floor.
    ceiling_mb
        The most memory that is not, each MB counted with the weight of its tier; ``None`` = any.
    group, spread
        The replicas that it is one of, and the level of failure domains (rack …) of which no two of them may share one;
        ``""`` = none.
    forbidden
        Tiers that it must have no memory of.
    """

    tasks: int
    cores: int = 1
    memory_mb: int = 0
    devices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    local_mb: int = 0
    ceiling_mb: int | None = None
    group: str = ""
    spread: str = ""
    forbidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One job, as a policy sees it; it stands for its number wherever one is wanted, and equals it.

    Attributes
    ----------
    index
        Its place in the table: jobs are numbered from 0 in order of (submission, id).
    id
        The trace's own name for it.
    submit_us, request_us
        When it was submitted; how long it asked to run.
    deadline_us
        When it should be done, or ``None``.
    priority
        Larger goes first, under policies that look at it.
    user, app
        The user that submitted it, and which application or class it is; ``""`` where the trace does not say.
    demand
        What it asks for.
    said
        What a new job says of where it may run, by columns of tables of jobs: ``partition``,
        ``constraint``, ``req_nodes``, ``exc_nodes``, ``reservation``, ``account``, ``qos``; and ``nice``: of how far it
        steps back.
    components
        Of a new heterogeneous job: its other components, which start and end with it.
    """

    index: int
    id: int | str
    submit_us: int
    request_us: int
    deadline_us: int | None
    priority: int
    user: str
    app: str
    demand: Demand
    said: Mapping[str, str] = field(default_factory=dict)
    components: tuple[Job, ...] = ()

    @property
    def every(self) -> tuple[Job, ...]:
        """Itself, and its other components."""
        return self, *self.components

    def __index__(self) -> int:
        return self.index

    def __eq__(self, other: object) -> bool:
        return index(other) == self.index if isinstance(other, SupportsIndex) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.index)


class _Asks(Protocol):
    @property
    def asks(self) -> Ints:
        """int64[4, jobs]."""


class AskColumns:
    """What jobs ask for: rows of :attr:`JobTable.asks` by name."""

    @property
    def tasks(self: _Asks) -> Ints:
        """int64[jobs]: how many tasks each has, which start and end together."""
        column: Ints = self.asks[TASKS]
        return column

    @property
    def cores(self: _Asks) -> Ints:
        """int64[jobs]: cores of each task of a job."""
        column: Ints = self.asks[CORES]
        return column

    @property
    def memory_mb(self: _Asks) -> Ints:
        """int64[jobs]: MB of each task of a job."""
        column: Ints = self.asks[MEMORY]
        return column


@dataclass(frozen=True, eq=False)
class JobTable(AskColumns):
    """Jobs in columns, in order of (submission, id); row i is job i everywhere in a run.

    Jobs that run when the run begins come before all others.

    Attributes
    ----------
    ids : pl.Series, Int64 or String
        The trace's own job ids.
    submit_us, work_us : int64[jobs]
        Submission, and how long the job runs when nothing slows it down. Policies are not shown ``work_us``.
    asks : int64[4, jobs], C order
        Rows TASKS, CORES (per task), MEMORY (MB per task), ESTIMATE (requested run time in µs).
    priority : int64[jobs]
        Larger goes first.
    deadline_us : int64[jobs]
        -1 = none.
    user, app : int32[jobs]
        Indices into ``user_names`` and ``app_names``; -1 = not known.
    extra : pl.DataFrame
        Further columns of the trace, carried into the results untouched (queue, group, status …).
    devices
        Per task: (kind, quantity) → int64[jobs].
    slo
        What the jobs ask of the tiers of memory; all are then servers of one task. ``None`` = nothing.
    usage
        What tasks use of the memory that they ask for; ``None`` = all of it. Policies are not shown it.
    under_way
        Which of them run when a run begins, and where; ``None`` = none. ``work_us`` and the request are of all that
        they run; what they have run already is said here.
    """

    ids: pl.Series
    submit_us: Ints
    work_us: Ints
    asks: Ints
    priority: Ints
    deadline_us: Ints
    user: NDArray[np.int32]
    app: NDArray[np.int32]
    user_names: tuple[str, ...] = ()
    app_names: tuple[str, ...] = ()
    extra: pl.DataFrame = field(default_factory=pl.DataFrame)
    devices: Mapping[tuple[str, str], Ints] = field(default_factory=dict)
    slo: TierAsks | None = None
    usage: UsageCurves | None = None
    under_way: UnderWay | None = None

    def __len__(self) -> int:
        return len(self.submit_us)

    def __repr__(self) -> str:
        return line("JobTable", "jobs", job_facts(self))

    @property
    def says(self) -> frozenset[Need]:
        """What is said of at least one job; requested run times always are."""
        asked = {kind for (kind, _), amounts in self.devices.items() if bool((amounts > 0).any())}
        found = {
            Need.REQUESTS: True,
            Need.DEADLINES: bool((self.deadline_us >= 0).any()),
            Need.PRIORITIES: bool((self.priority != 0).any()),
            Need.USERS: bool((self.user >= 0).any()),
            Need.ACCOUNTS: "account" in self.extra.columns,
            Need.APPS: bool((self.app >= 0).any()),
            Need.MEMORY: bool((self.memory_mb > 0).any()),
            Need.DEVICES: not all(map(is_resource, asked)),
            Need.COUNTED: any(map(is_resource, asked)),
            Need.TIERS: self.slo is not None and self.slo.any,
        }
        return frozenset(need for need, said in found.items() if said)

    @property
    def request_us(self) -> Ints:
        """int64[jobs]: requested run time."""
        column: Ints = self.asks[ESTIMATE]
        return column

    @property
    def left_us(self) -> Ints:
        """int64[jobs]: how long each has to run when a run begins: its work, without what it has run already."""
        return self.work_us - self.standing.ran_us

    @property
    def standing(self) -> UnderWay:
        """As ``under_way``, of which none may run."""
        if self.under_way is not None:
            return self.under_way
        return UnderWay(pl.repeat(None, len(self), dtype=pl.String, eager=True), np.zeros(len(self), np.int64))

    def job(self, index: int) -> Job:
        """Job ``index`` as an object."""
        deadline = int(self.deadline_us[index])
        devices: dict[str, dict[str, int]] = {}
        for (kind, quantity), amounts in self.devices.items():
            devices.setdefault(kind, {})[quantity] = int(amounts[index])
        return Job(
            index=int(index),
            id=self.ids[int(index)],
            submit_us=int(self.submit_us[index]),
            request_us=int(self.asks[ESTIMATE, index]),
            deadline_us=None if deadline < 0 else deadline,
            priority=int(self.priority[index]),
            user=self.user_names[self.user[index]] if self.user[index] >= 0 else "",
            app=self.app_names[self.app[index]] if self.app[index] >= 0 else "",
            demand=self._demand(int(index), devices),
        )

    def _demand(self, index: int, devices: Mapping[str, Mapping[str, int]]) -> Demand:
        tasks, cores, memory_mb = (int(self.asks[row, index]) for row in (TASKS, CORES, MEMORY))
        if (slo := self.slo) is None:
            return Demand(tasks, cores, memory_mb, devices)
        ask = slo.of(index)
        return Demand(
            tasks,
            cores,
            memory_mb,
            devices,
            local_mb=ask.floor_mb,
            ceiling_mb=None if ask.ceiling_mb >= NO_CEILING else ask.ceiling_mb,
            group=slo.group_names[ask.group] if ask.group >= 0 else "",
            spread=ask.spread,
            forbidden=ask.forbidden,
        )

    def take(self, rows: Ints | Bools) -> JobTable:
        """A table of some of the rows, in the order given: indices or a mask."""
        index: Ints = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows, np.int64)
        columns: dict[str, Any] = {name: getattr(self, name)[index] for name in _COLUMNS}
        parts = {name: part.take(index) for name in _PARTS if (part := getattr(self, name)) is not None}
        return replace(
            self,
            ids=self.ids.gather(index),
            asks=np.ascontiguousarray(self.asks[:, index]),
            extra=self.extra[index] if self.extra.width else self.extra,
            devices={key: amounts[index] for key, amounts in self.devices.items()},
            **columns,
            **parts,
        )

    def digest(self) -> str:
        """SHA-256 over everything in the table: equal tables give equal digests on any machine."""
        total = hashlib.sha256()
        for column in (self.submit_us, self.work_us, self.asks, self.priority, self.deadline_us, self.user, self.app):
            total.update(np.ascontiguousarray(column).astype("<i8").tobytes())
        for key in sorted(self.devices):
            total.update(repr(key).encode())
            total.update(self.devices[key].astype("<i8").tobytes())
        total.update("\x1f".join(map(str, self.ids.to_list())).encode())
        total.update(repr((self.user_names, self.app_names)).encode())
        total.update(self.extra.write_csv().encode())
        for part in (self.slo, self.usage, self.under_way):
            if part is not None:
                part.add_to(total)
        return total.hexdigest()


def job_table(
    *,
    submit_us: Ints,
    work_us: Ints,
    tasks: Ints,
    ids: pl.Series | None = None,
    request_us: Ints | None = None,
    cores: Ints | None = None,
    memory_mb: Ints | None = None,
    priority: Ints | None = None,
    deadline_us: Ints | None = None,
    user: pl.Series | None = None,
    app: pl.Series | None = None,
    extra: pl.DataFrame | None = None,
    devices: Mapping[tuple[str, str], Ints] | None = None,
    slo: TierAsks | None = None,
    usage: UsageCurves | None = None,
    under_way: UnderWay | None = None,
) -> JobTable:
    """Build a table from columns in any order of rows: puts them into that of ``order_of`` and fills in the rest.

    Defaults: ids 1, 2, 3 … in the order given; the request equals the work; one core and no memory per task; priority
    0; no deadline, user or app; nothing asked of tiers of memory. ``user`` and ``app`` may hold any values; null = not
    known.

    Raises
    ------
    InputError
        ``slo`` asks for what cannot be: :func:`unrack.workload.tier_asks.first_fault`; or a job that runs when the run
        begins could not: :func:`unrack.workload.under_way.check_under_way`.
    """
    count = len(submit_us)

    def column(values: Ints | None, default: int) -> Ints:
        return np.full(count, default, np.int64) if values is None else np.asarray(values, np.int64)

    ids = pl.Series("job", np.arange(1, count + 1), dtype=pl.Int64) if ids is None else ids.alias("job")
    user_codes, user_names = coded(user, count)
    app_codes, app_names = coded(app, count)
    work = column(work_us, 0)
    request = work if request_us is None else column(request_us, 0)
    asks = np.stack(np.broadcast_arrays(column(tasks, 1), column(cores, 1), column(memory_mb, 0), request))
    table = JobTable(
        ids=ids,
        submit_us=column(submit_us, 0),
        work_us=work,
        asks=asks,
        priority=column(priority, 0),
        deadline_us=column(deadline_us, -1),
        user=user_codes.astype(np.int32),
        app=app_codes.astype(np.int32),
        user_names=user_names,
        app_names=app_names,
        extra=pl.DataFrame() if extra is None else extra,
        devices={} if devices is None else dict(devices),
        slo=slo,
        usage=usage,
        under_way=under_way,
    )
    if usage is not None:
        check_usage(usage, table.tasks)
    if slo is not None and (fault := first_fault(slo, table.tasks, table.memory_mb)) is not None:
        raise InputError(f"job {ids[fault.row]}, {fault.field}", fault.got, fault.want)
    check_under_way(table)
    return table.take(order_of(table))


@dataclass(frozen=True)
class Workload:
    """Jobs with a name and a record of where they came from.

    Attributes
    ----------
    name
        What reports call it.
    jobs
        The jobs.
    intake
        What was read, dropped and changed.
    """

    name: str
    jobs: JobTable
    intake: Intake

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        return line("Workload", self.name, workload_facts(self))

    def _repr_html_(self) -> str:
        return table("Workload", self.name, workload_facts(self))
