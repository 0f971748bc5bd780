"""``unrack place``: what comes out of files, options and earlier answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from place_command import CENTRE, REQUEST, place, published, write

from unrack_papers import servers
from unrack_papers.servers.published_json import published_cluster

ROOT = Path(__file__).parents[3]
ONE_AT_A_TIME = ("slo", "first-fit", "best-fit")
KEYS = {"price", "clusters_used", "violations", "unplaced", "bound", "servers"}
SERVER_KEYS = {"id", "cluster", "tiers", "price", "reason"}


def check_books(answer: dict[str, Any], request: list[dict[str, Any]], prices: dict[str, float]) -> None:
    """Everything that an answer says about its servers fits together and with what they asked."""
    assert set(answer) >= KEYS
    assert set(answer["violations"]) == {"local", "remote"}
    placed = [row for row in answer["servers"] if row["cluster"] is not None]
    assert [row["id"] for row in answer["servers"]] == [server.get("id", i) for i, server in enumerate(request)]
    assert answer["unplaced"] == [row["id"] for row in answer["servers"] if row["cluster"] is None]
    assert answer["clusters_used"] == len({row["cluster"] for row in placed})
    assert answer["price"] == pytest.approx(sum(row["price"] for row in placed), rel=1e-12)
    assert answer["bound"] <= answer["price"] or answer["violations"] != {"local": 0, "remote": 0}
    for row, server in zip(answer["servers"], request, strict=True):
        assert set(row) >= SERVER_KEYS
        assert set(row["tiers"]) == set(prices)
        held = sum(row["tiers"].values())
        assert held == sum(row["pools"]) == (0 if row["cluster"] is None else server["mem"])
        if row["cluster"] is None:
            assert row["price"] is None
            assert row["reason"].startswith(f"of {answer['clusters']} clusters ")
        else:
            assert row["price"] == pytest.approx(sum(prices[tier] * mb for tier, mb in row["tiers"].items()), rel=1e-12)


PRICES = {"local": 100, "local-remote": 50, "distant-remote": 25}


@pytest.mark.parametrize("policy", ONE_AT_A_TIME)
def test_the_json_says_what_was_asked_for(tmp_path: Path, policy: str) -> None:
    path = write(tmp_path, published())
    answer = place(path, "--json", "--policy", policy).answer
    check_books(answer, published()["servers"], PRICES)
    assert answer["policy"] == policy
    text = place(path, "--json", "--policy", policy).out
    assert place(path, "--json", "--policy", policy).out == text, "the same again"
    assert sum(line.startswith('  {"id": ') for line in text.splitlines()) == len(answer["servers"]), "a line for each"


def test_servers_that_the_paper_could_place_get_the_cheapest_split(tmp_path: Path) -> None:
    answer = place(write(tmp_path, published()), "--json").answer
    assert [row["cluster"] for row in answer["servers"]] == [0, 0, 0]
    assert [list(row["tiers"].values()) for row in answer["servers"]] == [[20, 90, 90], [30, 140, 130], [5, 30, 15]]
    assert answer["price"] == answer["bound"] == 8750 + 13250 + 2375
    assert answer["violations"] == {"local": 0, "remote": 0}


def test_first_fit_does_not_look_at_slos_and_the_answer_says_how_many_it_breaks(tmp_path: Path) -> None:
    answer = place(write(tmp_path, published()), "--json", "--policy", "first-fit").answer
    assert [row["pools"] for row in answer["servers"]] == [[100, 100, 0], [0, 300, 0], [0, 0, 50]]
    assert answer["violations"] == {"local": 2, "remote": 1}


def test_no_servers_are_placed_nowhere_at_no_price(tmp_path: Path) -> None:
    for policy in (*ONE_AT_A_TIME, "optimal"):
        answer = place(write(tmp_path, {**published(), "servers": []}), "--json", "--policy", policy).answer
        assert (answer["price"], answer["clusters_used"], answer["unplaced"], answer["servers"]) == (0, 0, [], [])


def test_servers_that_ask_nothing_of_tiers_get_the_cheapest(tmp_path: Path) -> None:
    content = {**published(), "servers": [{"cores": 1, "mem": 900}, {"cores": 1, "mem": 0}]}
    rows = place(write(tmp_path, content), "--json").answer["servers"]
    assert rows[0]["tiers"] == {"local": 0, "local-remote": 100, "distant-remote": 800}
    assert rows[1]["tiers"] == {"local": 0, "local-remote": 0, "distant-remote": 0}
    assert rows[1]["cluster"] == 0


@pytest.mark.parametrize("policy", ["slo", "best-fit", "optimal"])
@pytest.mark.parametrize(
    ("field", "value", "lack"),
    [
        ("remote_SLA", 199, "2 have only memory that is too remote (at best 200 weighted MB, above 199)"),
        ("remote_SLA", 0, "2 have only memory that is too remote (at best 200 weighted MB, above 0)"),
        ("local_SLA", 150, "2 have too little local memory free (at best 100 of 150 MB)"),
    ],
)
def test_a_server_with_an_impossible_floor_or_ceiling_alone_has_no_place(
    tmp_path: Path, policy: str, field: str, value: int, lack: str
) -> None:
    content = published()
    content["servers"].insert(0, {"id": "odd", "cores": 1, "mem": 300, "local_SLA": 0, field: value})
    done = place(write(tmp_path, content), "--json", "--policy", policy)
    answer = done.answer
    assert done.code == 3
    assert answer["unplaced"] == ["odd"]
    assert answer["servers"][0]["reason"].endswith(f"of 2 clusters {lack}")
    without = place(write(tmp_path, published()), "--json", "--policy", policy).answer
    places = (
        ("pools", "price") if policy == "optimal" else ("cluster", "pools", "price")
    )  # equal clusters are equal to it
    assert answer["status"] == without["status"]
    assert [[row[key] for key in places] for row in answer["servers"][1:]] == [
        [row[key] for key in places] for row in without["servers"]
    ]


def test_first_fit_gives_a_server_with_an_impossible_ceiling_a_place_and_counts_it_as_broken(tmp_path: Path) -> None:
    content = published()
    content["servers"] = [{"cores": 1, "mem": 300, "remote_SLA": 199}]
    done = place(write(tmp_path, content), "--json", "--policy", "first-fit")
    assert done.answer["violations"] == {"local": 0, "remote": 1}
    assert done.code == 0


def test_the_exit_status_tells_whether_all_have_a_place(tmp_path: Path) -> None:
    path = write(tmp_path, published())
    assert [place(path, *options).code for options in ((), ("--json",), ("--explain",), ("--all",))] == [0] * 4
    content = published()
    content["servers"].append({"id": "whale", "cores": 400, "mem": 1})
    path = write(tmp_path, content)
    for options in (
        (),
        ("--json",),
        ("--explain",),
        ("--all",),
        ("--policy", "optimal"),
        ("--picture", tmp_path / "p.svg"),
    ):
        done = place(path, *options)
        assert done.code == 3
        assert "whale" in done.out
        assert done.err == ""


def test_servers_may_come_in_the_order_of_the_ratio_of_their_slos(tmp_path: Path) -> None:
    content = published()
    content["servers"] = [
        {"id": "none", "cores": 1, "mem": 50, "local_SLA": 40},
        {"id": "low", "cores": 1, "mem": 100, "local_SLA": 10, "remote_SLA": 100},
        {"id": "two", "cores": 1, "mem": 60, "local_SLA": 40, "remote_SLA": 20},
        {"id": "zero", "cores": 1, "mem": 30, "local_SLA": 30, "remote_SLA": 0},
        {"id": "also two", "cores": 1, "mem": 75, "local_SLA": 53, "remote_SLA": 22},
    ]
    path = write(tmp_path, content)
    asked = place(path, "--json").answer
    assert [row["cluster"] for row in asked["servers"]] == [0, 0, 0, 1, 1]
    assert asked == place(path, "--json", "--order", "request").answer
    sorted_ = place(path, "--json", "--order", "slo-ratio").answer
    by_hand = {**content, "servers": [content["servers"][i] for i in (3, 2, 4, 0, 1)]}
    expected = place(write(tmp_path, by_hand, "by-hand.json"), "--json").answer
    assert sorted(map(str, sorted_["servers"])) == sorted(map(str, expected["servers"]))
    assert [row["cluster"] for row in sorted_["servers"]] == [1, 0, 0, 0, 1]
    centre = published_cluster(content, "centre", "here")
    python = servers.place(centre, content["servers"], order="slo-ratio")
    assert [row["cluster"] for row in python.as_json()["servers"]] == [row["cluster"] for row in sorted_["servers"]]


def test_an_order_is_refused_where_servers_do_not_come_one_by_one(tmp_path: Path) -> None:
    path = write(tmp_path, published())
    done = place(path, "--order", "slo-ratio", "--policy", "optimal")
    assert (done.code, done.out) == (2, "")
    assert "one after the other" in done.err
    done = place(path, "--order", "largest")
    assert done.code == 2
    assert "order: got 'largest', wanted one of request, slo-ratio" in done.err


def test_a_server_without_a_place_is_told_what_each_cluster_lacks(tmp_path: Path) -> None:
    content = published()
    content["servers"] = [
        {"id": "first", "cores": 3, "mem": 100, "local_SLA": 95},
        {"id": "second", "cores": 1, "mem": 100, "local_SLA": 90},
        {"id": "cores", "cores": 4, "mem": 10},
        {"id": "memory", "cores": 1, "mem": 1300},
        {"id": "local", "cores": 1, "mem": 100, "local_SLA": 50},
        {"id": "pinned", "cores": 2, "mem": 10, "pinned": 0},
        {"id": "remote", "cores": 1, "mem": 700, "remote_SLA": 1000, "forbidden": ["local"]},
    ]
    path = write(tmp_path, content)
    answer = place(path, "--json").answer
    check_books(answer, content["servers"], PRICES)
    assert {row["id"]: row["reason"] for row in answer["servers"] if row["cluster"] is None} == {
        "cores": "of 2 clusters 2 have too few cores free (at best 3 of 4)",
        "memory": "of 2 clusters 2 have too little memory free (at best 1,200 of 1,300 MB)",
        "local": "of 2 clusters 2 have too little local memory free (at best 10 of 50 MB)",
        "pinned": "of 2 clusters 1 are not the one it is pinned to, 1 have too few cores free (at best 1 of 2)",
    }
    shown = place(path).out
    assert "server cores: of 2 clusters 2 have too few cores free (at best 3 of 4)" in shown


def test_reasons_and_refusals_give_weighted_memory_to_the_last_digit(tmp_path: Path) -> None:
    content = published()
    content["pools"][1].update(memory=9_000_000, penalty=1.5)
    content["pools"][0]["memory"] = 10_000_000
    content["clusters"] = [{"pools": [1, 2]}]
    content["servers"] = [
        {"cores": 1, "mem": 10_000_000, "local_SLA": 10_000_000},
        {"cores": 1, "mem": 1_234_567, "remote_SLA": 1_851_850.25},
    ]
    rows = place(write(tmp_path, content), "--json").answer["servers"]
    assert rows[1]["reason"] == (
        "of 1 clusters 1 have only memory that is too remote (at best 1,851,850.5 weighted MB, above 1,851,850.2)"
    )
    content["servers"] = [{"cores": 1, "mem": 11_234_567, "remote_SLA": 1_851_850.25}]
    assert place(write(tmp_path, content), "--json").answer["servers"][0]["reason"] == rows[1]["reason"]


def test_a_ceiling_of_exactly_what_is_needed_is_enough_whatever_its_decimals(tmp_path: Path) -> None:
    for cost, mb, ceiling in ((0.1, 3, 0.3), (1.1, 3, 3.3), (0.000001, 123457, 0.123457), (2.3, 1_234_567, 2839504.1)):
        content = published()
        content["pools"] = [content["pools"][0], {**content["pools"][1], "memory": 2 * mb, "penalty": cost}]
        content["clusters"] = [{"pools": [1, 2]}]
        content["servers"] = [{"cores": 1, "mem": mb, "remote_SLA": ceiling, "forbidden": ["local"]}]
        answer = place(write(tmp_path, content), "--json").answer
        assert answer["servers"][0]["tiers"]["local-remote"] == mb
        assert answer["violations"] == {"local": 0, "remote": 0}


def test_costs_and_prices_may_have_decimals_and_a_pool_may_be_shared(tmp_path: Path) -> None:
    answer = place(write(tmp_path, CENTRE + REQUEST, "both.toml"), "--json").answer
    asked = [{"id": "a", "mem": 1000}, {"id": "b", "mem": 500}]
    check_books(answer, asked, {"local": 100, "rack": 50, "distant": 12.75})
    a, b = answer["servers"]
    assert a["tiers"] == {"local": 100, "rack": 700, "distant": 200}, "700 + 2.5 x 200 = 1200"
    assert b["tiers"] == {"local": 0, "rack": 0, "distant": 500}
    assert answer["price"] == 100 * 100 + 700 * 50 + 700 * 12.75


def test_a_data_centre_may_be_in_the_file_before_it_or_an_option(tmp_path: Path) -> None:
    centre, request = write(tmp_path, CENTRE, "centre.toml"), write(tmp_path, REQUEST, "request.toml")
    both = write(tmp_path, CENTRE + REQUEST, "both.toml")
    answers = [place(*files, "--json").answer for files in ([both], [centre, request], [request, "--cluster", centre])]
    assert answers[0] == answers[1] == answers[2]
    assert place(request, "--cluster", "slo-basic", "--json").answer["clusters"] == 100


def test_files_may_begin_with_a_byte_order_mark_and_end_lines_as_windows_does(tmp_path: Path) -> None:
    plain = place(write(tmp_path, CENTRE, "centre.toml"), write(tmp_path, REQUEST, "asks.toml"), "--json")
    centre, asks = tmp_path / "marked-centre.toml", tmp_path / "marked.toml"
    for path, text in ((centre, CENTRE), (asks, REQUEST)):
        path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert place(centre, asks, "--json").out == plain.out != ""
    marked = tmp_path / "marked.json"
    marked.write_bytes(b"\xef\xbb\xbf" + write(tmp_path, published()).read_bytes())
    assert place(marked, "--json").out == place(write(tmp_path, published()), "--json").out


def test_the_bound_knows_that_a_pinned_server_is_in_its_cluster_whatever_others_cost(tmp_path: Path) -> None:
    content = published()
    content["clusters"][1] = {"pools": [4, 5]}  # without the cheapest pool
    asks = [{"cores": 1, "mem": 100, "pinned": 1}, {"cores": 1, "mem": 100}, {"cores": 1, "mem": 100, "pinned": 0}]
    content["servers"] = asks
    answer = place(write(tmp_path, content), "--json").answer
    assert answer["price"] >= answer["bound"] == 100 * 50 + 100 * 25 + 100 * 25


def test_the_servers_of_a_published_file_may_go_to_another_data_centre(tmp_path: Path) -> None:
    path = write(tmp_path, published())
    basic = place(path, "--cluster", "slo-basic", "--json").answer
    assert basic["unplaced"] == []
    assert basic["servers"][0]["tiers"] == {"local": 20, "local-remote": 90, "distant-remote": 90}


def test_two_pools_of_one_tier_in_a_cluster_count_together(tmp_path: Path) -> None:
    content = published()
    content["clusters"] = [{"pools": [1, 2, 5, 3]}]
    content["servers"] = [{"cores": 1, "mem": 900, "local_SLA": 100, "remote_SLA": 800}]
    row = place(write(tmp_path, content), "--json").answer["servers"][0]
    assert row["tiers"] == {"local": 100, "local-remote": 800, "distant-remote": 0}
    assert row["pools"] == [100, 400, 400, 0]


def test_names_of_pools_clusters_and_servers_are_shown_as_they_are(tmp_path: Path) -> None:
    content = published()
    names = ["[/b]", "[red]b", "c", "ç", "e", "f"]
    for pool, name in zip(content["pools"], names, strict=True):
        pool["id"] = name
    content["clusters"] = [{"id": "[/x]", "pools": names[:3]}, {"id": "[bold]y", "pools": names[3:]}]
    content["servers"][0]["id"] = "[/z]"
    path = write(tmp_path, content)
    assert "│ [/z]   │ [/x]    │" in place(path).out
    assert "server [/z]: 20 MB local" in place(path, "--explain").out


def test_explained_places_say_how_full_the_cluster_was_and_whom_it_was_before(tmp_path: Path) -> None:
    content = published()
    content["servers"] = [{"id": "one", "cores": 3, "mem": 130}, {"id": "two", "cores": 2, "mem": 130}]
    reasons = {
        row["id"]: row["reason"] for row in place(write(tmp_path, content), "--json", "--explain").answer["servers"]
    }
    assert reasons == {
        "one": "cluster 0 (0 % in use), the first in order",
        "two": "cluster 1 (0 % in use), the first in order that could: of 1 clusters 1 have too few cores free"
        " (at best 1 of 2)",
    }


@pytest.mark.parametrize("policy", ONE_AT_A_TIME)
def test_explaining_changes_no_place(tmp_path: Path, policy: str) -> None:
    content = published()
    content["servers"] = [{"cores": 1 + i % 3, "mem": 40 * i, "local_SLA": 4 * i} for i in range(12)]
    path = write(tmp_path, content)
    plain, explained = (place(path, "--json", "--policy", policy, *more).answer for more in ([], ["--explain"]))
    assert plain["unplaced"]
    assert all(row.pop("reason") for row in explained["servers"])
    assert [{**row, "reason": None} for row in plain["servers"]] == [
        {**row, "reason": None} for row in explained["servers"]
    ]


@pytest.mark.parametrize("policy", ONE_AT_A_TIME)
def test_servers_that_are_somewhere_stay_and_the_others_come_to_them(tmp_path: Path, policy: str) -> None:
    content = published()
    before = place(write(tmp_path, {**content, "servers": content["servers"][:2]}), "--json").answer
    since = write(tmp_path, before, "since.json")
    after = place(write(tmp_path, content), "--from", since, "--json", "--policy", policy).answer
    assert [row["pools"] for row in after["servers"][:2]] == [row["pools"] for row in before["servers"]]
    check_books(after, content["servers"], PRICES)
    assert after["servers"][2]["cluster"] == 0


@pytest.mark.long
def test_a_repacking_moves_no_more_servers_than_it_may(tmp_path: Path) -> None:
    content = published()
    content["servers"] = [{"id": i, "cores": 1, "mem": 100, "local_SLA": 10} for i in range(3)]
    spread = {"servers": [{"id": i, "cluster": i % 2, "pools": [10, 0, 90]} for i in range(3)]}
    path, since = write(tmp_path, content), write(tmp_path, spread, "since.json")
    for moves, used in ((0, 2), (1, 1), (3, 1)):
        answer = place(
            path, "--from", since, "--policy", "optimal", "--moves", moves, "--time-limit", "5 s", "--json"
        ).answer
        check_books(answer, content["servers"], PRICES)
        assert len(answer["moves"]) <= moves
        assert answer["clusters_used"] == used
        homes = {row["id"]: row["cluster"] for row in answer["servers"]}
        changed = {server for server, home in homes.items() if home != server % 2}
        assert {move["id"] for move in answer["moves"]} >= changed
        assert not [row for row in answer["servers"] if row["id"] not in changed and row["pools"][0] != 10]


def test_the_optimum_is_never_worse_than_one_at_a_time(tmp_path: Path) -> None:
    content = published()
    content["servers"] = [
        {"cores": 1, "mem": 60 + 30 * i, "local_SLA": 10, "remote_SLA": 120 + 40 * i} for i in range(7)
    ]
    path = write(tmp_path, content)
    optimal = place(path, "--policy", "optimal", "--time-limit", "5 s", "--json").answer
    one = place(path, "--json").answer
    check_books(optimal, content["servers"], PRICES)
    assert optimal["violations"] == one["violations"] == {"local": 0, "remote": 0}
    assert len(optimal["unplaced"]) <= len(one["unplaced"])
    if optimal["unplaced"] == one["unplaced"]:
        assert (optimal["clusters_used"], optimal["price"]) <= (one["clusters_used"], one["price"])
    assert optimal["bound_clusters"] <= optimal["clusters_used"]


def test_servers_of_a_group_keep_to_different_failure_domains(tmp_path: Path) -> None:
    content = published()
    for index, pool in enumerate(content["pools"]):
        pool["feed"] = "east" if index < 3 else "west"
    content["servers"] = [{"id": i, "cores": 1, "mem": 50, "group": "db", "spread": "feed"} for i in range(3)]
    rows = place(write(tmp_path, content), "--json").answer["servers"]
    assert [row["cluster"] for row in rows] == [0, 1, None]
    assert rows[2]["reason"] == "of 2 clusters 2 share a failure domain with its group"


def test_no_more_clusters_are_used_than_may_be(tmp_path: Path) -> None:
    content = {**published(), "most_clusters": 1}
    content["servers"] = [{"cores": 3, "mem": 10}, {"cores": 3, "mem": 10}]
    answer = place(write(tmp_path, content), "--json").answer
    assert answer["clusters_used"] == 1
    assert answer["servers"][1]["reason"] == (
        "of 2 clusters 1 are off while no more may be in use, 1 have too few cores free (at best 1 of 3)"
    )
    for most in (2, 10**30):
        assert place(write(tmp_path, {**content, "most_clusters": most}), "--json").answer["unplaced"] == []


def test_the_examples_can_be_placed() -> None:
    folder = ROOT / "examples" / "place"
    answer = place(folder / "centre.toml", folder / "servers.toml", "--json").answer
    assert answer["violations"] == {"local": 0, "remote": 0}
    assert answer["clusters_used"] >= 2, "two of the group must not share a feed"


@pytest.mark.long
def test_the_command_works_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unrack", "place", str(write(tmp_path, published()))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "160"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("slo: 3 of 3 servers in 1 of 2 clusters")
