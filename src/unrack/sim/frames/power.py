"""Jobs wait until their nodes are switched on: the part of a kernel that knows when."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import CORES, FIRST, LENDER, NODES, TASKS, Lease, nodes_of
from unrack.resources.power.resource import Power
from unrack.resources.power.switching import Switching
from unrack.sim.log import RunLog
from unrack.slowdown.combined import Undisturbed
from unrack.steps import each_of, levels, spells
from unrack.units import SECOND_US

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel


UP, TAKE, GIVE, DOWN = range(4)
MORE, HELD, DYNAMIC, FAILED, OFF = range(5)
"""What adds up on a node: mW more than idle while it is switched, jobs, mW of tasks, failures; 1 while it is off."""
KWH_UJ = 3.6e15
"""A kilowatt-hour, in mW x µs."""


class Uses(NamedTuple):
    """On which nodes something was from when until when, µs, and how much of it: int64[uses] each."""

    node: Ints
    start_us: Ints
    end_us: Ints
    amount: Ints


def power_of(log: RunLog) -> Power:
    """What the nodes of a run draw."""
    power = log.cluster.places.installed["power"]
    assert isinstance(power, Power)
    return power


def power_frame(log: RunLog) -> pl.DataFrame:
    """One row whenever what is drawn changes; each holds until the next.

    Columns: time_s; watts, of all nodes; watts_without_jobs, of those on which no job holds anything: they are idle,
    off, or being switched off; nodes_off, those that are switched off.
    """
    power, failures, (span, node) = power_of(log), _failures(log), _held(log)
    begin_us, switching = _replayed(log, power)
    uses = {
        HELD: Uses(node, log.span_start_us[span], log.span_end_us[span], np.ones(len(node), np.int64)),
        DYNAMIC: _of_tasks(log, power, begin_us)[1],
        FAILED: failures,
    }
    if switching is not None:
        switching.close(_rest_us(log, power) + 1)  # what is off then stays off
    if switching is not None and switching.spells:
        where, since, until, more, off = np.array(switching.spells, np.int64).T
        uses |= {MORE: Uses(where, since, until, more), OFF: Uses(where, since, until, off)}
    amounts = np.zeros((5, sum(len(own.node) for own in uses.values())), np.int64)
    last = 0
    for row, own in uses.items():
        last += len(own.node)
        amounts[row, last - len(own.node) : last] = own.amount
    columns = [np.concatenate([own[i] for own in uses.values()]) for i in range(3)]
    return _stepped(power, *levels(columns[0], columns[1], columns[2], amounts), log)


def _stepped(power: Power, node: Ints, when_us: Ints, level: Ints, log: RunLog) -> pl.DataFrame:
    """The table, from how much there is of everything on each node from each of its changes on."""
    drawn = power.idle_mw[node] + level[MORE] + level[DYNAMIC]
    drawn = np.where(level[FAILED] > 0, power.off_mw[node], drawn)
    own = np.stack([drawn, np.where(level[HELD] > 0, 0, drawn), (level[OFF] > 0) & (level[FAILED] == 0)])
    at_first = np.stack([power.idle_mw, power.idle_mw, np.zeros(len(power.idle_mw), np.int64)])
    before, first = np.roll(own, 1, axis=1), np.diff(node, prepend=-1) != 0
    before[:, first] = at_first[:, node[first]]
    submit_us = log.jobs.submit_us
    begin_us = int(submit_us.min()) if len(submit_us) else 0
    last_us = max(begin_us, _rest_us(log, power))
    times, at = np.unique(np.concatenate([[begin_us, last_us], when_us]), return_inverse=True)
    change = np.zeros((3, len(times)), np.int64)
    for row, more in zip(change, own - before, strict=True):
        np.add.at(row, at[2:], more)
    change[:, 0] += at_first.sum(axis=1)
    told = change.any(axis=0) & (times <= last_us)
    told[at[:2]] = True
    watts, alone, off = change.cumsum(axis=1)[:, told]
    columns = {"watts": watts / 1000, "watts_without_jobs": alone / 1000, "nodes_off": off}
    return pl.DataFrame({"time_s": times[told] / SECOND_US, **columns})


def energy_column(log: RunLog) -> pl.Series:
    """For the jobs frame: kWh that the tasks of each job drew in all its attempts, beside what its nodes draw idle."""
    job, uses = _of_tasks(log, power_of(log), _replayed(log, power_of(log))[0])
    total = np.zeros(len(log.jobs))
    np.add.at(total, job, uses.amount * (uses.end_us - uses.start_us).astype(np.float64) / KWH_UJ)
    return pl.Series("energy_kwh", total)


def _of_tasks(log: RunLog, power: Power, begin_us: Ints) -> tuple[Ints, Uses]:
    """Uses of power by the tasks of jobs, and the job of each, int64[uses], in mW; a span draws once it works.

    A suspended job has no cores, and draws nothing.
    """
    jobs, rows = log.jobs, log.rows.astype(np.int64)
    row, node = each_of(rows[:, FIRST], rows[:, NODES])
    span = np.repeat(np.arange(len(log.span_attempt)), np.diff(log.span_rows))[row]
    job = log.span_job[span]
    each = jobs.cores[job] * power.core_mw[node] + power.of_devices(jobs.devices, len(jobs))[job]
    stands = (rows[row, CORES] == 0) & (jobs.cores[job] > 0)
    start = np.minimum(begin_us[span], log.span_end_us[span])
    return job, Uses(node, start, log.span_end_us[span], np.where(stands, 0, rows[row, TASKS] * each))


def _held(log: RunLog) -> tuple[Ints, Ints]:
    """int64[uses] twice: spans and the nodes on which they hold something, each pair once."""
    rows, home = log.rows.astype(np.int64), log.cluster.devices.home
    row, node = each_of(rows[:, FIRST], rows[:, NODES])
    count = np.arange(len(log.span_attempt))
    pairs = [
        np.stack([np.repeat(count, np.diff(log.span_rows))[row], node]),
        np.stack([np.repeat(count, np.diff(log.span_loans)), log.loans[:, LENDER]]),
    ]
    for span, share in zip(log.share_span.tolist(), log.shares, strict=True):
        homes = home[list(share.devices)]
        pairs.append(np.stack([np.full(len(homes), span), homes])[:, homes >= 0])
    found = np.unique(np.concatenate(pairs, axis=1), axis=1)
    return found[0], found[1]


def _failures(log: RunLog) -> Uses:
    """Which nodes failures kept down from when until when."""
    found = [(node, one.at_us, one.repaired_us) for one in log.failures for node in log.cluster.domain(one.domain)]
    node, start, end = np.array(found, np.int64).reshape(-1, 3).T
    return Uses(node, start, end, np.ones(len(node), np.int64))


def _replayed(log: RunLog, power: Power) -> tuple[Ints, Switching | None]:
    """int64[spans]: when the nodes of each were on, µs; and the nodes, after the last event; ``None``: all stay on."""
    start_us, submit_us = log.span_start_us, log.jobs.submit_us
    if power.file.switch_off is None or not len(submit_us):
        return start_us, None
    (span, node), (failing, when, change) = _held(log), spells(*_failures(log)[:3])
    switching, ready_us = Switching(power, int(submit_us[0])), start_us.copy()
    nodes = [own.tolist() for own in np.split(node, np.searchsorted(span, np.arange(1, len(start_us))))]
    events = [(int(time), TAKE, i) for i, time in enumerate(start_us)]
    events += [(int(time), GIVE, i) for i, time in enumerate(log.span_end_us)]
    events += [(int(t), DOWN if more > 0 else UP, int(n)) for n, t, more in zip(failing, when, change, strict=True)]
    for time, what, number in sorted(event for event in events if event[0] <= log.end_us):
        if what == TAKE:
            ready_us[number] = switching.take(nodes[number], time)
        elif what == GIVE:
            switching.give(nodes[number], time)
        else:
            (switching.down if what == DOWN else switching.up)([number], time)
    return ready_us, switching


def _rest_us(log: RunLog, power: Power) -> int:
    """When the nodes that the end of a run leaves idle are off, µs."""
    off = power.file.switch_off
    return log.end_us + (0 if off is None else off.after + off.shutdown)


class Switched:
    """The nodes of a run of which idle ones are switched off."""

    def __init__(self, kernel: Kernel, power: Power) -> None:
        submit = kernel.submit
        self.kernel, self.switching = kernel, Switching(power, submit[0] if len(submit) else 0)
        kernel.slowdown = kernel.slowdown or Undisturbed()  # then the work of jobs is kept, which may begin late

    @classmethod
    def of(cls, kernel: Kernel) -> Switched | None:
        """``None``: all nodes stay on."""
        power = kernel.core.state.cluster.places.installed.get("power")
        return cls(kernel, power) if isinstance(power, Power) and power.file.switch_off is not None else None

    def ready_us(self, lease: Lease, now: int) -> int:
        """When the nodes of a job that starts now are on, µs."""
        return self.switching.take(self._nodes(lease), now)

    def exchanged(self, before: Lease, lease: Lease, now: int) -> None:
        """A job holds another lease: it stands still until all nodes of it are on."""
        kernel, job = self.kernel, lease.job
        ready_us = self.switching.take(self._nodes(lease), now)
        self.switching.give(self._nodes(before), now)
        if ready_us > now and (kernel.following is None or job not in kernel.following.held):
            kernel.works.stall(job, ready_us - now, now)
            kernel.version[job] += 1
            kernel.plan_end(job, kernel.works.end_us(job), now)

    def ended(self, lease: Lease, now: int) -> None:
        """A job holds nothing any more."""
        self.switching.give(self._nodes(lease), now)

    def _nodes(self, lease: Lease) -> list[int]:
        home = self.kernel.core.state.cluster.devices.home
        found = set(nodes_of(lease.rows).tolist()) | set(lease.borrowed[:, LENDER].tolist())
        found |= {int(home[device]) for share in lease.shares for device in share.devices if home[device] >= 0}
        return sorted(found)
