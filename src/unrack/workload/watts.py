"""What jobs add to the power that a cluster draws: a run fills it in where there is a cap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Ints
from unrack.resources.power.resource import MILLIWATTS, Power
from unrack.workload.job import JobTable


def with_watts(cluster: Cluster, jobs: JobTable) -> JobTable:
    """The jobs, which ask for what each of their tasks adds to the power of a cluster with a cap; others as they are.

    Of several classes of nodes the dearest counts of those that a job may use and on which a task has its cores.
    """
    power = cluster.places.installed.get(MILLIWATTS[0])
    if not isinstance(power, Power) or not power.places:
        return jobs
    each = jobs.cores * _dearest(cluster, power, jobs) + power.of_devices(jobs.devices, len(jobs))
    return replace(jobs, devices={**jobs.devices, MILLIWATTS: each})


def _dearest(cluster: Cluster, power: Power, jobs: JobTable) -> Ints:
    """int64[jobs]: mW of a core."""
    sets = cluster.places.sets(cluster.places.asked(jobs.devices, len(jobs)))
    masks, of = (power.computing[None], np.zeros(len(jobs), np.int64)) if sets is None else (sets.masks, sets.of)
    kinds, kind = np.unique(np.stack([of, jobs.cores]), axis=1, return_inverse=True)
    found = [
        int(power.core_mw[masks[own] & power.computing & (cluster.cores >= cores)].max(initial=0))
        for own, cores in kinds.T.tolist()
    ]
    return np.array(found, np.int64)[kind.ravel()]
