"""Policies that end the program, full disks, and folders that hold something else: one sentence, and nothing lost."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unrack import Cluster, generate, simulate
from unrack.errors import InputError, PolicyError, RunError
from unrack.policy.file import load_policy
from unrack.report.page import write_report
from unrack.study.grid import load_study
from unrack.study.results.from_folder import finished_run
from unrack.study.results.keep import list_runs
from unrack.study.runner import run_study

ROOT = Path(__file__).parents[2]
STUDY = """
name = "small"
policies = ["fcfs", {policy}]

[[clusters]]
nodes = [{{count = 4, cores = 2}}]

[[workloads]]
name = "some"

[workloads.generate]
jobs = 20
arrivals = {{gap_s = 20}}
classes = [{{run_s = 100, tasks = 4}}]
"""
PLAIN = "easy"
ENDINGS = {
    "sys.exit(0)": "SystemExit: 0",
    "raise SystemExit": "SystemExit: ",
    "raise GeneratorExit('g')": "GeneratorExit: g",
    "raise KeyboardInterrupt('k')": "KeyboardInterrupt: k",
    "raise Fatal('f')": "Fatal: f",
    "raise Two('a', 'b')": "Two: both",
    "raise Mute()": "Mute: (which cannot be printed)",
}
RAISING = """
import os, sys
from unrack.policy import ListScheduler

class Fatal(BaseException): pass
class Two(Exception):
    def __init__(self, one, two): super().__init__("both")
class Mute(Exception):
    def __str__(self): return 1 / 0

class Ends(ListScheduler):
    def {method}:
        {ending}
