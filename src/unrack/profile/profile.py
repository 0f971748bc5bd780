"""A profile: the folder that ``unrack profile run`` writes, and what is fitted to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from unrack.errors import InputError, RunError
from unrack.profile.application import Application, application_of, check_here
from unrack.profile.axes.axis import AxisFile, Level, LevelNeeds, Rig, label_of
from unrack.profile.axes.table import actuator_of, probe
from unrack.profile.fitting.curve import CurveFit, fit_axis
from unrack.profile.fitting.estimates import Estimate, drift_of, estimates_of, noise_of
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine
from unrack.profile.running.copies import for_a_run, run_copies, scratch
from unrack.profile.running.records import RUNS, Records, Run, Writer, read_records
from unrack.profile.running.session import Measure, State, levels_of, run_session
from unrack.study.results.record import write_whole

APP, PROBE, FIT = "app.toml", "probe.json", "fit.json"
FEWEST = 5
"""Runs of a level without which nothing is fitted."""


@dataclass(frozen=True)
class Profile:
    """The measurements of an application."""

    application: Application
    records: Records
    probe: Mapping[str, Any]  # what the machine was, and could measure

    @property
    def name(self) -> str:
        """The application's name."""
        return self.application.name

    def estimates(self, axis: AxisFile) -> list[Estimate]:
        """What the runs say of each level of an axis.

        Raises
        ------
        RunError
            A level has too few runs that held it, or controls drifted.
        """
        runs = self.records.of(axis.label)
        levels = levels_of(axis, runs)
        found = estimates_of(runs, levels, self.application.confidence)
        counted = {one.level: one for one in found}
        for level in levels:
            one = counted.get(level)
            if one is None or one.runs < FEWEST:
                missed = sum(run.level == level and not run.held for run in runs)
                raise RunError(
                    f"{self.name}, axis {axis.label}, level {label_of(level)}: {one.runs if one else 0} runs that "
                    f"count, and {missed} that missed the level; wanted {FEWEST} or more"
                )
        for block, off in drift_of(runs).items():
            if off > self.application.file.drift:
                raise RunError(f"{self.name}, axis {axis.label}, block {block}: controls drifted by {off:.1%}")
        return found

    def fit(self, axis: AxisFile) -> CurveFit:
        """The curve along an axis of numbers; see :meth:`estimates`."""
        return fit_axis(axis, self.estimates(axis))

    def alone_s(self, axis: AxisFile) -> float:
        """The mean time of the controls of an axis."""
        times = [run.time_s for run in self.records.of(axis.label) if run.level is None]
        if not times:
            raise RunError(f"{self.name}, axis {axis.label}: no runs")
        return sum(times) / len(times)

    @cached_property
    def content(self) -> dict[str, Any]:
        """All that is fitted, as plain tables."""
        return {"application": self.name, "digest": self.probe.get("digest", ""), "axes": [
            self._axis(axis) for axis in self.application.axes
        ]}  # fmt: skip

    def _axis(self, axis: AxisFile) -> dict[str, Any]:
        runs = self.records.of(axis.label)
        found: dict[str, Any] = {
            "axis": axis.label, "kind": axis.kind, "unit": axis.unit, "alone_s": self.alone_s(axis),
            "noise": noise_of(runs), "drift": max(drift_of(runs).values(), default=0.0),
            "offered": "", "errors": [],
            "sources": sorted({run.source for run in runs if run.level is not None}),
            "levels": [
                {"level": label_of(one.level), "speed": one.speed, "low": one.low, "high": one.high,
                 "runs": one.runs, "missed": one.missed}
                for one in self.estimates(axis)
            ],
        }  # fmt: skip
        if is_numeric(axis):
            fit = self.fit(axis)
            found["offered"] = fit.offered
            found["errors"] = [error._asdict() for error in fit.errors]
        return found


def is_numeric(axis: AxisFile) -> bool:
    """Whether levels are numbers, so that a curve can go through them."""
    return all(isinstance(level, float | int) for level in axis.levels)


