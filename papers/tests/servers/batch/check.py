"""What must hold of any allocation, checked server by server with plain loops; shares no code with the solvers."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from unrack.solver.servers import Asked, Supply
from unrack_papers.servers.batch.solution import Solution
from unrack_papers.servers.problem import Allocation


def faults(supply: Supply, asked: Asked, allocation: Allocation, busy: np.ndarray | None = None) -> list[str]:
    """Everything that is wrong with an allocation."""
    found: list[str] = []
    cores, mb = [0] * len(supply.mb), [0] * len(supply.mb)
    domains: dict[int, set[int]] = {}
    on = set() if busy is None else set(np.flatnonzero(busy).tolist())
    before = len(on)
    for i in range(len(asked)):
        c = int(allocation.cluster[i])
        row = allocation.mb[i].tolist()
        if c < 0:
            if any(row):
                found.append(f"server {i} is nowhere and holds memory")
            continue
        on.add(c)
        pools = supply.pools(c).tolist()
        parts = row[: len(pools)]
        if any(row[len(pools) :]) or min(parts) < 0 or sum(parts) != asked.mb[i]:
            found.append(f"server {i} has {row} of {asked.mb[i]} MB")
        if parts[0] < asked.floor[i]:
            found.append(f"server {i} is below its floor")
        if sum(int(supply.weight[p]) * part for p, part in zip(pools, parts, strict=True)) > asked.ceiling[i]:
            found.append(f"server {i} is above its ceiling")
        if asked.pinned[i] not in (-1, c):
            found.append(f"server {i} is not where it is pinned")
        cores[pools[0]] += int(asked.cores[i])
        there = set()
        for place, (p, part) in enumerate(zip(pools, parts, strict=True)):
            mb[p] += part
            tier = supply.tier[p]
            if part and tier < asked.forbidden.shape[1] and asked.forbidden[i, tier]:
                found.append(f"server {i} has memory of forbidden tier {tier}")
            if asked.level[i] >= 0 and (part or place == 0) and supply.domain[asked.level[i], p] >= 0:
                there.add(int(supply.domain[asked.level[i], p]))
        domains[i] = there
    found += [f"pool {p} gives too much" for p in range(len(mb)) if mb[p] > supply.mb[p] or cores[p] > supply.cores[p]]
    for i, j in combinations(domains, 2):
        if asked.group[i] == asked.group[j] != -1 and domains[i] & domains[j]:
            found.append(f"servers {i} and {j} of a group share a failure domain")
    if asked.most_clusters >= 0 and len(on) > max(asked.most_clusters, before):
        found.append(f"{len(on)} clusters are on")
    return found


def objective(supply: Supply, allocation: Allocation, busy: np.ndarray | None = None) -> tuple[int, int, int]:
    """Servers left out, clusters in use, price."""
    on = set() if busy is None else set(np.flatnonzero(busy).tolist())
    price, out = 0, 0
    for i, c in enumerate(allocation.cluster.tolist()):
        if c < 0:
            out += 1
            continue
        on.add(c)
        for p, part in zip(supply.pools(c).tolist(), allocation.mb[i].tolist(), strict=False):
            price += int(supply.price[p]) * part
    return out, len(on), price


def check(supply: Supply, asked: Asked, found: Solution, busy: np.ndarray | None = None) -> None:
    """Assert that a solution is one, and says the truth about itself."""
    assert faults(supply, asked, found.allocation, busy) == []
    assert objective(supply, found.allocation, busy) == found.objective
    assert found.unplaced.tolist() == [i for i, c in enumerate(found.allocation.cluster.tolist()) if c < 0]
    out, clusters, price = found.bound
    assert out <= found.objective[0]
    assert clusters <= found.objective[1]
    assert price <= found.objective[2]
    assert (found.status == "optimal") == (found.bound == found.objective)
