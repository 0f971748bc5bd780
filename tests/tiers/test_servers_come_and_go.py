"""Policies of servers on tiers against a plain program: it enumerates every split in every cluster, at every event."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from tries import some

import unrack
from unrack.cluster.spec import Cluster
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Start
from unrack.policy.discipline.list_scheduler import ListNotes, ListScheduler
from unrack.policy.table import parse_policy
from unrack.sim.faults import Fault
from unrack.view import View
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table
from unrack.workload.tier_asks import NO_CEILING, tier_asks

S = 1_000_000
RULES = ("slo", "slo-first-fit", "slo-best-fit")


class Centre(NamedTuple):
    """A data centre with tiers, and servers: of each when it comes, for how long, its cores, MB, floor and ceiling."""

    cluster: Cluster
    servers: list[tuple[int, int, int, int, int, int]]
    forbids: list[str | None]
    groups: list[str | None]


def centre(seed: int, count: int = 30) -> Centre:
    """Three or four clusters, the far pool shared by some; every amount is small enough to enumerate."""
    draws = np.random.default_rng(seed)
    clusters = int(draws.integers(3, 5))
    nodes = [
        {"count": 1, "name": f"c{i}", "cores": int(draws.integers(3, 6)), "memory": f"{draws.integers(3, 7)} MB"}
        for i in range(clusters)
    ]
    pools = [
        {"name": f"p{i}", "count": 1, "memory": f"{draws.integers(3, 9)} MB", "tier": tier}
        for i, tier in enumerate(("rack", "rack", "far"))
    ]
    members = [
        [f"node{i}", f"node{clusters + i % 2}", f"node{clusters + 2}"][: draws.integers(2, 4)] for i in range(clusters)
    ]
    tiers = [
        {"name": "local", "price": int(draws.integers(1, 6))},
        {"name": "rack", "cost": 1, "price": int(draws.integers(0, 4))},
        {"name": "far", "cost": 2, "price": int(draws.integers(0, 4))},
    ]
    cluster = Cluster.from_dict({
        "nodes": nodes, "memory_pools": pools, "tiers": tiers, "pool_clusters": members, "nodes_per_rack": 2,
    })  # fmt: skip
    servers = []
    for _ in range(count):
        mb = int(draws.integers(1, 7))
        floor = int(draws.integers(0, mb + 1)) if draws.random() < 0.5 else 0
        ceiling = NO_CEILING if draws.random() < 0.4 else int(draws.integers(0, 2 * (mb - floor) + 1))
        servers.append(
            (int(draws.integers(0, 120)), int(draws.integers(1, 60)), int(draws.integers(1, 4)), mb, floor, ceiling)
        )
    servers.sort()
    forbids = [str(draws.choice(["rack", "far"])) if draws.random() < 0.15 else None for _ in range(count)]
    groups = [str(draws.choice(["a", "b"])) if draws.random() < 0.2 else None for _ in range(count)]
    return Centre(cluster, servers, forbids, groups)


def workload(c: Centre) -> Workload:
    submit, run, cores, mb, floor, ceiling = (np.array(column, np.int64) for column in zip(*c.servers, strict=True))
    names = pl.Series(c.groups, dtype=pl.String)
    spread = pl.Series([None if name is None else "rack" for name in c.groups], dtype=pl.String)
    slo = tier_asks(floor, ceiling, group=names, spread=spread, forbidden=pl.Series(c.forbids, dtype=pl.String))
    ones = np.ones(len(submit), np.int64)
    jobs = job_table(
        submit_us=submit * S, work_us=run * S, request_us=run * S, tasks=ones, cores=cores, memory_mb=mb, slo=slo
    )
    return Workload("servers", jobs, Intake("servers", "test", len(ones), len(ones)))


def plainly(c: Centre, rule: str, leases: dict[int, Lease]) -> list[int]:
    """When each server starts, s; -1: it never does. Of splits that cost the same it takes that of ``leases``."""
    tiers = c.cluster.tiers
    assert tiers is not None
    members = [tiers.pools(i).tolist() for i in range(tiers.clusters)]
    cores, mb = c.cluster.cores.tolist(), c.cluster.memory_mb.tolist()
    rack = c.cluster.rack.tolist()
    found = [-1] * len(c.servers)
    held: dict[int, tuple[int, dict[int, int]]] = {}  # server → its compute pool and MB by pool
    ends: dict[int, int] = {}

    def rank(pools: list[int]) -> float:
        if rule == "slo-first-fit":
            return 0
        free, all_mb = [mb[pool] for pool in pools], [int(c.cluster.memory_mb[pool]) for pool in pools]
        all_cores = int(c.cluster.cores[pools[0]])
        if rule == "slo":
            used = (all_cores - cores[pools[0]]) * 100 // all_cores // 2
            return used + (sum(all_mb) - sum(free)) * 100 // sum(all_mb) // 2
        return (
            -sum(left * 10**6 // all_ for left, all_ in zip(free, all_mb, strict=True))
            - cores[pools[0]] * 10**6 // all_cores
        )

    def splits(server: int, pools: list[int]) -> list[tuple[int, tuple[int, ...]]]:
        _, _, asked, wanted, floor, ceiling = c.servers[server]
        near = {
            rack[pool]
            for mate, (home, parts) in held.items()
            if c.groups[server] is not None and c.groups[mate] == c.groups[server]
            for pool in {home, *(pool for pool, part in parts.items() if part)}
            if rack[pool] >= 0
        }
        if cores[pools[0]] < asked or rack[pools[0]] in near:
            return []
        shut = [rack[pool] in near or tiers.names[tiers.tier[pool]] == c.forbids[server] for pool in pools]
        room = [0 if no else mb[pool] for pool, no in zip(pools, shut, strict=True)]
        if rule == "slo-first-fit":
            parts, left = [], wanted
            for most in room:
                parts.append(min(left, most))
                left -= parts[-1]
            return [] if left else [(0, tuple(parts))]
        every = (parts for parts in product(*(range(most + 1) for most in room)) if sum(parts) == wanted)
        scale = tiers.cost_scale
        weight = [int(tiers.cost[pool]) for pool in pools]
        return [
            (sum(int(tiers.price[pool]) * part for pool, part in zip(pools, parts, strict=True)), parts)
            for parts in every
            if parts[0] >= floor and sum(w * part for w, part in zip(weight, parts, strict=True)) <= ceiling * scale
        ]

    waiting: list[int] = []
    times = sorted({one[0] for one in c.servers})
    while times or ends:
        now = min([*times[:1], *ends.values()])
        times = [time for time in times if time > now]
        for server in [server for server, end in ends.items() if end == now]:
            home, parts = held.pop(server)
            del ends[server]
            cores[home] += c.servers[server][2]
            for pool, part in parts.items():
                mb[pool] += part
        waiting += [server for server, one in enumerate(c.servers) if one[0] == now]
        for server in list(waiting):
            able = [i for i, pools in enumerate(members) if splits(server, pools)]
            if not able:
                continue
            best = max(able, key=lambda i: (rank(members[i]), -i))
            theirs = leases.get(server)
            assert theirs is not None, f"server {server} has a place at {now}"
            parts = {int(theirs.rows[0, 0]): int(theirs.rows[0, 4])}
            parts |= {lender: part for _, lender, part in theirs.borrowed.tolist()}
            assert set(parts) <= set(members[best]), f"server {server} is in another cluster than {best}"
            allowed = {those: price for price, those in splits(server, members[best])}
            own = tuple(parts.get(pool, 0) for pool in members[best])
            assert allowed[own] == min(allowed.values())
            waiting.remove(server)
            held[server] = members[best][0], parts
            ends[server] = now + c.servers[server][1]
            cores[members[best][0]] -= c.servers[server][2]
            for pool, part in parts.items():
                mb[pool] -= part
            found[server] = now
    return found


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.draws(60)
def test_every_server_goes_where_a_plain_program_puts_it(rule: str) -> None:
    waited = lent = 0
    for seed in range(some(60)):
        c = centre(seed)
        policy, leases = parse_policy(rule), dict[int, Lease]()

        class Kept(ListScheduler):
            def decide(self, view: View, memory: ListNotes, now: int) -> tuple[list[Decision], ListNotes]:
                decided, memory = super().decide(view, memory, now)
                leases.update((one.lease.job, one.lease) for one in decided if isinstance(one, Start))  # noqa: B023
                return decided, memory

        log = unrack.simulate(
            c.cluster, workload(c), Kept(**{one.name: getattr(policy, one.name) for one in fields(policy)})
        ).log
        begun = dict(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
        expected = plainly(c, rule, leases)
        assert {job: at // S for job, at in begun.items()} == {job: at for job, at in enumerate(expected) if at >= 0}, (
            seed
        )
        waited += sum(at > one[0] for at, one in zip(expected, c.servers, strict=True))
        lent += sum(len(lease.borrowed) > 0 for lease in leases.values())
    assert min(waited, lent) > some(60) * 5 // 3


def run_of(table: dict[str, object], mb: list[int], policy: str, **world: object) -> list[float | None]:
    """When servers of one core that come one second after the other, for 30 s, start."""
    cluster = Cluster.from_dict(table)  # type: ignore[arg-type]
    ones = np.ones(len(mb), np.int64)
    jobs = job_table(
        submit_us=np.arange(len(mb)) * S, work_us=ones * 30 * S, request_us=ones * 30 * S, tasks=ones, cores=ones,
        memory_mb=np.array(mb), slo=tier_asks(0 * ones),
    )  # fmt: skip
    servers = Workload("servers", jobs, Intake("servers", "test", len(mb), len(mb)))
    found = unrack.simulate(cluster, servers, policy, world=unrack.World(**world))  # type: ignore[arg-type]
    return found.jobs["start_s"].to_list()


TIERS = [{"name": "local", "price": 2}, {"name": "far", "cost": 1, "price": 1}]


def test_a_cluster_that_is_down_is_not_in_use() -> None:
    table = {"nodes": [{"name": "c", "count": 2, "cores": 2, "memory": "4 MB"}], "tiers": TIERS}
    faults = [Fault("node0", 10 * S, 1000 * S)]
    for rule in RULES:
        assert run_of(table, [4], f"{rule}(clusters=1)", faults=faults) == [10.0]


@pytest.mark.parametrize("policy", ["slo", "slo-first-fit", "slo-best-fit", "conservative(memory=slo)"])
def test_servers_have_no_memory_of_pools_that_are_kept_for_others(policy: str) -> None:
    kept = {"name": "r", "nodes": ["node1"], "start": "10 s", "duration": "100 s", "maintenance": True}
    table = {
        "nodes": [{"name": "c", "count": 1, "cores": 8, "memory": "4 MB"}], "tiers": TIERS,
        "memory_pools": [{"name": "p", "tier": "far", "count": 1, "memory": "8 MB"}], "site": {"reservations": [kept]},
    }  # fmt: skip
    assert run_of(table, [4, 8], policy) == [0.0, 110.0]
