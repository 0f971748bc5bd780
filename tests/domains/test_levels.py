"""Levels of failure domains: how a cluster file says them, what they are, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from failing_worlds import contents, domains_of
from hypothesis import given
from tries import draws

from unrack.cluster.domains import node_ids, parted
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError

SHELVED: dict[str, Any] = {
    "nodes": [{"count": 10, "cores": 4, "memory": "8 GB"}],
    "nodes_per_rack": 5,
    "memory_pools": [{"name": "shelf", "count": 3, "memory": "16 GB"}],
}


def cluster(**levels: Any) -> Cluster:
    return Cluster.from_dict({**SHELVED, "domains": {"aisle": ["8-11"]}, "failure_domains": levels})


def test_every_cluster_has_nodes_and_racks_as_levels() -> None:
    plain = Cluster.from_dict(SHELVED)
    assert plain.levels == ("node", "rack")
    assert plain.level("node").tolist() == list(range(13))
    assert plain.level("rack").tolist() == [0] * 5 + [1] * 5 + [2] * 3
    assert plain.domain_names("rack") == ("rack0", "rack1", "shelf")
    assert plain.domain_names("node")[12] == "node12"


def test_nodes_in_turn_share_a_domain_and_memory_pools_have_domains_of_their_own() -> None:
    found = cluster(chassis={"nodes_each": 4})
    assert found.level("chassis").tolist() == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 3
    assert found.domain_names("chassis") == ("chassis0", "chassis1", "chassis2", "chassis3")
    assert found.domain("chassis2") == (8, 9)


def test_racks_in_turn_share_a_domain() -> None:
    found = cluster(feed={"racks_each": 2})
    assert found.level("feed").tolist() == [0] * 10 + [1] * 3
    assert found.domain("feed1") == (10, 11, 12)


def test_a_domain_may_be_named_by_nodes_racks_sets_and_domains_of_earlier_levels() -> None:
    found = cluster(
        chassis={"nodes_each": 4}, feed={"left": ["chassis0", "7"], "right": ["aisle"], "middle": ["4-5", "12"]}
    )
    assert found.level("feed").tolist() == [0, 0, 0, 0, 2, 2, -1, 0, 1, 1, 1, 1, 2]
    assert cluster(feed={"a": ["shelf", "rack1"]}).domain("a") == tuple(range(5, 13))


def test_nodes_may_be_in_no_domain_of_a_level() -> None:
    found = cluster(feed={"left": ["rack0"], "right": ["7", "shelf"]})
    assert found.level("feed").tolist() == [0] * 5 + [-1, -1, 1, -1, -1] + [1] * 3
    assert found.domain("right") == (7, 10, 11, 12)
    assert [found.level_of(name) for name in ("left", "rack1", "node3", "aisle")] == ["feed", "rack", "node", "domain"]


@pytest.mark.parametrize(
    ("levels", "where", "got"),
    [
        ({"rack": {"nodes_each": 2}}, "failure_domains.rack", "'rack'"),
        ({"node": {"a": ["0"]}}, "failure_domains.node", "'node'"),
        ({"domain": {"a": ["0"]}}, "failure_domains.domain", "'domain'"),
        ({"": {"a": ["0"]}}, "failure_domains.", "''"),
        ({"feed": {"rack0": ["0"]}}, "failure_domains.feed.rack0", "'rack0'"),
        ({"feed": {"aisle": ["0"]}}, "failure_domains.feed.aisle", "'aisle'"),
        ({"feed": {"node99": ["0"]}}, "failure_domains.feed.node99", "'node99'"),
        ({"feed": {"a": ["0"]}, "row": {"a": ["1"]}}, "failure_domains.row.a", "'a'"),
        ({"feed": {"a": ["0-3"], "b": ["3"]}}, "failure_domains.feed.b", "node 3"),
        ({"feed": {"a": []}}, "failure_domains.feed.a", "no nodes"),
        ({"feed": {"a": ["13"]}}, "failure_domains.feed.a", "'13'"),
        ({"feed": {"a": ["rack7"]}}, "failure_domains.feed.a", "'rack7'"),
        ({"feed": {"a": ["row0"]}, "row": {"nodes_each": 5}}, "failure_domains.feed.a", "'row0'"),
        ({"feed": {"nodes_each": 0}}, "failure_domains.feed", "{'nodes_each': 0}"),
        ({"feed": {"nodes_each": 2, "racks_each": 2}}, "failure_domains.feed", "nodes_each"),
        ({"feed": {"nodes_each": True}}, "failure_domains.feed", "True"),
        ({"feed": {"nodes_each": "4"}}, "failure_domains.feed", "'4'"),
        ({"feed": {}}, "failure_domains.feed", "{}"),
        ({"feed": ["0-3"]}, "failure_domains.feed", "['0-3']"),
        ({"feed": {"a": [3]}}, "failure_domains.feed", "[3]"),
    ],
)
def test_a_wrong_level_is_refused_by_its_key(levels: dict[str, Any], where: str, got: str) -> None:
    with pytest.raises(ClusterError) as caught:
        cluster(**levels)
    assert caught.value.where == f"cluster, {where}"
    assert got in caught.value.got


def test_a_level_or_domain_that_is_not_there_is_refused_with_those_that_are() -> None:
    found = cluster(chassis={"nodes_each": 4})
    for ask in (found.level, found.domain_names):
        with pytest.raises(ClusterError, match="'row', wanted one of node, rack, chassis"):
            ask("row")
    with pytest.raises(ClusterError, match="'chassis9', wanted a domain or rack or chassis of the cluster, or node0"):
        found.domain("chassis9")


@draws(60)
@given(content=contents())
def test_a_level_parts_the_nodes_as_its_domains_say(content: dict[str, Any]) -> None:
    found = Cluster.from_dict(content)
    for name in found.levels:
        of_node, names = found.level(name), found.domain_names(name)
        assert of_node.dtype == np.int64
        assert len(of_node) == len(found)
        for i, domain in enumerate(names):
            assert found.domain(domain) == tuple(node for node in range(len(found)) if of_node[node] == i) != ()
            assert found.level_of(domain) == name
    assert len(set(domains_of(found))) == len(domains_of(found))
    for level in found.failure_levels:
        members = {
            name: [node for text in texts for node in node_ids(text, len(found), "")]
            for name, texts in level.written().items()
        }
        again = parted(level.name, members, len(found), "")
        assert (again.of_node.tolist(), again.domain_names) == (level.of_node.tolist(), level.domain_names)


def test_the_digest_of_a_cluster_without_levels_is_what_it_was() -> None:
    kept = "c70eeeceb3165cea87383133a25de4066b4dad6db617c40e3d7f388563f363d3"
    assert Cluster.preset("kth-sp2").digest() == kept
    content = {
        "nodes": [{"count": 6, "cores": 2, "memory": "4 GB"}],
        "nodes_per_rack": 2,
        "racks_per_group": 2,
        "lending": 2,
        "domains": {"left": ["0-2"]},
        "memory_pools": [{"count": 2, "memory": "8 GB", "name": "shelf"}],
    }
    kept = "9fad167248780a66a5e8c9c12b208b3b86df6e1d0e72a4b43d988d4ccba66b57"
    assert Cluster.from_dict(content).digest() == kept


def test_levels_with_other_names_or_nodes_have_another_digest() -> None:
    found = [
        cluster(),
        cluster(chassis={"nodes_each": 4}),
        cluster(chassis={"nodes_each": 3}),
        cluster(sledge={"nodes_each": 4}),
        cluster(chassis={"a": ["0"]}),
        cluster(chassis={"b": ["0"]}),
    ]
    assert len({one.digest() for one in found}) == len(found)
    assert cluster(chassis={"nodes_each": 4}).digest() == found[1].digest()


def test_devices_may_sit_in_a_chassis_and_be_in_reach_of_a_feed() -> None:
    content = {
        **SHELVED,
        "failure_domains": {"chassis": {"nodes_each": 4}, "feed": {"racks_each": 1}},
        "pools": [
            {"kind": "gpu", "count": 4, "quantities": {"memory_mb": "16 GB"}, "home": ["chassis1"], "reach": ["feed1"]}
        ],
    }
    devices = Cluster.from_dict(content).devices
    assert devices.home.tolist() == [4, 5, 6, 7]
    assert np.flatnonzero(devices.reach[0]).tolist() == [5, 6, 7, 8, 9]
