"""Jobs to draw curves for, where there is no trace: sizes, run times and peaks within usual bounds."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.workload.generate.distributions import Floats
from unrack.workload.generate.memory.demand import memory_by_size_mb
from unrack.workload.usage.curves import UsageCurves
from unrack.workload.usage.shapes.draw import drawn
from unrack.workload.usage.shapes.parameters import Shapes

SHORTEST_S, LONGEST_S = 600.0, 172_800.0
LARGEST = 64

_JOBS = 0x6A62  # beside the seed, so that these draws are no other generator's


def drawn_jobs(shapes: Shapes, jobs: int, seed: int = 0) -> tuple[UsageCurves, pl.Series, Floats]:
    """Curves, ids from 1 and run times in s of jobs with uniform-log run times.

    Sizes are uniform-log from 1 to 64 nodes where the parameters tell how nodes differ, else 1. Peaks are those of
    :func:`unrack.workload.generate.memory.demand.memory_by_size_mb`.

    Parameters
    ----------
    shapes
        What curves look like.
    jobs
        How many.
    seed
        Of everything drawn.
    """
    rng = np.random.default_rng([_JOBS, seed])
    run_s = np.rint(np.exp(rng.uniform(np.log(SHORTEST_S), np.log(LONGEST_S), jobs)))
    nodes = np.floor(np.exp(rng.uniform(0.0, np.log(LARGEST + 1), jobs))).astype(np.int64)
    tasks = np.ones(jobs, np.int64) if shapes.nodes is None else np.minimum(nodes, LARGEST)
    curves = drawn(shapes, tasks, run_s, memory_by_size_mb(rng, tasks), seed)
    return curves, pl.Series("job", np.arange(1, jobs + 1)), run_s
