"""The commands, from a file to models, on applications that say themselves how fast they are."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import UnrackError

SCRIPT = """
import random, sys
try:
    level = float(open("level").read())
except FileNotFoundError:
    level = 0.0
print("starting")
print(f"took {(1 + level / 10) * (1 + random.uniform(-1, 1) * 0.002):.6f}")
"""
APP = """
name = "known"
command = ["{python}", "script.py"]
progress = {{ regex = 'took ([0-9.]+)', unit = "seconds" }}
warm_up = 0
[[axes]]
kind = "command"
levels = [2, 4, 8]
set = ["sh", "-c", "echo {{level}} > '{folder}/level'"]
tell = ["cat", "{folder}/level"]
clear = ["rm", "-f", "{folder}/level"]
"""


@pytest.fixture
def application(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(SCRIPT)
    path = tmp_path / "app.toml"
    path.write_text(APP.format(python=sys.executable, folder=tmp_path))
    return path


def called(*argv: object) -> str:
    result = CliRunner().invoke(app, ["profile", *map(str, argv)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def fitted(text: str) -> dict[str, float]:
    ((profile,),) = (json.loads(text),)
    (axis,) = profile["axes"]
    return {one["level"]: one["speed"] for one in axis["levels"]}


def test_from_a_file_to_a_page_and_the_models(application: Path) -> None:
    out = application.parent / "out"
    expected = {str(level): 1 / (1 + level / 10) for level in (2, 4, 8)}
    assert fitted(called("run", application, "-o", out, "--json")) == pytest.approx(expected, rel=0.01)
    assert fitted(called("fit", out, "--json")) == pytest.approx(expected, rel=0.01)
    assert "line" in called("fit", out)
    assert {path.name for path in out.iterdir()} == {"app.toml", "probe.json", "runs.jsonl", "fit.json", "runs.parquet"}
    runs = pl.read_parquet(out / "runs.parquet")
    assert runs.height == 5 * 7
    assert runs["source"].unique().sort().to_list() == ["not measured", "the command read"]
    assert not (application.parent / "level").exists()
    called("write", out, "-o", application.parent / "models")
    assert pl.read_csv(application.parent / "models/levels.csv")["level"].to_list() == [2, 4, 8]
    page = application.parent / "page.html"
    called("report", out, "-o", page)
    text = page.read_text()
    assert "<svg" in text
    assert re.search(r">0\.55[567]<", text)  # 1 / 1.8, and what is noise
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert "cgroup-quota" in text


def test_what_a_name_says_is_text_on_the_page(application: Path) -> None:
    application.write_text(
        application.read_text().replace('"script.py"', '"script.py", "</code><script>alert(1)</script>"')
    )
    called("run", application, "-o", application.parent / "out")
    called("report", application.parent / "out", "-o", application.parent / "page.html")
    assert "<script" not in (application.parent / "page.html").read_text()


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_killed_goes_on_where_it_was(application: Path, how: signal.Signals) -> None:
    out = application.parent / "out"
    argv = [sys.executable, "-m", "unrack", "profile", "run", str(application), "-o", str(out)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    runs = out / "runs.jsonl"
    deadline = time.monotonic() + 60
    while not runs.exists() or len(runs.read_text().splitlines()) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(how)
    assert process.wait() == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[how]
    assert how == signal.SIGKILL or not (application.parent / "level").exists()
    before = list(runs.read_text().split("\n")[:-1])
    called("run", application, "-o", out)
    after = runs.read_text().splitlines()
    assert after[: len(before)] == before
    assert {json.loads(line)["sitting"] for line in after} == {0, 1}
    assert not (application.parent / "level").exists()


def test_a_folder_with_runs_of_something_else_is_refused_until_they_are_forgotten(application: Path) -> None:
    out = application.parent / "out"
    called("run", application, "-o", out)
    application.write_text(application.read_text().replace("[2, 4, 8]", "[2, 4]"))
    with pytest.raises(UnrackError, match=r"got runs of another APP\.toml"):
        called("run", application, "-o", out)
    called("run", application, "-o", out, "--fresh")
    assert set(fitted(called("fit", out, "--json"))) == {"2", "4"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("took (", "took [(", "a regular expression"),
        ("took ([0-9.]+)", "took", "with one group"),
        ("took ([0-9.]+)", "lasted ([0-9.]+)", "no match in 'starting"),
        ("took ([0-9.]+)", "(start)ing", "got 'start', wanted a number"),
        ("script.py", "no-script.py", "exit code 2"),
        ('"known"', '"a b"', "name"),
        ('"known"', '""', "name"),
        ("warm_up = 0", "warm_up = 0\nrepeats = 4", "greater than or equal to 5"),
        ("warm_up = 0", "warm_up = 0\nmost_repeats = 6\nrepeats = 7", "7 (repeats) or more"),
        ("warm_up = 0", "warm_up = 0\ncores = 4000", "at most"),
        ("warm_up = 0", "warm_up = 0\ninputs = ['none']", "a file that is there"),
        ("warm_up = 0", "warm_up = 0\ninputs = ['a/b']", "inputs"),
        ("warm_up = 0", "warm_up = 0\ntimeout = 0", "above 0"),
        ("warm_up = 0", "warm_up = 0\nmemory = 'much'", "memory"),
        ("warm_up = 0", "warm_up = 0\nprepare = ['false']", "prepare: false: exit code 1"),
        ("warm_up = 0", "warmup = 0", "warm_up"),
        ("[[axes]]", "[axes]", "axes"),
        ("script.py", "{drive}", "{drive} where no axis sets it"),
        ("levels = [2, 4, 8]", "levels = [2, 4, 8]\nerror = 2", "error"),
        ('kind = "command"', 'kind = "command', "wanted TOML"),
    ],
)
def test_a_file_that_cannot_be_is_refused(application: Path, old: str, new: str, message: str) -> None:
    text = application.read_text()
    assert old in text
    application.write_text(text.replace(old, new))
    with pytest.raises(UnrackError) as error:
        called("run", application, "-o", application.parent / "out")
    assert message in str(error.value)


def test_two_axes_need_two_names(application: Path) -> None:
    application.write_text(application.read_text() + '[[axes]]\nkind = "command"\nlevels = [1]\n')
    with pytest.raises(UnrackError, match="two that are called 'command'"):
        called("run", application, "-o", application.parent / "out")


def test_a_run_that_takes_too_long_is_ended(application: Path) -> None:
    text = application.read_text().replace("warm_up = 0", "warm_up = 0\ntimeout = '200 ms'")
    application.write_text(text)
    (application.parent / "script.py").write_text("import time; time.sleep(60)")
    begun = time.monotonic()
    with pytest.raises(UnrackError, match=r"not done after 0\.2 s"):
        called("run", application, "-o", application.parent / "out")
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("command", ["fit", "write", "report"])
def test_a_folder_that_is_no_profile_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises(UnrackError, match="wanted a folder that `unrack profile run` wrote"):
        called(command, tmp_path)


def test_the_probe_says_why_not() -> None:
    found = json.loads(called("probe", "--json"))
    assert {"axis", "actuator", "lacks", "summary"} == set(found[0])
    assert "far-memory" in called("probe")


def test_there_is_nothing_to_clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("unrack.profile.machine.journal.default_folder", lambda: tmp_path / "none")
    assert called("clean") == "nothing was left behind\n"
