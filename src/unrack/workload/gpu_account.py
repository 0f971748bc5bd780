"""What jobs ask of GPUs, for ``unrack trace info``: how many, which parts of one, which models."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from unrack.workload.job import JobTable

GPUS, WHOLE_MILLI = "gpus", 1000
MODELS = "gpu_models"
"""The column, carried along, with the models that a job accepts."""
_MOST_SHOWN = 8


def gpus_asked(jobs: JobTable) -> dict[str, Any] | None:
    """What jobs ask of the resource ``gpus``; ``None`` where none asks for a GPU.

    Returns
    -------
    dict
        ``jobs`` that ask for GPUs; ``gpus`` that all together ask for, parts counted as parts; ``sizes`` (GPUs of a
        job → jobs) and ``fragments`` (1/1000 of a GPU → jobs that ask for less than whole ones), at most the eight
        commonest of each; ``shared``: jobs in ``fragments``; ``slices``: jobs that ask for slices; ``models``: (models
        accepted → jobs), of those that say so.
    """
    count = jobs.devices.get((GPUS, "count"))
    if count is None or not bool((count > 0).any()):
        return None
    asking = count > 0
    none = np.zeros(len(jobs), np.int64)
    milli = np.where(asking, jobs.devices.get((GPUS, "milli"), none), 0)
    parts = (milli > 0) & (milli < WHOLE_MILLI)
    total = jobs.tasks * count
    models: dict[str, int] = {}
    if MODELS in jobs.extra.columns:
        models = _counts(jobs.extra[MODELS].filter(pl.Series(asking)))
    return {
        "jobs": int(asking.sum()),
        "gpus": float((total.astype(np.float64) * np.where(milli > 0, milli, WHOLE_MILLI)).sum() / WHOLE_MILLI),
        "sizes": _counts(pl.Series(total[asking])),
        "shared": int(parts.sum()),
        "fragments": _counts(pl.Series(milli[parts])),
        "slices": int((jobs.devices.get((GPUS, "slices"), none) > 0).sum()),
        "models": models,
    }


def _counts(values: pl.Series) -> dict[str, int]:
    """Value → how often, the commonest in order of value."""
    found = values.drop_nulls().value_counts(sort=True, name="jobs").sort(
        ["jobs", values.name], descending=[True, False]
    ).head(_MOST_SHOWN).sort(values.name)  # fmt: skip
    return {str(value): int(jobs) for value, jobs in found.iter_rows()}
