"""What jobs ask once they are let go, and hold once they run, where that is not what was decided.

A user may change a job until it starts, Slurm spreads cores over nodes as it likes, a running job may give nodes back,
and an operator may change its licences. What Slurm says a job holds is what it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unrack.ledger.lease import BORROWER, CORES, FIRST, LOCAL_MB, TASKS, Lease, by_node
from unrack.live.driver.portable import Names
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Phase, is_short
from unrack.live.records import job_of_record
from unrack.live.slurm.jobs import COUNTED, GPUS
from unrack.workload.job import Job

_AMOUNTS = ("tasks", "cores", "mb", "devices")
_WORDS = ("constraint", "account", "qos", "reservation")


def amounts(asked: Mapping[str, Any]) -> list[Any]:
    """What of a record of a job may change though it is let go: what it asks, and by which words it is judged."""
    said = asked.get("said", {})
    own = [[asked.get(name) or None for name in _AMOUNTS], [said.get(name, "") for name in _WORDS]]
    return own + [amounts(one) for one in asked.get("components", ())]


def held_otherwise(
    entry: Entry, seen: Job, lease: Lease, names: Names, devices: Mapping[str, Any] | None = None
) -> tuple[Job, Lease] | None:
    """What a job that runs asks and holds, if the ledger has something else; ``None``: it has that.

    Memory that the driver gives beyond what Slurm was asked for stays its own, and so does that of a job that ran
    already. The claims of a lease that has none are to be made, and so are those beside GPUs that Slurm tells of.

    Parameters
    ----------
    seen, lease
        What it asks and holds by what Slurm says.
    devices
        What it asks beside cores and memory, by Slurm and in its comment; ``None``: as it was.
    """
    if entry.lease is None:
        return None
    mine = names.lease(entry.lease)
    before, now = by_node(mine.rows), by_node(lease.rows)
    known = {int(row[FIRST]): row for row in before}
    begins = entry.phase != Phase.RUNNING or is_short(entry.stage)
    for row in now:
        if (had := known.get(int(row[FIRST]))) is not None:
            row[TASKS] = had[TASKS]
            more = begins and not len(mine.borrowed)
            row[LOCAL_MB] = max(row[LOCAL_MB], had[LOCAL_MB]) if more else had[LOCAL_MB]
    asked = job_of_record(entry.job)
    claimed = asked.demand.devices
    if devices is not None and not asked.components:
        claimed = {kind: of for kind, of in claimed.items() if kind not in (GPUS, COUNTED)}
        claimed |= {kind: of for kind, of in devices.items() if kind in (GPUS, COUNTED)}
    given_back = len(now) < len(before)
    moved = not set(map(tuple, lease.claims.tolist())) <= set(map(tuple, mine.claims.tolist()))
    if np.array_equal(before, now) and claimed == asked.demand.devices and not moved:
        return None
    if asked.components:
        return seen, lease
    if given_back and entry.operations:  # what is attached to a node stays there until the job is over
        return None
    tasks, cores = int(now[:, TASKS].sum()), int((-(-now[:, CORES] // now[:, TASKS])).max())
    demand = replace(asked.demand, tasks=tasks, cores=cores, devices=claimed)
    same = len(now) == len(before) and claimed == asked.demand.devices and not moved
    here = np.isin(mine.borrowed[:, BORROWER], now[:, FIRST])
    shares = tuple(share for share in mine.shares if share.node in now[:, FIRST])
    held = Lease(-1, now, mine.borrowed[here], shares, mine.claims if same else lease.claims)
    return replace(asked, demand=demand), held
