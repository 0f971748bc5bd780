"""All servers at once over memory tiers as a constraint programme (OR-Tools CP-SAT).

It takes all that :class:`unrack.solver.Asked` can ask, is exact, and is slow beyond some dozens of
servers. Its three goals are minimised one after the other, each with those before held at what was found.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, equations 1 to 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.extras import needed_for
from unrack.jit import Bools
from unrack.solver import NOWHERE, Asked, Supply
from unrack_papers.clock import Clock, timed
from unrack_papers.servers.batch.case import solved
from unrack_papers.servers.batch.solution import Solution, nowhere, objective
from unrack_papers.servers.problem import Allocation


def place_cp(
    supply: Supply, asked: Asked, *, limit_s: float | Clock | None = None, seed: int = 0,
    start: Allocation | None = None, busy: Bools | None = None, effort: float | None = None,
) -> Solution:  # fmt: skip
    """Place as many servers as can be, in as few clusters, at the lowest price; all their constraints are met.

    ``"optimal"`` where the solver proved all three goals. A MissingError if OR-Tools is not installed.

    Parameters
    ----------
    limit_s
        Time that all threads may compute for all three goals, s, or a clock that runs; ``None``: none. What was found
        and proven until then is returned.
    seed
        Of the solver's search, on one thread: unless time runs out, the same input has the same answer.
    start
        An allocation to begin with.
    busy : bool[clusters]
        Clusters in use before; default: none.
    effort
        Work for all three goals in the solver's own, deterministic seconds; default: any.
    """
    with timed(limit_s) as clock:
        model = Placement(supply, asked, np.zeros(supply.clusters, np.bool_) if busy is None else busy)
        if start is not None:
            model.hint(start)
        found = nowhere(supply, asked) if start is None else start
        bounds: list[int] = []
        for goal in (model.left_out(), model.in_use(), model.paid()):
            answer = None if clock.over() else model.minimise(goal, clock, seed, effort and effort / 3)
            if answer is None:
                break
            found, value, bound = answer
            bounds.append(bound)
            model.keep(goal, value)
            if bound < value:
                break
    goals = objective(supply, found, busy)
    if start is not None and objective(supply, start, busy) < goals:
        found, goals = start, objective(supply, start, busy)
    unplaced = np.flatnonzero(found.cluster < 0)
    bounds += [0] * (3 - len(bounds))
    least = (bounds[0], bounds[1], bounds[2])
    status = "optimal" if goals == least else "feasible"
    cut = clock.cut and status != "optimal"
    return Solution(status, found, unplaced, *goals[1:], *least, cut=cut, wall_s=clock.took_s())


class Placement:
    """All servers at once: which is where (x), with which MB (m), and which clusters are on."""

    def __init__(self, supply: Supply, asked: Asked, busy: Bools) -> None:
        with needed_for("servers by constraint programming"):
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
        holders: dict[tuple[int, int], dict[int, list[Any]]] = {}  # (group, domain): server: what shows it there
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

    def minimise(self, goal: Any, clock: Clock, seed: int, effort: float | None) -> tuple[Allocation, int, int] | None:
        """The best found, its value and the bound; None: nothing was found."""
        from ortools.sat.python import cp_model

        self.model.minimize(goal)
        solver = cp_model.CpSolver()
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = 1
        if effort is not None:
            solver.parameters.max_deterministic_time = effort
        status = solved(solver, self.model, clock)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
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
