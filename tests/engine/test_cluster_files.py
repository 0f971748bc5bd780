"""Clusters from files, presets and arguments; what is malformed is refused with file, key, got and want."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unrack.cluster.presets import PRESETS
from unrack.cluster.spec import UNCOUNTED_MB, Cluster
from unrack.errors import ClusterError

GOOD = """
name = "mine"
nodes_per_rack = 2
[[nodes]]
name = "thin"
count = 3
cores = 4
memory = "2 GB"
[[nodes]]
name = "fat"
count = 2
cores = 8
memory = "1.5 MB"
rack = "cold aisle"
[domains]
power = ["0-1", "4"]
"""


def load(tmp_path: Path, text: str, name: str = "c.toml") -> Cluster:
    path = tmp_path / name
    path.write_text(text)
    return Cluster.load(path)


def test_a_toml_file_gives_nodes_racks_and_domains(tmp_path: Path) -> None:
    cluster = load(tmp_path, GOOD)
    assert cluster.name == "mine"
    assert cluster.cores.tolist() == [4, 4, 4, 8, 8]
    assert cluster.memory_mb.tolist() == [2048, 2048, 2048, 1, 1], "capacity rounds down"
    assert [cluster.class_names[i] for i in cluster.node_class] == ["thin"] * 3 + ["fat"] * 2
    assert [cluster.rack_names[i] for i in cluster.rack] == ["rack0", "rack0", "rack1", "cold aisle", "cold aisle"]
    assert cluster.domain("power") == (0, 1, 4)
    assert cluster.domain("cold aisle") == (3, 4)
    assert cluster.domain("node2") == (2,)
    assert (cluster.total_cores, cluster.total_mb, len(cluster)) == (28, 3 * 2048 + 2, 5)


def test_racks_are_counted_over_the_classes_of_nodes() -> None:
    cluster = Cluster.from_dict({"nodes": [{"count": 3, "cores": 1}, {"count": 3, "cores": 2}], "nodes_per_rack": 2})
    assert [cluster.rack_names[i] for i in cluster.rack] == ["rack0", "rack0", "rack1", "rack1", "rack2", "rack2"]


def test_a_file_without_a_name_is_called_after_itself(tmp_path: Path) -> None:
    assert load(tmp_path, "[[nodes]]\ncount = 1\ncores = 1\n", "small.toml").name == "small"


def test_memory_that_is_not_given_is_not_counted() -> None:
    cluster = Cluster.homogeneous(nodes=2, cores=1)
    assert cluster.memory_mb.tolist() == [UNCOUNTED_MB] * 2
    assert cluster.total_mb is None


def test_a_machines_table_gives_a_class_a_line(tmp_path: Path) -> None:
    text = "; id name nodes cores speed memory\n0 zewura 2 80 1 529426432\n\n1\tzegox\t3\t12\t1\t94035968\trest\n"
    cluster = load(tmp_path, text, "grid.swf.machines")
    assert cluster.name == "grid"
    assert cluster.cores.tolist() == [80, 80, 12, 12, 12]
    assert cluster.memory_mb.tolist() == [529426432 // 1024] * 2 + [94035968 // 1024] * 3
    assert cluster.class_names == ("zewura", "zegox")


@pytest.mark.needs_data
def test_the_machines_table_of_a_real_log_is_the_preset_of_its_cluster(data: Path) -> None:
    cluster = Cluster.load(next((data / "swf").glob("*.machines")))
    preset = Cluster.preset("cerit-wagap")
    assert np.array_equal(cluster.cores, preset.cores)
    assert np.array_equal(cluster.memory_mb, preset.memory_mb)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_and_is_described(name: str) -> None:
    cluster = Cluster.preset(name)
    assert cluster.name == name
    assert len(cluster) > 0
    assert PRESETS[name].summary
    assert cluster.digest() == Cluster.preset(name).digest()


def test_the_digest_tells_clusters_apart_by_what_can_change_a_schedule() -> None:
    base = {"nodes": [{"count": 2, "cores": 1}]}
    other = [
        {"nodes": [{"count": 3, "cores": 1}]},
        {"nodes": [{"count": 2, "cores": 2}]},
        {"nodes": [{"count": 2, "cores": 1, "memory": 1}]},
        {**base, "nodes_per_rack": 1},
        {**base, "domains": {"x": ["1"]}},
    ]
    digests = {Cluster.from_dict(content).digest() for content in (base, *other)}
    assert len(digests) == 6
    assert Cluster.from_dict({**base, "name": "another"}).digest() == Cluster.from_dict(base).digest()


NODE = "[[nodes]]\ncount = 2\ncores = 4\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["nodes"]),
        ("nodes = []", ["nodes"]),
        ("nodes = 5", ["nodes"]),
        ("nodes = [[1]]", ["nodes.0"]),
        ("this is not toml", ["TOML"]),
        (NODE + "[[nodes", ["TOML"]),
        (NODE.replace("count", "cuont"), ["cuont"]),
        ("[[nodes]]\ncount = 2\n", ["cores"]),
        (NODE + "colour = 'red'\n", ["nodes.0.colour"]),
        (NODE.replace("2", "0"), ["nodes.0.count", "0"]),
        (NODE.replace("2", "-1"), ["nodes.0.count"]),
        (NODE.replace("2", "1.5"), ["nodes.0.count", "1.5"]),
        (NODE.replace("4", "0"), ["nodes.0.cores"]),
        (NODE.replace("4", "'four'"), ["nodes.0.cores", "four"]),
        (NODE.replace("4", "2147483648"), ["nodes.0.cores"]),
        (NODE.replace("2", "10000001"), ["nodes.0.count"]),
        (f"nodes_per_rack = {10**19}\n" + NODE, ["nodes_per_rack", "2147483648"]),
        (f"racks_per_group = {10**19}\n" + NODE, ["racks_per_group", "2147483648"]),
        (NODE + "gpus = 1000001\n", ["nodes.0.gpus", "1000000"]),
        (NODE.replace("2", "9000000") + NODE.replace("2", "9000000"), ["18000000", "10000000"]),
        (NODE + "memory = '64 furlongs'\n", ["nodes.0.memory", "furlongs"]),
        (NODE + "memory = -1\n", ["nodes.0.memory"]),
        (NODE + "memory = nan\n", ["nodes.0.memory"]),
        (NODE + "memory = true\n", ["nodes.0.memory"]),
        (NODE + "memory = '5 EB'\n", ["nodes.0.memory"]),
        (NODE + "memory = [1]\n", ["nodes.0.memory"]),
        (NODE.replace("2", "true"), ["nodes.0.count"]),
        (NODE.replace("4", "true"), ["nodes.0.cores"]),
        ("nodes_per_rack = true\n" + NODE, ["nodes_per_rack"]),
        ("nodes_per_rack = 0\n" + NODE, ["nodes_per_rack"]),
        ("racks = 2\n" + NODE, ["racks"]),
        ("name = 3\n" + NODE, ["name"]),
        (NODE + "name = 'a'\n" + NODE + "name = 'a'\n", ["'a'", "different"]),
        (NODE + "[domains]\nx = ['2']\n", ["domains.x", "'2'"]),
        (NODE + "[domains]\nx = ['1-0']\n", ["domains.x"]),
        (NODE + "[domains]\nx = ['one']\n", ["domains.x", "one"]),
        (NODE + "[domains]\nx = [1]\n", ["domains.x"]),
        (NODE + "[domains]\nrack0 = ['1']\n", ["domains.rack0"]),
        (NODE + "[domains]\nnode1 = ['1']\n", ["domains.node1"]),
        (NODE + "[domains]\nx = '0-1'\n", ["domains.x"]),
        (NODE + "[domains]\nx = ['-1']\n", ["domains.x"]),
        ("licences = 2\n" + NODE, ["licences", "unknown key", "counted", "site", "power"]),
    ],
)
def test_a_malformed_cluster_file_is_refused_with_file_key_got_and_want(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    with pytest.raises(ClusterError) as error:
        load(tmp_path, text)
    assert "c.toml" in error.value.where
    assert all(word in str(error.value) for word in words), str(error.value)
    assert error.value.got
    assert error.value.want
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 a 2 4\n", "line 1"),
        ("; fine\n0 a two 4 1 1024\n", "line 2"),
        ("0 a 2 4 1 lots\n", "line 1"),
        ("", "nodes"),
        ("0 a 0 4 1 1024\n", "count"),
        ("0 a 2 4 1 -5\n", "memory"),
        ("0 a 1 1 1 1\n1 a 1 1 1 1\n", "different"),
    ],
)
def test_a_malformed_machines_table_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        load(tmp_path, text, "c.machines")


def test_a_file_that_is_absent_a_folder_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "absent.toml", tmp_path, tmp_path / "binary.toml"):
        with pytest.raises(ClusterError):
            Cluster.load(path)


@pytest.mark.parametrize("name", ["rack9", "node5", "node-1", "node", "", "node1e0", "node01x"])
def test_an_unknown_failure_domain_or_preset_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="node0 … node1"):
        Cluster.homogeneous(nodes=2, cores=1).domain(name)
    with pytest.raises(ClusterError, match="kth-sp2"):
        Cluster.preset(name)
