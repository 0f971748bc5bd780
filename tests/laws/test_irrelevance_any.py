"""Law 11 beside whatever a cluster may have, all of it at once: what no job lacks changes no schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from any_worlds import PARTS, any_rules, any_world, some
from mixed_worlds import with_rules
from test_irrelevance import (
    World,
    apart,
    asked,
    difference,
    drives,
    drives_of_nodes,
    gpus,
    link,
    memory_to_lend,
    starts,
)
from test_irrelevance_beside import beside, capped

from unrack.errors import PolicyError

Made = Callable[[World], World | None]
"""The same with something that no job lacks; ``None``: the world has something like it already."""


def nodes_of(world: World) -> int:
    return sum(kind["count"] for kind in world.cluster["nodes"])


def counted(**keys: Any) -> Made:
    """A counter of a million, of which every third job asks for one."""

    def made(world: World) -> World | None:
        if keys.get("per") == "rack" and nodes_of(world) <= world.cluster["nodes_per_rack"]:
            return None
        counters = [*world.cluster.get("counted", []), {"name": "plenty", "amount": 1_000_000, **keys}]
        devices = world.jobs.get("devices", {}) | asked(world, "plenty")
        return World(world.cluster | {"counted": counters}, world.jobs | {"devices": devices})

    return made


def site(world: World, key: str, table: dict[str, Any]) -> World:
    """One more table of a site."""
    told = world.cluster.get("site", {})
    return World(world.cluster | {"site": told | {key: [*told.get(key, []), table]}}, world.jobs)


def kept_far(**keys: Any) -> Made:
    """All nodes, or some of their cores, are kept in three months."""

    def made(world: World) -> World:
        kept = {"name": "far", "nodes": [f"0-{nodes_of(world) - 1}"], "start": "90 d", "duration": "1 d", **keys}
        return site(world, "reservations", kept)

    return made


def partition(world: World) -> World:
    """A partition that no job names."""
    return site(world, "partitions", {"name": "unused", "nodes": ["0"]})


def useless_node(world: World) -> World:
    """A node behind the others that no job may use."""
    gone = {"count": 1, "cores": 2, "memory": 4, "name": "gone"}
    more = {"nodes": [*world.cluster["nodes"], gone], "drained": str(nodes_of(world))}
    return World(world.cluster | more, world.jobs)


def new(made: Callable[[World], World], key: str) -> Made:
    """What a world does not have yet."""
    return lambda world: None if key in world.cluster else beside(made)(world) if key != "lending" else made(world)


ON_NODES = (
    new(link, "links"), new(gpus, "gpus"), new(drives, "pools"), new(drives_of_nodes, "pools"), new(apart, "spread"),
    counted(per="node"), counted(per="rack", asked_by="job"),
)  # fmt: skip
LACKED_BY_NONE = (
    *ON_NODES, counted(), useless_node, partition, kept_far(cores=1, users=["other"]), kept_far(maintenance=True),
    new(memory_to_lend, "lending"), new(capped, "power"),
)  # fmt: skip
DISCIPLINES = (
    "fcfs", "sjf", "list(backfill=any)", "easy", "easy(backfill_order=sjf)", "easy(order=wfp3)", "conservative",
    "conservative(order=sjf)", "conservative(compress=ends)", "slurm(interval=7 s)", "slurm(interval=20 s, depth=4)",
    "flow(interval=0)",
)  # fmt: skip


def told(world: World, others: Iterable[World | None], policy: str) -> list[str]:
    """What differs from each of the others; nothing where there is nothing to compare."""
    try:
        before = starts(world, policy)
    except PolicyError:  # the policy is not for such worlds
        return []
    found = []
    for other in others:
        lets_in = other is None or (nodes_of(other) > nodes_of(world) and len(before) < len(world.jobs["tasks"]))
        try:
            found.append("" if other is None or lets_in else difference(before, starts(other, policy)))
        except PolicyError:
            found.append("")
    return found


def differences(seed: int, pairs: int) -> list[str]:
    """What differs in so many pairs of a random world and the same with something that no job lacks."""
    draw = np.random.default_rng([81, seed])
    parts = some(draw, PARTS)
    world, rules = any_world(draw, parts), any_rules(draw, parts)
    first, place = int(draw.integers(len(LACKED_BY_NONE))), rules["place"]
    numbers = [(first + 3 * pair) % len(LACKED_BY_NONE) for pair in range(pairs)]
    if place != "first-fit":  # by nature, or as decision 67 says
        numbers = [
            number for number in numbers if number != 10 and (number not in (2, 3) or place != "min-fragmentation")
        ]
    policy = with_rules(DISCIPLINES[seed % len(DISCIPLINES)], **rules)
    words = told(world, (LACKED_BY_NONE[number](world) for number in numbers), policy)
    name = f"{policy}, {sorted(parts)}, world {seed}"
    return [f"{name}, irrelevance {number}: {own}" for number, own in zip(numbers, words, strict=False) if own]


MANY = [pytest.param(range(first, first + 100), 4, marks=pytest.mark.slow) for first in range(0, 2500, 100)]
"""10 000 pairs, some at a time: ``pytest -m slow -n 2`` spreads them."""


@pytest.mark.parametrize(("worlds", "pairs"), [([*range(24), 385, 537], 1), *MANY])
def test_what_no_job_lacks_changes_nothing_beside_whatever_there_is(worlds: Sequence[int], pairs: int) -> None:
    """But for rules that look at compositions, beside drives, and cores that are kept under plans of other fits.

    In world 385 a job never has a place, with drives for all neither, as in world 537, where memory is lent.
    """
    assert not [words for seed in worlds for words in differences(seed, pairs)]


@pytest.mark.parametrize("worlds", [[*range(8), 121, 152, 183], pytest.param(range(1_500), marks=pytest.mark.slow)])
def test_nor_does_it_where_reservations_keep_some_cores_of_nodes(worlds: Sequence[int]) -> None:
    """Met or not: what is ample is chosen when a job starts, and its cores are chosen as those of others."""
    for seed in worlds:
        draw = np.random.default_rng([80, seed])
        world = any_world(draw, {"cores"} | ({"partitions"} if draw.random() < 0.3 else set()))
        policy = ("conservative", "slurm(interval=7 s)", "easy", "conservative(compress=ends)")[seed % 4]
        number = int(draw.integers(len(ON_NODES)))
        words = told(world, [ON_NODES[number](world)], policy)
        assert not any(words), f"{policy}, irrelevance {number}, world {seed}: {words}"
