"""The devices of a run as columns: what is attached where, which jobs share it, and how fast those jobs are.

Devices in use form *groups*: a composition (one or more devices of a pool seen as one), or a split device of equal
parts that serve one job each. A group goes by the number of its first device, so group g is column g.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.cluster.pools.pool import WHOLE, Devices, Pace
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.kernels.structs import InKernels

POOL, KIND, GROUP, NEXT, HOME = range(5)
"""Rows of :attr:`DeviceColumns.device`."""
FREE, LEAVING, OFFLINE, LEAVING_OFFLINE = -1, -2, -3, -4
"""What GROUP says of a device that is in none: free, being detached, out of service, both of these."""
FIRST, COUNT, FREE_COUNT, SINGLE, COMPOSE, SHARE, SPLIT, KIND_OF, ATTACH_US, DETACH_US = range(10)
"""Rows of :attr:`DeviceColumns.pool`."""
NODE, SIZE, JOBS, PARTS, MODEL, READY_US, SERIAL = range(7)
"""Rows of :attr:`DeviceColumns.group`."""
LEFT, PACE = range(2)
"""Rows of :attr:`DeviceColumns.progress`."""
SINCE_US, END_US = range(2)
"""Rows of :attr:`DeviceColumns.clock`."""


class _DeviceColumns(NamedTuple):
    """The fields of :class:`DeviceColumns`."""

    # int64[5, devices]: POOL, KIND, GROUP (of which group it is; or FREE, LEAVING …), NEXT (device of its group, -1 =
    # last), HOME
    device: Ints
    capacity: Ints  # int64[quantities, devices]: row q: quantity q of the device's kind
    pool: Ints  # int64[10, pools]: as in :class:`unrack.cluster.pools.pool.Pool`, and FREE_COUNT
    overhead: Floats  # float64[pools]
    # pools_near, nodes_near: int64[entries]: which pools each node reaches, and which nodes reach each pool, as lists
    # packed into one array: those of i are ``packed[packed[i] : packed[i + 1]]``
    pools_near: Ints
    nodes_near: Ints
    # int64[7, devices]: NODE (-1: several), SIZE (0: no such group), JOBS on it, PARTS (0: not split), MODEL of its
    # jobs (-1: none), READY_US (from when it is attached), SERIAL (a number of its own in the run)
    group: Ints
    # installed, held: int64[quantities, devices]: of each group: the sum over its devices, and what its jobs asked
    # for
    installed: Ints
    held: Ints
    sharer: Ints  # int64[room, devices]: the jobs on each group: the first JOBS entries, in order of joining
    wants: Ints  # int64[kinds, quantities, jobs]: asked per task
    needs: Bools  # bool[kinds, jobs]: whether a task asks anything of a kind
    model: Ints  # int64[kinds, jobs]: which model governs the job on a kind; -1: none
    # float64[models, devices, sharers]: Speed on so many devices shared by so many; 0: not admitted. More devices
    # count as the last row.
    speeds: Floats
    # bool[models, quantities]: quantities for which the model, not the amount, says how many may share
    governed: Bools
    frozen: Bools  # bool[models]: whether speeds stay as they were when the job began
    # float64[2, jobs]: LEFT: work left at SINCE_US, µs at speed 1, as far as the estimates tell; PACE: the speed
    progress: Floats
    clock: Ints  # int64[2, jobs]: SINCE_US; END_US: the expected end
    # job_group, job_node: int64[room, jobs]: the groups that a running job holds shares of, and on which node; -1 =
    # no more
    job_group: Ints
    job_node: Ints
    job_speed: Floats  # float64[room, jobs]: the speed that each of these shares gave it when it began
    # float64[quantities, kinds]: what a quantity is divided by where different ones are added up: sizes count in GB,
    # others as they are
    unit: Floats
    whole: Ints  # int64[kinds]: which quantity counts the devices of a kind themselves; -1: none
    composable: Bools  # bool[pools]: whether devices of the pool may be composed
    asked: Ints  # int64[kinds, quantities]: demand of all jobs that were submitted and have not ended
    counter: Ints  # int64[1]: groups made so far


class DeviceColumns(InKernels, _DeviceColumns):
    """Arrays that the kernels read and write."""


HELD = ("device", "pool", "group", "installed", "held", "sharer")
"""The columns by device and pool that taking a share changes."""
CHANGING = (*HELD, "progress", "clock", "job_group", "job_node", "job_speed", "asked", "counter")
"""All columns that the ledger's writers change; the others say what is installed and what is asked."""
BY_JOB = ("progress", "clock", "job_group", "job_node", "job_speed")
"""Those of them that are by job."""
SMALL_AT, BY_JOB_AT = (
    tuple(DeviceColumns._fields.index(name) for name in CHANGING if (name in BY_JOB) == by_job)
    for by_job in (False, True)
)


