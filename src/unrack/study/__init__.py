"""Many runs: grids, kept results, workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.study.grid import Run as Run
    from unrack.study.input.inputs import PolicySpec as PolicySpec
    from unrack.study.results.record import engine_digest as engine_digest
    from unrack.study.results.record import write_whole as write_whole
    from unrack.study.runner import PROCESSES as PROCESSES
    from unrack.study.runner import keep_runs as keep_runs
    from unrack.study.runner import measure_runs as measure_runs
    from unrack.study.runner import simulated as simulated
    from unrack.study.workers.shared import Workers as Workers
    from unrack.study.workers.table import On as On
    from unrack.study.workers.table import open_workers as open_workers
    from unrack.study.workers.table import parse_on as parse_on
    from unrack.study.workers.table import spread as spread
    from unrack.study.world import RunTimes as RunTimes
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
