"""Jobs are slowed down by what others send over their links: by hand, end to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from linked_worlds import claimed, jobs_of, linked, run

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, UnrackError
from unrack.resources.links.resource import RODINIA, Profiles
from unrack.resources.links.slowdown import LinkSpeeds
from unrack.slowdown.combined import by_resource
from unrack.study.grid import load_study

NW = 0.83 / 0.51
"""How many times as long NW takes beside a full link: 17 % of its run time in the network alone, 49 % there."""


@pytest.mark.parametrize(
    ("application", "factor"),
    [("b+tree", 0.998 / 0.99), ("nw", NW), ("backprop", 95 / 94), ("gaussian", 99 / 91), ("lavamd", 98 / 97),
     ("pathfinder", 98 / 89), ("srad", 97 / 92), ("hotspot", 1.0), ("unknown", 1.0)],
)  # fmt: skip
def test_the_factors_of_rodinia_beside_a_full_link(application: str, factor: float) -> None:
    assert Profiles(RODINIA).full_factor(application) == pytest.approx(factor)


@pytest.mark.parametrize(("load", "factor"), [(1000, NW), (500, 1 + (NW - 1) / 2), (250, 1 + (NW - 1) / 4)])
def test_nw_beside_a_neighbour_is_slower_by_the_load_of_its_link(load: int, factor: float) -> None:
    """It sends 1 MB/s itself, over links that hold twice what they carry; the neighbour stays for longer."""
    cluster = linked(nodes=2, profiles="rodinia", oversubscribe=2.0)
    nw, other = {"own": 1, "app": "nw", "cores": 12}, {"own": load, "app": "iperf", "cores": 8, "work": 900}
    result = run(cluster, jobs_of(nw, {"cores": 20, "work": 900}, other))
    assert result.jobs["end_s"].to_list() == pytest.approx([100 * factor, 900, 900], abs=1e-5)


def test_a_schedule_by_hand() -> None:
    """NW has one GPU more than its node, from node 1; iperf fills half of that node's link from 10 s to 60 s.

    Alone it sends over two links of which it has nothing but its own load: at speed 1 for 10 s. Then it goes at
    1 / (1 + 0.5 (f - 1)) for 50 s, and the rest at speed 1. A second NW on GPUs at home feels nothing.
    """
    half = 1 / (1 + 0.5 * (NW - 1))
    rows = [
        {"gpus": 5, "remote": 100, "app": "nw", "cores": 20},
        {"cores": 1, "work": 50, "own": 500, "submit": 10, "app": "iperf"},
        {"gpus": 4, "remote": 100, "app": "nw", "submit": 20, "cores": 20},
    ]
    result = run(linked(profiles="rodinia"), jobs_of(*rows))
    assert claimed(result, 1) == {"link of node 0": 100, "link of node 1": 100}
    assert claimed(result, 2) == {"link of node 1": 500}
    assert claimed(result, 3) == {}
    assert result.placements["first_node"].to_list() == [0, 1, 2]
    assert result.jobs["end_s"].to_list() == pytest.approx([60 + (100 - 10 - 50 * half), 60, 120], abs=1e-5)
    assert result.metrics["peak_links"] == 0.6
    assert result.metrics["used_uplinks"] is None


def test_two_that_feel_each_other_slow_each_other_down() -> None:
    rows = [{"own": 400, "app": "nw", "cores": 10}, {"own": 200, "app": "srad", "cores": 10}]
    result = run(linked(nodes=2, profiles="rodinia"), jobs_of(*rows))
    srad = 97 / 92
    slow, other = 1 + 0.2 * (NW - 1), 1 + 0.4 * (srad - 1)
    first = min(100 * slow, 100 * other)
    assert first == pytest.approx(100 * other)
    assert result.jobs["end_s"].to_list() == pytest.approx([first + 100 - first / slow, first], abs=1e-5)


def test_two_on_a_link_that_are_stopped_at_once_for_a_third_there() -> None:
    """Each of the two feels the other until 10 s, and again from 110 s on; the third has the link to itself."""
    qos = [{"name": "high", "preempts": ["low"]}, {"name": "low"}]
    cluster = Cluster.from_dict({
        "nodes": [{"count": 1, "cores": 2}], "links": {"mb_s": 1000, "profiles": {"nw": [50, 75]}},
        "site": {"qos": qos, "preempt": {"by": "qos", "mode": "requeue"}},
    })  # fmt: skip
    some = jobs_of(*({"own": 500, "app": "nw"},) * 2, {"own": 1, "app": "nw", "cores": 2, "submit": 10})
    result = run(cluster, replace(some, extra=pl.DataFrame({"qos": ["low", "low", "high"]})))
    assert result.metrics["preemptions"] == 2
    assert result.jobs["end_s"].to_list() == pytest.approx([260, 260, 110], abs=1e-5)


def test_whoever_uses_no_link_is_not_slowed_down() -> None:
    rows = [{"app": "nw", "cores": 10}, {"own": 1000, "cores": 10}]
    assert run(linked(nodes=2, profiles="rodinia"), jobs_of(*rows)).jobs["end_s"].to_list() == [100.0, 100.0]


def test_a_job_on_a_remote_device_begins_later_by_the_time_to_attach_it_and_one_at_home_does_not() -> None:
    rows = [{"gpus": 4, "remote": 10, "cores": 20}, {"gpus": 5, "remote": 10, "cores": 20}]
    result = run(linked(latency="7 s"), jobs_of(*rows))
    assert result.jobs["start_s"].to_list() == [0.0, 0.0]
    assert result.jobs["end_s"].to_list() == [100.0, 107.0]
    assert claimed(result, 2) == {"link of node 1": 10, "link of node 2": 10}


def test_without_profiles_or_known_applications_there_are_no_speeds() -> None:
    jobs = jobs_of({"own": 1, "app": "nw"})
    assert by_resource(linked(), jobs) == []
    assert by_resource(linked(profiles="rodinia"), jobs_of({"own": 1})) == []
    assert [type(part) for part in by_resource(linked(profiles="rodinia"), jobs)] == [LinkSpeeds]


def test_profiles_are_read_from_a_file_or_a_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("application,alone,beside\nmine,20,60\nyours,0,0\n")
    jobs = jobs_of({"own": 1, "app": "mine", "cores": 10}, {"own": 500, "cores": 10, "work": 900})
    for profiles in (str(path), {"mine": [20, 60]}):
        cluster = linked(nodes=2, profiles=profiles)
        assert run(cluster, jobs).jobs["end_s"][0] == pytest.approx(150.0)
        written = cluster.places.written()["links"]
        assert written["profiles"]["mine"] == [20, 60], "run.json stands for itself"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("application,alone\na,1\n", "with the columns application, alone; got"),
        ("application,alone,beside\na,1,x\n", "row 2: '1', 'x'"),
        ("application,alone,beside\na,1,\n", "row 2: '1', None"),
        ("application,alone,beside\na,5,4\n", "row 2: 5, 4"),
        ("application,alone,beside\na,5,100\n", "row 2: 5, 100"),
        ("application,alone,beside\na,nan,5\n", "row 2: nan, 5"),
        ("application,alone,beside\na,1,2\na,1,2\n", "row 3: 'a'"),
        ("application,alone,beside\n,1,2\n", "row 2: None"),
    ],
)
def test_a_file_of_profiles_that_says_something_impossible_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(ClusterError) as error:
        linked(profiles=str(path))
    assert error.value.where.endswith("links.profiles")
    assert words.partition(";")[0] in error.value.got


@pytest.mark.parametrize(
    ("links", "where", "want"),
    [
        ({"mb_s": 0}, "links", "1 MB/s or more"),
        ({"mb_s": "10 parsecs"}, "links", "unit of bandwidth"),
        ({"mb_s": True}, "links.mb_s", ""),
        ({"mb_s": 10, "oversubscribe": 0.5}, "links.oversubscribe", "greater than or equal to 1"),
        ({"mb_s": 10, "speed": 1}, "links.speed", "mb_s, oversubscribe, profiles, racks"),
        ({"mb_s": 10, "racks": {"uplink": 1}}, "links.racks.uplink", "mb_s"),
        ({"mb_s": 10, "profiles": "rodina"}, "links.profiles", "rodinia, or a file"),
        ({"mb_s": 10, "profiles": {"a": [5, 2]}}, "links.profiles.a", "per cent"),
        ({"oversubscribe": 2}, "links.mb_s", "this key"),
        (3, "links", "a table"),
    ],
)
def test_wrong_keys_of_links_are_refused_where_they_are(links: Any, where: str, want: str) -> None:
    from unrack.cluster.spec import Cluster

    with pytest.raises(ClusterError) as error:
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "links": links})
    assert error.value.where.endswith(where)
    assert want in error.value.want


def test_what_a_run_keeps_of_links_makes_the_same_links_again() -> None:
    first = linked(profiles="rodinia", oversubscribe=1.5, racks={"mb_s": "40 Gb/s"})
    again = linked(**first.places.written()["links"])
    assert again.places.identity() == first.places.identity()
    assert list(again.places.parts[0].installed.places) == list(first.places.parts[0].installed.places)


def test_uplinks_need_racks() -> None:
    from unrack.cluster.spec import Cluster

    with pytest.raises(ClusterError, match="nodes_per_rack"):
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "links": {"mb_s": 1, "racks": {"mb_s": 1}}})


def test_a_study_with_a_wrong_key_ends_with_exit_code_2(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'policies = ["easy"]\n[[clusters]]\nnodes = [{ count = 2, cores = 1 }]\nlinks = { mb_s = 10, speed = 1 }\n'
        "[[workloads]]\n[workloads.generate]\njobs = 3\narrivals = { gap_s = 1 }\nclasses = [{ run_s = 10 }]\n"
    )
    with pytest.raises(UnrackError, match=r"links\.speed: got an unknown key") as refused:
        load_study(str(study))
    assert refused.value.exit_code == 2


def test_the_section_of_the_report_has_a_row_a_policy_and_the_load_over_time() -> None:
    from unrack.resources.table import RESOURCES
    from unrack.resources.use import Kept

    result = run(linked(), jobs_of({"own": 500}, {"own": 500, "submit": 50}))
    kept = [Kept("easy", 0, {}, result.metrics, result.table("claims").filter(pl.col("resource") == "links"))]
    (table,) = RESOURCES["links"].section(kept)
    assert table.head == ("policy", "jobs", "held at most", "in use", "fullest", "GB sent", "waited", "not served")
    assert table.rows == (("easy", "2", "1,000", "16.7 %", "100.0 %", "100.0", "–", "–"),)
    assert table.picture.startswith("<svg")
    assert ">1,000.0</text>" in table.picture
    assert RESOURCES["links"].section([]) == ()
