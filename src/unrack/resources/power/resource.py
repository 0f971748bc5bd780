"""The resource ``power``: what the nodes of a cluster draw, and the watts that jobs may add to it.

What nodes draw is linear in the cores that are in use (Fan et al. 2007; SimGrid's plugin for energy of hosts, Batsim).
Under a cap, what all nodes draw with nothing running is set aside, and the rest is a place of watts that jobs share as
they do licences: a job claims what its tasks add on the dearest of the nodes that it may use, wherever it runs. Under a
lower cap at some times, nodes are kept without jobs then, so that the others may be full (as of Georgiou et al. 2015).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Ints
from unrack.reasons import Code, Reason
from unrack.resources.checked import NOBODY, Recurring, Strict, Time, ranges, validated
from unrack.resources.contract import NONE_ATTACHED, Gangs, Installed, Nodes, Place, Usual, UsualResource, Window
from unrack.resources.use import COLOURS, Kept, Table, mean_share, picture, rows_by_policy
from unrack.units import amount_of, milliwatts


def _watts(mw: int | None) -> float | None:
    return None if mw is None else mw / 1000


WATTS = "watts, or text such as '350 W' or '20 kW'"
Watts = Annotated[int, BeforeValidator(amount_of(milliwatts, WATTS)), PlainSerializer(_watts)]
Cap = Annotated[
    int, BeforeValidator(amount_of(lambda value: milliwatts(value, "down"), WATTS, 1)), PlainSerializer(_watts)
]


class DrawFile(Strict):
    """What nodes draw, mW each in the model."""

    idle: Watts  # a node that is on, with no core in use
    core: Watts | None = None  # each core in use, beside that
    peak: Watts | None = None  # a node with all cores in use, in place of ``core``: what a core draws is the same
    off: Watts = 0  # a node that is switched off or down

    @model_validator(mode="after")
    def _one_of_two(self) -> DrawFile:
        if (self.core is None) == (self.peak is None):
            raise ValueError("one of core and peak")
        if self.peak is not None and self.peak < self.idle:
            raise ValueError("a peak of no less than idle")
        if self.off > self.idle:
            raise ValueError("an off of no more than idle")
        return self


class SomeNodesFile(DrawFile):
    """A ``[[power.nodes]]`` table: what some nodes draw."""

    nodes: list[str] = Field(min_length=1)  # as ``["0-15", "rack3"]``


class SwitchOffFile(Strict):
    """The table ``switch_off``: when idle nodes are switched off, and how long it takes."""

    after: Time  # how long a node is idle before it is switched off (Slurm: ``SuspendTime``)
    shutdown: Time = 0  # until it is off (``SuspendTimeout``)
    boot: Time = 0  # until it can be used again (``ResumeTimeout``)
    shutdown_watts: Watts | None = None  # what it draws meanwhile; default: as idle
    boot_watts: Watts | None = None
    keep_on: int = Field(default=0, ge=0, strict=True)  # so many idle nodes stay on (``SuspendExcNodes=…:n``)


class CapFile(Recurring):
    """A ``[[power.caps]]`` table: a cap for some time; nodes are kept without jobs then, from the last on."""

    cap: Cap


class PowerFile(DrawFile):
    """The table ``power``."""

    nodes: list[SomeNodesFile] = Field(default_factory=list)  # those that draw something else
    # KIND.QUANTITY, as jobs ask for it → what each unit that is in use draws beside what its node does: ``gpus.count``
    devices: dict[str, Watts] = Field(default_factory=dict)
    cap: Cap | None = None  # more than this is never drawn. Default: there is no cap
    caps: list[CapFile] = Field(default_factory=list)  # lower ones, at some times
    switch_off: SwitchOffFile | None = None  # default: all nodes stay on


def read_keys(table: Any, where: str) -> PowerFile:
    """The key ``power``. A ClusterError if a key or a value is wrong."""

    def known(path: tuple[int | str, ...]) -> Any:
        inner: dict[str, type[Strict]] = {"nodes": SomeNodesFile, "caps": CapFile, "switch_off": SwitchOffFile}
        return (inner.get(str(path[0]), PowerFile) if len(path) > 1 else PowerFile).model_fields

    return validated(PowerFile.model_validate, table, f"{where}.", known)


MILLIWATTS = ("power", "milliwatts")
"""What each task of a job adds under a cap; a run fills it in."""
WHAT = "W of the power cap"


class Power(Usual):
    """See :class:`unrack.resources.contract.Installed`.

    Attributes
    ----------
    idle_mw, core_mw, off_mw : int64[nodes]
        What each node draws with no core in use; each of its cores in use, beside that; the node when it is off.
    """

    def __init__(self, table: Any, nodes: Nodes, where: str) -> None:
        self.file = read_keys(table, where)
        self.computing: Bools = nodes.cores > 0
        self.idle_mw, self.core_mw, self.off_mw = _draws(self.file, nodes.cores)
        self._named: list[list[int]] = []
        for i, some in enumerate(self.file.nodes):
            at = f"{where}.nodes.{i}.nodes"
            own = sorted(set(nodes.named(some.nodes, at)))
            if twice := set(own) & {node for others in self._named for node in others}:
                raise ClusterError(at, f"node {min(twice)} again", "nodes that no other table of power.nodes names")
            self._named.append(own)
            self.idle_mw[own], self.core_mw[own], self.off_mw[own] = _draws(some, nodes.cores[own])
        for key in self.file.devices:
            if key.count(".") != 1:
                raise ClusterError(f"{where}.devices", repr(key), "KIND.QUANTITY, as gpus.count or nvme.bandwidth_mb_s")
        self.places: tuple[Place, ...] = ()
        if self.file.cap is not None:
            self.places = (Place("power cap", "watts", self._left(self.file.cap, f"{where}.cap") // 1000),)
        if self.file.caps and self.file.devices:
            raise ClusterError(f"{where}.caps", "caps at times beside devices", "no devices, or one cap at all times")
        self.windows = tuple(
            Window(start, end, NOBODY, self._closed(self._left(one.cap, f"{where}.caps.{i}.cap"), nodes.cores))
            for i, one in enumerate(self.file.caps)
            for start, end in one.windows_us
        )
        self.quantities: tuple[str, ...] = MILLIWATTS[1:] if self.places else ()
        off = self.file.switch_off  # a job may have to wait until a node is off, and is on again
        self.delay_us = 0 if off is None else off.shutdown + off.boot

    def _left(self, cap: int, where: str) -> int:
        standing = int(self._standing().sum())
        if cap - standing < 1000:
            want = f"more than the {-(-standing // 1000)} W that all nodes draw without a job"
            raise ClusterError(where, f"{cap / 1000:g} W", want)
        return cap - standing

    def _closed(self, left: int, cores: Ints) -> Bools:
        """bool[nodes]: as many of the last as must be without jobs so that all others may be full."""
        full = cores * self.core_mw
        closed: Bools = (np.cumsum(full) > left) & (full > 0)
        return closed

    def _standing(self) -> Ints:
        """int64[nodes]: mW that each node may draw with nothing running."""
        off = self.file.switch_off
        others = 0 if off is None else max(off.boot_watts or 0, off.shutdown_watts or 0)
        standing: Ints = np.maximum(self.idle_mw, others * self.computing)
        return standing

    def of_devices(self, asked: Mapping[tuple[str, str], Ints], jobs: int) -> Ints:
        """int64[jobs]: mW of what each task asks of devices; ``asked``: (kind, quantity) → int64[jobs]."""
        total = np.zeros(jobs, np.int64)
        for key, mw in self.file.devices.items():
            kind, _, quantity = key.partition(".")
            if (amounts := asked.get((kind, quantity))) is not None:
                total += amounts * mw
        return total

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """int64[claims, 2]: the watts of all tasks, rounded up."""
        return self.anywhere(asked, int(tasks.sum()))

    def anywhere(self, asked: Ints, tasks: int) -> Ints:
        """int64[claims, 2]: the watts of all tasks, rounded up."""
        return np.array([[0, _whole(int(asked[0]) * tasks)]], np.int64)

    def open_nodes(
        self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints, left: int = 1, devices: Ints = NONE_ATTACHED
    ) -> Bools:
        """bool[nodes]: all, if the watts of one more task are left."""
        needs = _whole(int(asked[0]) * (int(tasks.sum()) + 1))
        return np.full(len(self.computing), bool(needs <= free[0]))

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: those that add more than the cap leaves."""
        return np.asarray(asked * gangs.tasks > self.places[0].amount * 1000)

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """What the cap leaves."""
        return Reason(Code.TOO_BIG, WHAT, _whole(asked * int(gangs.tasks[0])), self.places[0].amount)

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """The watts that are left now, where they are too few."""
        needs, left = _whole(int(asked[0]) * tasks), int(free[0])
        return Reason(Code.NO_ROOM, WHAT, needs, left) if needs > left else None

    def written(self) -> dict[str, Any]:
        """The keys of the cluster file; nodes by number."""
        made = self.file.model_dump(exclude_none=True, exclude_defaults=True)
        for some, own in zip(made.get("nodes", ()), self._named, strict=True):
            some["nodes"] = ranges(own)
        return made


