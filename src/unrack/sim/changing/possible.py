"""Which sizes of jobs the empty cluster could hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from unrack.cluster.pools.pool import Pace
from unrack.cluster.spec import Cluster
from unrack.core.admission import Admission
from unrack.ledger.changing.sizes import Sizes
from unrack.policy.contract import Policy
from unrack.workload.job import TASKS, JobTable


def possible_sizes(
    cluster: Cluster, jobs: JobTable, policy: Policy[Any], pace: Callable[[JobTable], Pace], sizes: Mapping[int, Sizes]
) -> dict[int, Sizes]:
    """The same, without sizes that the empty cluster could not hold; one of which it could hold none keeps all."""
    found: dict[int, list[int]] = {job: [] for job in sizes}
    for place in range(max((len(one.tasks) for one in sizes.values()), default=0)):
        asks = jobs.asks.copy()
        some = {job: one.tasks[place] for job, one in sizes.items() if place < len(one.tasks)}
        asks[TASKS, list(some)] = list(some.values())
        table = replace(jobs, asks=asks)
        never = Admission(cluster, policy, pace, table, pace(table)).all_never()
        for job in some:
            found[job] += [] if never[job] else [place]
    return {job: sizes[job].some(places) if places else sizes[job] for job, places in found.items()}