def copied_columns(columns: DeviceColumns, first: int, last: int | None) -> DeviceColumns:
    """The same with its own of all that writers change; it says nothing of jobs before ``first``, and from ``last`` on.

    O(devices x sharers + jobs from ``first`` to ``last``).
    """
    arrays: list[Any] = list(columns)
    for at in SMALL_AT:
        arrays[at] = arrays[at].copy()
    for at in BY_JOB_AT:
        own = np.empty_like(arrays[at])
        own[:, first:last] = arrays[at][:, first:last]
        arrays[at] = own
    return DeviceColumns(*arrays)


def make_columns(devices: Devices, wants: Ints, pace: Pace) -> DeviceColumns:
    """The columns of a run in which nothing is held yet.

    ``wants``: int64[kinds, quantities, jobs], what jobs ask per task.
    """
    count, pools, jobs = len(devices), devices.pools, wants.shape[2]
    quantities = devices.capacity.shape[0]
    device = np.stack([devices.pool, devices.kind, np.full(count, FREE), np.full(count, -1), devices.home])
    pool = np.array(
        [
            (p.first, p.count, p.count, p.single, p.compose, p.share, p.split, devices.kinds.index(p.kind),
             p.attach_us, p.detach_us)
            for p in pools
        ],
        np.int64,
    ).reshape(len(pools), 10).T  # fmt: skip
    return DeviceColumns(
        device=np.ascontiguousarray(device, np.int64),
        capacity=np.array(devices.capacity, np.int64),
        pool=np.ascontiguousarray(pool),
        overhead=np.array([p.overhead for p in pools], np.float64),
        pools_near=np.array(devices.pools_near),
        nodes_near=np.array(devices.nodes_near),
        group=np.zeros((7, count), np.int64),
        installed=np.zeros((quantities, count), np.int64),
        held=np.zeros((quantities, count), np.int64),
        sharer=np.full((8, count), -1, np.int64),
        wants=np.ascontiguousarray(wants),
        needs=np.ascontiguousarray((wants > 0).any(axis=1)),
        model=np.ascontiguousarray(pace.model),
        speeds=np.ascontiguousarray(pace.speeds),
        governed=np.ascontiguousarray(pace.governed),
        frozen=np.ascontiguousarray(pace.frozen),
        progress=np.ones((2, jobs), np.float64),
        clock=np.zeros((2, jobs), np.int64),
        job_group=np.full((max(len(devices.kinds), 1), jobs), -1, np.int64),
        job_node=np.full((max(len(devices.kinds), 1), jobs), -1, np.int64),
        job_speed=np.ones((max(len(devices.kinds), 1), jobs), np.float64),
        unit=np.array(
            [[_unit(names, q) for names in devices.quantities] for q in range(quantities)], np.float64
        ).reshape(quantities, len(devices.kinds)),
        whole=np.array([names.index(WHOLE) if WHOLE in names else -1 for names in devices.quantities], np.int64),
        composable=np.array([p.compose > 1 for p in pools], np.bool_),
        asked=np.zeros((len(devices.kinds), quantities), np.int64),
        counter=np.zeros(1, np.int64),
    )


def _unit(names: tuple[str, ...], place: int) -> float:
    """A size in MB counts in GB beside a bandwidth in MB/s, as the papers' tables print them."""
    return 1024.0 if place < len(names) and names[place].endswith("_mb") else 1.0
