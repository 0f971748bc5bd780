"""What a user sees on a terminal while a study runs, and when it has ended."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.cli.study.run import Pace, ProgressBar
from unrack.study.runner import Progress

ROOT = Path(__file__).parents[2]
SMALL = (
    'name = "small"\npolicies = ["fcfs", "easy"]\n[[clusters]]\nnodes = [{count = 4, cores = 2}]\n[[workloads]]\n'
    'name = "some"\n[workloads.generate]\njobs = 30\narrivals = {gap_s = 5}\n'
    "classes = [{run_s = 100, tasks = 4}]\n"
)


def on_a_terminal(folder: Path, *arguments: str, columns: int = 80, **variables: str) -> str:
    """All that was ever drawn, without colours and movements."""
    parent, child = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": str(columns), "TERM": "xterm", **variables}
    command = [sys.executable, "-m", "unrack", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=child, stdout=child, stderr=child, close_fds=True
    )
    os.close(child)
    drawn, ends = b"", time.monotonic() + 300
    while time.monotonic() < ends:
        ready, _, _ = select.select([parent], [], [], 0.2)
        if ready:
            try:
                drawn += os.read(parent, 65536)
            except OSError:  # it has ended
                break
    process.wait(10)
    os.close(parent)
    assert process.returncode == 0, drawn.decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode())


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def progress(runs: int, jobs: int, compiling: int = 0, compiled: int = 0) -> Progress:
    return Progress(runs, 6, jobs, 6000, 0, compiling + compiled > 0, compiling, compiled)


def test_the_bar_says_what_it_is_at_and_promises_nothing_while_it_compiles() -> None:
    clock = Clock()
    bar = ProgressBar(clock=clock)
    assert bar.words() == "reading"
    bar.tell(progress(0, 0, compiling=1))
    clock.now += 8
    assert bar.words() == "0/6 runs  compiling kernels, first use only: 0 in 8 s"
    bar.tell(progress(0, 0, compiling=0, compiled=1))
    assert bar.words() == "0/6 runs"
    for done in (1000, 2000):
        clock.now += 2
        bar.tell(progress(done // 1000, done))
    assert bar.words() == "2/6 runs  500 jobs/s  about 8 s left"
    bar.tell(progress(2, 2000, compiling=1, compiled=1))
    clock.now += 10
    assert "left" not in bar.words()
    bar.tell(progress(2, 2000, compiled=2))
    assert bar.words() == "2/6 runs  500 jobs/s  about 8 s left"
    bar.tell(progress(5, 6000))
    assert bar.words() == "5/6 runs  checking and keeping results"
    bar.tell(progress(6, 6000))
    with bar.phase("writing the report"):
        clock.now += 3
        assert bar.words() == "writing the report  3 s"
    assert bar.took_s == {"writing the report": 3.0}
    assert bar.pace.compiled_s == 18.0


def test_the_time_left_follows_the_slower_of_all_and_of_late() -> None:
    pace = Pace()
    for now in range(11):
        pace.at(now, 100 * now, False)
    assert pace.left_s(2000) == 10.0
    for now in range(11, 21):
        pace.at(now, 1000 + 10 * (now - 10), False)
    assert pace.left_s(2000) == 90.0  # ten jobs a second, by now


def test_before_there_is_anything_to_go_by_nothing_is_promised() -> None:
    pace = Pace()
    pace.at(0.0, 0, False)
    pace.at(0.5, 10, False)
    assert pace.left_s(100) is None


@pytest.mark.long
def test_a_first_use_shows_compiling_and_the_report_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SMALL.replace(', "easy"', ""))
    drawn = on_a_terminal(
        tmp_path, "run", "study.toml", "--jobs", "2", NUMBA_CACHE_DIR=str(tmp_path / "cache"), NUMBA_OPT="0"
    )
    counts = [int(found) for found in re.findall(r"compiling kernels, first use only: (\d+) in \d+ s", drawn)]
    assert counts
    assert max(counts) > 0
    assert "writing the report" in drawn
    assert re.search(r"1 runs?: [\d.]+ [^,]+, [\d.]+ .* of it compiling; the report: [\d.]+ s", drawn)
    assert not re.search(r"\d:\d\d:\d\d", drawn)  # a promise


@pytest.mark.long
def test_quiet_prints_where_the_report_is_and_verbose_what_was_read_kept_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("study.toml").write_text(SMALL)
    loud = CliRunner().invoke(app, ["run", "study.toml", "--out", "out", "--verbose"])
    assert loud.exit_code == 0, loud.stderr
    assert re.search(r"^read workload some: 30 jobs, [0-9a-f]{12}$", loud.stderr, re.MULTILINE)
    assert len(re.findall(r"^ran .*(fcfs|easy).* in [\d.]+ s$", loud.stderr, re.MULTILINE)) == 2
    again = CliRunner().invoke(app, ["run", "study.toml", "--out", "out", "-v"])
    assert len(re.findall(r"^kept .*(fcfs|easy).*: not run again$", again.stderr, re.MULTILINE)) == 2
    quiet = CliRunner().invoke(app, ["run", "study.toml", "--out", "out", "-q"])
    assert quiet.stdout == str(Path("out", "report.html")) + "\n"
    assert quiet.stderr == ""


def commands() -> list[str]:
    group = typer.main.get_command(app)
    return sorted(
        f"{name} {sub}".strip() for name, one in group.commands.items() for sub in ["", *getattr(one, "commands", [])]
    )  # fmt: skip


@pytest.mark.parametrize("command", commands())
def test_help_is_for_users_and_every_option_has_its_words(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], terminal_width=80)
    assert shown.exit_code == 0
    assert not re.search(r"Raises|Returns|Parameters|-----|:class:|:func:|:mod:", shown.output)
    one = typer.main.get_command(app)
    for part in command.split():
        one = one.commands[part]
    assert one.help
    for parameter in one.params:
        assert getattr(parameter, "help", None), f"{command} {parameter.name}"


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.long
def test_bash_completes_commands_and_the_names_of_policies(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    told = 'status=0; "$0" -m unrack --show-completion || status=$?; exit $status'  # which shell is seen by who asks
    script = subprocess.run(
        ["bash", "--norc", "-c", told, sys.executable], env=environment, capture_output=True, text=True, timeout=120
    )
    assert script.returncode == 0, script.stderr
    (tmp_path / "unrack").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m unrack "$@"\n')
    (tmp_path / "unrack").chmod(0o755)
    (tmp_path / "completion.sh").write_text(script.stdout)
    ask = """
        source completion.sh
        function=$(complete -p unrack | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        COMP_WORDS=(unrack {words}); COMP_CWORD={count}; COMP_LINE="unrack {words}"; COMP_POINT=${{#COMP_LINE}}
        $function unrack; echo "${{COMPREPLY[@]}}"
    """

    def completed(words: str) -> list[str]:
        with_path = {**environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        text = ask.format(words=words, count=len(words.split()))
        done = subprocess.run(
            ["bash", "--norc", "-c", text], cwd=tmp_path, env=with_path, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert completed("pol") == ["policies"]
    assert "disaggregation-aware" in completed("run study.toml --policy disagg")
    assert "nvme-s1" in completed("reproduce nvme-s")
