"""Mixes of profiled applications: what unrack predicts, and what this machine does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import Lease
from unrack.profile.axes.axis import AxisFile, Held, Level, Rig
from unrack.profile.axes.drives import Drive, DrivesFile, capped_drive
from unrack.profile.axes.table import actuator_of
from unrack.profile.check.mixes import Job, Mix, Mixes, alone_s
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine
from unrack.profile.models.drives import drive_times
from unrack.profile.running.copies import Started, in_front, prepare, scratch, start
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.slowdown.combined import Together, combined
from unrack.study.results.record import write_whole
from unrack.units import SECOND_US
from unrack.view import View
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

CHECK = "check.json"


@dataclass(frozen=True)
class Outcome:
    """A mix: what each job took, on average over its runs, and what each rule predicted."""

    mix: Mix
    measured_s: tuple[float, ...]  # of each job
    predicted_s: dict[str, tuple[float, ...]]  # way in which slowdowns combine → of each job
    loads: tuple[float, ...]  # of the machine before each run


def check_mixes(mixes: Mixes, folder: Path, machine: Machine, say: Callable[[str], None]) -> list[Outcome]:
    """Predict all mixes, run them for real, and keep what came of it after each.

    Raises
    ------
    InputError
        Two applications have inputs of the same name.
    RunError
        The machine cannot hold a level, or an application failed.
    """
    found: list[Outcome] = []
    predicted = [{how.value: predict(mix, how) for how in Together} for mix in mixes.mixes]
    inputs = _inputs(mixes)
    with Journal() as journal, scratch(folder) as large:
        rig = Rig(machine, journal, large, 1, 0, inputs)
        with capped_drive(rig, mixes.size_mb, max(len(mix.jobs) for mix in mixes.mixes)) as drive:
            for mix, predictions in zip(mixes.mixes, predicted, strict=True):
                runs, loads = [], []
                for turn in range(mixes.repeats):
                    say(f"{mix.name}: {', '.join(job.label for job in mix.jobs)}; run {turn + 1} of {mixes.repeats}")
                    loads.append(machine.load)
                    runs.append(run_mix(mix, drive, mixes.mb_s, rig))
                measured = tuple(fmean(times) for times in zip(*runs, strict=True))
                found.append(Outcome(mix, measured, predictions, tuple(loads)))
                write_whole(folder / CHECK, json.dumps(summary_of(found), indent=1, ensure_ascii=False) + "\n")
    return found


def _inputs(mixes: Mixes) -> tuple[Path, ...]:
    found: dict[str, Path] = {}
    for mix in mixes.mixes:
        for job in mix.jobs:
            for path in job.profile.application.inputs:
                if found.setdefault(path.name, path) != path:
                    got = f"{path} and {found[path.name]}"
                    raise InputError("profiles, inputs", got, "different names: they are on one drive")
    return tuple(found.values())


def predict(mix: Mix, how: Together) -> tuple[float, ...]:
    """Seconds from beginning to end of each job, simulated: jobs that begin at once, and share one drive.

    Levels that hold for a job alone slow it down throughout; how that combines with the drive is ``how``.
    """
    submit = np.array([round(job.at_s * SECOND_US) for job in mix.jobs])
    order = np.argsort(submit, kind="stable").tolist()
    times = [times_of(job, how) for job in mix.jobs]
    drive = DriveSpeeds([times[i] for i in order], [mix.jobs[i].drives is not None for i in order])
    cores = np.array([job.profile.application.file.cores for job in mix.jobs])
    jobs = job_table(
        submit_us=submit,
        work_us=np.array([round(row[0] * SECOND_US) for row in times]),
        tasks=np.ones(len(times), np.int64),
        cores=cores,
    )
    cluster = Cluster.homogeneous(nodes=1, cores=int(cores.sum()))
    workload = Workload(mix.name, jobs, Intake("", "", len(times), len(times)))
    rows = simulate(cluster, workload, "easy", world=World(slowdowns=drive)).jobs.sort("job")
    return tuple(end - begun for begun, end in rows.select("submit_s", "end_s").rows())


class DriveSpeeds:
    """Speeds of jobs that share one drive; see :class:`unrack.slowdown.contract.Slowdown`.

    Unlike the models of a study, each job has its own row, whatever the others run.

    Parameters
    ----------
    times
        Of each job by rows of the job table: seconds alone, with one more sharer, ….
    on
        Whether it uses the drive.
    """

    def __init__(self, times: Sequence[Sequence[float]], on: Sequence[bool]) -> None:
        self._times, self._on = times, np.array(on)

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: all that use the drive, and the job of the lease."""
        running = view.running[1, : view.running_count]
        return np.sort(running[self._on[running] | (running == lease.job)])

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now, by how many use the drive."""
        sharers = int(self._on[view.running[1, : view.running_count]].sum())
        rows = [(self._times[job], sharers - 1 if self._on[job] else 0) for job in jobs.tolist()]
        return np.array([row[0] / row[at] for row, at in rows])

    def feels(self, before: Lease, after: Lease) -> bool:
        """False: a job keeps the drive."""
        del before, after
        return False


def times_of(job: Job, how: Together) -> list[float]:
    """Seconds of a job alone, beside one more sharer of the drive, …, under its own levels."""
    axis, alone = job.drives, alone_s(job.profile)
    known = {(1, 1): alone} if axis is None else drive_times(job.profile, axis)
    row = [known[1, k] for k in range(1, 1 + max(k for d, k in known if d == 1))]
    own = [job.profile.fit(axis).curve()(level) for axis, level in job.levels]
    speeds = [np.array([row[0] / time for time in row]), *(np.full(len(row), speed) for speed in own)]
    return [row[0] / float(speed) for speed in combined(speeds, how)]


def run_mix(mix: Mix, drive: Drive, mb_s: int, rig: Rig) -> list[float]:
    """Run a mix once for real: seconds of each job."""
    with ExitStack() as stack:
        shared = stack.enter_context(drive(mb_s, Held()))
        held = [_held(job, shared, rig, stack) for job in mix.jobs]
        outputs = [stack.enter_context(TemporaryFile()) for _ in mix.jobs]
        for number, job in enumerate(mix.jobs):
            if job.profile.application.file.prepare:
                prepare(job.profile.application, _numbered(held[number], number), rig.token)
        started: dict[int, Started] = {}
        begun = time.monotonic()
        try:
            for number in sorted(range(len(mix.jobs)), key=lambda i: (mix.jobs[i].at_s, i)):
                job = mix.jobs[number]
                time.sleep(max(0.0, begun + job.at_s - time.monotonic()))
                own = job.profile.application
                started[number] = start(own, held[number], rig.token, number, outputs[number])
            for one in started.values():
                one.thread.join()
            return [started[number].copy().wall_s for number in range(len(mix.jobs))]
        finally:
            for one in started.values():
                one.end()


def _held(job: Job, shared: Held, rig: Rig, stack: ExitStack) -> Held:
    """What a job needs: the drive that all share, a link of its own if it has one, and its own levels."""
    held = shared if job.drives is not None else Held()
    own = job.profile.application
    levels: dict[str, tuple[AxisFile, Level]] = {
        axis.label: (axis, axis.base)
        for axis in own.axes
        if axis.surrounds and axis.base is not None and not isinstance(axis, DrivesFile)
    }
    levels |= {axis.label: (axis, level) for axis, level in job.levels}
    for axis, level in levels.values():
        rack = Rig(rig.machine, rig.journal, rig.scratch, own.file.cores, own.memory_mb)
        actuator = actuator_of(axis, rig.machine, rig.journal)
        at = stack.enter_context(actuator.stand(axis, rack))
        held = held.beside(stack.enter_context(at(level, held)))
    return stack.enter_context(in_front(held, rig))


def _numbered(held: Held, number: int) -> Held:
    return held.beside(Held(words={"copy": str(number)}))


def summary_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """How far predictions are off, job by job and by rule, as plain tables; the rule that is nearest is offered."""
    rules: dict[str, dict[str, float]] = {}
    for how in Together:
        off = [abs(_off(one.predicted_s[how][i], time)) for one in outcomes for i, time in enumerate(one.measured_s)]
        ends = [abs(_off(_end(one, one.predicted_s[how]), _end(one, one.measured_s))) for one in outcomes]
        rules[how.value] = {"median": median(off), "mean": fmean(off), "most": max(off), "ends": median(ends)}
    offered = min(rules, key=lambda name: (round(rules[name]["median"], 4), list(rules).index(name)))
    jobs = [
        {"mix": one.mix.name, "job": job.label, "at_s": job.at_s, "alone_s": alone_s(job.profile),
         "measured_s": one.measured_s[i], "predicted_s": one.predicted_s[offered][i],
         "error": _off(one.predicted_s[offered][i], one.measured_s[i]), "load": max(one.loads)}
        for one in outcomes for i, job in enumerate(one.mix.jobs)
    ]  # fmt: skip
    return {"rules": rules, "offered": offered, "jobs": jobs}


def _end(outcome: Outcome, times: Sequence[float]) -> float:
    """When the last job of a mix ends."""
    return max(job.at_s + time for job, time in zip(outcome.mix.jobs, times, strict=True))


def _off(predicted: float, measured: float) -> float:
    return predicted / measured - 1
