"""Workloads of training jobs: networks, batch sizes and GPUs drawn, run times as measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack import Workload
from unrack.errors import InputError
from unrack.resources.gpus import GPUS, UTILITY_PARTS, app_name
from unrack.workload import Intake, job_table
from unrack.workload.formats import MOST, MOST_MB
from unrack.workload.generate import as_us, gap_s, numbers_from, upward
from unrack_papers.workloads.fields import TOGETHER
from unrack_papers.workloads.measured_times import read_times
from unrack_papers.workloads.minsky import NEAREST
from unrack_papers.workloads.training_spec import TrainingSpec

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def generate_training(
    spec: TrainingSpec | Mapping[str, Any], seed: int = 0, name: str | None = None, folder: Path | None = None
) -> Workload:
    """Draw a workload of training jobs.

    Parameters
    ----------
    spec
        What to draw; a mapping is validated.
    seed
        Of ``numpy.random.Generator(PCG64(seed))``, the only source of chance. The draws are, in order: gaps, batch
        sizes, networks, GPUs, utilities, cores, memory, run times.
    name
        The workload's name; default: "training".
    folder
        Where the file of measured times is looked for first.

    Returns
    -------
    Workload
        A job of one task each; its requested time is its run time.

    Raises
    ------
    InputError
        The mapping is not a valid specification, what is drawn is out of range, or an application was not measured.

    Examples
    --------
    >>> jobs = generate_training({"training_jobs": 3, "run_s": 60, "networks": ["alexnet"], "batch_p": 0}).jobs
    >>> jobs.app_names, jobs.devices["gpus", "together"].tolist()
    (('alexnet/1',), [1, 1, 1])
    """
    spec = TrainingSpec.read(spec, "generate, ")
    rng = numbers_from(seed)
    count = spec.training_jobs
    units = spec.arrivals.units(rng, count)
    batch = rng.binomial(len(spec.batch_sizes) - 1, spec.batch_p, count)
    network = rng.binomial(len(spec.networks) - 1, spec.network_p, count)
    gpus = upward(spec.gpus.draw(rng, count), 1, MOST, "gpus")
    utility = spec.min_utility.draw(rng, count)
    if utility.max() > 1:
        raise InputError("generate, min_utility", f"{utility.max():g}", "a utility from 0 to 1")
    cores = upward(spec.cores.draw(rng, count), 1, MOST, "cores")
    memory_mb = upward(spec.memory_mb.draw(rng, count), 0, MOST_MB - 1, "memory_mb")
    changed: dict[str, int] = {}
    header = {"Model": "training jobs after Amaral 2019, section 4.4"}
    if spec.run_s is not None:
        run_us = as_us(spec.run_s.draw(rng, count), "run_s")
    else:
        times_s, elsewhere = _measured_s(spec, folder, batch, network, gpus, header)
        run_us = as_us(times_s, "profiles")
        changed = {NEAREST: elsewhere} if elsewhere else {}
    drawn = {"cores": cores, "memory_mb": memory_mb, f"{GPUS}.count": gpus}
    tasks = np.ones(count, np.int64)
    mean_gap_s = gap_s(spec.arrivals, units, seed, run_us, tasks, drawn)
    kinds = len(spec.batch_sizes)
    apps = pl.Series([app_name(one, size) for one in spec.networks for size in spec.batch_sizes])
    jobs = job_table(
        submit_us=as_us(spec.arrivals.times_s(units, mean_gap_s, seed), "arrivals"),
        work_us=run_us,
        tasks=tasks,
        cores=cores,
        memory_mb=memory_mb,
        app=apps.gather(network * kinds + batch),
        devices={
            (GPUS, "count"): gpus,
            (GPUS, "together"): np.full(count, TOGETHER, np.int64),
            (GPUS, "min_utility"): upward(utility * UTILITY_PARTS, 0, UTILITY_PARTS, "min_utility"),
        },
    )
    intake = Intake(f"generated, seed {seed}", "generated", count, count, changed=changed, header=header)
    return Workload(name or "training", jobs, intake)


def _measured_s(
    spec: TrainingSpec, folder: Path | None, batch: Ints, network: Ints, gpus: Ints, header: dict[str, str]
) -> tuple[Floats, int]:
    """float64[jobs] of times alone, and how many were measured on another number of GPUs; borrowed ones are noted."""
    assert spec.profiles is not None
    beside = folder is not None and (folder / spec.profiles).is_file()
    times = read_times(str(folder / spec.profiles) if folder is not None and beside else spec.profiles)
    kinds = np.stack([network, batch, gpus])
    combinations, which, jobs = np.unique(kinds, axis=1, return_inverse=True, return_counts=True)
    found = np.zeros(combinations.shape[1])
    elsewhere, borrowed = 0, set[str]()
    for place, (of_network, of_batch, count) in enumerate(combinations.T.tolist()):
        name, size = spec.networks[of_network], spec.batch_sizes[of_batch]
        solo = times.best(app_name(name, size), count)
        if solo is None and name in spec.times_of:
            borrowed.add(name)
            solo = times.best(app_name(spec.times_of[name], size), count)
        if solo is None:
            want = f"networks and batch sizes that {times.path} has times of: {times.known()}"
            raise InputError("generate, profiles", app_name(name, size), want)
        found[place] = solo.time_s
        elsewhere += int(jobs[place]) if solo.gpus != count else 0
    if borrowed:
        words = ", ".join(f"{name} takes as long as {spec.times_of[name]}" for name in sorted(borrowed))
        header["Note"] = f"not measured: {words}"
    return found[which.reshape(-1)], elsewhere
