"""Servers over memory tiers as constraint programmes (OR-Tools CP-SAT): the reference, and what takes any constraint.

:func:`cheapest_cp` is one server in one cluster, the problem that :func:`unrack.solver.split.cheapest` solves directly.
:func:`place_cp` is all servers at once, with all that :class:`unrack.solver.tiers.Asked` can ask: exact, and slow beyond
some dozens of servers. Its three goals are minimised one after the other, each with those before held at what was found.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, equations 1 to 5.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.errors import RunError
from unrack.solver.batch_solution import Solution, price_of
from unrack.solver.tiers import NOWHERE, Allocation, Asked, Supply

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def cheapest_cp(
    memory: Ints, floor: Ints, ceiling: Ints, free: Ints, weight: Ints, price: Ints, *, limit_s: float = 60.0
) -> tuple[Ints, Ints]:
    """The cheapest split of each of many servers, each alone in a cluster of its own, in one programme.

    Parameters
    ----------
    memory, floor, ceiling : int64[servers]
        MB asked, MB of it that must be local, most weighted remote MB.
    free, weight, price : int64[servers, pools]
        MB free in each pool of the server's cluster, its compute pool first; weight and price of a MB.
    limit_s
        Time the solver may take, s.

    Returns
    -------
    tuple[int64[servers], int64[servers, pools]]
        The least price of each (-1: no split meets its SLOs) and a split that has it.

    Raises
    ------
    RunError
        The solver proved no optimum in the time.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    gain: list[Any] = []
    placed: list[Any] = []
    mb: list[list[Any]] = []
    for k in range(len(memory)):
        fits = model.new_bool_var("")
        parts = [model.new_int_var(0, int(min(top, memory[k])), "") for top in np.maximum(free[k], 0)]
        model.add(sum(parts) == int(memory[k]) * fits)
        model.add(parts[0] >= int(floor[k]) * fits)
        model.add(cp_model.LinearExpr.weighted_sum(parts, weight[k].tolist()) <= int(ceiling[k]) * fits)
        dearest = int(memory[k]) * int(np.abs(price[k]).max(initial=0)) + 1
        gain.append(dearest * fits - cp_model.LinearExpr.weighted_sum(parts, price[k].tolist()))
        placed.append(fits)
        mb.append(parts)
    model.maximize(sum(gain))
    solver = _solver(limit_s, seed=0, workers=1)
    if solver.solve(model) != cp_model.OPTIMAL:
        raise RunError(f"CP-SAT proved no optimum of {len(memory)} splits in {limit_s:g} s")
    split = np.array([[solver.value(part) for part in parts] for parts in mb], np.int64)
    return np.where([solver.value(fits) for fits in placed], (split * price).sum(axis=1), -1), split


def place_cp(
    supply: Supply, asked: Asked, *, limit_s: float, seed: int = 0, workers: int = 1,
    start: Allocation | None = None, busy: Bools | None = None, effort: float | None = None,
) -> Solution:  # fmt: skip
    """Place as many servers as can be, in as few clusters, at the lowest price; all their constraints are met.

    Parameters
    ----------
    limit_s
        Time for all three goals, s. What was found and proven until then is returned.
    seed
        Of the solver's search.
    workers
        Threads of the solver. With one, and unless time runs out, the same input has the same answer.
    start
        An allocation to begin with.
    busy : bool[clusters]
        Clusters in use before; default: none.
    effort
        Time for all three goals in the solver's own, deterministic seconds; default: only ``limit_s`` counts.

    Returns
    -------
    Solution
        ``"optimal"`` where the solver proved all three goals.
    """
    began = perf_counter()
    model = _Placement(supply, asked, np.zeros(supply.clusters, np.bool_) if busy is None else busy)
    if start is not None:
        model.hint(start)
    found = Allocation(np.full(len(asked), NOWHERE, np.int64), np.zeros((len(asked), supply.width), np.int64))
    bounds: list[int] = []
    for goal in (model.left_out(), model.in_use(), model.paid()):
        left = limit_s - (perf_counter() - began)
        answer = model.minimise(goal, left, seed, workers, effort and effort / 3)
        if answer is None:
            break
        found, value, bound = answer
        bounds.append(bound)
        model.keep(goal, value)
        if bound < value:
            break
    used = np.zeros(supply.clusters, np.bool_) if busy is None else busy.copy()
    used[found.cluster[found.cluster >= 0]] = True
    unplaced = np.flatnonzero(found.cluster < 0)
    goals = (len(unplaced), int(used.sum()), price_of(supply, found))
    bounds += [0] * (3 - len(bounds))
    least = (bounds[0], bounds[1], bounds[2])
    return Solution(
        "optimal" if goals == least else "feasible", found, unplaced, *goals[1:], *least, wall_s=perf_counter() - began
    )


