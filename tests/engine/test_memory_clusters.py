"""Clusters of memory studies: who lends to whom, memory pools, distances, and systems of normal and large nodes."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import J, table, workload_of
from tries import draws

import unrack
from unrack.cluster.distance import NAMES, distance_of
from unrack.cluster.file import MemoryPool
from unrack.cluster.presets import LARGE_PERCENT, PRESETS
from unrack.cluster.spec import Cluster
from unrack.cluster.systems import MemorySystem
from unrack.core.admission import places
from unrack.errors import ClusterError, StudyError
from unrack.policy.table import POLICIES, make_policy
from unrack.sim.faults import Fault
from unrack.study.grid import Study, load_study
from unrack.study.input.inputs import Document

GB = 1024
FIVE: dict[str, Any] = {"nodes": [{"count": 5, "cores": 4, "memory": "8 GB"}], "nodes_per_rack": 2}
SHELF = {"name": "shelf", "count": 2, "memory": "64 GB"}


def cluster(*pools: dict[str, Any], **keys: Any) -> Cluster:
    """Five nodes in racks of two, two and one, and memory pools."""
    return Cluster.from_dict({**FIVE, **keys, **({"memory_pools": list(pools)} if pools else {})}, "here")


# --- who lends to whom ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lending", "groups"),
    [
        ("all", [0, 0, 0, 0, 0]),
        ("rack", [0, 0, 1, 1, 2]),
        ("none", [0, 1, 2, 3, 4]),
        (1, [0, 1, 2, 3, 4]),
        (2, [0, 0, 1, 1, 2]),
        (3, [0, 0, 0, 1, 1]),
        (5, [0, 0, 0, 0, 0]),
        (99, [0, 0, 0, 0, 0]),
    ],
)
def test_lending_groups_are_all_nodes_racks_or_so_many_nodes_in_order_of_id(lending: Any, groups: list[int]) -> None:
    assert cluster(lending=lending).lending_group.tolist() == groups


@pytest.mark.parametrize(
    ("lending", "keys", "group", "rack"),
    [
        ("all", {}, -1, "shelf"),
        ("rack", {}, -1, "shelf"),
        ("none", {}, -1, "shelf"),
        (2, {}, -1, "shelf"),
        ("all", {"rack": "rack1"}, -1, "rack1"),
        ("rack", {"rack": "rack1"}, 1, "rack1"),
        (2, {"rack": "rack1"}, -1, "rack1"),
        (2, {"group": 2}, 2, "shelf"),
        (3, {"rack": "rack2", "group": 0}, 0, "rack2"),
    ],
)
def test_a_memory_pool_lends_to_all_unless_its_rack_or_group_says_otherwise(
    lending: Any, keys: dict[str, Any], group: int, rack: str
) -> None:
    found = cluster({**SHELF, **keys}, lending=lending)
    assert found.lending_group[5:].tolist() == [group, group]
    assert [found.rack_names[i] for i in found.rack[5:]] == [rack, rack]


def test_memory_pools_are_nodes_without_cores_after_all_others() -> None:
    found = cluster(SHELF, {"count": 1, "memory": "1.5 MB"}, domains={"psu": ["4-6"]})
    assert found.cores.tolist() == [4] * 5 + [0] * 3
    assert found.memory_mb.tolist() == [8 * GB] * 5 + [64 * GB] * 2 + [1]
    assert found.class_names == ("class0", "shelf", "memory1")
    assert found.node_class.tolist() == [0] * 5 + [1] * 2 + [2]
    assert found.rack_names == ("rack0", "rack1", "rack2", "shelf", "memory1")
    assert (found.total_cores, found.total_mb, len(found)) == (20, 5 * 8 * GB + 2 * 64 * GB + 1, 8)
    assert (found.domain("shelf"), found.domain("psu"), found.domain("node7")) == ((5, 6), (4, 5, 6), (7,))


def test_racks_in_order_of_id_make_groups_of_racks() -> None:
    assert cluster().rack_group.tolist() == [0] * 5
    assert cluster(racks_per_group=2).rack_group.tolist() == [0, 0, 0, 0, 1]
    assert cluster(SHELF, nodes_per_rack=1, racks_per_group=3).rack_group[:5].tolist() == [0, 0, 0, 1, 1]


def test_a_cluster_built_without_groups_has_one_of_each() -> None:
    one = np.zeros(2, np.int64)
    found = Cluster("plain", one + 4, one + 10, one, ("class0",), one, ("rack0",), {})
    assert found.lending_group.tolist() == found.rack_group.tolist() == [0, 0]


def test_the_digest_of_a_cluster_with_default_groups_is_what_it_was_before_there_were_groups() -> None:
    before = "69353145362c9e1f3c1cfbfac3a39942bcf196fd01a94f7b91ae919ee4a170c5"
    assert Cluster.homogeneous(nodes=4, cores=2, memory="8 GB", nodes_per_rack=2).digest() == before
    said = {"nodes": [{"count": 4, "cores": 2, "memory": "8 GB"}], "nodes_per_rack": 2}
    assert Cluster.from_dict({**said, "lending": "all", "memory_pools": []}).digest() == before
    assert Cluster.from_dict({**said, "lending": 4, "racks_per_group": 2}).digest() == before


def test_the_digest_tells_clusters_apart_by_groups_and_memory_pools() -> None:
    many = [
        cluster(),
        cluster(lending=2),
        cluster(racks_per_group=1),  # the same numbers as lending=2, in the other column
        cluster(lending=2, racks_per_group=1),
        cluster(lending="none"),
        cluster(SHELF),
        cluster(SHELF, lending=2),
        cluster({**SHELF, "group": 1}, lending=2),
        cluster({**SHELF, "rack": "rack0"}),
        cluster({**SHELF, "memory": "65 GB"}),
    ]
    assert cluster(lending=2).lending_group.tolist() == cluster(racks_per_group=1).rack_group.tolist()
    assert len({one.digest() for one in many}) == len(many)


@pytest.mark.parametrize(
    ("pools", "keys", "words"),
    [
        ([], {"lending": 0}, ["lending", "got 0", "'all', 'rack', 'none'"]),
        ([], {"lending": -2}, ["lending", "-2"]),
        ([], {"lending": "racks"}, ["lending", "'racks'", "'rack'"]),
        ([], {"lending": "2"}, ["lending", "'2'"]),
        ([], {"lending": 2.0}, ["lending", "2.0"]),
        ([], {"lending": True}, ["lending", "True"]),
        ([], {"lending": [2]}, ["lending", "[2]"]),
        ([], {"racks_per_group": 0}, ["racks_per_group", "0"]),
        ([], {"memory_pools": 3}, ["memory_pools", "3"]),
        ([{"count": 2}], {}, ["memory_pools.0.memory", "nothing"]),
        ([{"memory": 5}], {}, ["memory_pools.0.count", "nothing"]),
        ([{**SHELF, "memory": 0}], {}, ["memory_pools.0.memory", "got 0", "1 MB or more"]),
        ([{**SHELF, "memory": "0.5 MB"}], {}, ["memory_pools.0.memory", "'0.5 MB'"]),
        ([{**SHELF, "count": 0}], {}, ["memory_pools.0.count", "0"]),
        ([{**SHELF, "cores": 0}], {}, ["memory_pools.0.cores", "unknown key"]),
        ([SHELF, {**SHELF, "name": "b", "rack": "rack7"}], {}, ["memory_pools.1.rack", "'rack7'", "rack0, rack1"]),
        ([{**SHELF, "name": "rack1"}], {}, ["memory_pools.0.name", "'rack1'", "no rack has"]),
        ([SHELF, SHELF], {}, ["('class0', 'shelf', 'shelf')", "different name"]),
        ([{**SHELF, "group": 0}], {}, ["memory_pools.0.group", "got 0", "lending = 'all'", "lending = N"]),
        ([{**SHELF, "group": 0}], {"lending": "rack"}, ["memory_pools.0.group", "lending = 'rack'"]),
        ([{**SHELF, "group": 3}], {"lending": 2}, ["memory_pools.0.group", "got 3", "0 to 2"]),
        ([{**SHELF, "group": -1}], {"lending": 2}, ["memory_pools.0.group", "-1"]),
        ([{**SHELF, "group": True}], {"lending": 2}, ["memory_pools.0.group", "True"]),
        ([SHELF], {"nodes": [{"count": 1, "cores": 1}]}, ["nodes.0.memory", "got nothing", "memory pools"]),
        ([SHELF], {"nodes": [{"count": 1, "cores": 0, "memory": 1}]}, ["nodes.0.cores", "got 0"]),
        ([SHELF], {"nodes": []}, ["nodes"]),
        ([{**SHELF, "count": 9_999_999}], {}, ["10000004", "10000000"]),
        ([SHELF], {"domains": {"shelf": ["0"]}}, ["domains.shelf", "no rack"]),
    ],
)
def test_a_malformed_lending_key_or_memory_pool_is_refused(
    pools: list[dict[str, Any]], keys: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ClusterError) as error:
        cluster(*pools, **keys)
    assert error.value.where.startswith("here, ")
    assert all(word in str(error.value) for word in words), str(error.value)


# --- distances --------------------------------------------------------------------------------------------------------


def distance(c: Cluster, a: int, b: int) -> str:
    plain = getattr(distance_of, "py_func", distance_of)  # a part of kernels has no entry from Python
    return NAMES[plain(c.rack, c.rack_group, c.cores, a, b)]


def test_distances_are_rack_group_far_and_pool() -> None:
    c = cluster(SHELF, {**SHELF, "name": "inside", "rack": "rack0"}, racks_per_group=2)
    pairs = {(0, 0): "rack", (0, 1): "rack", (0, 2): "group", (2, 0): "group", (0, 4): "far", (4, 1): "far",
             (0, 5): "pool", (5, 0): "pool", (5, 6): "rack", (0, 7): "rack", (7, 1): "rack", (2, 7): "pool",
             (5, 7): "pool"}  # fmt: skip
    assert {pair: distance(c, *pair) for pair in pairs} == pairs


@draws(50)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.data())
def test_distances_follow_the_numbers_of_nodes(nodes: int, a_rack: int, a_group: int, pool: int, data: Any) -> None:
    """Of nodes in racks of ``a_rack`` and racks in groups of ``a_group``, division tells the distance."""
    content = {"nodes": [{"count": nodes, "cores": 1, "memory": 1}], "nodes_per_rack": a_rack}
    pools = [{"count": pool, "memory": 1}] if pool else []
    c = Cluster.from_dict({**content, "racks_per_group": a_group, "memory_pools": pools})
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, nodes + pool - 1)] * 2), min_size=1, max_size=8))
    expected = []
    for one, other in pairs:
        if (one >= nodes) != (other >= nodes):
            expected.append("pool")
        elif one >= nodes or one // a_rack == other // a_rack:
            expected.append("rack")
        else:
            expected.append("group" if one // a_rack // a_group == other // a_rack // a_group else "far")
    assert [distance(c, a, b) for a, b in pairs] == [distance(c, b, a) for a, b in pairs] == expected


# --- systems of normal and large nodes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "large", "name"),
    [(0, 0, "memory-10-0"), (0.04, 0, "memory-10-4"), (0.05, 1, "memory-10-5"), (0.25, 3, "memory-10-25"),
     (0.85, 9, "memory-10-85"), (1, 10, "memory-10-100")],
)  # fmt: skip
def test_a_memory_system_has_normal_nodes_then_large_ones(share: float, large: int, name: str) -> None:
    system = unrack.memory_system(nodes=10, cores=2, large_share=share, normal="1 GB", large=3000)
    assert system.memory_mb.tolist() == [1024] * (10 - large) + [3000] * large
    assert set(system.cores.tolist()) == {2}
    assert (system.name, set(system.rack.tolist())) == (name, {0})
    assert set(system.class_names) == {kind for kind, count in (("normal", 10 - large), ("large", large)) if count}


def test_a_memory_system_takes_a_name_and_the_keys_of_a_cluster_file() -> None:
    system = unrack.memory_system(nodes=4, name="mine", lending=2, nodes_per_rack=2, memory_pools=[SHELF])
    assert system.name == "mine"
    assert system.lending_group.tolist() == [0, 0, 1, 1, -1, -1]
    assert system.rack.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("percent", LARGE_PERCENT)
def test_the_presets_of_the_memory_study_are_its_systems(percent: int) -> None:
    preset = Cluster.preset(f"memory-1024-{percent}")
    assert preset.digest() == unrack.memory_system(large_share=percent / 100).digest()
    assert preset.name == unrack.memory_system(large_share=percent / 100).name
    assert (preset.memory_mb == 64 * GB).sum() == {0: 0, 15: 154, 25: 256, 50: 512, 75: 768, 100: 1024}[percent]


def test_the_older_presets_of_the_memory_study_have_the_nodes_that_they_say() -> None:
    half, full = Cluster.preset("memory-1024-half"), Cluster.preset("memory-1024")
    assert half.digest() == Cluster.preset("memory-1024-50").digest()
    other = Cluster.preset("memory-1024-100")
    assert full.cores.tolist() == other.cores.tolist()
    assert full.memory_mb.tolist() == other.memory_mb.tolist()
    for name, same in (("memory-1024-half", "memory-1024-50"), ("memory-1024", "memory-1024-100")):
        assert same in PRESETS[name].summary


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"nodes": 0}, ["memory_system, nodes", "0"]),
        ({"cores": 0}, ["memory_system, cores", "0"]),
        ({"large_share": 1.1}, ["memory_system, large_share", "1.1"]),
        ({"large_share": -0.1}, ["memory_system, large_share", "-0.1"]),
        ({"large_share": float("nan")}, ["memory_system, large_share", "nan"]),
        ({"large_share": True}, ["memory_system, large_share", "True"]),
        ({"large_share": "half"}, ["memory_system, large_share", "half"]),
        ({"normal": "a lot"}, ["memory_system, normal", "a lot"]),
        ({"large": "31 GB"}, ["memory_system", "large = 31744 MB", "normal = 32768 MB"]),
        ({"lending": "rakc"}, ["memory_system, lending", "rakc"]),
        ({"colour": "red"}, ["memory_system, colour", "unknown key"]),
        ({"name": 3}, ["memory_system, name", "3"]),
    ],
)
def test_a_malformed_memory_system_is_refused_with_key_got_and_want(keys: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ClusterError) as error:
        unrack.memory_system(**keys)
    assert all(word in str(error.value) for word in words), str(error.value)


# --- in studies -------------------------------------------------------------------------------------------------------

STUDY = """
policies = ["disaggregated(near=yes)"]

