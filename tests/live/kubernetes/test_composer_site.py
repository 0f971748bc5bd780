"""The site file of a composer: what is wrong with it is said, with the key, before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from composed import CLUSTER
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import InputError
from unrack.live.kubernetes.composer.site import ComposerSite

SITE = """
cluster = "cluster.toml"
fabric = { kind = "files", folder = "/tmp/fabric" }

[pools.box]
switch = "cxl-1"
attributes = { model = "X9", generation = 4, fast = true }
"""


def written(folder: Path, text: str = SITE, cluster: str = CLUSTER) -> Path:
    (folder / "cluster.toml").write_text(cluster)
    (folder / "site.toml").write_text(text)
    return folder / "site.toml"


def test_paths_are_from_its_folder_on_and_what_it_says_of_pools_is_published(tmp_path: Path) -> None:
    site = ComposerSite.load(written(tmp_path))
    assert site.cluster == tmp_path / "cluster.toml"
    found = site.read_catalogue().devices["box", "box-0"]
    assert found.switch == "cxl-1"
    assert found.content["attributes"]["generation"] == {"int": 4}
    assert found.content["attributes"]["fast"] == {"bool": True}
    assert str(site.metrics.address) == "127.0.0.1:9642"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"cluster.toml"', '"none.toml"', "none.toml"),
        ('"cluster.toml"', '"~no-such-user/c.toml"', "a home that there is"),
        ('cluster = "cluster.toml"\n', "", "cluster"),
        ("fabric =", "fabrics =", "fabric"),
        ("[pools.box]", "[pools.boxes]", "box, nvme-rack0, nvme-rack1"),
        ('model = "X9"', 'kind = "X9"', "other attributes than kind"),
        ('model = "X9"', '"my model" = "X9"', "my model"),
        ('model = "X9"', f'model = "{"X" * 65}"', "64"),
        ('model = "X9"', "model = 1.5", "model"),
        ('switch = "cxl-1"', 'switch = "a b"', "switch"),
        ("[pools.box]", 'driver = "My Driver"\n[pools.box]', "driver"),
        ("[pools.box]", "give_up = 0\n[pools.box]", "0.1 s"),
        ("[pools.box]", "at_once = 0\n[pools.box]", "at_once"),
        ("[pools.box]", 'metrics = { address = "0.0.0.0:1" }\n[pools.box]', "allow_remote"),
        ("[pools.box]", 'policy = "easy"\n[pools.box]', "policy"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in SITE
    site = written(tmp_path, SITE.replace(old, new))
    with pytest.raises(InputError) as raised:
        ComposerSite.load(site)
    assert words in str(raised.value)


def test_the_command_ends_with_2_and_says_why(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["kubernetes", "compose", "--config", str(written(tmp_path, "cluster = 1"))])
    assert done.exit_code != 0
    site = written(tmp_path, SITE.replace('"files"', '"file"'))
    done = CliRunner().invoke(app, ["kubernetes", "compose", "--config", str(site), "--dry-run"])
    assert isinstance(done.exception, InputError)