"""
METHODS = {
    "begin": "begin(self, view)",
    "decide": "decide(self, view, memory, now)",
    "next_round": "next_round(self, view, memory, now)",
}


def studied(folder: Path, policy: str = PLAIN) -> Path:
    (folder / "study.toml").write_text(STUDY.format(policy=f'"{policy}"'))
    return folder / "study.toml"


def raising(folder: Path, ending: str, method: str = "decide") -> Path:
    (folder / "ends.py").write_text(RAISING.format(method=METHODS[method], ending=ending))
    return studied(folder, f"{folder / 'ends.py'}:Ends")


def unrack(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unrack", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


# --- policies that end the program ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_whatever_a_policy_raises_its_run_fails_and_the_others_are_kept(ending: str, tmp_path: Path) -> None:
    with pytest.raises(RunError) as failed:
        run_study(load_study(raising(tmp_path, ending)), tmp_path / "out")
    assert "1 of 2 runs failed" in str(failed.value)
    assert ENDINGS[ending] in str(failed.value)
    assert len(list((tmp_path / "out" / "runs").glob("*/run.json"))) == 1
    assert not list((tmp_path / "out" / "runs").glob(".*"))


@pytest.mark.parametrize("method", METHODS)
def test_a_policy_that_exits_in_any_method_fails_its_run(method: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="SystemExit: 0"):
        run_study(load_study(raising(tmp_path, "sys.exit(0)", method)), tmp_path / "out")


@pytest.mark.long
def test_over_processes_every_ending_is_told_in_words(tmp_path: Path) -> None:
    names = []
    for i, ending in enumerate(ENDINGS):
        (tmp_path / f"ends{i}.py").write_text(RAISING.format(method=METHODS["decide"], ending=ending))
        names.append(f"{{ file = '{tmp_path / f'ends{i}.py'}:Ends', label = 'ends{i}' }}")
    (tmp_path / "study.toml").write_text(STUDY.format(policy=", ".join(names)))
    with pytest.raises(RunError) as failed:
        run_study(load_study(tmp_path / "study.toml"), tmp_path / "out", jobs=2)
    for words in ENDINGS.values():
        assert words in str(failed.value)
    assert f"{len(ENDINGS)} of {len(ENDINGS) + 1} runs failed" in str(failed.value)


@pytest.mark.long
def test_a_policy_that_ends_every_worker_fails_its_run_and_the_others_are_kept(tmp_path: Path) -> None:
    study = load_study(raising(tmp_path, "os._exit(0)"))
    with pytest.raises(RunError, match="a policy ended it") as failed:
        run_study(study, tmp_path / "out", jobs=2)
    assert "1 of 2 runs failed" in str(failed.value)
    assert study.runs[1].id in str(failed.value)
    assert [path.parent.name for path in tmp_path.glob("out/runs/*/run.json")] == [study.runs[0].id]
    assert not list(tmp_path.glob("out/runs/.*"))


@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_command_ends_with_1_where_a_policy_exits_with_0(jobs: int, tmp_path: Path) -> None:
    raising(tmp_path, "sys.exit(0)")
    done = unrack("run", "study.toml", "--out", "out", "--jobs", jobs, folder=tmp_path)
    assert done.returncode == 1
    assert "SystemExit: 0" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_library_user_gets_an_error_and_not_the_end_of_the_program(tmp_path: Path) -> None:
    raising(tmp_path, "sys.exit(0)")
    policy = load_policy(f"{tmp_path / 'ends.py'}:Ends")
    jobs = generate({"jobs": 3, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 9, "tasks": 1}]}, seed=0)
    with pytest.raises(RunError, match="SystemExit: 0"):
        simulate(Cluster.homogeneous(nodes=1, cores=1), jobs, policy)


@pytest.mark.parametrize("text", ["import sys\nsys.exit(0)\n", "def X():\n    raise SystemExit(0)\n"])
def test_a_policy_file_that_exits_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text(text)
    with pytest.raises(PolicyError, match="SystemExit: 0"):
        load_policy(f"{tmp_path / 'exits.py'}:X")


@pytest.mark.parametrize("swallow", ["pass", pytest.param("raise", marks=pytest.mark.long)])
def test_ctrl_c_is_not_taken_for_the_policys_own(swallow: str, tmp_path: Path) -> None:
    """The policy waits once for the signal, and then lets it pass or swallows it."""
    ending = f"""
        import time
        if not os.path.exists("here"):
            open("here", "w").close()
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                {swallow}
        return super().decide(view, memory, now)"""
    raising(tmp_path, ending)
    command = [sys.executable, "-m", "unrack", "run", "study.toml", "--out", "out", "--jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if (tmp_path / "here").exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted" in errors


def test_where_signals_cannot_come_a_keyboard_interrupt_is_the_policys(tmp_path: Path) -> None:
    study, errors = load_study(raising(tmp_path, "raise KeyboardInterrupt('k')")), []

    def other_thread() -> None:
        try:
            run_study(study, tmp_path / "out")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        other_thread()
    finally:
        signal.signal(signal.SIGINT, before)
    assert [isinstance(error, RunError) for error in errors] == [True, True]


# --- the next round ---------------------------------------------------------------------------------------------------

NO_TIMES = [float("nan"), float("inf"), 5e6, "soon", True, [1], np.array(7_000_000), np.float64(9e6), -1, np.int64(-1)]


class Asks:
    """Wants the next round at one time."""

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted

    name = "asker"

    def decide(self, view: Any, memory: None, now: int) -> tuple[list[Any], None]:
        return [], None

    def next_round(self, view: Any, memory: None, now: int) -> Any:
        return self.wanted if now < 10_000_000 else None


def one_job() -> Any:
    return generate({"jobs": 1, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 9, "tasks": 1}]}, seed=0)


@pytest.mark.parametrize("wanted", NO_TIMES, ids=repr)
def test_a_next_round_that_is_no_time_is_refused_in_the_policys_name(wanted: Any) -> None:
    with pytest.raises(RunError, match="policy asker: next_round returned"):
        simulate(Cluster.homogeneous(nodes=1, cores=1), one_job(), Asks(wanted))


@pytest.mark.parametrize("wanted", [60_000_000, np.int64(60_000_000), np.int32(60_000_000), np.uint64(60_000_000)])
def test_whole_microseconds_of_any_kind_are_a_time(wanted: Any) -> None:
    result = simulate(Cluster.homogeneous(nodes=1, cores=1), one_job(), Asks(wanted))
    assert result.log.end_us == 60_000_000


# --- full disks -------------------------------------------------------------------------------------------------------


def full(name: str) -> Any:
    """``Path.write_bytes`` on a disk that is full for files of one name; like the system, it does not say which."""
    original = Path.write_bytes

    def write(self: Path, content: Any) -> int:
        if self.match(name):
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, content)

    return write


@pytest.mark.parametrize("name", ["summary.csv*", "study.toml.part", "study.json.part", "run.json*", "usage.parquet*"])
def test_a_disk_that_is_full_ends_with_one_sentence_and_later_it_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = load_study(studied(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full(name))
        with pytest.raises(RunError, match=r"^[^\n]*: No space left on device; finished runs are kept in [^\n]*$"):
            run_study(study, tmp_path / "out")
    kept = {path.parent.name: path.stat().st_mtime_ns for path in tmp_path.glob("out/runs/*/run.json")}
    assert len(kept) == (0 if name in ("run.json*", "usage.parquet*", "study.json.part") else 2)
    assert not list(tmp_path.glob("out/runs/.*"))
    assert not list(tmp_path.rglob("*.part"))
    assert len(run_study(study, tmp_path / "out")) == 2
    for path in tmp_path.glob("out/runs/*/run.json"):
        assert kept.get(path.parent.name, path.stat().st_mtime_ns) == path.stat().st_mtime_ns


@pytest.mark.long
def test_nothing_but_kept_runs_is_written_while_workloads_go_to_the_workers(tmp_path: Path) -> None:
    study, seen = load_study(studied(tmp_path)), set()
    place = tmp_path / "out"
    run_study(study, place, jobs=2, told=lambda _: seen.update(path.name for path in place.iterdir()))
    assert seen == {"runs"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_command_says_so_in_one_line(tmp_path: Path) -> None:
    studied(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.html.part").symlink_to("/dev/full")
    done = unrack("run", "study.toml", "--out", "out", "--jobs", 1, folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


# --- folders that hold something else ---------------------------------------------------------------------------------


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    run_study(load_study(studied(tmp_path)), tmp_path / "out")
    return tmp_path / "out"


def read_back(directory: Path, report: bool = True) -> list[str]:
    """Report and explain; what each said, or nothing."""
    said = []
    readers = [lambda: write_report(directory)] if report else []
    for read in (*readers, lambda: finished_run(directory, "easy").story("3")):
        try:
            read()
            said.append("")
        except InputError as error:
            said.append(str(error))
    return said


DAMAGES: dict[str, Any] = {
    "gone": None,
    "empty": lambda content: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "without its end": lambda content: content[:-2],
    "binary": lambda content: bytes(range(256)) * 8,
    "a list": lambda content: b"[]",
    "an object": lambda content: b"{}",
    "a number": lambda content: b"7",
    "deep": lambda content: b"[" * 100_000,
    "a byte changed": lambda content: content[:-40] + bytes([content[-40] ^ 1]) + content[-39:],
}
NAMES = ["run.json", "jobs.parquet", "usage.parquet", "placements.parquet"]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_of_a_run_is_said_and_the_run_is_made_anew(name: str, damage: str, finished: Path) -> None:
    study = load_study(finished.parent / "study.toml")
    path = next(path for path in finished.glob(f"runs/*/{name}") if "easy" in path.parent.name)
    before = path.read_bytes()
    if DAMAGES[damage] is None:
        path.unlink()
    else:
        path.write_bytes(DAMAGES[damage](before))
    report, explain = read_back(finished)
    assert name in report
    assert explain or (damage == "gone" and name in NAMES[2:])
    assert len(run_study(study, finished)) == 2
    assert path.read_bytes() == before
    assert read_back(finished) == ["", ""]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["summary.csv", "study.toml"])
def test_a_damaged_file_of_the_study_is_said_or_does_not_matter(name: str, damage: str, finished: Path) -> None:
    path = finished / name
    if DAMAGES[damage] is None:
        path.unlink()
    else:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    read_back(finished)
    run_study(load_study(finished.parent / "study.toml"), finished)
    assert read_back(finished) == ["", ""]


WRONG = [None, 7, -1, "x", [], {}, [[]], [7], {"x": 7}, True, 1e300]


def paths_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where everything is in a JSON value; of lists the first entry only."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    return [at, *(path for key, part in inside for path in paths_of(part, (*at, key)))]


@pytest.mark.long
def test_a_record_of_an_earlier_version_with_anything_wrong_in_it_never_ends_in_a_traceback(finished: Path) -> None:
    """Without checksums nothing but the shape can be looked at."""
    path = next(path for path in finished.glob("runs/*/run.json") if "easy" in path.parent.name)
    record = json.loads(path.read_text())
    del record["checksum"], record["files"]
    refused = 0
    for i, place in enumerate(paths_of(record)[1:]):
        for value in ("gone", *(WRONG[(i + step) % len(WRONG)] for step in (0, 4, 8))):
            changed = json.loads(json.dumps(record))
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            if value == "gone":
                del inner[place[-1]]
            else:
                inner[place[-1]] = value
            path.write_text(json.dumps(changed))
            refused += any(read_back(finished, report=i % 8 == 0))
    assert refused > 50


def test_a_record_without_checksums_is_read_as_before(finished: Path) -> None:
    for path in finished.glob("runs/*/run.json"):
        record = json.loads(path.read_text())
        del record["checksum"], record["files"]
        path.write_text(json.dumps(record))
    assert read_back(finished) == ["", ""]


def test_explain_lists_the_runs_of_the_last_study_only(finished: Path) -> None:
    other = STUDY.format(policy='"sjf"').replace('"fcfs", ', '"ljf", ')
    (finished.parent / "study.toml").write_text(other)
    run_study(load_study(finished.parent / "study.toml"), finished)
    assert len(list(finished.glob("runs/*/run.json"))) == 4
    with pytest.raises(InputError) as refused:
        finished_run(finished, None)
    assert "sjf" in refused.value.want
    assert "ljf" in refused.value.want
    assert "easy" not in refused.value.want
    with pytest.raises(InputError, match="none of them"):
        finished_run(finished, "easy")


def test_explain_lists_the_runs_of_a_study_that_was_interrupted(finished: Path, tmp_path: Path) -> None:
    study = load_study(raising(tmp_path, "raise KeyError"))
    with pytest.raises(RunError):
        run_study(study, finished)
    (finished / "summary.csv").unlink()  # as if it had been stopped before the end
    list_runs(finished, study.runs)
    assert finished_run(finished, None).record["policy_label"] == "fcfs"
    listed = finished / "runs" / "study.json"
    for damage in filter(None, DAMAGES.values()):
        listed.write_bytes(damage(listed.read_bytes()))
        read_back(finished)
    run_study(load_study(studied(tmp_path)), finished)
    assert not listed.exists()
