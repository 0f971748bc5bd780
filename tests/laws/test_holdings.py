"""The table of holdings against the ledger, over every mix of resources."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from law_worlds import begun
from mixed_worlds import MIXES, mixed_cases
from test_mixes import world_of

from unrack.cluster.spec import Cluster
from unrack.ledger.lease import CORES, LENDER, LOAN_MB, LOCAL_MB, NODES
from unrack.metric.holdings import holdings, totals
from unrack.resources.places import AMOUNT, PLACE
from unrack.sim.result import Result

FIRST_OF = {mix: next(text for text, name in mixed_cases() if name == mix and text.startswith("easy")) for mix in MIXES}
Held = Counter[tuple[str, str]]


def leased(kernel: Any) -> Held:
    """What the ledger says is held of every quantity, lease by lease."""
    state, cluster = kernel.core.state, kernel.core.state.cluster
    held: Held = Counter()
    for job in state.running[1, : state.running_count].tolist():
        lease = state.lease(job)
        held["nodes", "cores"] += int(lease.rows[:, NODES] @ lease.rows[:, CORES])
        held["nodes", "memory_mb"] += int(lease.rows[:, NODES] @ lease.rows[:, LOCAL_MB])
        for lender, mb in lease.borrowed[:, [LENDER, LOAN_MB]].tolist():
            far = cluster.tiers is not None and cluster.tiers.tier[lender] > 0
            held["tiers" if far else "lending", "memory_mb"] += mb
        for share in lease.shares:
            kind = int(cluster.devices.kind[share.devices[0]])
            for name, amount in zip(cluster.devices.quantities[kind], share.amounts, strict=False):
                held["pools", f"{cluster.devices.kinds[kind]}.{name}"] += amount
        for place, amount in lease.claims[:, [PLACE, AMOUNT]].tolist():
            resource, what = cluster.places.at(place)
            held[resource, what.quantity] += amount
    return Counter({key: amount for key, amount in held.items() if amount})


@pytest.mark.parametrize("mix", list(MIXES))
def test_at_every_moment_the_table_says_what_the_ledger_holds(mix: str) -> None:
    seen: set[str] = set()
    for seed in range(4):
        kernel = begun(world_of(mix, seed), FIRST_OF[mix])
        ledger: dict[int, Held] = {}
        handle = kernel.core.handle

        def noting(event: Any, now: int, handle: Any = handle, ledger: Any = ledger, kernel: Any = kernel) -> Any:
            decisions = handle(event, now)
            ledger[now] = leased(kernel)  # the last of a moment counts
            return decisions

        kernel.core.handle = noting  # type: ignore[method-assign]
        result = Result(kernel.run())
        held = result.holdings
        assert held["start_s"].is_sorted()
        for now, wanted in ledger.items():
            at = held.filter((pl.col("start_s") <= now / 1e6) & (pl.col("end_s") > now / 1e6))
            sums = at.group_by("resource", "quantity").agg((pl.col("amount") * pl.col("places")).sum())
            assert {(r, q): amount for r, q, amount in sums.iter_rows()} == wanted, (seed, now)
            seen |= {resource for resource, _ in wanted}
    assert len(seen) >= 2, seen  # more than nodes


def test_totals_of_two_jobs_by_hand() -> None:
    times = {"attempt": [1, 1], "span": [1, 1], "start_s": [0.0, 1800.0], "end_s": [3600.0, 5400.0]}
    rows = {"first_node": [0, 2], "nodes": [2, 1], "cores_per_node": [3, 4], "memory_mb_per_node": [0, 0]}
    cluster = Cluster.homogeneous(nodes=3, cores=4)
    held = holdings(cluster, {"placements": pl.DataFrame({"job": ["a", "b"], **times, **rows})})
    assert held["places"].to_list() == [2, 1]
    assert totals(held, cluster).rows() == [("nodes", "cores", 12, 2, 10, pytest.approx(10 / 1.5), 10.0)]
