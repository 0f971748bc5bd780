"""Applications of known curves, measured without a machine; and the text of their files."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from unrack.profile.application import Application, application_of
from unrack.profile.axes.axis import AxisFile, Level, number
from unrack.profile.profile import Profile
from unrack.profile.running.records import Records, Refused, Run
from unrack.profile.running.session import Bench, run_session

SHAPES: dict[str, Callable[[float], float]] = {
    "flat": lambda x: 1.0,
    "line": lambda x: 1 - 0.05 * x,
    "levels off": lambda x: 0.6 + 0.4 * math.exp(-x / 2),
    "falls late": lambda x: 1.0 if x <= 6 else 1 - 0.1 * (x - 6),
    "halves": lambda x: 1 / (1 + x / 5),
}
"""Speed by a level from 0 to 10."""
KEYS = 'name = "known"\ncommand = ["true"]\nwarm_up = 0\n'
AXIS = '[[axes]]\nkind = "command"\nlevels = [2, 4, 6, 8, 10]\n'
NONE = Records((), ())


def application(keys: str = "", axes: str = AXIS) -> Application:
    return application_of(KEYS + keys + axes, Path(), "known.toml")


def bench(
    speed: Callable[[AxisFile, Level], float],
    noise: float = 0.01,
    seed: int = 0,
    drift: Callable[[int], float] = lambda run: 1.0,
    held: Callable[[Level], bool] = lambda level: True,
    late: float = 0.0,
    wander: float = 0.0,
) -> Bench:
    """Times of 10 s over the speed, with noise, that drift by a factor from run to run.

    Of ten runs one is late, by ``late`` on average; all wander off by ``wander`` from run to run.
    """
    draw, count, far = random.Random(seed), iter(range(10**9)), [0.0]

    @contextmanager
    def made(axis: AxisFile) -> Iterator[Callable[[Level | None], Run]]:
        def measure(level: Level | None) -> Run:
            known = axis.base if level is None else level
            alone = 1.0 if level is None else speed(axis, level)
            off = draw.gauss(0, noise)
            if late and draw.random() < 0.1:
                off += draw.expovariate(1 / late)
            if wander:
                far[0] += draw.gauss(0, wander)
            time = 10 / alone * math.exp(off + far[0]) * drift(next(count))
            wanted = number(known) if isinstance(known, float | int) else 0.0
            return Run("", 0, 0, 0, None, (time,), wanted, wanted, level is None or held(level), "known")

        yield measure

    return made


def shaped(shape: str) -> Callable[[AxisFile, Level], float]:
    return lambda axis, level: SHAPES[shape](number(level))


def measured(app: Application, how: Bench, kept: list[Run | Refused] | None = None) -> Profile:
    records = run_session(app, NONE, how, (kept if kept is not None else []).append)
    return Profile(app, records, {})
