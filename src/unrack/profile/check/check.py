"""Mixes of profiled applications: what unrack predicts, and what this machine does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryFile
from typing import Any

from unrack.errors import InputError, RunError
from unrack.profile.axes.axis import AxisFile, Level, LevelNeeds, Rig, Usage
from unrack.profile.axes.drives import Drive, DrivesFile, capped_drive
from unrack.profile.axes.table import actuator_of
from unrack.profile.check.mixes import Job, Mix, Mixes, alone_s
from unrack.profile.check.predicted import MODELS, predict
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine, usable_cores
from unrack.profile.running.copies import Started, for_a_run, prepare, scratch, start
from unrack.study.results.record import write_whole

CHECK = "check.json"


@dataclass(frozen=True)
class MixOutcome:
    """A mix: what each job took, on average over its runs, and what each rule predicted."""

    mix: Mix
    measured_s: tuple[float, ...]  # of each job
    predicted_s: dict[str, tuple[float, ...]]  # model → of each job
    loads: tuple[float, ...]  # of the machine before each run


def check_mixes(mixes: Mixes, folder: Path, machine: Machine, say: Callable[[str], None]) -> list[MixOutcome]:
    """Predict all mixes, run them for real, and keep what came of it after each.

    Raises
    ------
    InputError
        Two applications have inputs of the same name.
    RunError
        The machine cannot hold a level, or an application failed.
    """
    found: list[MixOutcome] = []
    predicted = [{model: predict(mix, model) for model in MODELS} for mix in mixes.mixes]
    inputs = _inputs(mixes)
    with Journal() as journal, scratch(folder) as large:
        rig = Rig(machine, journal, large, 1, 0, inputs)
        copies = max(len(mix.jobs) for mix in mixes.mixes)
        with capped_drive(rig, mixes.size_mb, copies) if mixes.mb_s else nullcontext(_no_drive) as drive:
            for mix, predictions in zip(mixes.mixes, predicted, strict=True):
                if (asked := sum(job.profile.application.file.cores for job in mix.jobs)) > len(usable_cores()):
                    say(f"{mix.name}: {asked} cores for {len(usable_cores())}; that jobs share them is not predicted")
                runs, loads = [], []
                for turn in range(mixes.repeats):
                    say(f"{mix.name}: {', '.join(job.label for job in mix.jobs)}; run {turn + 1} of {mixes.repeats}")
                    loads.append(machine.load)
                    runs.append(run_mix(mix, drive, mixes.mb_s, rig))
                measured = tuple(fmean(times) for times in zip(*runs, strict=True))
                found.append(MixOutcome(mix, measured, predictions, tuple(loads)))
                write_whole(folder / CHECK, json.dumps(summary_of(found), indent=1, ensure_ascii=False) + "\n")
    return found


def _no_drive(mb_s: float, within: LevelNeeds) -> AbstractContextManager[LevelNeeds]:
    """What jobs that were measured on none share."""
    del mb_s
    return nullcontext(within)


def _inputs(mixes: Mixes) -> tuple[Path, ...]:
    found: dict[str, Path] = {}
    for mix in mixes.mixes:
        for job in mix.jobs:
            for path in job.profile.application.inputs:
                if found.setdefault(path.name, path) != path:
                    got = f"{path} and {found[path.name]}"
                    raise InputError("profiles, inputs", got, "different names: they are on one drive")
    return tuple(found.values())


def run_mix(mix: Mix, drive: Drive, mb_s: int, rig: Rig) -> list[float]:
    """Run a mix once for real: seconds of each job."""
    with ExitStack() as stack:
        shared = stack.enter_context(drive(mb_s, LevelNeeds()))
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
            copies = [started[number].copy() for number in range(len(mix.jobs))]
            for job, at, copy in zip(mix.jobs, held, copies, strict=True):
                found = at.reached(Usage(copy.wall_s, copy.cpu_s))
                if not found.held:
                    got = f"{found.value:.4g} of {found.wanted:.4g} ({found.source})"
                    raise RunError(f"{mix.name}, {job.label}: not held: {got}")
            return [copy.wall_s for copy in copies]
        finally:
            for one in started.values():
                one.end()


def _held(job: Job, shared: LevelNeeds, rig: Rig, stack: ExitStack) -> LevelNeeds:
    """What a job needs: the drive that all share, a link of its own if it has one, and its own levels."""
    held = shared if job.drives is not None else LevelNeeds()
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
    return stack.enter_context(for_a_run(held, rig))


def _numbered(held: LevelNeeds, number: int) -> LevelNeeds:
    return held.beside(LevelNeeds(words={"copy": str(number)}))


def summary_of(outcomes: Sequence[MixOutcome]) -> dict[str, Any]:
    """How far predictions are off, job by job and by rule, as plain tables; the rule that is nearest is offered."""
    rules: dict[str, dict[str, float]] = {}
    for how in MODELS:
        off = [abs(_off(one.predicted_s[how][i], time)) for one in outcomes for i, time in enumerate(one.measured_s)]
        ends = [abs(_off(_end(one, one.predicted_s[how]), _end(one, one.measured_s))) for one in outcomes]
        rules[how] = {"median": median(off), "mean": fmean(off), "most": max(off), "ends": median(ends)}
    offered = min(rules, key=lambda name: (round(rules[name]["median"], 4), list(rules).index(name)))
    jobs = [
        {"mix": one.mix.name, "job": job.label, "at_s": job.at_s, "alone_s": alone_s(job.profile),
         "measured_s": one.measured_s[i], "predicted_s": one.predicted_s[offered][i],
         "error": _off(one.predicted_s[offered][i], one.measured_s[i]), "load": max(one.loads)}
        for one in outcomes for i, job in enumerate(one.mix.jobs)
    ]  # fmt: skip
    return {"rules": rules, "offered": offered, "jobs": jobs}


def _end(outcome: MixOutcome, times: Sequence[float]) -> float:
    """When the last job of a mix ends."""
    return max(job.at_s + time for job, time in zip(outcome.mix.jobs, times, strict=True))


def _off(predicted: float, measured: float) -> float:
    return predicted / measured - 1
