"""Performance models: how long a job runs on so many devices, shared by so many jobs.

Every model comes down to a table of speeds over (devices, sharers); 1 = the job's base time. Sources: SMUFIN and FIO,
Call et al. 2022 section IV and Call 2022 section 4.4 (figure 4.3); YOLO, Call 2022 figure 5.3; numbers as the authors'
simulator has them.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from unrack.cluster.pools.pool import Devices, Pace
from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.devices.columns import PACE
from unrack.ledger.lease import Lease
from unrack.resources.checked import Strict, validated
from unrack.view import View
from unrack.workload.job import JobTable

Time = Annotated[FiniteFloat, Field(gt=0, le=1e12)]
BY_DEFAULT = "bandwidth_mb_s"
"""What a model governs unless it says so."""
MOST_SHARERS = 64
"""Most jobs on one composition under a model that sets no limit of its own."""


class Published(NamedTuple):
    """A model that comes with unrack: its line in lists, and its keys."""

    summary: str
    keys: Mapping[str, Any]


PUBLISHED: dict[str, Published] = {
    "smufin": Published(
        "SMUFIN on 1 to 3 composed NVMe shared by 1 to 6 instances, measured (Call 2022, fig. 4.3)",
        {
            "kind": "nvme",
            "base_s": 1600.0,
            "times_s": [
                [1489.15, 1601.25, 1677.35, 1936.245, 2411.56, 2802.62],
                [1455.48, 1455.45, 1474.12, 1569.89, 1668.35, 1835.62],
                [1478.5, 1461.5, 1513.0, 1550.5, 1578.5, 1618.5],
            ],
            "governs": ["bandwidth_mb_s"],
        },
    ),
    "yolo": Published(
        "YOLO on a GPU of which 1 to 4 vGPUs are busy, measured on a T4 (Call 2022, fig. 5.3)",
        {"kind": "gpu", "base_s": 152.0, "times_s": [[151.0, 175.0, 282.0, 757.0]], "governs": ["bandwidth_mb_s"]},
    ),
    "fio": Published(
        "FIO on 1 to 3 NVMe: bandwidth alone counts, so n devices shared by k take base x k / n (Call 2022, 4.4.6)",
        {"kind": "nvme", "linear": True, "most_devices": 3, "most_sharers": 6, "governs": ["bandwidth_mb_s"]},
    ),
}


class ModelTable(Strict):
    """A ``[[models]]`` table, or the name of a published model for all its defaults."""

    model: str = Field(min_length=1)  # a published model, or any name of one's own
    # the apps (classes) of jobs that it is about; default: its name
    apps: list[str] | None = Field(default=None, min_length=1)
    kind: str = "nvme"  # the kind of device that it is about
    # The base time that the times belong to. A job with another base time scales. Default: the job's own base time is
    # the time on one device alone.
    base_s: Time | None = None
    # Row d, column k: the time on d + 1 devices with k + 1 jobs on them. More devices count as the last row; more
    # sharers are not admitted. ``null``: not admitted.
    times_s: list[list[Time | None]] | None = Field(default=None, min_length=1, max_length=4096)
    csv: str | None = None  # a file with the columns devices, sharers, time_s in place of ``times_s``
    linear: bool = False  # in place of a table: time = base x sharers / min(devices, most_devices)
    # most_devices, most_sharers: limits of a linear model
    most_devices: Annotated[int, Field(ge=1, le=4096, strict=True)] = 4096
    most_sharers: Annotated[int, Field(ge=1, le=4096, strict=True)] = MOST_SHARERS
    # quantities for which the model, not the amount asked, says how many may share
    governs: list[str] = Field(default=[BY_DEFAULT])
    # True: a job keeps the speed it had when it began, whichever jobs join or leave later (what the authors' simulator
    # does). False: every sharer follows every change.
    frozen: bool = False
    # True: the times are cut to whole seconds (as the authors' simulator has them). Not of a linear model.
    whole_seconds: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> ModelTable:
        if (self.times_s is not None) + (self.csv is not None) + self.linear != 1:
            raise ValueError("exactly one of times_s, csv, linear (or the name of a published model)")
        if self.whole_seconds and self.linear:
            raise ValueError("whole_seconds beside times_s or csv")
        if self.times_s is not None:
            widths = {len(row) for row in self.times_s}
            if len(widths) != 1 or 0 in widths:
                raise ValueError("rows of times_s with the same number of sharers")
            if all(time is None for time in self.times_s[0]):
                raise ValueError("a time on one device")
        return self


class Model(NamedTuple):
    """A model that is ready for use."""

    # name, apps, kind, governs, frozen: as in :class:`ModelTable`
    name: str
    apps: tuple[str, ...]
    kind: str
    governs: tuple[str, ...]
    frozen: bool
    # row d, column k: seconds on d + 1 devices with k + 1 sharers, 0 = not admitted; empty for a linear model
    times_s: tuple[tuple[float, ...], ...]
    base_s: float  # what base time they belong to; 0: the job's own, on one device alone
    # most_devices, most_sharers: limits of a linear model
    most_devices: int
    most_sharers: int

    def time_s(self, base_s: float, devices: int, sharers: int) -> float | None:
        """How long a job takes on so many devices with so many jobs on them, itself included; ``None``: not admitted.

        ``base_s``: its base time.

        Examples
        --------
        >>> smufin = make_models(["smufin"])[0]
        >>> smufin.time_s(1600, devices=2, sharers=4), smufin.time_s(1600, devices=2, sharers=7)
        (1569.89, None)
        """
        table = self.speeds(devices)
        speed = float(table[devices, sharers]) if 0 < sharers < table.shape[1] and devices > 0 else 0.0
        return round(base_s / speed, 6) if speed > 0 else None

    def speeds(self, devices: int) -> Floats:
        """float64[devices + 1, sharers + 1]: speed by number of devices and sharers; 0 = not admitted.

        ``devices``: how many devices the largest composition can have.
        """
        if not self.times_s:
            d, k = np.arange(devices + 1.0)[:, None], np.arange(self.most_sharers + 1.0)[None, :]
            linear: Floats = np.zeros((devices + 1, k.size))
            np.divide(np.minimum(d, self.most_devices), k, out=linear, where=k > 0)
            return linear
        times = np.array(self.times_s)
        base = self.base_s or times[0][times[0] > 0][0]
        rows = times[np.clip(np.arange(devices + 1) - 1, 0, len(times) - 1)]
        speeds = np.divide(base, rows, out=np.zeros_like(rows), where=rows > 0)
        speeds[0] = 0.0
        return np.hstack([np.zeros((devices + 1, 1)), speeds])


def make_models(entries: Sequence[str | Mapping[str, Any] | Model], folder: Path | None = None) -> tuple[Model, ...]:
    """Models from what a study or a caller writes.

    Parameters
    ----------
    entries
        Names of published models, tables as in :class:`ModelTable`, or models.
    folder
        Where the files of ``csv`` are looked for first.

    Raises
    ------
    InputError
        One is wrong, or two are about the same app and kind.

    Examples
    --------
    >>> make_models(["smufin"])[0].speeds(2)[1, 1].round(4).item()
    1.0744
    """
    models = tuple(
        entry if isinstance(entry, Model) else _make(entry, f"models[{i}]", folder) for i, entry in enumerate(entries)
    )
    seen: set[tuple[str, str]] = set()
    for i, model in enumerate(models):
        for app in model.apps:
            if (app, model.kind) in seen:
                raise InputError(f"models[{i}]", f"a second model of {app!r} on {model.kind}", "one model for each")
            seen.add((app, model.kind))
    return models


def _make(entry: str | Mapping[str, Any], where: str, folder: Path | None) -> Model:
    written: Mapping[str, Any] = {"model": entry} if isinstance(entry, str) else entry
    if not isinstance(written, Mapping):
        raise InputError(where, repr(entry), "a name or a table")
    name = written.get("model")
    own = {"times_s", "csv", "linear"} & set(written)
    if not own and name not in PUBLISHED:
        raise InputError(f"{where}.model", repr(name), f"one of {', '.join(PUBLISHED)}; or times_s, csv or linear")
    keys = written if own else {**PUBLISHED[str(name)].keys, **written}
    table = validated(ModelTable.model_validate, keys, f"{where}.", error=InputError)
    rows = _read(table.csv, where, folder) if table.csv is not None else table.times_s or []
    times = tuple(tuple(time or 0.0 for time in row) for row in rows)
    if table.whole_seconds:
        if any(0 < time < 1 for row in times for time in row):
            raise InputError(f"{where}.whole_seconds", "a time of less than a second", "times of a second or more")
        times = tuple(tuple(float(int(time)) for time in row) for row in times)
    return Model(
        table.model, tuple(table.apps or [table.model]), table.kind, tuple(table.governs), table.frozen, times,
        table.base_s or 0.0, table.most_devices, table.most_sharers,
    )  # fmt: skip


def _read(path: str, where: str, folder: Path | None) -> list[list[float | None]]:
    """Times by (devices, sharers) from a CSV with the columns devices, sharers, time_s."""
    file = folder / path if folder is not None and (folder / path).is_file() else Path(path)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{where}.csv, {path}", str(error), "a CSV that can be read") from None
    wanted = "the columns devices, sharers, time_s"
    times: dict[tuple[int, int], float] = {}
    for number, line in enumerate(lines, 2):
        try:
            at = int(line["devices"]), int(line["sharers"])
            time = float(line["time_s"])
            if not (1 <= at[0] <= 4096 and 1 <= at[1] <= 4096 and 0 < time <= 1e12) or at in times:
                raise ValueError
        except (KeyError, TypeError, ValueError):
            got = ",".join(str(value) for value in line.values())
            want = f"{wanted}: 1 or more, 1 or more, above 0; each pair once"
            raise InputError(f"{where}.csv, {path}, line {number}", repr(got), want) from None
        times[at] = time
    if (1, 1) not in times:
        raise InputError(f"{where}.csv, {path}", "no time of one job alone on one device", f"{wanted}, from 1 and 1 up")
    devices, sharers = (max(at[i] for at in times) for i in (0, 1))
    return [[times.get((d, k)) for k in range(1, sharers + 1)] for d in range(1, devices + 1)]


def pace_of(models: Sequence[Model], devices: Devices, jobs: JobTable) -> Pace:
    """The models as columns over the jobs and devices of a run.

    A model is about the jobs of its apps that ask for its kind; kinds that the cluster has not are left out.
    """
    largest = {kind: max((p.compose for p in devices.pools if p.kind == kind), default=1) for kind in devices.kinds}
    tables = [model.speeds(max(largest.values(), default=1)) for model in models]
    sharers = max((table.shape[1] for table in tables), default=2)
    rows = max((table.shape[0] for table in tables), default=2)
    speeds = np.zeros((max(len(models), 1), rows, sharers))
    governed = np.zeros((len(speeds), devices.capacity.shape[0]), np.bool_)
    column = np.full((len(devices.kinds), len(jobs)), -1, np.int64)
    for m, (model, table) in enumerate(zip(models, tables, strict=True)):
        speeds[m, :, : table.shape[1]] = table
        if model.kind not in devices.kinds:
            continue
        k = devices.kinds.index(model.kind)
        governed[m, [q for q, name in enumerate(devices.quantities[k]) if name in model.governs]] = True
        codes = [code for code, name in enumerate(jobs.app_names) if name in model.apps]
        asks = np.zeros(len(jobs), np.bool_)
        for (kind, _), amounts in jobs.devices.items():
            asks |= (kind == model.kind) & (amounts > 0)
        column[k, np.isin(jobs.app, codes) & asks] = m
    return Pace(column, speeds, governed, np.array([model.frozen for model in models] or [False]))


def sets_speeds(devices: Devices, models: Sequence[Model]) -> bool:
    """Whether devices change when jobs end: there are models, or pools with an overhead or a latency."""
    return len(devices) > 0 and (bool(models) or any(pool.overhead > 0 or pool.attach_us > 0 for pool in devices.pools))


class PoolSpeeds:
    """The speeds that the core's columns say, for the simulated world: one truth about which jobs share what."""

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the jobs on the groups that the lease names, its own job first if it runs."""
        devices = view.columns.devices
        if devices is None or not lease.shares:
            return np.zeros(0, np.int64)
        if len(lease.shares) == 1:
            group = devices.group_of(min(lease.shares[0].devices))
            return devices.sharers(group) if group >= 0 else np.zeros(0, np.int64)
        found: dict[int, None] = {}
        for share in lease.shares:
            group = devices.group_of(min(share.devices))
            if group >= 0:
                found.update(dict.fromkeys(devices.sharers(group).tolist()))
        return np.array(list(found), np.int64)

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        devices = view.columns.devices
        assert devices is not None
        speeds: Floats = devices.columns.progress[PACE, jobs]
        return speeds

    def feels(self, before: Lease, after: Lease) -> bool:
        """False: it keeps its devices."""
        return False


def fastest(pace: Pace, devices: Devices, jobs: JobTable, wants: Ints) -> Floats:
    """float64[jobs]: the best speed that any job could have on these devices, alone or shared, however composed."""
    best = np.full(len(jobs), np.inf)
    sits = np.bincount(devices.pool[devices.home >= 0], minlength=len(devices.pools)) > 0
    for k, kind in enumerate(devices.kinds):
        pools = [(pool, at_home) for pool, at_home in zip(devices.pools, sits, strict=True) if pool.kind == kind]
        largest = max((pool.compose for pool, _ in pools), default=1)
        rows = pace.speeds[:, : min(largest, pace.speeds.shape[1] - 1) + 1]
        top = rows.max(axis=(1, 2))
        modelled = pace.model[k] >= 0
        asks = (wants[k] > 0).any(axis=0)
        least = min((pool.overhead for pool, at_home in pools if not at_home), default=None)
        slowed = 1.0 if least is None or any(at_home for _, at_home in pools) else 1.0 / (1.0 + least)
        best = np.where(asks, np.minimum(best, np.where(modelled, top[pace.model[k]], 1.0) * slowed), best)
    return np.where(np.isfinite(best), best, 1.0)
