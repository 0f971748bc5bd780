"""Room of a plan's columns: what is kept has as much as what is made anew, which is copied there without a look."""

from __future__ import annotations

import numpy as np
import pytest

from unrack.cluster.spec import Cluster
from unrack.ledger.state import ClusterState
from unrack.policy.discipline.skyline.columns import CLAIMED, LEASES, Ledger, columns_for, room_for_reserved
from unrack.view import View
from unrack.workload.job import job_table
from unrack.workload.store import JobStore


@pytest.mark.parametrize("what", [LEASES, CLAIMED])
@pytest.mark.parametrize(("kept", "made", "count"), [(12, 8, 10), (0, 0, 5), (12, 8, 40), (3, 3, 4), (30, 2, 3)])
def test_what_is_kept_has_as_much_room_as_what_is_made_anew(what: int, kept: int, made: int, count: int) -> None:
    none = np.zeros(0, np.int64)
    jobs = job_table(submit_us=none, work_us=none, tasks=none)
    state = ClusterState(Cluster.from_dict({"nodes": [{"count": 2, "cores": 2}]}), jobs.asks)
    columns = columns_for(Ledger().of(View(state, JobStore(jobs)), lends=False), 2, 0)
    names = ("new_rows", "rows") if what == LEASES else ("new_claims", "claims")
    wide = 5 if what == LEASES else 2
    columns = columns._replace(
        **{name: np.zeros((size, wide), np.int64) for name, size in zip(names, (made, kept), strict=True)}
    )
    columns = columns._replace(**room_for_reserved(columns, what, count))
    fresh, held = (len(getattr(columns, name)) for name in names)
    assert fresh >= count
    assert held >= fresh
