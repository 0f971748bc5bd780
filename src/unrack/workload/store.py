"""The jobs of a run as they arrive: the rows of a table, one after the other, or new jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.errors import InputError, RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import grown, room_for
from unrack.sealed import sealed
from unrack.workload.job import MEMORY, TASKS, Demand, Job, JobTable
from unrack.workload.tier_asks import BETWEEN, NO_CEILING, TierAsks, first_fault, tier_asks


class JobStore:
    """Jobs in columns that grow.

    It begins with the rows of a table, which are shown only when they are submitted, and takes further jobs behind
    them. How many have been submitted is the ledger's to say. Of ``submit_us``, ``priority`` and ``deadline_us``
    (int64[room], read-only, as in :class:`unrack.workload.job.JobTable`) the first ``count`` count; ``slo`` has
    ``count`` rows.
    """

    def __init__(self, base: JobTable) -> None:
        self.base = base
        self.count = len(base)
        self.slo = base.slo
        self.came_late = False  # whether a job came at another time than its table says: their order is another
        self._arrived: list[Job] = []
        self._rows = np.stack([base.submit_us, base.priority, base.deadline_us])
        self._numbers: dict[str, Numbers] = {}  # of users and applications, once they are asked for
        self._show()

    def _show(self) -> None:
        rows = sealed(self._rows)
        self.submit_us: Ints = rows[0]
        self.priority: Ints = rows[1]
        self.deadline_us: Ints = rows[2]

    def add(self, job: Job, row: JobTable) -> None:
        """Take a job, of which ``row`` is :func:`one_row`, behind the others; its ``index`` becomes the next one."""
        if self.count == self._rows.shape[1]:
            self._rows = grown(self._rows, room_for(self.count + 1, self.count))
        self._rows[:, self.count] = job.submit_us, job.priority, int(row.deadline_us[0])
        self._show()
        if self.slo is not None or row.slo is not None:
            self.slo = _joined(self.slo, self.count, row.slo)
        self._arrived.append(replace(job, index=self.count))
        self.count += 1
        for of, numbers in self._numbers.items():
            numbers.note(getattr(job, of), self.count - 1)

    def comes(self, job: int, now: int) -> None:
        """A job of the table comes at another time than that says, µs."""
        self._rows[0, job], self.came_late = now, True

    @property
    def user(self) -> Ints:
        """int64[room]: the number of each job's user, in the order in which users first submit; -1: not known."""
        return self._numbered("user", self.base.user, self.base.user_names)

    @property
    def app(self) -> Ints:
        """int64[room]: the number of each job's application, in the order in which they first come; -1: not known."""
        return self._numbered("app", self.base.app, self.base.app_names)

    def _numbered(self, of: str, codes: NDArray[np.int32], names: tuple[str, ...]) -> Ints:
        if of not in self._numbers:
            self._numbers[of] = Numbers(codes, names, [getattr(job, of) for job in self._arrived])
        return self._numbers[of].seen

    def job(self, index: int) -> Job:
        """A job as an object."""
        known = len(self.base)
        job = self.base.job(index) if index < known else self._arrived[index - known]
        return replace(job, submit_us=int(self.submit_us[index])) if self.came_late else job

    def column(self, name: str, count: int) -> pl.Series:
        """A further column of the table, of the first ``count`` jobs; null for those that came later."""
        extra = self.base.extra
        if name not in extra.columns:
            raise KeyError(f"the trace has no column {name!r} (it has {', '.join(extra.columns) or 'none'})")
        found = extra[name].head(count)
        return found if len(found) == count else found.extend_constant(None, count - len(found))


class Numbers:
    """Names of jobs as numbers, in the order in which they first come: ``seen``, int64[room], read-only; -1: no name.

    ``codes``: int32[jobs], of the first jobs, indices into ``names``. ``others``: the names of the jobs behind them;
    ``""``: no name.
    """

    def __init__(self, codes: NDArray[np.int32], names: tuple[str, ...], others: list[str]) -> None:
        every, first = np.unique(codes, return_index=True)
        every = every[np.argsort(first)]
        every = every[every >= 0]
        numbers = np.full(len(names) + 1, -1, np.int64)
        numbers[every] = np.arange(len(every))
        self._column: Ints = numbers[codes]
        self._numbers = {names[code]: number for number, code in enumerate(every.tolist())}
        self.seen: Ints = sealed(self._column)
        for i, name in enumerate(others):
            self.note(name, len(codes) + i)

    def note(self, name: str, job: int) -> None:
        """Number a job that has arrived."""
        if job >= len(self._column):
            self._column = grown(self._column, room_for(job + 1, job), -1)
            self.seen = sealed(self._column)
        self._column[job] = self._numbers.setdefault(name, len(self._numbers)) if name else -1


