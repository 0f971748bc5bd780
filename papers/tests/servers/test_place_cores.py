"""``unrack place --cores``: which cores servers have, and dies laid out as a torus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, UnrackError
from unrack_papers.servers.command import with_torus


def command(*words: str) -> tuple[int, str]:
    """The exit code of the command, and what it printed or its error."""
    result = CliRunner().invoke(app, list(words))
    if isinstance(result.exception, UnrackError):
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.output


def placed(tmp_path: Path, *options: str) -> tuple[int, str]:
    return command("place", str(tmp_path / "request.json"), *options)


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    servers = [{"id": f"s{i}", "cores": 5 + i % 3, "mem": 1000, "local": 10} for i in range(60)]
    (tmp_path / "request.json").write_text(json.dumps({"servers": servers}))
    return tmp_path


def test_place_names_the_cores_of_every_server_and_keeps_them_later(request_file: Path) -> None:
    code, text = placed(request_file, "--cluster", "slo-basic", "--cores", "best", "--json")
    assert code == 0
    first = json.loads(text)
    seen: set[tuple[int, int]] = set()
    for server in first["servers"]:
        ids = {(server["cluster"], core) for core in server["cores"]["ids"]}
        assert len(ids) == 5 + int(server["id"][1:]) % 3
        assert not ids & seen
        seen |= ids
    assert first["core_distance"] == sum(server["cores"]["distance"] for server in first["servers"])
    assert first["core_distance_least"] <= first["core_distance"]
    (request_file / "first.json").write_text(text)
    code, text = placed(
        request_file,
        "--cluster",
        "slo-basic",
        "--cores",
        "first-fit",
        "--from",
        str(request_file / "first.json"),
        "--json",
    )
    assert code == 0
    assert [s["cores"] for s in json.loads(text)["servers"]] == [s["cores"] for s in first["servers"]]


def test_place_refuses_cores_that_do_not_fit(request_file: Path) -> None:
    _, text = placed(request_file, "--cluster", "slo-basic", "--cores", "best", "--json")
    for change, words in (
        ([0, 1], "2 cores, wanted the 5 that it asks"),
        ([0, 1, 2, 3, 999], "core 999"),
        ([0, 0, 1, 2, 3], "core 0"),
        ("0-4", "ids, a list"),
    ):
        answer = json.loads(text)
        answer["servers"][0]["cores"]["ids"] = change
        (request_file / "bad.json").write_text(json.dumps(answer))
        code, said = placed(
            request_file,
            "--cluster",
            "slo-basic",
            "--cores",
            "best",
            "--from",
            str(request_file / "bad.json"),
            "--json",
        )
        assert code == 2
        assert words in said


@pytest.mark.parametrize(("options", "words"), [
    (["--cores", "near"], "best, quick, first-fit"),
    (["--cores", "best", "--torus", "5x7"], "35 cores on a die"),
    (["--cores", "best", "--torus", "5"], "ROWSxCOLUMNS"),
    (["--cores", "best", "--torus", "0x5"], "sides from 1"),
    (["--torus", "4x7"], "--cores beside it"),
])  # fmt: skip
def test_place_refuses_wrong_options(request_file: Path, options: list[str], words: str) -> None:
    code, said = placed(request_file, "--cluster", "slo-basic", *options)
    assert code == 2
    assert words in said


def test_a_torus_given_later_is_that_of_a_cluster_file() -> None:
    kind = {"count": 3, "cores": 12, "memory": "1 GB"}
    pool = {"memory_pools": [{"count": 1, "memory": "1 GB"}]}
    plain, filed = (Cluster.from_dict({"nodes": [{**kind, **more}], **pool}) for more in ({}, {"torus": [2, 3]}))
    given_later = with_torus(plain, 2, 3, "--torus")
    assert plain.torus is None
    assert filed.torus is not None
    assert given_later.torus is not None
    assert given_later.torus.tolist() == filed.torus.tolist() == [[2, 3]] * 3 + [[0, 0]]
    assert given_later.digest() == filed.digest() != plain.digest()
    for rows, columns in ((5, 2), (33, 1), (0, 3)):
        with pytest.raises(ClusterError, match="--torus"):
            with_torus(plain, rows, columns, "--torus")
