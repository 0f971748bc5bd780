"""Times on so many drives shared by so many jobs, as ``[[models]]`` of a study reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import tomli_w

from unrack.profile.axes.axis import Level
from unrack.profile.axes.drives import AHEAD_S, DrivesFile
from unrack.profile.fitting.curve import monotone
from unrack.profile.profile import Profile

Pair = tuple[int, int]


def drive_files(profiles: Sequence[Profile]) -> dict[str, str]:
    """A CSV for each application with the axis ``drives``, and the tables that name them."""
    files: dict[str, str] = {}
    tables = []
    for profile in profiles:
        for axis in (axis for axis in profile.application.axes if isinstance(axis, DrivesFile)):
            times = drive_times(profile, axis)
            name = f"drives-{re.sub(r'[^A-Za-z0-9_.+-]', '-', profile.name)}.csv"
            lines = [f"{devices},{sharers},{time:.6f}" for (devices, sharers), time in sorted(times.items())]
            files[name] = "\n".join(["devices,sharers,time_s", *lines, ""])
            tables.append({"model": profile.name, "kind": "nvme", "csv": name})
    return {**files, "models.toml": tomli_w.dumps({"models": tables})} if tables else {}


def drive_times(profile: Profile, axis: DrivesFile) -> dict[Pair, float]:
    """(devices, sharers) → seconds; with one number of devices no time is shorter for more sharers.

    Numbers of sharers between measured ones lie on a straight line between them.
    """
    alone = profile.alone_s(axis)
    measured: dict[Pair, tuple[float, float]] = {(1, 1): (1.0, 1e6)}
    for one in profile.estimates(axis):
        measured[pair_of(one.level)] = (1 / one.speed, 1 / max(one.half, 1e-3) ** 2)
    times: dict[Pair, float] = {}
    for devices in sorted({pair[0] for pair in measured}):
        row = sorted(pair for pair in measured if pair[0] == devices)
        values = monotone([measured[pair][0] for pair in row], [measured[pair][1] for pair in row], falling=False)
        counts = [pair[1] for pair in row]
        for sharers in range(counts[0], counts[-1] + 1):
            times[devices, sharers] = alone * float(np.interp(sharers, counts, values))
    return times


def drive_demand(profile: Profile, axis: DrivesFile) -> float:
    """The share of one drive that it asks for alone, above 0; where no bytes were counted all of it."""
    runs = [run for run in profile.records.of(axis.label) if run.level is None and run.reached and run.wanted]
    shares = [(run.reached or 0.0) / run.wanted + AHEAD_S / run.time_s for run in runs]
    return min(1.0, sum(shares) / len(shares)) if shares else 1.0


def pair_of(level: Level) -> Pair:
    """A level of the axis ``drives``."""
    assert isinstance(level, tuple)
    return level
