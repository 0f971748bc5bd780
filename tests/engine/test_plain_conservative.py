"""Conservative backfill against a twin in plain Python: by counts, on named nodes, and where jobs claim and choose."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_conservative import Ask, plain_conservative
from small_worlds import S, workload_of

from unrack.cluster.spec import Cluster
from unrack.policy.discipline.skyline.plan import Plan
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.workload.job import JobTable, job_table

PLENTY: dict[str, Any] = {
    "licence": {"counted": [{"name": "unused", "amount": 1_000_000}]},
    "links": {"links": {"mb_s": 1_000_000}},
}
"""What a cluster has beside nodes, and nobody lacks."""
ASKED = {"licence": ("counted", "unused"), "links": ("links", "mb_s")}
WAYS = ("counts", "nodes", "whole", *PLENTY)
"""What reservations are laid on: cores in number, single nodes, kinds of whole nodes; cores and a licence that every
third job asks for; nodes and their links, chosen for every third job outside of the kernel."""
NAMED = ("nodes", "links")
TIES = {"together": False, "submit-first": True}


def table(asks: list[Ask], way: str = "counts") -> JobTable:
    submit, run, size, estimate = np.array(asks, np.int64).T
    count = len(asks)
    more: dict[str, Any] = {"memory_mb": np.ones(count, np.int64)} if way in NAMED else {}
    if way in PLENTY:
        more["devices"] = {ASKED[way]: (np.arange(count) % 3 == 0).astype(np.int64)}
    return job_table(submit_us=submit, work_us=run, tasks=size, request_us=estimate, **more)


def starts(asks: list[Ask], processors: int, way: str, ties: str, policy: str = "conservative") -> list[int]:
    """When each job starts on nodes of one processor."""
    described: dict[str, Any] = {"nodes": [{"count": processors, "cores": 1, "memory": 1}]}
    described |= PLENTY.get(way, {})
    if way == "whole":
        policy = policy.replace(")", ", nodes=whole)") if "(" in policy else f"{policy}(nodes=whole)"
    result = simulate(
        Cluster.from_dict(described), workload_of(table(asks, way)), policy, world=World(ties=ties), audit=False
    )
    found = np.full(len(asks), -1, np.int64)
    found[result.log.attempt_job] = result.log.attempt_start_us
    return found.tolist()


def random_asks(seed: int, count: int = 30, most: int = 6) -> list[Ask]:
    """Jobs that crowd; every other one ends at its estimate, some end at once, many share their times."""
    random = np.random.default_rng(seed)
    submit = np.sort(random.integers(0, 2 * count, count))
    run = random.integers(0, 12, count)
    over = np.where(random.random(count) < 0.5, 0, random.integers(0, 9, count))
    size = random.integers(1, most + 1, count)
    rows = np.stack([submit, run, size, np.maximum(run + over, 1)])
    return [Ask(*row) for row in rows.T.tolist()]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("way", WAYS)
def test_every_start_is_that_of_the_twin_on_random_worlds(way: str, ties: str) -> None:
    told = 0
    twin = {"one_by_one": TIES[ties], "named": way in NAMED}
    for number, asks in enumerate(map(random_asks, range(60))):
        want = plain_conservative(asks, 6, **twin)
        assert starts(asks, 6, way, ties) == want, f"world {number}"
        told += want != plain_conservative(asks, 6, **twin, compress="ends")
    assert told, "the worlds must tell early ends from all ends"


@pytest.mark.parametrize("way", WAYS)
def test_planning_again_at_every_end_is_still_to_be_had(way: str) -> None:
    for number, asks in enumerate(map(random_asks, range(30))):
        want = plain_conservative(asks, 6, named=way in NAMED, compress="ends")
        assert starts(asks, 6, way, "together", "conservative(compress=ends)") == want, f"world {number}"


def log_slice(path: Path, first: int, count: int) -> list[Ask]:
    """Jobs of a log, in µs: killed at their estimate where they ran longer, as the log's system would have."""
    with gzip.open(path, "rt") as lines:
        rows = [[int(field) for field in line.split()[:9]] for line in lines if not line.startswith(";")]
    rows = sorted(rows, key=lambda row: (row[1], row[0]))[first : first + count]
    found = []
    for row in rows:
        run, size = max(row[3], 0), row[7] if row[7] > 0 else row[4]
        estimate = row[8] if row[8] > 0 else max(run, 1)
        if size > 0:
            found.append(Ask(row[1] * S, min(run, estimate) * S, size, estimate * S))
    return found


@pytest.mark.needs_data
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(
    ("name", "first", "processors"),
    [("KTH-SP2-1996-2.1-cln", 0, 100), ("KTH-SP2-1996-2.1-cln", 20_000, 100), ("NASA-iPSC-1993-3.1-cln", 0, 128)],
)
def test_every_start_is_that_of_the_twin_on_a_slice_of_a_real_log(
    data: Path, name: str, first: int, processors: int, ties: str
) -> None:
    asks = log_slice(data / "swf" / f"{name}.swf.gz", first, 2500)
    if name.startswith("NASA"):  # no estimates in the log: every third job has its run time, the others more
        asks = [ask if i % 3 == 0 else ask._replace(estimate=ask.estimate * (1 + i % 5)) for i, ask in enumerate(asks)]
    assert starts(asks, processors, "counts", ties) == plain_conservative(asks, processors, one_by_one=TIES[ties])


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_reservation_that_never_moves_forward_is_caught(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan.round

    def never(self: Plan, view: Any, jobs: Any, now: int, what: Any, choices: Any) -> Any:
        return plan(self, view, jobs, now, what._replace(compress=0), choices)

    monkeypatch.setattr(Plan, "round", never)
    with pytest.raises(AssertionError, match="world"):
        test_every_start_is_that_of_the_twin_on_random_worlds(way, "together")