def read_profile(folder: str | Path) -> Profile:
    """A profile from its folder.

    Raises
    ------
    InputError
        A file is missing or cannot be read.
    """
    home = Path(folder)
    try:
        text = (home / APP).read_text(encoding="utf-8")
        found = json.loads((home / PROBE).read_text(encoding="utf-8"))
        origin = Path(found["folder"])
    except OSError as error:
        want = "a folder that `unrack profile run` wrote"
        raise InputError(f"{folder}, {Path(str(error.filename)).name}", str(error.strerror), want) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{home / PROBE}", f"{error}", "what `unrack profile run` wrote") from None
    return Profile(application_of(text, origin, str(home / APP)), read_records(home), found)


def keep_fit(folder: Path, profile: Profile) -> None:
    """Write what is fitted, and the raw runs as a Parquet table, beside them."""
    from unrack.profile.running.records import table_of

    write_whole(folder / FIT, json.dumps(profile.content, indent=1, ensure_ascii=False) + "\n")
    table_of(profile.records.runs).write_parquet(folder / "runs.parquet")


def run_profile(
    application: Application, folder: Path, machine: Machine, fresh: bool = False,
    tell: Callable[[State], None] = lambda _: None,
) -> Profile:  # fmt: skip
    """Measure an application, or go on where it was interrupted; raw runs are in the folder one by one.

    Raises
    ------
    InputError
        It cannot run here, or the folder has runs of another file.
    RunError
        As :func:`unrack.profile.running.session.run_session` says.
    """
    check_here(application)
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Writer(folder / RUNS)) as writer, Journal() as journal:
        if fresh:
            writer.forget()
        earlier = read_records(folder)
        _claim(folder, application, earlier)
        findings = [one._asdict() for one in probe(machine, journal)]
        about = {
            "at": _now(), "digest": application.digest, "folder": str(application.folder),
            "kernel": machine.text("/proc/sys/kernel/osrelease").strip(), "load": machine.load, "probe": findings,
        }  # fmt: skip
        write_whole(folder / APP, application.text)
        write_whole(folder / PROBE, json.dumps(about, indent=1) + "\n")
        with scratch(folder) as scratch_folder:
            rig = Rig(
                machine, journal, scratch_folder, application.file.cores, application.memory_mb, application.inputs
            )
            records = run_session(application, earlier, lambda axis: bench(application, axis, rig), writer.add, tell)
    return Profile(application, records, about)


def _claim(folder: Path, application: Application, earlier: Records) -> None:
    """Refuse a folder that has runs of something else."""
    try:
        digest = json.loads((folder / PROBE).read_text(encoding="utf-8")).get("digest")
    except (OSError, ValueError, AttributeError):
        digest = None
    if earlier.runs and digest != application.digest:
        got = "runs of another APP.toml, or of other inputs"
        raise InputError(str(folder), got, "the same as before, another --out, or --fresh to forget them")


@contextmanager
def bench(application: Application, axis: AxisFile, rig: Rig) -> Iterator[Measure]:
    """What measures an application along an axis, for real; what the machine refuses is a RunError.

    An application with a drive or a link of its own has them along its other axes too, as in the controls of those.
    """
    around = [one for one in application.axes if one.surrounds and one != axis]
    ways = [(one, actuator_of(one, rig.machine, rig.journal)) for one in (axis, *around)]
    try:
        with ExitStack() as stack:
            at, *others = [stack.enter_context(way.stand(one, rig)) for one, way in ways]

            def measure(level: Level | None) -> Run:
                wanted = axis.base if level is None else level
                with ExitStack() as levels:
                    held = LevelNeeds() if wanted is None else levels.enter_context(at(wanted, LevelNeeds()))
                    for one, other in zip(around, others, strict=True):
                        assert one.base is not None
                        held = held.beside(levels.enter_context(other(one.base, held)))
                    return _run(application, held, rig)

            yield measure
    except OSError as error:
        raise RunError(f"axis {axis.label}: {error}") from error


def _run(application: Application, held: LevelNeeds, rig: Rig) -> Run:
    load = rig.machine.load
    with for_a_run(held, rig) as held:
        copies, usage = run_copies(application, held, rig.token)
        reached = held.reached(usage)
    return Run(
        "", 0, 0, 0, None, tuple(copy.time_s for copy in copies), reached.value, reached.wanted, reached.held,
        reached.source, round(usage.cpu_s, 6), sum(copy.faults for copy in copies), load, _now(),
    )  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
