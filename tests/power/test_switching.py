"""Nodes that are switched off: by hand, and the run and its tables agree on when, also while leases change."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from power_worlds import S, workload_of

import unrack
from unrack.cluster.spec import Cluster
from unrack.policy.table import parse_policy
from unrack.resources.contract import Nodes
from unrack.resources.places import Places
from unrack.resources.power.resource import Power
from unrack.resources.power.switching import Spell, Switching
from unrack.sim.frames.power import _replayed, power_frame
from unrack.sim.simulate import prepared
from unrack.sim.world import World
from unrack.workload.job import job_table

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("laws", "provisioning", "usage")]
from law_worlds import faults
from test_use_laws import POLICIES
from used_worlds import some

OFF = {"after": 60, "shutdown": 10, "boot": 30, "boot_watts": 120, "keep_on": 1}


def power(nodes: int, **off: object) -> Power:
    """Nodes of one core that draw 100 W, and 5 W when they are off."""
    own = Nodes(np.ones(nodes, np.int64), np.ones(nodes, np.int64), np.zeros(nodes, np.int64), ("rack0",))
    return Power({"idle": 100, "core": 10, "off": 5, "switch_off": {**OFF, **off}}, own, "power")


def test_idle_nodes_go_off_and_the_first_stay_on() -> None:
    nodes = Switching(power(4), 0)
    assert nodes.take([2], 10 * S) == 10 * S
    nodes.give([2], 50 * S)
    assert nodes.take([3], 61 * S) == (61 + 9 + 30) * S  # off since 60 s, off wholly at 70 s
    assert nodes.take([1], 100 * S) == 130 * S
    assert nodes.take([0], 105 * S) == 105 * S  # the first stays on
    assert nodes.take([2], 300 * S) == 300 * S  # then it is the first that is idle
    assert nodes.spells[:2] == [Spell(3, 60 * S, 70 * S, 0), Spell(3, 70 * S, 100 * S, 20_000)]
    nodes.give([2], 400 * S)
    nodes.give([0], 500 * S)
    assert nodes.take([2], 501 * S) == (500 + 10 + 30) * S  # at 500 s another came before it


def test_a_node_that_fails_while_it_boots_is_on_once_it_is_repaired() -> None:
    nodes = Switching(power(1, keep_on=0), 0)
    assert nodes.take([0], 100 * S) == 130 * S
    nodes.give([0], 110 * S)
    nodes.down([0], 110 * S)
    nodes.up([0], 120 * S)
    assert nodes.take([0], 121 * S) == 121 * S
    assert nodes.spells[-1] == Spell(0, 100 * S, 110 * S, 20_000)


def test_a_node_that_fails_before_the_first_job_comes_is_on_then_if_it_is_repaired() -> None:
    nodes = Switching(power(2, keep_on=0), 200 * S)
    nodes.down([0, 1], 10 * S)
    nodes.up([0], 20 * S)
    assert nodes.take([0], 259 * S) == 259 * S  # not due before 200 s + 60 s
    nodes.up([1], 300 * S)
    assert nodes.take([1], 359 * S) == 359 * S
    assert not nodes.spells


def test_a_job_waits_for_its_last_node_and_is_charged_for_none_of_it() -> None:
    cluster = Cluster.from_dict(
        {
            "nodes": [{"count": 2, "cores": 1}],
            "power": {"idle": 100, "core": 10, "off": 5, "switch_off": {**OFF, "keep_on": 0}},
        }
    )
    submit = np.array([0, 10, 90])
    jobs = job_table(
        submit_us=submit * S, work_us=np.full(3, 50 * S), request_us=np.full(3, 50 * S), tasks=np.array([1, 1, 2])
    )
    result = unrack.simulate(cluster, workload_of(jobs), "easy")
    assert result.jobs["end_s"].to_list() == [50, 60, 140]  # both nodes are on still
    late = unrack.simulate(cluster, workload_of(replace(jobs, submit_us=np.array([0, 60, 115]) * S)), "easy")
    # at 115 s node 0 has been going off for 5 s; the second job was on node 0 too, from 60 s on
    assert late.jobs.select("start_s", "run_s").rows()[:2] == [(0, 50), (60, 50)]
    assert late.jobs["end_s"].to_list()[2] == 115 + 30 + 50  # node 1 went off at 60 s; node 0 is on until 170 s
    assert late.jobs["energy_kwh"].to_list() == pytest.approx([500 / 3.6e6, 500 / 3.6e6, 1000 / 3.6e6])


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
def test_the_run_and_its_tables_agree_while_memory_follows_use(policy: str) -> None:
    off = 0
    for seed in range(6):
        plain, jobs = some(seed)
        own = Nodes(plain.cores, plain.memory_mb, plain.rack, plain.rack_names)
        table = {"idle": 100, "core": 10, "off": 5, "switch_off": {**OFF, "keep_on": seed % 3}}
        cluster = replace(plain, places=Places({"power": Power(table, own, "power")}, len(plain)))
        struck = faults(np.random.default_rng(seed), 6, 4000, most=3) if seed % 2 else ()
        world = World(contention="synthetic" if seed % 4 == 1 else None, faults=struck)
        kernel = prepared(cluster, jobs, parse_policy(policy), seed, world)
        log = kernel.run()
        assert kernel.switched is not None
        kernel.switched.switching.close(log.end_us + 1)
        _, replayed = _replayed(log, kernel.switched.switching._power)
        assert replayed is not None
        replayed.close(log.end_us + 1)
        assert sorted(kernel.switched.switching.spells) == sorted(replayed.spells)
        off += sum(spell.off for spell in replayed.spells)
        assert power_frame(log)["watts"].min() >= 5 * len(cluster)
    assert off
