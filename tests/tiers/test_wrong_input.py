"""Whatever is wrong in the files and options of ``unrack place`` is refused: where, what was got, what was wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from place_command import CENTRE, REQUEST, Done, place, published, write

HUGE = 10**400
NAN, INFINITE = float("nan"), float("inf")
GONE = object()

WRONG_VALUES: list[tuple[str, object, str]] = [
    ("servers.1.mem", -1, "servers.1.mem"),
    ("servers.1.mem", True, "servers.1.mem"),
    ("servers.1.mem", NAN, "servers.1.mem"),
    ("servers.1.mem", INFINITE, "servers.1.mem"),
    ("servers.1.mem", HUGE, "servers.1.mem"),
    ("servers.1.mem", 2**42, "servers.1.mem"),
    ("servers.1.mem", "much", "servers.1.mem"),
    ("servers.1.mem", "-3 GB", "servers.1.mem"),
    ("servers.1.mem", [300], "servers.1.mem"),
    ("servers.1.mem", None, "servers.1.mem"),
    ("servers.1.mem", GONE, "servers.1.mem"),
    ("servers.1.local_SLA", 301, "servers.1.local_SLA"),
    ("servers.1.local_SLA", -1, "servers.1.local_SLA"),
    ("servers.1.local_SLA", False, "servers.1.local_SLA"),
    ("servers.1.local_SLA", {}, "servers.1.local_SLA"),
    ("servers.1.remote_SLA", 199, "servers.1.remote_SLA"),
    ("servers.1.remote_SLA", 199.999, "servers.1.remote_SLA"),
    ("servers.1.remote_SLA", 0, "servers.1.remote_SLA"),
    ("servers.1.remote_SLA", -0.5, "servers.1.remote_SLA"),
    ("servers.1.remote_SLA", NAN, "servers.1.remote_SLA"),
    ("servers.1.remote_SLA", HUGE, "servers.1.remote_SLA"),
    ("servers.1.remote_SLA", True, "servers.1.remote_SLA"),
    ("servers.1.remote_SLA", "some", "servers.1.remote_SLA"),
    ("servers.1.cores", 0, "servers.1.cores"),
    ("servers.1.cores", -2, "servers.1.cores"),
    ("servers.1.cores", 2.0, "servers.1.cores"),
    ("servers.1.cores", True, "servers.1.cores"),
    ("servers.1.cores", "2", "servers.1.cores"),
    ("servers.1.cores", 2**31, "servers.1.cores"),
    ("servers.1.cores", HUGE, "servers.1.cores"),
    ("servers.1.cores", GONE, "servers.1.cores"),
    ("servers.1.id", 0, "servers.1.id"),
    ("servers.1.id", 2, "servers.2.id"),
    ("servers.1.id", 1.5, "servers.1.id"),
    ("servers.1.id", True, "servers.1.id"),
    ("servers.1.id", "", "servers.1.id"),
    ("servers.1.id", "\ud800", "servers.1.id"),
    ("servers.1.group", 7, "servers.1.group"),
    ("servers.1.spread", "rack", "servers.1.spread"),
    ("servers.1", {"cores": 1, "mem": 1, "group": "g", "spread": "feed"}, "servers.1.spread"),
    ("servers.1.forbidden", "local", "servers.1.forbidden"),
    ("servers.1.forbidden", ["lokal"], "servers.1.forbidden"),
    ("servers.1.forbidden", [1], "servers.1.forbidden.0"),
    ("servers.1.pinned", 2, "servers.1.pinned"),
    ("servers.1.pinned", -1, "servers.1.pinned"),
    ("servers.1.pinned", HUGE, "servers.1.pinned"),
    ("servers.1.pinned", "first", "servers.1.pinned"),
    ("servers.1.pinned", 0.0, "servers.1.pinned"),
    ("servers.1.memmory", 4, "servers.1.memmory"),
    ("servers.1", 5, "servers.1"),
    ("servers.1", None, "servers.1"),
    ("servers", {"0": {}}, "servers"),
    ("servers", GONE, "servers"),
    ("most_clusters", -1, "most_clusters"),
    ("most_clusters", True, "most_clusters"),
    ("most_clusters", 1.0, "most_clusters"),
    ("most_clusters", "all", "most_clusters"),
    ("most_cluster", 1, "most_cluster"),
    ("pools", [], "pools"),
    ("pools.1.memory", -1, "pools.1.memory"),
    ("pools.1.memory", NAN, "pools.1.memory"),
    ("pools.1.memory", HUGE, "pools.1.memory"),
    ("pools.1.memory", True, "pools.1.memory"),
    ("pools.1.memory", GONE, "pools.1.memory"),
    ("pools.1.cores", -1, "pools.1.cores"),
    ("pools.1.cores", True, "pools.1.cores"),
    ("pools.1.cores", 1.5, "pools.1.cores"),
    ("pools.1.cores", 3, "clusters.0"),
    ("pools.0.cores", 0, "pools.0.type"),
    ("pools.0.penalty", 1, "clusters.0"),
    ("pools.1.penalty", -1, "pools.1.penalty"),
    ("pools.1.penalty", INFINITE, "pools.1.penalty"),
    ("pools.1.penalty", 1e-7, "pools.1.penalty"),
    ("pools.1.penalty", 10**9 + 1, "pools.1.penalty"),
    ("pools.1.penalty", 123456789.123456, "cost of a tier"),
    ("pools.1.penalty", "1", "pools.1.penalty"),
    ("pools.1.price", True, "pools.1.price"),
    ("pools.1.price", NAN, "pools.1.price"),
    ("pools.1.type", "FARMEM", "pools.1.type"),
    ("pools.1.type", "", "pools.1.type"),
    ("pools.1.type", 3, "pools.1.type"),
    ("pools.1.colour", "red", "pools.1.colour"),
    ("pools.1.id", 1, "pools.0.id"),
    ("pools.1.domains", {"node": "x"}, "pools.1.domains"),
    ("pools.1.domains", {"": "x"}, "pools.1.domains"),
    ("pools.1.domains", ["x"], "pools.1.domains"),
    ("clusters", [], "clusters"),
    ("clusters.1.pools", [], "clusters.1.pools"),
    ("clusters.1.pools", [4, 5, 5], "clusters.1"),
    ("clusters.1.pools", [1, 4], "clusters.1"),
    ("clusters.1.pools", [5, 6], "clusters.1"),
    ("clusters.1.pools", [4, 7], "clusters.1.pools"),
    ("clusters.1.pools", [0], "clusters.1.pools"),
    ("clusters.1.pools", [4, "5"], "clusters.1.pools"),
    ("clusters.1.pools", [4, True], "clusters.1.pools.1"),
    ("clusters.1.pools", [4, HUGE], "clusters.1.pools"),
    ("clusters.1.pools", 4, "clusters.1.pools"),
    ("clusters.1.name", 0, "clusters.1.id"),
    ("clusters.1", [4, 5, 6], "clusters.1"),
    ("clusters.1.servers", [], "clusters.1.servers"),
]

WRONG_TEXTS: list[tuple[str, str, str]] = [
    ("in.json", "", "valid JSON"),
    ("in.json", "{", "valid JSON"),
    ("in.json", "[" * 100_000, "valid JSON"),
    ("in.json", '{"servers": ' + "9" * 5000 + "}", "valid JSON"),
    ("in.json", "[]", "a table with keys"),
    ("in.json", "null", "a table with keys"),
    ("in.json", '{"servers": []}', "one in this file"),
    ("in.toml", "[[servers]\n", "valid TOML"),
    ("in.toml", "cores = 1\ncores = 2", "valid TOML"),
    ("in.toml", REQUEST, "one in this file"),
    ("in.toml", CENTRE, "a list of servers"),
    ("in.toml", CENTRE + "servers = 3", "memory_pools"),
    ("in.toml", "servers = []\n" + CENTRE.replace("[[tiers]]", "[[tires]]"), "tires"),
    ("in.toml", "servers = []\n" + CENTRE.replace("cost = 1", "cost = nan"), "tiers.1.cost"),
    ("in.toml", "servers = []\n" + CENTRE.replace('"distant"\ncost', '"rack"\ncost'), "tiers.2.name"),
    ("in.toml", "servers = []\n" + CENTRE.replace("price = 100", "price = 100\ncost = 1"), "tiers.0.cost"),
    ("in.toml", "servers = []\n" + CENTRE.replace('tier = "rack"', 'tier = "near"'), "memory_pools.0.tier"),
    ("in.toml", "servers = []\n" + CENTRE.replace('tier = "rack"', 'tier = "local"'), "memory_pools.0.tier"),
    ("in.toml", "servers = []\n" + CENTRE.replace("shared_by = 2", "shared_by = 0"), "memory_pools.1.shared_by"),
    ("in.toml", "servers = []\n" + CENTRE.replace("shared_by = 2", ""), "memory_pools.1.count"),
    ("in.toml", 'servers = []\npool_clusters = [["0", "2", "9"]]\n' + CENTRE, "pool_clusters.0"),
    ("in.toml", 'servers = []\npool_clusters = [["0", "1", "2"]]\n' + CENTRE, "pool_clusters.0"),
    ("in.toml", 'servers = []\npool_clusters = [["0", "2", "2"]]\n' + CENTRE, "pool_clusters.0"),
    ("in.toml", CENTRE + REQUEST + "floor = 1", "servers.1.floor"),
    ("in.toml", CENTRE + REQUEST + "local = 2024-01-01", "servers.1.local"),
]

WRONG_STARTS: list[tuple[object, str]] = [
    ([], "a table with keys"),
    ({}, "servers"),
    ({"servers": 3}, "servers"),
    ({"servers": [3]}, "servers.0"),
    ({"servers": [{"id": 0, "cluster": 0}]}, "servers.0"),
    ({"servers": [{"id": [0], "cluster": 0, "pools": [20, 90, 90]}]}, "servers.0.id"),
    ({"servers": [{"id": False, "cluster": 0, "pools": [20, 90, 90]}]}, "servers.0.id"),
    ({"servers": [{"id": 0, "cluster": 2, "pools": [20, 90, 90]}]}, "servers.0.cluster"),
    ({"servers": [{"id": 0, "cluster": "first", "pools": [20, 90, 90]}]}, "servers.0.cluster"),
    ({"servers": [{"id": 0, "cluster": [0], "pools": [20, 90, 90]}]}, "servers.0.cluster"),
    ({"servers": [{"id": 0, "cluster": 0, "pools": [20, 180]}]}, "servers.0.pools"),
    ({"servers": [{"id": 0, "cluster": 0, "pools": [20, 90, 91]}]}, "servers.0.pools"),
    ({"servers": [{"id": 0, "cluster": 0, "pools": [20, -90, 270]}]}, "servers.0.pools"),
    ({"servers": [{"id": 0, "cluster": 0, "pools": [20, 90, 2**70]}]}, "servers.0.pools"),
    ({"servers": [{"id": 0, "cluster": 0, "pools": [20, 90.0, 90]}]}, "servers.0.pools"),
    ({"servers": [{"id": 0, "cluster": 0, "pools": "all"}]}, "servers.0.pools"),
    ({"servers": [{"id": 0, "cluster": 0, "pools": [20, 90, 90]}] * 2}, "servers.1.id"),
    ({"servers": [{"id": 0, "cluster": 0, "pools": [101, 9, 90]}]}, "1 MB more than pool 0 has"),
]


def refused(done: Done, *words: str) -> None:
    """The one line of an error, nothing beside it."""
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") <= 2, "a message, not a trace"
    assert "Traceback" not in done.err
    assert ": got " in done.err
    assert ", wanted " in done.err
    for word in words:
        assert word in done.err


def changed(path: str, value: object) -> dict[str, Any]:
    """The published file with one thing changed."""
    content: Any = published()
    keys = [int(key) if key.isdecimal() else key for key in path.split(".")]
    at = content
    for key in keys[:-1]:
        at = at[key]
    if value is GONE:
        del at[keys[-1]]
    else:
        at[keys[-1]] = value
    return content


@pytest.mark.parametrize(("path", "value", "field"), WRONG_VALUES, ids=lambda part: repr(part)[:30])
def test_a_wrong_value_is_refused_with_its_field(tmp_path: Path, path: str, value: object, field: str) -> None:
    refused(place(write(tmp_path, changed(path, value)), "--json"), f"in.json, {field}: got")


@pytest.mark.parametrize(("name", "text", "words"), WRONG_TEXTS, ids=range(len(WRONG_TEXTS)))
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, name: str, text: str, words: str) -> None:
    refused(place(write(tmp_path, text, name)), name, words)


@pytest.mark.parametrize(("start", "field"), WRONG_STARTS, ids=range(len(WRONG_STARTS)))
def test_a_wrong_start_is_refused_with_its_field(tmp_path: Path, start: object, field: str) -> None:
    since = write(tmp_path, start, "since.json")
    refused(place(write(tmp_path, published()), "--from", since, "--json"), "since.json", field)


def test_where_servers_are_in_another_data_centre_is_no_start(tmp_path: Path) -> None:
    larger = published()
    larger["clusters"] = [{"pools": [1, 2, 3], "id": "x"}, {"pools": [4, 5, 6], "id": "y"}]
    since = write(tmp_path, place(write(tmp_path, larger, "larger.json"), "--json").answer, "since.json")
    refused(place(write(tmp_path, published()), "--from", since), "since.json, servers.0.cluster: got 'x'")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--policy", "worst-fit"], "policy: got 'worst-fit', wanted one of slo, first-fit, best-fit, optimal"),
        (["--policy", ""], "policy: got ''"),
        (["--time-limit", "soon"], "--time-limit: got 'soon'"),
        (["--time-limit", "-1 s"], "--time-limit: got '-1 s'"),
        (["--time-limit", "0 s"], "--time-limit: got '0 s'"),
        (["--time-limit", "nan"], "--time-limit: got 'nan'"),
        (["--policy", "optimal", "--moves", "1"], "--from"),
        (["--moves", "1"], "the policy optimal"),
        (["--cluster", "no-such-preset"], "no-such-preset"),
        (["--cluster", "minsky"], "minsky"),
        (["--from", "nowhere.json"], "nowhere.json"),
        (["--from", "."], "."),
        (["third.json", "fourth.json"], "3 files"),
        (["third.json", "--cluster", "slo-basic"], "2 files"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_wrong_options_are_refused(tmp_path: Path, options: list[str], words: str) -> None:
    refused(place(write(tmp_path, published()), *options), words)


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    refused(place(tmp_path / "missing.json"), "missing.json")
    (tmp_path / "bytes.json").write_bytes(b'{"servers": "\xff"}')
    refused(place(tmp_path / "bytes.json"), "bytes.json", "a readable text file")


def test_a_data_centre_without_tiers_has_no_place_for_servers(tmp_path: Path) -> None:
    text = 'name = "plain"\nservers = []\n[[nodes]]\ncount = 2\ncores = 2\nmemory = 10\n'
    refused(place(write(tmp_path, text, "in.toml")), "cluster plain: got none, wanted tiers of memory")


def test_a_request_beside_a_data_centre_has_servers_and_nothing_else(tmp_path: Path) -> None:
    centre, request = write(tmp_path, CENTRE, "centre.toml"), write(tmp_path, "tiers = []\n" + REQUEST, "asks.toml")
    refused(place(centre, request), "asks.toml, tiers: got an unknown key")
    refused(place(request, "--cluster", centre), "asks.toml, tiers: got an unknown key")


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [-1, 0, 1, 3, 5, 2**31, 2**42, 2**53, 2**63, 2**64, HUGE, NAN, INFINITE, -0.0, 0.5, 1e-9, 1e18, 1e300]
    ),
    st.integers(0, 500),
    st.text(max_size=3),
    st.sampled_from(["local", "4 GB", "rack", "CPU", "REMOTEMEM", "[/b]", "\ud800", "nan"]),
    st.lists(st.integers(0, 7), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
NAMES = [
    "id",
    "group",
    "spread",
    "forbidden",
    "pinned",
    "cluster",
    "price",
    "rack",
    "feed",
    "domains",
    "most_clusters",
    "x",
]


def spoil(content: Any, draw: st.DataObject) -> None:
    """Change, add or drop one thing somewhere within."""
    at = content
    while True:
        keys = list(range(len(at))) if isinstance(at, list) else list(at)
        if not keys:
            return
        key = draw.draw(st.sampled_from(keys))
        if isinstance(at[key], dict | list) and at[key] and draw.draw(st.integers(0, 3)):
            at = at[key]
            continue
        how = draw.draw(st.sampled_from(["change", "drop", "add"]))
        if how == "change":
            at[key] = draw.draw(ODD)
        elif how == "drop":
            del at[key]
        elif isinstance(at, dict):
            at[draw.draw(st.sampled_from(NAMES))] = draw.draw(ODD)
        else:
            at.append(draw.draw(ODD))
        return


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.integers(1, 3))
def test_a_spoilt_file_is_answered_or_refused_and_nothing_else(tmp_path: Path, draw: st.DataObject, times: int) -> None:
    content = published()
    for _ in range(times):
        spoil(content, draw)
    done = place(write(tmp_path, content), *draw.draw(st.sampled_from([["--json"], ["--explain"], []])))
    if done.code:
        refused(done, "in.json")
    else:
        assert done.out
        assert done.err == ""
