"""The tables of a result by name: those that the run has, each made once and only when it is asked for."""

from __future__ import annotations

import polars as pl
import pytest
from small_worlds import J, S, work

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.sim.faults import Fault
from unrack.sim.simulate import simulate
from unrack.sim.world import World

TWO = Cluster.homogeneous(2, 2)


def test_a_run_has_the_tables_of_what_can_be_held_and_asking_makes_none() -> None:
    plain = simulate(TWO, work(J(0, 5)), "fcfs", audit=False)
    assert list(plain.tables) == ["jobs", "usage", "placements"]
    assert "loans" not in plain.tables
    assert "jobs" in plain.tables
    assert plain._made == {}
    faulty = simulate(TWO, work(J(0, 5)), "fcfs", world=World(faults=[Fault("node1", S, S)]))
    assert "failures" in faulty.tables
    pools = unrack.simulate(
        Cluster.preset("nvme-pool"), unrack.generate({"scenario": "nvme-s1", "load": 0.5, "jobs": 5}), "first-fit"
    )
    assert list(pools.tables)[:4] == ["jobs", "usage", "placements", "shares"]


def test_a_table_is_made_once_and_is_what_the_short_name_gives() -> None:
    result = simulate(TWO, work(J(0, 5)), "fcfs")
    assert result.table("jobs") is result.tables["jobs"] is result.jobs
    assert result.table("holdings") is result.holdings
    assert result.holdings["resource"].unique().to_list() == ["nodes"]


def test_what_was_never_held_is_empty_and_what_cannot_be_is_refused() -> None:
    result = simulate(TWO, work(J(0, 5)), "fcfs")
    for name in ("loans", "shares", "claims", "memory", "failures"):
        assert isinstance(result.table(name), pl.DataFrame), name
        assert result.table(name).height == 0, name
        with pytest.raises(KeyError):
            result.tables[name]
    for name in ("tiers", "cores", "rounds"):
        with pytest.raises(InputError, match=f"a run that has {name}"):
            result.table(name)
    with pytest.raises(InputError, match="one of jobs, usage"):
        result.table("job")