class _Placement:
    """All servers at once: who is where (x), with which MB (m), and which clusters are on."""

    def __init__(self, supply: Supply, asked: Asked, busy: Bools) -> None:
        from ortools.sat.python import cp_model

        self.supply, self.asked, self.busy = supply, asked, busy
        self.model = cp_model.CpModel()
        self.x: dict[tuple[int, int], Any] = {}
        self.m: dict[tuple[int, int, int], Any] = {}
        self.on = [self.model.new_bool_var("") if not busy[c] else self.model.new_constant(1) for c in range(len(busy))]
        for i in range(len(asked)):
            for c in range(supply.clusters):
                if asked.pinned[i] in (NOWHERE, c) and supply.cores[supply.pools(c)[0]] >= asked.cores[i]:
                    self._server(i, c)
            self.model.add_at_most_one(self.x[i, c] for c in range(supply.clusters) if (i, c) in self.x)
        self._capacities()
        self._spread()
        if asked.most_clusters >= 0:
            new = max(asked.most_clusters - int(busy.sum()), 0)
            self.model.add(sum(self.on[c] for c in range(len(busy)) if not busy[c]) <= new)

    def _server(self, i: int, c: int) -> None:
        """A server, if it is in a cluster, meets its SLOs there."""
        from ortools.sat.python import cp_model

        asked, supply, model = self.asked, self.supply, self.model
        x = self.x[i, c] = model.new_bool_var("")
        model.add_implication(x, self.on[c])
        pools = supply.pools(c)
        for j, pool in enumerate(pools.tolist()):
            tier = supply.tier[pool]
            barred = tier < asked.forbidden.shape[1] and asked.forbidden[i, tier]
            top = 0 if barred else max(min(int(supply.mb[pool]), int(asked.mb[i])), 0)
            self.m[i, c, j] = model.new_int_var(0, top, "")
        parts = [self.m[i, c, j] for j in range(len(pools))]
        model.add(sum(parts) == int(asked.mb[i]) * x)
        model.add(parts[0] >= int(asked.floor[i]) * x)
        weighted = cp_model.LinearExpr.weighted_sum(parts, supply.weight[pools].tolist())
        model.add(weighted <= int(asked.ceiling[i]) * x)

    def _capacities(self) -> None:
        supply = self.supply
        cores: dict[int, list[Any]] = {}
        mb: dict[int, list[Any]] = {}
        for (i, c), x in self.x.items():
            cores.setdefault(int(supply.pools(c)[0]), []).append(int(self.asked.cores[i]) * x)
        for (_, c, j), part in self.m.items():
            mb.setdefault(int(supply.pools(c)[j]), []).append(part)
        for limit, taken in ((supply.cores, cores), (supply.mb, mb)):
            for pool, terms in taken.items():
                self.model.add(sum(terms) <= int(limit[pool]))

    def _spread(self) -> None:
        """No two servers of a group hold anything in one failure domain of their level."""
        holders: dict[
            tuple[int, int], dict[int, list[Any]]
        ] = {}  # (group, domain): server: what shows that it is there
        for (i, c, j), part in self.m.items():
            group, level = int(self.asked.group[i]), int(self.asked.level[i])
            if group < 0 or level < 0:
                continue
            domain = int(self.supply.domain[level, self.supply.pools(c)[j]])
            if domain < 0:
                continue
            if j == 0:
                shows = self.x[i, c]
            else:
                shows = self.model.new_bool_var("")
                self.model.add(part == 0).only_enforce_if(shows.negated())
            holders.setdefault((group, domain), {}).setdefault(i, []).append(shows)
        for servers in holders.values():
            there = []
            for shows in servers.values():
                some = self.model.new_bool_var("")
                for show in shows:
                    self.model.add_implication(show, some)
                there.append(some)
            self.model.add_at_most_one(there)

    def left_out(self) -> Any:
        """How many servers are not placed."""
        return len(self.asked) - sum(self.x.values())

    def in_use(self) -> Any:
        """How many clusters are in use."""
        return sum(self.on)

    def paid(self) -> Any:
        """What the memory costs."""
        return sum(int(self.supply.price[self.supply.pools(c)[j]]) * part for (_, c, j), part in self.m.items())

    def keep(self, goal: Any, value: int) -> None:
        """From now on a goal must stay at least as good as this."""
        self.model.add(goal <= value)

    def hint(self, start: Allocation) -> None:
        """Begin the search at an allocation."""
        self.model.clear_hints()  # type: ignore[no-untyped-call, unused-ignore]
        for (i, c), x in self.x.items():
            self.model.add_hint(x, int(start.cluster[i] == c))
        for (i, c, j), part in self.m.items():
            self.model.add_hint(part, int(start.mb[i, j]) if start.cluster[i] == c else 0)

    def minimise(
        self, goal: Any, limit_s: float, seed: int, workers: int, effort: float | None
    ) -> tuple[Allocation, int, int] | None:
        """The best found, its value and the bound; None: nothing was found."""
        from ortools.sat.python import cp_model

        if limit_s <= 0:
            return None
        self.model.minimize(goal)
        solver = _solver(limit_s, seed, workers, effort)
        if solver.solve(self.model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        cluster = np.full(len(self.asked), NOWHERE, np.int64)
        mb = np.zeros((len(self.asked), self.supply.width), np.int64)
        for (i, c), x in self.x.items():
            if solver.value(x):
                cluster[i] = c
                for j in range(len(self.supply.pools(c))):
                    mb[i, j] = solver.value(self.m[i, c, j])
        found = Allocation(cluster, mb)
        self.hint(found)
        return found, round(solver.objective_value), int(np.ceil(solver.best_objective_bound - 1e-6))


def _solver(limit_s: float, seed: int, workers: int, effort: float | None = None) -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit_s
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = workers
    if effort is not None:
        solver.parameters.max_deterministic_time = effort
    return solver