def one_row(job: Job, work_us: int | None) -> JobTable:
    """A job as a table of one row; ``work_us``: how long it runs at speed 1, by default as long as it asks for.

    A job that asks for something below 0, or for no task, is refused.
    """
    demand = job.demand
    amounts = [
        demand.cores,
        demand.memory_mb,
        job.request_us,
        *(a for of in demand.devices.values() for a in of.values()),
    ]
    if demand.tasks < 1 or min(amounts) < 0:
        raise RefusedError(f"submit job {job.id}: it asks for no task, or for less than nothing ({demand})")

    slo = _asks_of(demand)
    work_us = job.request_us if work_us is None else work_us
    asks = np.array([[demand.tasks], [demand.cores], [demand.memory_mb], [job.request_us]], np.int64)
    if slo is not None and (fault := first_fault(slo, asks[TASKS], asks[MEMORY])) is not None:
        raise InputError(f"job {job.id}, {fault.field}", fault.got, fault.want)
    return JobTable(
        ids=pl.Series("job", [job.id]),
        submit_us=_one(job.submit_us),
        work_us=_one(work_us),
        asks=asks,
        priority=_one(job.priority),
        deadline_us=_one(-1 if job.deadline_us is None else job.deadline_us),
        user=np.array([0 if job.user else -1], np.int32),
        app=np.array([0 if job.app else -1], np.int32),
        user_names=(job.user,) if job.user else (),
        app_names=(job.app,) if job.app else (),
        devices={(kind, name): _one(amount) for kind, of in demand.devices.items() for name, amount in of.items()},
        extra=pl.DataFrame({name: [text] for name, text in job.said.items() if text}),
        slo=slo,
    )


def _one(value: int) -> Ints:
    return np.array([value], np.int64)


def _asks_of(demand: Demand) -> TierAsks | None:
    if demand.ceiling_mb is None and not (demand.local_mb or demand.group or demand.spread or demand.forbidden):
        return None

    def text(value: str) -> pl.Series:
        return pl.Series([value or None], dtype=pl.String)

    ceiling = NO_CEILING if demand.ceiling_mb is None else demand.ceiling_mb
    return tier_asks(
        np.array([demand.local_mb], np.int64),
        np.array([ceiling], np.int64),
        group=text(demand.group),
        spread=text(demand.spread),
        forbidden=text(BETWEEN.join(demand.forbidden)),
    )


def _joined(first: TierAsks | None, count: int, last: TierAsks | None) -> TierAsks:
    """The asks of ``count`` jobs and of one more; names keep their numbers."""
    first = tier_asks(np.zeros(count, np.int64)) if first is None else first
    last = tier_asks(np.zeros(1, np.int64)) if last is None else last

    def names(of_first: tuple[str, ...], of_last: tuple[str, ...]) -> tuple[str, ...]:
        return (*of_first, *(name for name in of_last if name not in of_first))

    groups = names(first.group_names, last.group_names)
    spreads = names(first.spread_names, last.spread_names)
    tiers = names(first.tier_names, last.tier_names)
    forbidden = np.zeros((count + 1, len(tiers)), np.bool_)
    forbidden[:count, : first.forbidden.shape[1]] = first.forbidden
    forbidden[count, [tiers.index(name) for name in last.forbidden_of(0)]] = True
    group = groups.index(last.group_names[0]) if last.group[0] >= 0 else -1
    spread = spreads.index(last.spread_names[0]) if last.spread[0] >= 0 else -1
    return TierAsks(
        np.append(first.floor_mb, last.floor_mb),
        np.append(first.ceiling_mb, last.ceiling_mb),
        np.append(first.group, group),
        np.append(first.spread, spread),
        forbidden,
        groups,
        spreads,
        tiers,
    )
