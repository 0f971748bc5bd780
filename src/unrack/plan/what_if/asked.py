"""Jobs as rows of columns: those that are asked about, those that ask for something else, those that are not there."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from unrack.errors import InputError
from unrack.kernels.arrays import Ints
from unrack.plan.what_if.scene import Scene
from unrack.resources.places import is_resource
from unrack.units import SECOND_US
from unrack.workload.formats.asks.columns import COLUMNS
from unrack.workload.formats.source import Source
from unrack.workload.formats.table.read import read_table
from unrack.workload.job import ESTIMATE, JobTable
from unrack.workload.under_way import UnderWay, order_of

Columns = Mapping[str, Any]
"""A job as columns of a table of jobs, with ``request`` in s; what it does not say is left out."""
NEW = "asked"
"""What a job is called that has no name."""


def columns_of(jobs: JobTable, row: int) -> dict[str, Any]:
    """A job as columns."""
    job = jobs.job(row)
    demand = job.demand
    devices = {f"{kind}.{name}": amount for kind, of in demand.devices.items() for name, amount in of.items()}
    found: dict[str, Any] = {
        "id": str(job.id), "tasks": demand.tasks, "cores": demand.cores, "memory": demand.memory_mb,
        "request": int(jobs.asks[ESTIMATE, row]) / SECOND_US, "priority": job.priority, "user": job.user,
        "app": job.app, **devices,
        **{name: jobs.extra[name][row] for name in COLUMNS if name in jobs.extra.columns},
    }  # fmt: skip
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
    last_us, table = int(jobs.submit_us[scene.queued - 1]) if len(jobs) else 0, jobs
    for place, columns in enumerate(asked, 1):
        table = _joined(table, _row(columns, last_us + place if submit_us is None else submit_us, scene))
    return replace(scene, jobs=table.take(order_of(table)))


def without(scene: Scene, rows: Sequence[int]) -> Scene:
    """The scene without some of its jobs."""
    kept = np.ones(len(scene.jobs), np.bool_)
    kept[list(rows)] = False
    return replace(scene, jobs=scene.jobs.take(kept))


def _row(columns: Columns, submit_us: int, scene: Scene) -> JobTable:
    """One job as a table."""
    known = {kind for kind, _ in scene.cluster.suppliers} | set(scene.cluster.places.installed)
    for name in columns:
        kind, dot, quantity = name.partition(".")
        there = (kind, quantity) in scene.cluster.suppliers or (kind, quantity) in scene.cluster.places.quantities
        if dot and not there:
            what = "a resource" if is_resource(kind) and kind not in known else "a quantity"
            raise InputError(f"job {columns['id']}, {name}", f"{what} that this system does not have", _there(scene))
    one = {**columns, "submit": submit_us / SECOND_US, "run": columns["request"]}
    buffer = io.BytesIO()
    pl.DataFrame({name: [value] for name, value in one.items()}).write_parquet(buffer)
    return replace(read_table(Source(str(columns["id"]), buffer.getvalue())).jobs, submit_us=np.array([submit_us]))


def _there(scene: Scene) -> str:
    pairs = sorted({*scene.cluster.suppliers, *scene.cluster.places.quantities})
    names = [".".join(pair) for pair in pairs if pair[0] != "site"]
    return f"one of {', '.join(names)}" if names else "cores and memory alone: nothing else is counted"


def _joined(first: JobTable, last: JobTable) -> JobTable:
    """Both tables' rows, one behind the other."""
    more = len(last)

    def names(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
        return (*one, *(name for name in other if name not in one))

    users, apps = names(first.user_names, last.user_names), names(first.app_names, last.app_names)

    def codes(own: Any, known: tuple[str, ...], every: tuple[str, ...]) -> Any:
        return np.array([every.index(known[code]) if code >= 0 else -1 for code in own], np.int32)

    def devices(table: JobTable, key: tuple[str, str]) -> Ints:
        return table.devices.get(key, np.zeros(len(table), np.int64))

    under_way = first.under_way
    if under_way is not None:
        under_way = UnderWay(
            under_way.on.extend_constant(None, more), np.append(under_way.ran_us, np.zeros(more, np.int64))
        )
    extra = [table.extra if table.extra.width else pl.DataFrame({"": [None] * len(table)}) for table in (first, last)]
    joined = pl.concat(extra, how="diagonal_relaxed")
    ids = [table.ids.cast(pl.String) for table in (first, last)]
    return JobTable(
        ids=ids[0].append(ids[1]),
        submit_us=np.append(first.submit_us, last.submit_us),
        work_us=np.append(first.work_us, last.work_us),
        asks=np.ascontiguousarray(np.append(first.asks, last.asks, axis=1)),
        priority=np.append(first.priority, last.priority),
        deadline_us=np.append(first.deadline_us, last.deadline_us),
        user=np.append(first.user, codes(last.user, last.user_names, users)),
        app=np.append(first.app, codes(last.app, last.app_names, apps)),
        user_names=users,
        app_names=apps,
        extra=joined.drop("", strict=False),
        devices={
            key: np.append(devices(first, key), devices(last, key)) for key in {**first.devices, **last.devices}
        },
        under_way=under_way,
    )  # fmt: skip
