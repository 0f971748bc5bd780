"""All servers of a request at once, from Python: newcomers beside those that run, moves, reasons."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError
from unrack_papers.servers import PlacedServers, place

TIERS = [{"name": "near", "price": 3}, {"name": "far", "cost": 1, "price": 1}]


def centre(nodes: int = 4, **more: Any) -> Cluster:
    content = {
        "nodes": [{"count": nodes, "cores": 8, "memory": 1000}],
        "memory_pools": [{"count": nodes, "memory": 3000, "tier": "far"}],
        "tiers": TIERS,
        **more,
    }
    return Cluster.from_dict(content)


def books(placed: PlacedServers) -> None:
    """Nobody holds what is not there, or is outside the SLOs."""
    cores, mb = placed.supply.all_cores.copy(), placed.supply.all_mb.copy()
    for server in np.flatnonzero(placed.allocation.cluster >= 0).tolist():
        pools = placed.supply.pools(int(placed.allocation.cluster[server]))
        cores[pools[0]] -= placed.asked.cores[server]
        mb[pools] -= placed.allocation.mb[server, : len(pools)]
        assert placed.allocation.mb[server].sum() == placed.asked.mb[server]
    assert (cores >= 0).all()
    assert (mb >= 0).all()
    assert placed.violations == {"local": 0, "remote": 0}


def asks(*cores: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"s{i}", "cores": c, "mem": 400, "local": 100, **more} for i, c in enumerate(cores)]


def test_newcomers_are_placed_at_once_in_clusters_that_are_on_and_nobody_else_moves() -> None:
    running = place(centre(), asks(6, 6))
    assert running.clusters_used == 2
    now = running.as_json()
    # 2 + 2 fit beside the two; one at a time in this order 1 + 1 go to the first, and 2 needs a third cluster
    alone = place(centre(), asks(6, 6, 1, 2, 1), now=now)
    together = place(centre(), asks(6, 6, 1, 2, 1), "optimal", now=now)
    books(together)
    assert (alone.clusters_used, together.clusters_used) == (2, 2)
    assert together.status == "optimal"
    assert together.moves is None
    assert together.allocation.cluster[:2].tolist() == running.allocation.cluster.tolist()
    assert (together.allocation.mb[:2] == running.allocation.mb).all()
    assert together.bound == together.price


@pytest.mark.parametrize("seed", range(8))
def test_newcomers_at_once_never_need_more_clusters_than_one_at_a_time(seed: int) -> None:
    draws = np.random.default_rng(seed)
    servers = [
        {"id": i, "cores": int(c), "mem": int(m), "local": int(m // 10), "ceiling": int(m)}
        for i, (c, m) in enumerate(zip(draws.integers(1, 5, 16), draws.integers(50, 900, 16), strict=True))
    ]
    now = place(centre(8), servers[:8], "best-fit").as_json()
    alone = place(centre(8), servers, now=now)
    together = place(centre(8), servers, "optimal", now=now)
    books(together)
    assert len(together.unplaced) <= len(alone.unplaced)
    if len(together.unplaced) == len(alone.unplaced):
        assert together.clusters_used <= alone.clusters_used
        assert together.bound_clusters is not None
        assert together.bound_clusters <= together.clusters_used
        assert together.bound <= together.price
    held = [row["cluster"] for row in now["servers"]]
    assert together.allocation.cluster[:8].tolist() == [-1 if home is None else home for home in held]


def test_newcomers_of_a_group_that_runs_keep_away_from_it() -> None:
    replicas = {"group": "web", "spread": "node"}
    now = place(centre(), asks(2, 2, **replicas)).as_json()
    placed = place(centre(), asks(2, 2, 2, 2, **replicas), "optimal", now=now)
    books(placed)
    assert sorted(placed.allocation.cluster.tolist()) == [0, 1, 2, 3]
    assert placed.status == "feasible"


def test_moves_empty_a_cluster_and_their_steps_fit_one_after_the_other() -> None:
    servers = asks(4, 4, 4, 4)
    now = place(centre(), [{**server, "pinned": i} for i, server in enumerate(servers)]).as_json()
    assert now["clusters_used"] == 4
    placed = place(centre(), servers, "optimal", now=now, moves=2)
    books(placed)
    assert placed.clusters_used == 2
    assert placed.moves is not None
    assert len(placed.moves) == 2
    said = placed.as_json()
    assert [set(move) for move in said["moves"]] == [{"id", "from", "to", "pools"}] * 2
    for move in said["moves"]:
        row = next(row for row in said["servers"] if row["id"] == move["id"])
        assert (row["cluster"], row["pools"]) == (move["to"], move["pools"])
    assert place(centre(), servers, "optimal", now=now, moves=1).clusters_used == 3


def test_a_newcomer_for_whom_moves_make_room_comes_after_them_and_nothing_is_called_proven() -> None:
    wanted = asks(4, 4, 8)
    now = place(centre(2), [wanted[0] | {"pinned": 0}, wanted[1] | {"pinned": 1}])
    assert place(centre(2), wanted, "optimal", now=now.as_json()).as_json()["unplaced"] == ["s2"]
    placed = place(centre(2), wanted, "optimal", now=now.as_json(), moves=1)
    books(placed)
    assert len(placed.unplaced) == 0
    assert placed.moves is not None
    assert [(step.server, step.before) for step in placed.moves] == [(0, 0), (2, -1)]
    assert placed.status == "feasible"
    still = place(centre(2), wanted, "optimal", now=now.as_json(), moves=0)
    assert (len(still.unplaced), still.status) == (1, "feasible")


def test_newcomers_may_come_anywhere_so_bounds_and_proofs_take_none_of_their_places_for_granted() -> None:
    proven = 0
    for seed in range(40):
        draws = np.random.default_rng(seed)
        cores, home = draws.integers(1, 6, 6).tolist(), draws.permutation(3).tolist()
        wanted = asks(*cores)
        now = place(centre(3), [each | {"pinned": at} for each, at in zip(wanted, home, strict=False)]).as_json()
        found = place(centre(3), wanted, "optimal", now=now, moves=1)
        books(found)
        fewest = [
            len(set(at))
            for at in product(range(3), repeat=6)
            if sum(old != new for old, new in zip(home, at, strict=False)) <= 1
            and all(sum(c for c, where in zip(cores, at, strict=True) if where == k) <= 8 for k in range(3))
        ]
        if fewest and not len(found.unplaced):
            assert found.bound_clusters is not None
            assert found.bound_clusters <= min(fewest) <= found.clusters_used
            assert found.status == "feasible" or found.clusters_used == min(fewest)
            proven += found.status == "optimal"
    assert proven > 5


def test_the_steps_of_a_plan_say_when_newcomers_come() -> None:
    running = [{**server, "pinned": i} for i, server in enumerate(asks(6, 6, 2, 2))]
    now = place(centre(), running).as_json()
    big = {"id": "big", "cores": 8, "mem": 400}
    wanted = [*asks(6, 6, 2, 2), {"id": "small", "cores": 1, "mem": 400}, big]
    placed = place(centre(), wanted, "optimal", now=now, moves=2)
    books(placed)
    assert len(placed.unplaced) == 0
    steps = placed.as_json()["moves"]
    came = [step["id"] for step in steps if step["from"] is None]
    assert sorted(came) == ["big", "small"]
    where = {row["id"]: row["cluster"] for row in now["servers"]}
    cores = {server["id"]: server["cores"] for server in wanted}
    free = {cluster: 8 - sum(cores[name] for name, at in where.items() if at == cluster) for cluster in range(4)}
    for step in steps:
        assert step["from"] == where.get(step["id"])
        if step["from"] != step["to"]:
            free[step["to"]] -= cores[step["id"]]
            assert free[step["to"]] >= 0, "it fits when its turn comes, beside all that is there"
            if step["from"] is not None:
                free[step["from"]] += cores[step["id"]]
        where[step["id"]] = step["to"]
    assert where == {row["id"]: row["cluster"] for row in placed.as_json()["servers"]}


def test_those_without_a_place_are_told_what_is_lacking() -> None:
    placed = place(centre(1), asks(5, 5), "optimal")
    assert len(placed.unplaced) == 1
    assert "of 1 clusters 1 have too few cores free (at best 3 of 5)" in placed.reasons[int(placed.unplaced[0])]
    assert placed.as_json()["unplaced"] == [f"s{placed.unplaced[0]}"]


def test_explained_places_say_what_they_cost_beyond_the_least() -> None:
    placed = place(centre(1), [{"cores": 1, "mem": 3500}, {"cores": 1, "mem": 400}], "optimal", explain=True)
    # 3900 MB in 1000 + 3000: 900 near at 3; alone 500 + 3000 far and 400 far; so 400 MB more are near than at least
    assert placed.price == 900 * 3 + 3000
    assert placed.clusters_used == 1
    over = sum(float(words.split(", ")[2].split()[0]) for words in placed.reasons.values() if "above" in words)
    assert over == pytest.approx(400 * 2 / 1024, abs=0.01)
    assert all("cluster 0, with 1 other, " in words for words in placed.reasons.values())


def test_what_only_repacking_knows_is_refused_elsewhere() -> None:
    with pytest.raises(PolicyError, match="new splits"):
        place(centre(), asks(1), resplit=True)
    with pytest.raises(InputError, match="where the servers are now"):
        place(centre(), asks(1), "optimal", resplit=True)
    with pytest.raises(InputError, match="most_clusters"):
        place(centre(), asks(1), most_clusters=-1)
    with pytest.raises(InputError, match=r"place, servers\.0\.mem: got -1"):
        place(centre(), [{"cores": 1, "mem": -1}])
