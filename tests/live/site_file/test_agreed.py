"""What a site file and a reading say together, wherever the driver is started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from unrack.cluster.spec import Cluster
from unrack.live.driver.contract import Problem
from unrack.live.driver.portable import Names
from unrack.live.driver.state.epoch import Beginning, Epoch
from unrack.live.slurm.agreed import Agreed
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import Licence, Reading, SlurmJob, SlurmNode
from unrack.live.slurm.site.site import Site
from unrack.workload.job import Job

NODES = tuple(SlurmNode(name, 8, 32_000, {"gpu": 4}, frozenset({"IDLE"}), frozenset({"a"})) for name in ("n1", "n2"))
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
    beginning = agreed.beginning(Reading(0.0, nodes, ()), 0.0)
    record = json.loads(json.dumps(beginning.record()))
    monkeypatch.chdir(away)
    (home / "times.csv").unlink()
    again = Beginning.of_record(record)
    assert again == beginning
    epoch = Epoch(again)
    assert epoch.beginning.models[0].time_s(10, devices=1, sharers=2) == 16
    assert epoch.beginning.models[0].time_s(10, devices=2, sharers=2) is None


@pytest.mark.parametrize(
    ("asked", "comment", "got"),
    [
        ({"node_memory_mb": 32_000}, "memory=1MB", "at least 32000 MB, which Slurm was asked for"),
        ({"cpu_memory_mb": 1000, "cpus": 4}, "memory=3999MB", "at least 4000 MB"),
        ({"cpu_memory_mb": 1000, "cpus": 4}, "memory=4000MB", 4000),
        ({"node_memory_mb": 100}, "memory=96GB", 96 * 1024),
        ({}, "memory=20GB", "at least 32000 MB, which Slurm gives a job that does not say --mem"),
        ({"exclusive": True, "node_memory_mb": 5}, "memory=4MB", "at least 5 MB"),
        ({"node_memory_mb": 100}, "", 100),
        ({"node_memory_mb": 100, "licences": {"matlab": 3}}, "counted.matlab=1", "at least 3"),
        ({"node_memory_mb": 100, "licences": {"matlab": 3}}, "counted.matlab=4", 100),
        ({"node_memory_mb": 100, "gres": {"gpu": 2}}, "gpus.count=1", "at least 2"),
    ],
)
@pytest.mark.parametrize("by_admin", [True, False])
def test_a_comment_asks_for_no_less_than_slurm_gives_the_job(
    tmp_path: Path, asked: dict[str, Any], comment: str, got: str | int, by_admin: bool
) -> None:
    (tmp_path / "site.toml").write_text('partitions = ["a"]\n')
    agreed = Agreed(Site.load(str(tmp_path / "site.toml")))
    beginning = agreed.beginning(Reading(0.0, NODES, (), {"matlab": Licence(4, 0)}), 0.0)
    names = Names(Cluster.from_dict(beginning.cluster, "cluster"), beginning.nodes)
    said = {"admin_comment" if by_admin else "comment": f"unrack: {comment}" * bool(comment)}
    found = agreed.job(SlurmJob(1, "PENDING", partition="a", **asked, **said), JobKey(1), names, 0)
    if isinstance(got, int):
        assert isinstance(found, Job)
        assert found.demand.memory_mb == got
    else:
        assert isinstance(found, Problem)
        assert found.misread
        assert got in found.why


def test_where_slurm_does_not_count_memory_a_comment_may_ask_for_any(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('partitions = ["a"]\nmemory = "ignore"\n')
    agreed = Agreed(Site.load(str(tmp_path / "site.toml")))
    beginning = agreed.beginning(Reading(0.0, NODES, ()), 0.0)
    names = Names(Cluster.from_dict(beginning.cluster, "cluster"), beginning.nodes)
    job = SlurmJob(1, "PENDING", partition="a", node_memory_mb=5000, comment="unrack: memory=1MB")
    found = agreed.job(job, JobKey(1), names, 0)
    assert isinstance(found, Job)
    assert found.demand.memory_mb == 1