def _draws(file: DrawFile, cores: Ints) -> Ints:
    """int64[3, nodes]: mW of each node idle, of each of its cores in use, and of the node off."""
    found = np.empty((3, len(cores)), np.int64)
    found[0], found[2] = file.idle, file.off
    if file.core is not None:
        found[1] = file.core
    else:
        assert file.peak is not None
        found[1] = -((file.idle - file.peak) // np.maximum(cores, 1))  # rounded up
    return found


def _whole(mw: int) -> int:
    return -(-mw // 1000)


HEAD = ("policy", "energy (kWh)", "of nodes without jobs", "a job (kWh)", "mean (kW)", "peak (kW)", "nodes off")
WORDS = (
    "Energy: what all nodes drew in the window of the metrics; a job: that over the jobs that ran to their end. "
    "Nodes without jobs: idle, being switched off, or off. Nodes off: averaged over time."
)


class PowerResource(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "power"
    title = "Power"

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """What the nodes of a cluster file draw."""
        return Power(table, nodes, where)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Energy by policy, and power over time with the cap; nothing of runs that say nothing of it."""
        told = [run for run in runs if run.metrics.get("energy_kwh") is not None and run.table is not None]
        if not told:
            return ()
        first = {run.policy: run for run in reversed(told)}
        names = list(dict.fromkeys(run.policy for run in told))[: len(COLOURS) - 1]
        lines = {}
        for name in names:
            times, watts = (first[name].table("power")[column].to_numpy() for column in ("time_s", "watts"))
            lines[name] = times, watts[:-1] / 1000
        if (cap := told[0].written.get("cap")) is not None:
            ends = np.array([min(times[0] for times, _ in lines.values()), max(t[-1] for t, _ in lines.values())])
            lines["cap"] = ends, np.array([cap / 1000])
        return (Table("Power over time", WORDS, HEAD, rows_by_policy(told, _row), picture(lines, "kW", told)),)


def _row(policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    def mean(name: str) -> float:
        values = [value for run in runs if (value := run.metrics.get(name)) is not None]
        return sum(values) / len(values) if values else 0.0

    energy = mean("energy_kwh")
    idle = mean_share([mean("energy_without_jobs_kwh") / energy if energy else None])
    kw = (f"{mean(name):,.3g}" for name in ("energy_per_job_kwh", "power_mean_kw", "power_peak_kw"))
    off = mean_share([run.metrics.get("nodes_switched_off") for run in runs])
    return policy, f"{energy:,.1f}", idle, *kw, off
