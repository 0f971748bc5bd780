"""Instances of recommendation models that are served by CPU nodes and GPU nodes apart, as published by Alibaba in 2025.

The header has ``instance_sn,role,app_name,cpu_request,gpu_request,rdma_request,memory_request,disk_request,
max_instance_per_node,creation_time,scheduled_time,deletion_time``, among others that are not read.

References
----------
Yang et al.: GPU-disaggregated serving for deep learning recommendation models at scale. USENIX NSDI 2025.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack import Workload
from unrack.errors import InputError
from unrack.units import bandwidth_mb_s
from unrack.workload.formats import (
    DEVICE,
    EXTRA,
    Source,
    Tally,
    amounts,
    boolean,
    choice,
    count,
    load,
    make_format,
    memory_unit_mb,
    refuse,
    time_option_us,
    time_unit_us,
    times_us,
    unheeded,
    workload,
)
from unrack_papers.workloads.measured_times import Fields, asked

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_ROLE = f"{EXTRA}queue"
_AMOUNTS = ("cores", "memory_mb")
GIVEAWAY = ("role", "rdma_request", "max_instance_per_node")
"""Columns that give the format away."""
CPU_ROLE, GPU_ROLE = "CN", "HN"
"""An instance on a CPU node, and one on a heterogeneous GPU node."""
GPUS = ("pool", "topology")
COLUMNS = ("gpus", "links", "spread")
"""What can be left out."""
RNIC = "100 Gb/s"
"""What 100 % of a NIC are by default; the list does not say."""

_NEEDED = (
    "instance_sn", "role", "app_name", "cpu_request", "gpu_request", "rdma_request", "memory_request", "disk_request",
    "max_instance_per_node", "creation_time", "scheduled_time", "deletion_time",
)  # fmt: skip
_GROUP, _MOST, _LINK, _DISK = (
    f"{DEVICE}{name}" for name in ("spread.group", "spread.most", "links.mb_s", "disk.capacity_mb")
)


def read_dlrm(
    path: str | os.PathLike[str] | Source,
    *,
    roles: str | Sequence[str] = (CPU_ROLE, GPU_ROLE),
    gpus: str = "pool",
    rnic: str | float = RNIC,
    disk: str | None = None,
    until: str | float | None = None,
    monolithic: bool = False,
    server_cores: int | None = None,
    leave_out: str | Sequence[str] = (),
) -> Workload:
    """Read instances; each becomes a job of one task.

    Parameters
    ----------
    path
        The file.
    roles
        Read these alone: ``"CN"``, ``"HN"``.
    gpus
        ``"pool"``: jobs ask for ``gpu.devices``, a pool of the kind ``gpu``; ``"topology"``: for ``gpus.count``.
    rnic
        The bandwidth of a NIC, of which instances ask for per cents: MB/s or text.
    disk
        ``"pool"``: jobs ask for ``disk.capacity_mb``, a pool of the kind ``disk``. ``None``: for no disk.
    until
        When instances end that were not deleted: s or text; ``None``: at the last time of the file.
    monolithic
        Each instance on GPU nodes takes the place of its share of its app's instances on CPU nodes
        (:func:`unrack_papers.workloads.dlrm.folded`).
    server_cores
        Beside ``monolithic``: the most cores of a server. A job that needs more becomes several, each with its GPUs.
    leave_out
        Columns that jobs do not have, as the cluster has nothing of the sort: ``"gpus"``, ``"links"``, ``"spread"``.

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or has a value that cannot be.
    InputError
        An option has a value it cannot have.
    """
    wanted = _words("roles", roles, (CPU_ROLE, GPU_ROLE))
    without = _words("leave_out", leave_out, COLUMNS)
    choice("gpus", gpus, GPUS)
    if not wanted:
        raise InputError("option roles", "none", f"{CPU_ROLE}, {GPU_ROLE} or both")
    if disk is not None:
        choice("disk", disk, ("pool",))
    if boolean("monolithic", monolithic) and len(wanted) < 2:
        raise InputError("option monolithic", f"true beside roles = {', '.join(wanted)}", "both roles")
    if server_cores is not None and not monolithic:
        raise InputError("option server_cores", repr(server_cores), "monolithic = true beside it")
    most_cores = None if server_cores is None else count("server_cores", server_cores)
    source = load(path)
    fields, tally = Fields.of(source, _NEEDED), Tally()
    frame = _columns(fields, asked("count") if gpus == "topology" else f"{DEVICE}gpu.devices", _rnic_mb_s(rnic))
    groups = int(frame[_GROUP].max() or 0) if frame.height else 0  # type: ignore[arg-type]  # an Int64 column
    until_us = None if until is None else time_option_us("until", until, "a time such as '31 d'")
    frame = frame.hstack(_times(fields, until_us, source))
    frame = tally.drop(frame, "other roles", ~pl.col(f"{EXTRA}queue").is_in(wanted))
    frame = tally.drop(frame, "ends before it begins", pl.col("work_us") < 0)
    tally.change_where(frame, "from before the window", pl.col("created").not_())
    tally.change_where(frame, "until the end of the window", pl.col("deleted").not_())
    words = _said(frame, gpus, groups, rnic)
    if monolithic:
        frame, alone = folded(frame, most_cores, tally, CPU_ROLE, GPU_ROLE)
        words += f"; {alone:.2%} of the core-hours on CPU nodes ran beside no GPU node of the app, and are left out"
    gone = {"gpus": [asked("count"), f"{DEVICE}gpu.devices"], "links": [_LINK], "spread": [_GROUP, _MOST]}
    if disk is None:
        frame = frame.with_columns(unheeded([frame[_DISK].alias("disk, MB")], "disk ignored"))
    drop = [_DISK] * (disk is None) + [column for name in without for column in gone[name]]
    frame = frame.drop([*drop, "created", "deleted", "begin_us"], strict=False)
    return workload(source, "dlrm", fields.frame.height, frame, tally, "truncate", {"Columns": words})


def _columns(fields: Fields, gpus: str, rnic_mb_s: int) -> pl.DataFrame:
    """What instances ask for, by row; the groups are those of all roles."""
    role, most = fields.text("role"), fields.count("max_instance_per_node", -1)
    for row, name in enumerate(role):
        if name not in (CPU_ROLE, GPU_ROLE):
            raise fields.at.fault(row, "role", repr(name), f"{CPU_ROLE} or {GPU_ROLE}")
    refuse(most == 0, most, "max_instance_per_node", fields.at, "1 or more, or -1 for no limit")
    gb = memory_unit_mb("GB")
    app = fields.text("app_name")
    places = {name: number for number, name in enumerate(app.unique(maintain_order=True).to_list(), 1)}
    cores = amounts(fields.number("cpu_request"), "cpu_request", fields.at, Fraction(1))
    share = Fraction(rnic_mb_s, 100)
    return pl.DataFrame([
        fields.text("instance_sn").alias("id"),
        pl.Series("tasks", np.ones(fields.frame.height, np.int64)),
        cores.clip(lower_bound=1).alias("cores"),
        amounts(fields.number("memory_request"), "memory_request", fields.at, gb).alias("memory_mb"),
        app.alias("app"),
        role.alias(f"{EXTRA}queue"),
        fields.count("gpu_request", 0).alias(gpus),
        amounts(fields.number("rdma_request"), "rdma_request", fields.at, share).alias(_LINK),
        amounts(fields.number("disk_request"), "disk_request", fields.at, gb).alias(_DISK),
        app.replace_strict(places, return_dtype=pl.Int64).alias(_GROUP),
        most.clip(lower_bound=0).alias(_MOST),
    ]).with_columns(pl.when(pl.col(_MOST) > 0).then(pl.col(_GROUP)).otherwise(0).alias(_GROUP))  # fmt: skip


def _times(fields: Fields, until_us: int | None, source: Source) -> pl.DataFrame:
    """``submit_us``, ``work_us`` (below 0: ends before it begins), and whether creation and deletion are said."""
    second = time_unit_us("s")
    created, scheduled, deleted = (
        times_us(fields.number(name, gaps=True), name, fields.at, second) for name in _NEEDED[-3:]
    )
    last = max((int(top) for one in (created, scheduled, deleted) if (top := one.max()) is not None), default=None)  # type: ignore[arg-type]  # Int64
    end = last if until_us is None else until_us
    if end is None:
        raise InputError(f"{source.path}: run times", "no time at all", "the option until = '31 d'")
    begun = pl.select(pl.max_horizontal(created.fill_null(0), scheduled.fill_null(0))).to_series()
    return pl.DataFrame({
        "submit_us": created.fill_null(0), "begin_us": begun, "work_us": deleted.fill_null(end) - begun,
        "created": created.is_not_null(), "deleted": deleted.is_not_null(),
    })  # fmt: skip


def _words(name: str, value: str | Sequence[str], allowed: tuple[str, ...]) -> tuple[str, ...]:
    """An option that is a list of words, or text with commas between them."""
    words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or any(word not in allowed for word in words):
        raise InputError(f"option {name}", repr(value), f"a list of {', '.join(allowed)}")
    return tuple(dict.fromkeys(words))


def _rnic_mb_s(rnic: str | float) -> int:
    try:
        if isinstance(rnic, (int, float, str)) and not isinstance(rnic, bool) and bandwidth_mb_s(rnic, "down") > 0:
            return bandwidth_mb_s(rnic, "down")
    except ValueError:
        pass
    raise InputError("option rnic", repr(rnic), "a bandwidth such as '100 Gb/s'")


def _said(frame: pl.DataFrame, gpus: str, groups: int, rnic: str | float) -> str:
    """Instances, cores and GPUs of each role, and what the cluster should know."""
    column = asked("count") if gpus == "topology" else f"{DEVICE}gpu.devices"
    roles = (
        frame.group_by(f"{EXTRA}queue").agg(pl.len(), pl.col("cores").sum(), pl.col(column).sum()).sort(f"{EXTRA}queue")
    )
    parts = [
        f"{name}: {rows:,} instances with {cores:,} cores" + (f" and {cards:,} GPUs" if cards else "")
        for name, rows, cores, cards in roles.iter_rows()
    ]
    parts.append(f"spread.group up to {groups}")
    parts.append(f"100 % of a NIC are {rnic if isinstance(rnic, str) else f'{rnic:g} MB/s'}")
    return "; ".join(parts)


class Folded(NamedTuple):
    """The instances that are left, and what part of the core-seconds on CPU nodes nobody could take over."""

    frame: pl.DataFrame
    alone: float


def folded(frame: pl.DataFrame, server_cores: int | None, tally: Tally, cpu_role: str, gpu_role: str) -> Folded:
    """Instances with GPUs take over their app's instances without; apps that have only one sort stay as they are.

    At any time an app's instances without GPUs are spread evenly over those with that run at that time. A job asks
    all along for the mean of its share over its run, rounded up to whole cores and MB, beside what it asks itself. What
    ran while the app had no instance with a GPU is taken over by nobody.

    Parameters
    ----------
    frame
        Instances as the readers' frames have them, with a role and a begin each.
    server_cores
        The most cores of a server: a job that needs more becomes as many as are needed, each with the GPUs of the
        instance and an equal part of cores, memory and disk, rounded up. ``None``: however many it needs.
    tally
        Joined and split instances are counted.
    cpu_role, gpu_role
        The two roles.
    """
    begin, end = frame["begin_us"].to_numpy(), (frame["begin_us"] + frame["work_us"]).to_numpy()
    of_gpu = (frame[_ROLE] == gpu_role).to_numpy()
    app = frame["app"].rank("dense").to_numpy().astype(np.int64)
    amounts = {name: frame[name].to_numpy() for name in _AMOUNTS}
    joined, more = np.zeros(frame.height, np.bool_), {name: np.zeros(frame.height) for name in _AMOUNTS}
    spent = served = 0.0
    for own in np.split(np.argsort(app, kind="stable"), np.cumsum(np.bincount(app)[1:])[:-1]):
        cpu, gpu = own[~of_gpu[own]], own[of_gpu[own]]
        if not cpu.size or not gpu.size:
            continue
        joined[cpu] = True
        shares = _Shares(begin[gpu], end[gpu])
        for name, every in amounts.items():
            more[name][gpu] = shares.of(begin[cpu], end[cpu], every[cpu])
        spent += float((amounts["cores"][cpu] * (end - begin)[cpu].astype(np.float64)).sum())
        served += float((more["cores"][gpu] * (end - begin)[gpu]).sum())
    frame = frame.with_columns(
        (pl.col(name) + pl.Series(np.ceil(np.round(more[name], 6)).astype(np.int64))).alias(name) for name in _AMOUNTS
    )
    frame = tally.drop(frame, "joined to instances with GPUs", pl.lit(pl.Series(joined)))
    alone = max(0.0, 1 - served / spent) if spent else 0.0
    return Folded(frame if server_cores is None else _split(frame, server_cores, tally, gpu_role), alone)


class _Shares:
    """What each of an app's instances with GPUs (int64[instances]: begin, end) takes over."""

    def __init__(self, begin: Ints, end: Ints) -> None:
        self._begin, self._end = begin, end

    def of(self, begin: Ints, end: Ints, amount: Ints) -> Floats:
        """float64[instances]: the mean, over the run of each, of the amounts that run then over the instances then."""
        times = np.unique(np.concatenate([begin, end, self._begin, self._end]))
        held = _level(times, begin, end, amount)
        beside = _level(times, self._begin, self._end, np.ones_like(self._begin))
        each = np.divide(held, beside, out=np.zeros(len(times)), where=beside > 0)
        spent = np.concatenate([[0.0], np.cumsum(each[:-1] * np.diff(times))])
        first, last = np.searchsorted(times, self._begin), np.searchsorted(times, self._end)
        lasts = (self._end - self._begin).astype(np.float64)
        mean: Floats = np.divide(spent[last] - spent[first], lasts, out=each[first].copy(), where=lasts > 0)
        return mean


