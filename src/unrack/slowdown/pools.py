"""Speeds on pooled devices: models turned into columns, and the slowdown that the simulated world follows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.cluster.pools.pool import Devices, Pace
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.devices.columns import PACE
from unrack.ledger.lease import Lease
from unrack.slowdown.model import Model
from unrack.view import View
from unrack.workload.job import JobTable


def pace_of(models: Sequence[Model], devices: Devices, jobs: JobTable) -> Pace:
    """The models as columns over the jobs and devices of a run.

    A model is about the jobs of its apps that ask for its kind; kinds that the cluster has not are left out.
    """
    largest = {kind: max((p.compose for p in devices.pools if p.kind == kind), default=1) for kind in devices.kinds}
    tables = [model.speeds(max(largest.values(), default=1)) for model in models]
    sharers = max((table.shape[1] for table in tables), default=2)
    rows = max((table.shape[0] for table in tables), default=2)
    speeds = np.zeros((max(len(models), 1), rows, sharers))
    governed = np.zeros((len(speeds), devices.capacity.shape[0]), np.bool_)
    column = np.full((len(devices.kinds), len(jobs)), -1, np.int64)
    for m, (model, table) in enumerate(zip(models, tables, strict=True)):
        speeds[m, :, : table.shape[1]] = table
        if model.kind not in devices.kinds:
            continue
        k = devices.kinds.index(model.kind)
        governed[m, [q for q, name in enumerate(devices.quantities[k]) if name in model.governs]] = True
        codes = [code for code, name in enumerate(jobs.app_names) if name in model.apps]
        asks = np.zeros(len(jobs), np.bool_)
        for (kind, _), amounts in jobs.devices.items():
            asks |= (kind == model.kind) & (amounts > 0)
        column[k, np.isin(jobs.app, codes) & asks] = m
    return Pace(column, speeds, governed, np.array([model.frozen for model in models] or [False]))


def sets_speeds(devices: Devices, models: Sequence[Model]) -> bool:
    """Whether devices change when jobs end: there are models, or pools with an overhead or a latency."""
    return len(devices) > 0 and (bool(models) or any(pool.overhead > 0 or pool.attach_us > 0 for pool in devices.pools))


class PoolSpeeds:
    """The speeds that the core's columns say, for the simulated world: one truth about which jobs share what."""

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the jobs on the groups that the lease names, its own job first if it runs."""
        devices = view.columns.devices
        if devices is None or not lease.shares:
            return np.zeros(0, np.int64)
        if len(lease.shares) == 1:
            group = devices.group_of(min(lease.shares[0].devices))
            return devices.sharers(group) if group >= 0 else np.zeros(0, np.int64)
        found: dict[int, None] = {}
        for share in lease.shares:
            group = devices.group_of(min(share.devices))
            if group >= 0:
                found.update(dict.fromkeys(devices.sharers(group).tolist()))
        return np.array(list(found), np.int64)

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        devices = view.columns.devices
        assert devices is not None
        speeds: Floats = devices.columns.progress[PACE, jobs]
        return speeds

    def feels(self, before: Lease, after: Lease) -> bool:
        """False: it keeps its devices."""
        return False


def fastest(pace: Pace, devices: Devices, jobs: JobTable, wants: Ints) -> Floats:
    """float64[jobs]: the best speed that any job could have on these devices, alone or shared, however composed."""
    best = np.full(len(jobs), np.inf)
    sits = np.bincount(devices.pool[devices.home >= 0], minlength=len(devices.pools)) > 0
    for k, kind in enumerate(devices.kinds):
        pools = [(pool, at_home) for pool, at_home in zip(devices.pools, sits, strict=True) if pool.kind == kind]
        largest = max((pool.compose for pool, _ in pools), default=1)
        rows = pace.speeds[:, : min(largest, pace.speeds.shape[1] - 1) + 1]
        top = rows.max(axis=(1, 2))
        modelled = pace.model[k] >= 0
        asks = (wants[k] > 0).any(axis=0)
        least = min((pool.overhead for pool, at_home in pools if not at_home), default=None)
        slowed = 1.0 if least is None or any(at_home for _, at_home in pools) else 1.0 / (1.0 + least)
        best = np.where(asks, np.minimum(best, np.where(modelled, top[pace.model[k]], 1.0) * slowed), best)
    return np.where(np.isfinite(best), best, 1.0)