[[clusters]]
memory_system = { nodes = 8, large_share = 0.25 }
lending = 2

[[clusters.memory_pools]]
name = "shelf"
count = 1
memory = "64 GB"

[[clusters]]
name = "all large"
memory_system = { nodes = 8, large_share = 1.0 }

[[workloads]]
generate = { jobs = 3, arrivals = { gap_s = 20 }, classes = [{ run_s = 100, memory_mb = 9 }] }
"""


def study(text: str) -> Study:
    return load_study("s.toml", document=Document("s.toml", None, tomllib.loads(text), text))


def test_a_study_takes_memory_systems_and_memory_pools() -> None:
    first, second = (run.cluster for run in study(STUDY).runs)
    assert (first.name, second.name) == ("cluster1", "all large")
    assert first.memory_mb.tolist() == [32 * GB] * 6 + [64 * GB] * 3
    assert first.lending_group.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, -1]
    assert second.memory_mb.tolist() == [64 * GB] * 8


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("clusters.0.memory_system.large_share", "[0, 0.15, 0.25, 0.5, 1]"),
        ("clusters.0.memory_system.nodes", "[8, 16]"),
        ("clusters.0.lending", '[1, 2, 4, "all"]'),
        ("clusters.0.memory_pools.0.count", "[1, 2]"),
        ("clusters.0.memory_pools.0.memory", '["32 GB", "64 GB"]'),
        ("clusters.0.nodes_per_rack", "[2, 4]"),
    ],
)
def test_swept_memory_clusters_are_runs_of_their_own_under_one_name(key: str, values: str) -> None:
    """One name, so that the report draws one line over the swept values."""
    made = study(f'{STUDY}\n[sweep]\n"{key}" = {values}\n')
    several = [run for run in made.runs if run.cluster.name == "cluster1"]
    count = len(tomllib.loads(f"x = {values}")["x"])
    assert len(several) == count
    assert len({run.cluster.digest() for run in several}) == count
    assert len({run.id for run in made.runs}) == 2 * count
    again = load_study("again", document=Document("again", None, made.resolved))
    assert [run.id for run in again.runs] == [run.id for run in made.runs]


def test_a_swept_share_reaches_every_memory_system() -> None:
    made = study(f'{STUDY}\n[sweep]\n"clusters.memory_system.large_share" = [0.0, 0.5]\n')
    assert [int((run.cluster.memory_mb[:8] == 64 * GB).sum()) for run in made.runs] == [0, 0, 4, 4]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "large_share = 0.25",
            "large_shear = 0.25",
            ["clusters[0].memory_system.large_shear", "'large_share' perhaps"],
        ),
        ("large_share = 0.25", "large_share = 2", ["clusters[0].memory_system.large_share", "line 5", "got 2"]),
        ("{ nodes = 8, large_share = 0.25 }", '"big"', ["clusters[0].memory_system", "'big'", "a table"]),
        ("lending = 2", 'preset = "kth-sp2"', ["preset, memory_system", "exactly one of"]),
        ("lending = 2", "nodes = [{ count = 1, cores = 1 }]", ["nodes, memory_system", "exactly one of"]),
        ("lending = 2", "lendign = 2", ["clusters[0].lendign", "'lending' perhaps"]),
        ("lending = 2", "lending = 0", ["clusters[0]", "lending", "got 0"]),
        ('memory = "64 GB"', 'memory = "64 apples"', ["memory_pools.0.memory", "apples"]),
    ],
)
def test_a_malformed_memory_system_of_a_study_is_refused_at_its_key(old: str, new: str, words: list[str]) -> None:
    with pytest.raises(StudyError) as error:
        study(STUDY.replace(old, new, 1))
    assert all(word in str(error.value) for word in words), str(error.value)


# --- nodes without cores in runs --------------------------------------------------------------------------------------

# The last is bigger than any node that computes.
JOBS = [J(0, 50, 3, cores=2, mb=3 * GB), J(1, 40, 2, cores=4, mb=GB), J(2, 9, 7, cores=1),
        J(3, 20, 1, cores=4, mb=8 * GB), J(3, 5, 5, cores=4, mb=GB), J(4, 30, 2, cores=1, mb=9 * GB)]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in POLICIES if not make_policy(name, {}).traits.lends])
def test_a_policy_that_does_not_lend_runs_as_if_there_were_no_memory_pools(name: str) -> None:
    bare, pooled = (unrack.simulate(c, workload_of(table(JOBS)), name, seed=1) for c in (cluster(), cluster(SHELF)))
    assert pooled.placements.equals(bare.placements)
    assert pooled.jobs.equals(bare.jobs)
    assert pooled.usage.equals(bare.usage)
    assert pooled.jobs["state"].to_list() == ["finished"] * 5 + ["rejected"]
    assert pooled.metrics["utilisation_cores"] == bare.metrics["utilisation_cores"]


def test_what_is_too_big_is_said_of_nodes_that_compute() -> None:
    result = unrack.simulate(cluster(SHELF), workload_of(table(JOBS)), "fcfs")
    assert "MB on one node" in result.jobs["reason"][5]
    assert f"{8 * GB}" in result.jobs["reason"][5].replace(",", "")


def test_tasks_without_cores_have_no_place_on_a_memory_pool() -> None:
    asks = np.zeros(2, np.int64), np.array([GB, 9 * GB])
    assert places(cluster(SHELF), *asks).tolist() == places(cluster(), *asks).tolist() == [40, 0]


def test_a_job_whose_devices_only_a_memory_pool_reaches_is_rejected() -> None:
    gpu = {"kind": "gpu", "count": 1, "quantities": {"memory_mb": 100}, "reach": ["shelf"]}
    jobs = table([J(0, 5), J(0, 5)])
    asking = replace(jobs, devices={("gpu", "memory_mb"): np.array([100, 0])})
    result = unrack.simulate(cluster(SHELF, pools=[gpu]), workload_of(asking), "first-fit")
    assert result.jobs["state"].to_list() == ["rejected", "finished"]


def test_a_memory_pool_may_fail_and_be_repaired_while_jobs_run() -> None:
    jobs = workload_of(table(JOBS[:5]))
    fault = Fault("shelf", 10_000_000, 5_000_000)
    plain, failed = (
        unrack.simulate(cluster(SHELF), jobs, "easy", world=unrack.World(faults=faults)) for faults in ((), (fault,))
    )
    assert failed.placements.equals(plain.placements)
    assert failed.metrics["restarts"] == 0
    assert failed.metrics["utilisation_cores"] == plain.metrics["utilisation_cores"]


# --- documentation ----------------------------------------------------------------------------------------------------


def test_every_key_of_memory_pools_and_memory_systems_has_a_row_on_the_page_of_studies() -> None:
    text = (Path(__file__).parents[2] / "docs" / "study-files.md").read_text()
    for model, title in ((MemoryPool, "### Lending memory"), (MemorySystem, "### Systems of normal and large nodes")):
        section = re.split(r"\n##", text.partition(f"\n{title}\n")[2])[0]
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        described = {key for row in rows for key in re.findall(r"`([^`]+)`", row)}
        assert {field.alias or name for name, field in model.model_fields.items()} <= described
    assert {"lending", "racks_per_group", "memory_pools"} <= set(re.findall(r"\| `([^`]+)` \|", text))


def test_the_cluster_on_the_page_of_studies_can_be_built() -> None:
    text = (Path(__file__).parents[2] / "docs" / "study-files.md").read_text().partition("\n### Lending memory\n")[2]
    block = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    near, rest = 'policies = ["disaggregated(near=yes)"]', STUDY.partition("[[workloads]]")[2]
    found = study(f"{near}\n{block}\n[[workloads]]{rest}").runs[0].cluster
    assert (len(found), found.lending_group.max(), found.rack_group[63]) == (66, 3, 1)
    assert found.lending_group[64:].tolist() == [-1, -1]