def _level(times: Ints, begin: Ints, end: Ints, amount: Ints) -> Ints:
    """int64[times]: what runs from each time on."""
    change = np.zeros(len(times), np.int64)
    np.add.at(change, np.searchsorted(times, begin), amount)
    np.add.at(change, np.searchsorted(times, end), -amount)
    return np.cumsum(change)


def _split(frame: pl.DataFrame, server_cores: int, tally: Tally, gpu_role: str) -> pl.DataFrame:
    pieces = -(-pl.col("cores") // server_cores)
    frame = frame.with_columns(pieces=pl.when(pl.col(_ROLE) == gpu_role).then(pieces).otherwise(1))
    split = pl.col("pieces") > 1
    tally.change_where(frame, "split over servers", split)
    frame = frame.with_columns(piece=pl.int_ranges(1, pl.col("pieces") + 1)).explode("piece")
    return frame.with_columns(
        *(-(-pl.col(name) // pl.col("pieces")) for name in (*_AMOUNTS, f"{DEVICE}disk.capacity_mb")),
        id=pl.when(split).then(pl.format("{}.{}", "id", "piece")).otherwise(pl.col("id")),
    ).drop("pieces", "piece")


FORMAT = make_format(
    read_dlrm,
    "CSV of instances on CPU nodes and GPU nodes (Alibaba 2025)",
    "memory app devices counted",
    giveaway=GIVEAWAY,
)
"""What unrack finds under the name ``dlrm``."""
