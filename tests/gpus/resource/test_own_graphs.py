"""Communication graphs of the user's own: by hand, against all assignments, and what is refused."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from plain_gpus import cluster_of, fleet_of, gpu_jobs, run

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.resources.gpus.columns import COMPLETE, COUNT, FAR_COST, GRAPH, GRAPHS, QUANTITIES, RING, fill_own_costs

OWN = len(GRAPHS)
STAR = {"name": "star", "edges": [[0, 1], [0, 2], [0, 3]]}


def with_graphs(*graphs: dict[str, Any], machine: Any = "minsky") -> dict[str, Any]:
    return {"machine": machine, "graphs": list(graphs)}


def test_a_star_on_two_sockets_by_hand() -> None:
    """Two GPUs at distance 1 a socket, 42 across: the middle has one neighbour near and two far, wherever it is."""
    gpus = fleet_of(with_graphs(STAR)).gpus
    assert gpus.cost[0, OWN, 0b1111] == 1 + 42 + 42
    assert gpus.cost[0, OWN, 0b0111] == 1 + 42  # its first three vertices: a path with the middle at the pair
    assert gpus.least[0, OWN, 2] == 1


def test_the_heavy_edge_is_on_the_near_pair() -> None:
    chain = {"name": "chain", "edges": [[0, 1, 1], [1, 2, 10]]}
    assert fleet_of(with_graphs(chain)).gpus.cost[0, OWN, 0b0111] == 10 * 1 + 42


def test_every_set_is_the_least_of_all_assignments() -> None:
    random = np.random.default_rng(5)
    for _ in range(20):
        n, vertices = int(random.integers(2, 7)), int(random.integers(2, 6))
        d = random.integers(1, 50, (n, n)).astype(float)
        d = np.triu(d, 1) + np.triu(d, 1).T
        w = random.integers(0, 4, (vertices, vertices)).astype(float)
        w = np.triu(w, 1) + np.triu(w, 1).T
        cost, least = np.full(1 << n, FAR_COST), np.full(n + 1, FAR_COST)
        fill_own_costs(d, w, cost, least)
        for s in range(1 << n):
            on = [i for i in range(n) if s >> i & 1]
            if len(on) > vertices:
                assert cost[s] == FAR_COST
                continue
            ways = permutations(on)
            best = min(sum(w[a, b] * d[way[a], way[b]] for a, b in combinations(range(len(on)), 2)) for way in ways)
            assert cost[s] == best
        for size in range(1, min(n, vertices) + 1):
            assert least[size] == min(cost[s] for s in range(1 << n) if bin(s).count("1") == size)


def test_edge_lists_of_the_named_graphs_cost_what_those_do() -> None:
    complete = {"name": "all", "edges": [list(pair) for pair in combinations(range(4), 2)]}
    ring = {"name": "round", "edges": [[0, 1], [1, 2], [2, 3], [3, 0]]}
    for machine in ("dgx-1", "minsky"):
        gpus = fleet_of(with_graphs(complete, ring, machine=machine)).gpus
        for s in range(1 << int(gpus.size[0])):
            if bin(s).count("1") == 4:
                assert gpus.cost[0, OWN, s] == gpus.cost[0, COMPLETE, s]
                assert gpus.cost[0, OWN + 1, s] == gpus.cost[0, RING, s]


@pytest.mark.parametrize("policy", ["fcfs", "fcfs(gpus=topology)", "topo-aware-p"])
def test_a_job_gets_the_set_on_which_its_graph_costs_least(policy: str) -> None:
    pairs = {"name": "heavy", "edges": [[0, 1, 5], [1, 2, 1], [2, 3, 5]]}
    table = with_graphs(pairs, machine="dgx-1")
    gpus = fleet_of(table).gpus
    result = run(cluster_of(table), gpu_jobs({"count": 4, "graph": OWN}), policy)
    got = sum(1 << int(place.split("gpu")[1]) for place in result.table("claims")["place"].to_list())
    assert gpus.cost[0, OWN, got] == gpus.least[0, OWN, 4]
    assert result.metrics["gpu_nearness_mean"] == 1


def test_of_the_gpus_that_are_free_it_gets_the_best() -> None:
    """All sets and all assignments, over what is left on machines partly in use."""
    random = np.random.default_rng(11)
    own: dict[str, Any] = {"name": "mine", "edges": [[0, 1, 3], [1, 2, 1], [1, 3, 2], [3, 4, 4]]}
    fleet = fleet_of(with_graphs(own, machine="dgx-1"))
    d = fleet.gpus.distance[0]
    for _ in range(40):
        count = int(random.integers(2, 6))
        free = np.zeros(8, np.int64)
        free[random.permutation(8)[: random.integers(count, 9)]] = 1000
        asked = np.zeros(len(QUANTITIES), np.int64)
        asked[[COUNT, GRAPH]] = count, OWN
        got = fleet.claims(asked, np.array([0]), np.array([1]), free)[:, 0].tolist()
        edges = [(a, b, w) for a, b, w in own["edges"] if max(a, b) < count]
        cost = lambda way, edges=edges: sum(w * d[way[a], way[b]] for a, b, w in edges)  # noqa: E731  # short
        assert len(got) == count
        assert all(free[gpu] == 1000 for gpu in got)
        assert min(map(cost, permutations(got))) == min(map(cost, permutations(np.flatnonzero(free).tolist(), count)))


def test_more_gpus_than_vertices_and_unknown_graphs_are_refused() -> None:
    cluster = cluster_of(with_graphs({"name": "path", "edges": [[0, 1], [1, 2]]}), 2)
    jobs = gpu_jobs({"count": 4, "graph": OWN}, {"count": 2, "tasks": 2, "graph": OWN}, {"count": 1, "graph": OWN + 1},
                    {"count": 3, "graph": OWN}, {"count": 4, "graph": RING})  # fmt: skip
    result = run(cluster, jobs, "fcfs")
    assert result.jobs["state"].to_list() == ["rejected"] * 3 + ["finished"] * 2
    assert "as in the graph path" in result.jobs["reason"][0]
    assert "complete, ring, tree, pairs, path" in result.jobs["reason"][2]


@pytest.mark.parametrize(
    "edges", [[[0, 6]], [[0, 0]], [[0]], [[0, 1, 0]], [[0, 1], [1, 0]], [], [[0, 0.5]], [[0, 1, 1, 1]]]
)
def test_edges_that_cannot_be_are_refused(edges: list[list[float]]) -> None:
    with pytest.raises(ClusterError, match="graphs"):
        cluster_of(with_graphs({"name": "mine", "edges": edges}))


def test_what_is_written_makes_the_same_costs() -> None:
    cluster = cluster_of(with_graphs(STAR))
    again = Cluster.from_dict({"nodes": [{"count": 1, "cores": 64}], "gpus": cluster.places.written()["gpus"]})
    one, other = (found.places.installed["gpus"].gpus.cost for found in (cluster, again))  # type: ignore[attr-defined]
    assert (one == other).all()
    assert "graphs" not in cluster_of("minsky").places.written()["gpus"]
