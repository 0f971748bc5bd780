"""The picture of ``unrack place``."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack_papers.servers.answer import PlacedServers
from unrack_papers.servers.one_shot import place_request
from unrack_papers.servers.picture import TALL, picture
from unrack_papers.servers.request import read_request

SVG = "{http://www.w3.org/2000/svg}"
TIERS = [{"name": "near", "price": 3}, {"name": "far <b>", "cost": 1, "price": 1}]


def centre(nodes: int, shared: int, **more: object) -> Cluster:
    far = {"count": -(-nodes // shared), "memory": 4000, "tier": "far <b>", "shared_by": shared}
    kind = {"count": nodes, "cores": 8, "memory": 1000}
    return Cluster.from_dict({"nodes": [kind], "memory_pools": [far], "tiers": TIERS, **more})


def placed(cluster: Cluster, servers: int) -> PlacedServers:
    asks = [{"id": f"<{i}>", "cores": 2, "mem": 500 + 10 * i, "local": 100} for i in range(servers)]
    return place_request(cluster, read_request({"servers": asks}, "mine"))


def drawn(answer: PlacedServers) -> tuple[list[dict[str, str]], dict[str, float]]:
    """The attributes of the bars of pools, and the height of all slices by the words of their titles."""
    root = ET.fromstring(picture(answer))
    bars, slices = [], {}
    for rectangle in root.iter(f"{SVG}rect"):
        title = rectangle.find(f"{SVG}title")
        if title is not None and title.text:
            slices[title.text] = slices.get(title.text, 0) + float(rectangle.attrib["height"])
        elif rectangle.attrib.get("stroke") == "#555":
            bars.append(rectangle.attrib)
    return bars, slices


def test_every_pool_is_a_bar_and_every_servers_memory_a_slice_in_proportion() -> None:
    answer = placed(centre(4, 2), 6)
    bars, slices = drawn(answer)
    assert len(bars) == 4 + 4 + 2
    widths = sorted({round(float(bar["width"])) for bar in bars})
    assert len(widths) == 2
    assert widths[1] > 2 * widths[0]  # a pool that two clusters share spans both
    mb = answer.tier_mb()
    for server in range(6):
        assert f"<{server}>: 2 cores" in slices
        for tier, size in ((0, 1000), (1, 4000)):
            if mb[server, tier]:
                words = f"<{server}>: {mb[server, tier] / 1024:,.4g} GB"
                assert slices[words] == pytest.approx(TALL * mb[server, tier] / size, abs=0.02)


def test_pools_of_clusters_apart_stand_at_the_first_of_them() -> None:
    pattern = [["0", "4"], ["1", "5"], ["2", "4"], ["3", "5"]]
    bars, _ = drawn(placed(centre(4, 2, pool_clusters=pattern), 3))
    assert len(bars) == 4 + 4 + 2
    assert len({bar["width"] for bar in bars}) == 1


def test_of_many_clusters_those_with_servers_are_drawn() -> None:
    answer = placed(centre(40, 1), 9)
    bars, _ = drawn(answer)
    assert len(bars) == 3 * answer.clusters_used < 40


def test_nothing_placed_is_still_a_picture() -> None:
    bars, slices = drawn(placed(centre(2, 1), 0))
    assert (len(bars), slices) == (6, {})


def test_the_command_writes_it_and_says_where_it_cannot(tmp_path: Path) -> None:
    folder = Path(__file__).parents[3] / "examples" / "place"
    command = ["place", str(folder / "centre.toml"), str(folder / "servers.toml"), "--picture"]
    result = CliRunner().invoke(app, [*command, str(tmp_path / "p.svg")])
    assert result.exit_code == 0
    assert "<title>huge: 30 GB</title>" in (tmp_path / "p.svg").read_text()
    failed = CliRunner().invoke(app, [*command, str(tmp_path / "none" / "p.svg")])
    assert isinstance(failed.exception, InputError)
    assert "--picture" in str(failed.exception)
