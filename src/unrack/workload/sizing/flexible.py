"""The filter ``flexible``: jobs of a log that had one size are given several, by a model of their speed-up.

A log says how long a job ran with the size that it had; how long it would have run with another is a model's word. As
submitted it runs as long as in the log. Of Downey's model, each job draws its average parallelism evenly between half
and twice the tasks that it has, and its variation evenly between 0 and 2, the range that Downey looks at.

References
----------
Downey: A model for speedup of parallel programs. UC Berkeley CSD-97-933, 1997.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from unrack.errors import InputError
from unrack.kernels.arrays import Ints
from unrack.resources.checked import Strict
from unrack.resources.recurring import Time
from unrack.units import SECOND_US
from unrack.workload.job import Workload
from unrack.workload.resample import recorded
from unrack.workload.sizing.sizes import COLUMNS, speedup_of

_FLEXIBLE = 0x666C  # beside the seed, so that these draws are no generator's


class FlexibleTable(Strict):
    """The value of ``flexible``; or a share."""

    share: Annotated[float, Field(ge=0, le=1)] = 1.0  # of the jobs, drawn, that are given sizes
    flexibility: Literal["moldable", "malleable"] = "moldable"
    # smaller, larger: sizes go from so much of a job's own to so much, in whole tasks
    smaller: Annotated[float, Field(gt=0, le=1)] = 0.25
    larger: Annotated[float, Field(ge=1)] = 4.0
    most: Annotated[int, Field(ge=1)] | None = None  # and up to so many tasks
    speedup: str | None = None  # as in the column of that name; default: Downey's, drawn for each job
    change: Time = 0  # how long a job stands still at a change, µs


def flexible(workload: Workload, value: Any, seed: int = 0) -> Workload:
    """Give jobs sizes as the value of the filter ``flexible`` says.

    An InputError if the value is wrong, or jobs say their sizes themselves.
    """
    if not isinstance(value, Mapping):
        value = {"share": value}
    table = FlexibleTable.read(value, "filter flexible, ", "")
    if table.speedup is not None:
        speedup_of(table.speedup, "filter flexible, speedup")
    jobs, count = workload.jobs, len(workload)
    if said := sorted(set(COLUMNS) & set(jobs.extra.columns)):
        raise InputError("filter flexible", f"jobs that say {', '.join(said)} themselves", "jobs of one size")
    draw = np.random.default_rng([_FLEXIBLE, seed])
    chosen = draw.random(count) < table.share
    average, sigma = draw.uniform(0.5, 2.0, count) * jobs.tasks, draw.uniform(0.0, 2.0, count)
    most = np.floor(jobs.tasks * table.larger).astype(np.int64)
    if table.most is not None:
        most = np.maximum(np.minimum(most, table.most), jobs.tasks)
    models = [f"downey {max(a, 1.0):.4f} {s:.4f}" for a, s in zip(average.tolist(), sigma.tolist(), strict=True)]

    def of_chosen(values: Ints | list[str]) -> pl.Series:
        return pl.Series(values).set(pl.Series(~chosen), None)

    extra = {
        "min_tasks": of_chosen(np.ceil(jobs.tasks * table.smaller).astype(np.int64)),
        "max_tasks": of_chosen(most),
        "speedup": of_chosen(models if table.speedup is None else [table.speedup] * count),
        "flexibility": of_chosen([table.flexibility] * count),
        "change_s": pl.Series(np.full(count, table.change / SECOND_US)),
    }
    frame = jobs.extra.with_columns(**extra) if jobs.extra.width else pl.DataFrame(extra)
    how = table.speedup or f"downey's model, drawn for each, seed {seed}"
    words = f"{int(chosen.sum())} of {count} jobs made {table.flexibility}, speed-up by {how}"
    return recorded(workload, replace(jobs, extra=frame), words)
