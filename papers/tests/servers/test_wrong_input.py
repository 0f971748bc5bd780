"""Whatever is wrong in the files and options of ``unrack place`` is refused: where, what was got, what was wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from place_command import CENTRE, REQUEST, Done, place, published, write
from tries import draws
from wrong_files import GONE, HUGE, INFINITE, NAN, WRONG_STARTS, WRONG_TEXTS, WRONG_VALUES


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
        (["--policy", "worst-fit"], "policy: got 'worst-fit', wanted 'first-fit' perhaps, or one of slo, first-fit"),
        (["--policy", ""], "policy: got ''"),
        (["--time-limit", "soon"], "--time-limit: got 'soon', wanted a time such as"),
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


@draws(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
