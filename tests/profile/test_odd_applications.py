"""Applications and folders that were not planned for: what is said, what is kept, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import called
from test_leftovers import ROOT, lacking, runs, wait_for
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import InputError, RunError, UnrackError
from unrack.profile.application import application_of
from unrack.profile.axes.axis import LevelNeeds, Rig
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine
from unrack.profile.running.copies import TAIL, for_a_run, run_copies

TOOK = "progress = { regex = 'took ([0-9.]+)', unit = 'seconds' }\n"
AXES = '[[axes]]\nkind = "command"\nlevels = [1]\n'


def app_file(folder: Path, script: str, keys: str = "", axes: str = AXES) -> Path:
    (folder / "script.py").write_text(script)
    path = folder / "app.toml"
    path.write_text(f'name = "odd"\ncommand = ["{sys.executable}", "script.py"]\nwarm_up = 0\n{keys}{axes}')
    return path


def run_once(folder: Path, script: str, keys: str = "") -> float:
    path = app_file(folder, script, keys)
    one = application_of(path.read_text(), folder, "app.toml")
    with Journal(folder / "journals") as journal:
        rig = Rig(Machine(), journal, folder, 1, 0)
        with for_a_run(LevelNeeds(), rig) as held:
            (copy,), _ = run_copies(one, held, journal.token)
    return copy.time_s


DAEMON = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
open("pid", "w").write(str(os.getpid()))
{}
time.sleep(100)
"""


@pytest.mark.parametrize("environment", ["pass", "os.execve('/bin/sleep', ['sleep', '100'], {})"])
def test_what_a_run_leaves_in_the_background_ends_with_it(tmp_path: Path, environment: str) -> None:
    if "execve" in environment and (why := lacking("cpu", tmp_path)):
        pytest.skip(why)  # without a word in its environment it is found by its group alone
    script = (
        f"import subprocess, sys, os, time\nsubprocess.run([sys.executable, '-c', {DAEMON.format(environment)!r}])\n"
    )
    run_once(tmp_path, script + "while not os.path.exists('pid') or not open('pid').read(): time.sleep(0.01)\n")
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not runs(pid))


def test_of_much_that_is_printed_the_end_is_looked_at(tmp_path: Path) -> None:
    flood = f"import sys\nprint('took 9')\nsys.stdout.write('x\\n' * {TAIL})\n"
    assert run_once(tmp_path, flood + "print('took 2.5')\n", TOOK) == 2.5
    with pytest.raises(InputError, match="no match in"):
        run_once(tmp_path, flood, TOOK)


def test_bytes_that_are_no_text_are_no_matter(tmp_path: Path) -> None:
    script = "import sys\nsys.stdout.buffer.write(bytes(range(256)))\nprint(' took 1.5 ¼ 計')\n"
    assert run_once(tmp_path, script, TOOK) == 1.5


def test_a_command_that_fails_now_and_then_ends_the_runs_and_keeps_those_that_were(tmp_path: Path) -> None:
    script = (
        "with open('turns', 'a+') as turns:\n    turns.write('.')\n    turns.seek(0)\n"
        "    if len(turns.read()) == 4: raise SystemExit('out of luck')\nprint('took 1')\n"
    )
    path = app_file(tmp_path, script, TOOK)
    with pytest.raises(RunError, match="exit code 1: out of luck"):
        called("run", path, "-o", tmp_path / "out")
    assert len((tmp_path / "out/runs.jsonl").read_text().splitlines()) == 3
    called("run", path, "-o", tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out/runs.jsonl").read_text().splitlines()]
    assert {line["sitting"] for line in lines} == {0, 1}


def test_a_file_can_be_mended_as_long_as_there_is_no_run_of_it(tmp_path: Path) -> None:
    path = app_file(tmp_path, "raise SystemExit(3)", TOOK)
    with pytest.raises(UnrackError, match="exit code 3"):
        called("run", path, "-o", tmp_path / "out")
    path.write_text(path.read_text().replace("script.py", "other.py"))
    (tmp_path / "other.py").write_text("print('took 1')")
    called("run", path, "-o", tmp_path / "out")


@pytest.mark.long
def test_two_runs_do_not_write_one_folder(tmp_path: Path) -> None:
    path = app_file(tmp_path, "open('going', 'w').close()\nimport time; time.sleep(60)")
    argv = [sys.executable, "-m", "unrack", "profile", "run", str(path), "-o", str(tmp_path / "out")]
    first = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: (tmp_path / "going").exists(), 60)
        for more in ([], ["--fresh"]):
            with pytest.raises(InputError, match="a file that another run writes"):
                called("run", path, "-o", tmp_path / "out", *more)
        other = app_file(tmp_path, "print('took 1')", TOOK)
        result = CliRunner().invoke(app, ["profile", "run", str(other), "-o", str(tmp_path / "other")])
        assert (result.exit_code, f"process {first.pid} measures on this machine too" in result.stderr) == (0, True)
    finally:
        first.terminate()
        assert first.wait() == 143


def test_names_may_have_spaces_and_any_letters(tmp_path: Path) -> None:
    if why := lacking("drives", tmp_path):
        pytest.skip(why)
    folder = tmp_path / "Übung № 1 — 'a' \"b\" $HOME;"
    folder.mkdir()
    (folder / "Δ data.txt").write_text("7" * 100_000)
    drives = '[[axes]]\nkind = "drives"\nlevels = [[1, 2]]\nrate = 20\nsize = "32 MB"\n'
    path = folder / "app.toml"
    command = """["sh", "-c", 'cat "$1" > /dev/null && echo took 1', "sh", "{mount}/Δ data.txt"]"""
    keys = "inputs = ['Δ data.txt']\nprogress = { regex = 'took (1)', unit = 'seconds' }\nwarm_up = 0\n"
    path.write_text(f'name = "odd"\ncommand = {command}\n{keys}{drives}')
    called("run", path, "-o", folder / "out")
    assert sorted(one.name for one in (folder / "out").iterdir()) == [
        "app.toml", "fit.json", "probe.json", "runs.jsonl", "runs.parquet"
    ]  # fmt: skip


def test_a_disk_that_is_full_is_told_before_anything_is_run(tmp_path: Path) -> None:
    if why := lacking("drives", tmp_path):
        pytest.skip(why)
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(small)], check=True)
    try:
        drives = '[[axes]]\nkind = "drives"\nlevels = [[1, 2]]\nrate = 20\nsize = "64 MB"\n'
        path = app_file(tmp_path, "open('ran', 'w')", axes=drives)
        with pytest.raises(RunError, match=r"axis drives: .*No space left on device"):
            called("run", path, "-o", small / "out")
        assert not (tmp_path / "ran").exists()
        assert list((small / "out").glob("scratch/*")) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.skipif(not ROOT, reason="only root can give a folder away")
def test_journals_in_a_folder_of_another_user_are_not_read(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(InputError, match="a folder of another user"):
        Journal(tmp_path)
