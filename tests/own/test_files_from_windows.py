"""Files with a byte-order mark and Windows line ends are read as those without."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from unrack import Cluster, read_trace
from unrack.policy.gpus.rule import read_demands
from unrack.profile.application import read_application
from unrack.resources.gpus.machines.reading.read import read_machine
from unrack.resources.links.resource import read_profiles
from unrack.study.grid import load_study
from unrack.workload.generate.batch.generator import batch_parameters

FITTED = files("unrack.workload.fitted").joinpath("kth-sp2.toml").read_text(encoding="utf-8")
STUDY = """policies = ["fcfs"]
[[clusters]]
nodes = [{ count = 4, cores = 1 }]
[[workloads]]
generate = { model = "cirne", jobs = 3, nodes = 4 }
"""
READ: dict[str, tuple[str, Callable[[str], Any]]] = {
    "app.toml": ('name = "odd"\ncommand = ["true"]\n[[axes]]\nkind = "command"\nlevels = [1]\n', read_application),
    "own.toml": (FITTED, batch_parameters),
    "study.toml": (STUDY, lambda path: load_study(path).name),
    "nodes.conf": (
        "NodeName=a[1-3] CPUs=2\nPartitionName=x Nodes=a[2-3]\n",
        lambda path: Cluster.load(path).cores.tolist(),
    ),
    "jobs.csv": ("job,submit,run,cores\n1,0,5,2\n2,1,5,2\n", lambda path: read_trace(path).jobs.work_us.tolist()),
    "log.swf": ("; MaxProcs: 4\n1 0 0 5 2 -1 -1 2 5 -1 1 1 1 1 1 1 -1 -1\n", lambda path: len(read_trace(path).jobs)),
    "demands.csv": ("cores,memory_mb,gpus,milli,share\n2,5,1,1000,0.5\n", read_demands),
    "machine.toml": ("base = 'dgx-1'\nname = 'ours'\n", read_machine),
    "times.csv": ("application,alone,beside\nBERT,1,5\n", lambda path: read_profiles(path, "links")),
}


@pytest.mark.parametrize("name", READ)
def test_a_file_written_on_windows_says_the_same(tmp_path: Path, monkeypatch: Any, name: str) -> None:
    text, read = READ[name]
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text, encoding="utf-8", newline="\n")
    plain = read(name)
    Path(name).write_text(text, encoding="utf-8-sig", newline="\r\n")
    assert read(name) == plain
