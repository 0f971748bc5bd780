"""What cannot go well is said before a run starts: too little memory, another version, nobody at the address."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from unrack.errors import InputError
from unrack.study.grid import Run, load_study
from unrack.study.runner import keep_runs, measure_runs, needed_mb
from unrack.study.workers.shared import Workers
from unrack.study.workers.table import open_workers, parse_on

ROOT = Path(__file__).parents[2]
STUDY = """
policies = ["fcfs"]

[[clusters]]
nodes = [{ count = 4, cores = 4 }]

[[workloads]]
generate = { jobs = 20, arrivals = { gap_s = 5 }, classes = [{ run_s = 30, tasks = 2, cores = 3 }] }
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "study.toml").write_text(STUDY)
    return load_study(str(tmp_path / "study.toml")).runs[0]


class Huge:
    """A table of jobs of which only the number matters."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def __len__(self) -> int:
        return self.jobs


def huge(run: Run, jobs: int) -> Run:
    return replace(run, workload=replace(run.workload, jobs=Huge(jobs)))  # type: ignore[arg-type]


# --- memory -----------------------------------------------------------------------------------------------------------


def test_a_run_that_needs_more_memory_than_a_worker_has_is_refused_before_any_starts(
    workers: Workers, run: Run, tmp_path: Path
) -> None:
    assert workers.memory_mb is not None
    assert needed_mb(run) < workers.memory_mb
    large = huge(replace(run, id="large"), workers.memory_mb * 1000)
    with pytest.raises(InputError, match="run large") as refused:
        keep_runs(workers, [run, large], tmp_path / "out")
    assert f"{len(large.workload):,} jobs" in str(refused.value)
    assert f"{needed_mb(large):,} MB" in str(refused.value)
    assert f"{workers.memory_mb:,} MB" in str(refused.value)
    assert not list(tmp_path.glob("out/runs/*"))
    with pytest.raises(InputError, match="run large"):
        list(measure_runs([large], id, workers=workers))  # type: ignore[arg-type]


def test_a_run_needs_more_the_more_jobs_and_nodes_it_has(run: Run) -> None:
    assert needed_mb(run) < needed_mb(huge(run, 1_000_000)) < needed_mb(huge(run, 2_000_000))
    assert needed_mb(huge(run, 1_000_000)) > 1_000


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_run_needs_no_more_than_is_estimated(tmp_path: Path) -> None:
    """The peak of a fresh process that has run 100 000 jobs; one before it compiles the kernels."""
    script = f"""
from pathlib import Path
from unrack.study.grid import load_study
from unrack.study.results.keep import files_of
from unrack.study.runner import needed_mb, simulated
run = load_study({str(tmp_path / "study.toml")!r}).runs[0]
files_of(run, simulated(run))
status = Path("/proc/self/status").read_text()  # what getrusage says is at least what the parent process had
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024, needed_mb(run))
"""
    (tmp_path / "study.toml").write_text(STUDY.replace("jobs = 20", "jobs = 100_000"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300
        )
    peak, estimate = map(int, done.stdout.split())
    assert estimate / 2 < peak < estimate


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def other_version(tmp_path: Path) -> dict[str, str]:
    """The environment of a worker whose unrack is not ours."""
    source = shutil.copytree(ROOT / "src", tmp_path / "other", ignore=shutil.ignore_patterns("__pycache__"))
    with (source / "unrack" / "sim" / "world.py").open("a") as file:
        file.write("\n# another version\n")
    return {**os.environ, "PYTHONPATH": str(source)}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """A Dask scheduler of the user's own, without workers yet; its address."""
    pytest.importorskip("distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    command = ["-m", "distributed.cli.dask_scheduler", "--host", address, "--no-dashboard"]
    command += ["--scheduler-file", str(tmp_path / "scheduler.json")]
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not (tmp_path / "scheduler.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    yield address
    process.terminate()
    process.wait(30)


def dask_worker(address: str, environment: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    command = ["-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    return subprocess.Popen([sys.executable, *command], env=environment, stderr=subprocess.DEVNULL, cwd=folder)


def test_a_dask_worker_with_another_version_is_refused_by_name(
    scheduler: str, other_version: dict[str, str], tmp_path: Path
) -> None:
    worker = dask_worker(scheduler, other_version, tmp_path)
    try:
        with (
            pytest.raises(InputError, match="install the same on every worker") as refused,
            open_workers(parse_on(f"dask {scheduler}"), 2),
        ):
            pass
        assert "worker tcp://127.0.0.1" in str(refused.value)
    finally:
        worker.terminate()
        worker.wait(30)


def test_a_users_own_dask_cluster_is_used_and_left_alone(scheduler: str, run: Run, tmp_path: Path) -> None:
    worker = dask_worker(scheduler, {**os.environ, "PYTHONPATH": str(ROOT / "src")}, tmp_path)
    try:
        for name, address in {"a": scheduler, "b": str(tmp_path / "scheduler.json")}.items():
            with open_workers(parse_on(f"dask {address}"), 7) as workers:
                assert workers.count == 1
                assert len(keep_runs(workers, [replace(run, id=name)], tmp_path / "out")) == 1
        time.sleep(0.5)
        assert worker.poll() is None
    finally:
        worker.terminate()
        worker.wait(30)


@pytest.mark.parametrize("kind", ["dask", "ray"])
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "nonsense", "node:x", "127.0.0.1:99999"])
def test_nobody_at_the_address_is_said_in_one_sentence_at_once(kind: str, address: str) -> None:
    pytest.importorskip({"dask": "distributed"}.get(kind, kind))
    began = time.monotonic()
    with (
        pytest.raises(InputError, match=f"--on {kind} {address}.*the address of a"),
        open_workers(parse_on(f"{kind} {address}"), 2),
    ):
        pass
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"address": 7}'])
def test_a_schedulers_file_without_an_address_is_said(content: str | None, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    path = tmp_path / "scheduler.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match="--on dask"), open_workers(parse_on(f"dask {path}"), 2):
        pass


@pytest.mark.parametrize(("kind", "library"), [("dask", "distributed"), ("ray", "ray")])
def test_a_library_that_is_not_installed_is_said_with_its_extra(
    kind: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    wanted = re.escape(f"--on {kind}: got no {library} installed, wanted pip install 'unrack[{kind}]'")
    with pytest.raises(InputError, match=wanted), open_workers(parse_on(kind), 2):
        pass
