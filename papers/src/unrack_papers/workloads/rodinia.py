"""Workloads of Rodinia jobs: one GPU each, at hand or in another machine, after others have filled some machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack import Workload
from unrack.workload import Intake, job_table
from unrack.workload.formats import MOST, MOST_MB
from unrack.workload.generate import as_us, gap_s, numbers_from, upward
from unrack_papers.workloads.rodinia_spec import RodiniaSpec

WARM_UP = "warm-up"
"""What jobs that warm up are called, as an application."""


def generate_rodinia(spec: RodiniaSpec | Mapping[str, Any], seed: int = 0, name: str | None = None) -> Workload:
    """Draw a workload of Rodinia jobs.

    Parameters
    ----------
    spec
        What to draw; a mapping is validated.
    seed
        Of ``numpy.random.Generator(PCG64(seed))``, the only source of chance. The draws are, in order: gaps,
        applications, cores, memory, run times, those of single applications in their order, then memory and run times
        of the jobs that warm up.
    name
        The workload's name; default: "rodinia".

    Returns
    -------
    Workload
        Jobs of one task; those that warm up come first.

    Raises
    ------
    InputError
        The mapping is not a valid specification, or what is drawn is out of range.

    Examples
    --------
    >>> jobs = generate_rodinia({"rodinia_jobs": 2, "apps": {"nw": 0.17}, "run_s": 60}).jobs
    >>> jobs.cores.tolist(), jobs.devices["links", "remote_mb_s"].tolist()
    ([20, 20, 18, 1, 1], [0, 0, 0, 213, 213])
    """
    spec = RodiniaSpec.read(spec, "generate, ")
    rng = numbers_from(seed)
    count, warm = spec.rodinia_jobs, spec.warm_up
    units = spec.arrivals.units(rng, count)
    apps = list(spec.apps)
    app = rng.integers(0, len(apps), count)
    cores = upward(spec.cores.draw(rng, count), 1, MOST, "cores")
    memory_mb = upward(spec.memory_mb.draw(rng, count), 0, MOST_MB - 1, "memory_mb")
    run_us = as_us(spec.run_s.draw(rng, count), "run_s")
    for place, own in enumerate(apps):
        if own in spec.run_of:
            rows = np.flatnonzero(app == place)
            run_us[rows] = as_us(spec.run_of[own].draw(rng, len(rows)), f"run_of.{own}")
    warm_mb = upward(spec.warm_up_memory_mb.draw(rng, warm), 0, MOST_MB - 1, "warm_up_memory_mb")
    warm_us = as_us(spec.warm_up_s.draw(rng, warm), "warm_up_s")
    link_mb_s = upward(np.array([spec.apps[own] * spec.link for own in apps]), 0, MOST_MB - 1, "link")[app]
    tasks, gpus = np.ones(count, np.int64), ("gpu", "devices") if spec.gpus == "pool" else ("gpus", "count")
    drawn = {"cores": cores, "memory_mb": memory_mb, ".".join(gpus): tasks}
    mean_gap_s = gap_s(spec.arrivals, units, seed, run_us, tasks, drawn)
    submit_us = as_us(spec.arrivals.times_s(units, mean_gap_s, seed), "arrivals")
    none = np.zeros(warm, np.int64)
    devices: dict[tuple[str, str], NDArray[np.int64]] = {}
    if "gpus" not in spec.leave_out:
        devices[gpus] = np.concatenate([none, tasks])
    if "links" not in spec.leave_out:
        devices["links", "remote_mb_s"] = np.concatenate([none, link_mb_s])
    jobs = job_table(
        submit_us=np.concatenate([none, submit_us]),
        work_us=np.concatenate([warm_us, run_us]),
        tasks=np.ones(warm + count, np.int64),
        cores=np.concatenate([np.resize(np.array(spec.warm_up_cores, np.int64), warm), cores]),
        memory_mb=np.concatenate([warm_mb, memory_mb]),
        app=pl.concat([pl.Series([WARM_UP] * warm, dtype=pl.String), pl.Series(apps).gather(app)]),
        devices=devices,
    )
    header = {"Model": "Rodinia jobs on one GPU each, after Amaral 2019, section 5.6"}
    if not {"run_s", "apps"} & spec.model_fields_set:
        header["Note"] = "not published, and chosen here: run times, and hotspot's share of time in the network"
    return Workload(
        name or "rodinia", jobs, Intake(f"generated, seed {seed}", "generated", len(jobs), len(jobs), header=header)
    )
