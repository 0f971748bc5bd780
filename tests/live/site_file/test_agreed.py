"""What a site file and a reading say together, wherever the driver is started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from unrack.live.slurm.agreed import Agreed
from unrack.live.slurm.driver.epoch import Beginning, Epoch
from unrack.live.slurm.reading import Reading, SlurmNode
from unrack.live.slurm.site.site import Site

ROOT = Path(__file__).parents[3]
SITE = """partitions = ["a"]
policy = { file = "my_policy.py:SHORT_AND_OLD" }
models = [{ model = "x", kind = "nvme", csv = "times.csv" }]
[[cluster.pools]]
kind = "nvme"
count = 2
quantities = { bandwidth_mb_s = "2 GB/s" }
"""


def test_files_beside_a_site_file_are_found_from_any_folder_and_models_stay_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    shutil.copy(ROOT / "examples" / "my_policy.py", home)
    (home / "times.csv").write_text("devices,sharers,time_s\n1,1,10\n1,2,16\n2,1,6\n")
    (home / "site.toml").write_text(SITE)
    monkeypatch.chdir(home)
    agreed = Agreed(Site.load("site.toml"))
    nodes = tuple(SlurmNode(name, 4, 1000, partitions=frozenset({"a"})) for name in ("n1", "n2"))
    beginning = agreed.beginning(Reading(0.0, nodes, ()))
    record = json.loads(json.dumps(beginning.record()))
    monkeypatch.chdir(away)
    (home / "times.csv").unlink()
    again = Beginning.of_record(record)
    assert again == beginning
    epoch = Epoch(again)
    assert epoch.core.models[0].time_s(10, devices=1, sharers=2) == 16
    assert epoch.core.models[0].time_s(10, devices=2, sharers=2) is None
