"""Ctrl-C over every kind of workers keeps what is finished and leaves no process; the same command goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUDY = """
policies = [{ file = "slow.py:Slow", label = "slow" }]
seeds = [0, 1, 2, 3, 4, 5, 6, 7]

[[clusters]]
nodes = [{ count = 4, cores = 4 }]

[[workloads]]
generate = { jobs = 40, arrivals = { gap_s = 5 }, classes = [{ run_s = 30, tasks = 2, cores = 3 }] }
"""
SLOW = """
import time
from unrack.policy import ListScheduler
class Slow(ListScheduler):
    def decide(self, *given):
        time.sleep(0.02)
        return super().decide(*given)
"""


def started(folder: Path, kind: str) -> subprocess.Popen[str]:
    """The command in a group of its own, as in a terminal: Ctrl-C goes to all of its processes."""
    command = [sys.executable, "-m", "unrack", "run", "study.toml", "--out", "out", "--jobs", "2", "--on", kind]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "WORKERS_OF": str(folder)}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def alive(folder: Path) -> list[str]:
    """The commands of all processes that descend from ours, wherever they are now."""
    mark, found = f"WORKERS_OF={folder}".encode(), []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " ").strip())
        except OSError:  # it has ended, or is another user's
            continue
    return [command for command in found if command]


def kept(folder: Path) -> int:
    return len(list(folder.glob("out/runs/*/run.json")))


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_ctrl_c_keeps_what_is_finished_leaves_no_process_and_goes_on(kind: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "slow.py").write_text(SLOW)
    first = started(tmp_path, kind)
    deadline = time.monotonic() + 120
    while not kept(tmp_path) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGINT)
    began = time.monotonic()
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 130, errors
    assert time.monotonic() - began < 30
    assert "interrupted:" in errors
    assert "Traceback" not in errors
    finished = kept(tmp_path)
    assert 0 < finished < 8
    assert f"{finished} of 8 runs are kept" in errors
    assert not list(tmp_path.glob("out/runs/.*"))
    deadline = time.monotonic() + 10
    while alive(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive(tmp_path) == []
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/runs/*/run.json")}
    second = started(tmp_path, kind)
    _, errors = second.communicate(timeout=200)
    assert second.returncode == 0, errors
    assert kept(tmp_path) == 8
    assert all(path.stat().st_mtime_ns == before for path, before in written.items())
