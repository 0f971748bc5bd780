"""Machine code is kept wherever it can be; where it cannot, or is damaged, everything runs all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from unrack.kernels import cache

ROOT = Path(__file__).parents[2]
KERNEL = """
from unrack.jit import compiled

@compiled
def total(x: int) -> int:
    found = 0
    for i in range(x):
        found += i
    return found

if __name__ == "__main__":
    assert total(4) == 6
    print(sum(total.stats.cache_misses.values()), total.stats.cache_path)
"""
STUDY = (
    'name = "small"\npolicies = ["fcfs", "easy"]\n[[clusters]]\nnodes = [{count = 4, cores = 2}]\n[[workloads]]\n'
    'name = "some"\n[workloads.generate]\njobs = 30\narrivals = {gap_s = 5}\n'
    "classes = [{run_s = 100, tasks = 4}]\n"
)


def sealed(folder: Path) -> None:
    """Let nothing be kept beside the code, whoever runs: where a folder would be made, a file is in the way."""
    for one in [folder, *folder.rglob("*")]:
        if one.is_dir() and one.name != "__pycache__":
            shutil.rmtree(one / "__pycache__", ignore_errors=True)
            (one / "__pycache__").touch()


def nowhere(temporary: Path, **variables: str) -> dict[str, str]:
    """The environment of a user without a home and without a cache."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_CACHE", "XDG_"))}
    return {**kept, "HOME": "/dev/null/home", "NUMBA_OPT": "1", "TMPDIR": str(temporary), **variables}


def usual() -> dict[str, str]:
    """The environment as it is, but for where kernels are kept."""
    return {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}


def run(path: Path, environment: dict[str, str]) -> tuple[int, str]:
    """How often it compiled, and where it keeps machine code."""
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    misses, _, folder = done.stdout.strip().partition(" ")
    return int(misses), folder


@pytest.fixture
def lonely(tmp_path: Path) -> Path:
    """A file with a kernel that nothing can be kept beside."""
    home = tmp_path / "code"
    home.mkdir()
    (home / "kernels.py").write_text(KERNEL)
    sealed(home)
    return home / "kernels.py"


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A file with a kernel that is kept beside it."""
    (tmp_path / "kernels.py").write_text(KERNEL)
    assert run(tmp_path / "kernels.py", usual())[0] == 1
    return tmp_path / "kernels.py"


def test_without_a_place_for_a_cache_machine_code_is_kept_in_a_folder_of_the_user_alone(
    lonely: Path, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    environment = nowhere(tmp_path / "tmp", NUMBA_CACHE_DIR="/dev/null/cache")
    first, folder = run(lonely, environment)
    assert first == 1
    assert Path(folder).is_relative_to(tmp_path / "tmp")
    assert (tmp_path / "tmp" / Path(folder).relative_to(tmp_path / "tmp").parts[0]).stat().st_mode & 0o077 == 0
    assert run(lonely, environment) == (0, folder)


@pytest.mark.long
def test_a_folder_that_others_can_write_to_is_not_trusted(lonely: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    environment = nowhere(tmp_path / "tmp")
    _, folder = run(lonely, environment)
    own = tmp_path / "tmp" / Path(folder).relative_to(tmp_path / "tmp").parts[0]
    own.chmod(0o777)
    misses, other = run(lonely, environment)
    assert misses == 1
    assert not Path(other or "/").is_relative_to(own)


@pytest.mark.long
def test_without_even_a_temporary_folder_every_process_compiles_for_itself(lonely: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import tempfile\ntempfile.tempdir = '/dev/null/tmp'\n")
    environment = nowhere(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT / 'src'}")
    assert [run(lonely, environment) for _ in range(2)] == [(1, "None"), (1, "None")]


@pytest.mark.long
def test_a_study_runs_over_processes_where_nothing_can_be_kept_and_says_so_once(tmp_path: Path) -> None:
    code, tmp = tmp_path / "site-packages", tmp_path / "tmp"
    shutil.copytree(ROOT / "src" / "unrack", code / "unrack", ignore=shutil.ignore_patterns("__pycache__"))
    sealed(code / "unrack")
    tmp.mkdir()
    (tmp_path / "study.toml").write_text(STUDY)
    command = [sys.executable, "-m", "unrack", "run", "study.toml", "--out", "out", "--jobs", "2"]
    environment = nowhere(tmp, PYTHONPATH=str(code))
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1
    assert (tmp_path / "out" / "report.html").is_file()
    assert list(tmp.rglob("*.nbc"))


@pytest.mark.long
@pytest.mark.parametrize("ending", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("damage", ["cut", "turned", "emptied"])
def test_a_damaged_file_of_the_cache_is_compiled_again(beside: Path, ending: str, damage: str) -> None:
    (kept,) = (beside.parent / "__pycache__").glob(f"kernels.total*{ending[1:]}")
    content = kept.read_bytes()
    middle = len(content) // 2
    turned = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
    kept.write_bytes({"cut": content[:middle], "turned": turned, "emptied": b""}[damage])
    assert run(beside, usual())[0] == 1
    assert run(beside, usual())[0] == 0


@pytest.mark.long
def test_what_another_version_of_numba_kept_is_compiled_again(beside: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import numba\nnumba.__version__ = '0.1'\n")
    environment = {**usual(), "PYTHONPATH": f"{other}:{ROOT / 'src'}"}
    assert [run(beside, environment)[0] for _ in range(2)] == [1, 0]
    assert [run(beside, usual())[0] for _ in range(2)] == [1, 0]


def test_a_disk_that_is_full_costs_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "of_a_full_disk.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cache.KeptFile, "_save_data", full)
    import of_a_full_disk

    assert of_a_full_disk.total(4) == 6
    assert not list(tmp_path.rglob("*.nbc"))


def test_what_is_kept_with_few_optimisations_is_not_taken_where_more_are_asked_for(
    beside: Path, tmp_path: Path
) -> None:
    environment = {**usual(), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    misses = [run(beside, {**environment, "NUMBA_OPT": level})[0] for level in ("0", "3", "0", "3")]
    assert misses == [1, 1, 0, 0]
