"""The command line, as a user meets it: in a process of its own where that matters."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from digests import QUICK

from unrack.cli.main import main
from unrack.report.setting import RunFiles, Setting
from unrack.report.table import cells_of, column_of

ROOT = Path(__file__).parents[2]
EXAMPLES = [one for one in sorted((ROOT / "examples").glob("*.toml")) if one.stem not in QUICK]
"""Others are run, with their reports, where their numbers are compared."""
NEED_DATA = {"kth-sp2.toml"}
SMALL = (
    'name = "small"\npolicies = ["fcfs", "easy"]\n[[clusters]]\nnodes = [{count = 4, cores = 2}]\n[[workloads]]\n'
    'name = "some"\n[workloads.generate]\njobs = 30\narrivals = {gap_s = 5}\n'
    "classes = [{run_s = 100, tasks = 4}]\n"
)


def unrack(*arguments: object, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unrack", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "160", "PYTHONPATH": str(ROOT / "src"), **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def called(*arguments: object, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """As :func:`unrack`, but in this process, which need not start and load everything first."""
    out, errors, code = io.StringIO(), io.StringIO(), 0
    on_end = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(errors):
        patched.setattr(sys, "argv", ["unrack", *map(str, arguments)])
        patched.chdir(folder or Path.cwd())
        for name, value in {"COLUMNS": "160", **variables}.items():
            patched.setenv(name, value)
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            signal.signal(signal.SIGTERM, on_end)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.toml").write_text(SMALL)
    done = unrack("run", "study.toml", "--out", "out", "--jobs", 1, folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_run_prints_a_comparison_and_the_path_of_the_report(finished: Path) -> None:
    done = called("run", "study.toml", "--out", "out", folder=finished.parent)
    assert done.returncode == 0
    assert "fcfs" in done.stdout
    assert "mean wait" in done.stdout
    assert str(Path("out") / "report.html") in done.stdout
    assert (finished / "report.html").stat().st_size > 100_000


def test_the_comparison_says_what_its_marks_rest_on(finished: Path, tmp_path: Path) -> None:
    done = called("run", "study.toml", "--out", "out", "--no-report", folder=finished.parent)
    assert "*: best for these jobs (one seed)" in done.stdout
    assert "no intervals with one seed; --bootstrap auto makes them by a block bootstrap over time" in done.stdout
    assert "±" not in done.stdout
    assert "served" not in done.stdout  # all did
    drawn = called("run", "study.toml", "--out", "out", "--no-report", "--bootstrap", "15 s", folder=finished.parent)
    assert "±: 95 % block bootstrap over time, blocks of 15 s, 1000 draws, seed 1, the same draws" in drawn.stdout
    rows = [line.split("│") for line in drawn.stdout.splitlines() if line.startswith(("│ fcfs", "│ easy"))]
    assert all(["±" in cell for cell in row[2:6]] == [True, True, True, False] for row in rows)
    (tmp_path / "study.toml").write_text(
        "seeds = 3\n" + SMALL.replace("tasks = 4", "tasks = {kind = 'uniform', min = 1, max = 16}")
    )
    done = called("run", "study.toml", "--no-report", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith(("│ fcfs", "│ easy"))]
    assert len(rows) == 2  # a row a policy, not one a seed
    assert all(" ± " in row for row in rows)
    assert "±: half the 95 % interval over 3 seeds" in done.stdout
    assert "served" in done.stdout  # some jobs ask for more than the 8 cores that there are


def test_a_bootstrap_that_the_study_does_not_carry_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SMALL)
    (tmp_path / "seeds.toml").write_text("seeds = 3\n" + SMALL)
    for study, length, words in (
        ("study.toml", "auto", "got blocks of 1 d in a log of"),
        ("study.toml", "soon", "got 'soon', wanted auto, or the length of a block of time"),
        ("study.toml", "0 s", "got '0 s', wanted auto"),
        ("seeds.toml", "15 s", "got a study of 3 seeds"),
    ):
        done = called("run", study, "--out", "out", "--bootstrap", length, folder=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
        assert not (tmp_path / "out").exists()


def test_cells_mark_no_policy_that_served_less_and_no_difference_that_may_be_noise() -> None:
    def runs(*waits: float, served: float = 1.0) -> tuple[RunFiles, ...]:
        each = [{"wait_s_mean": wait, "served": served, "jobs_finished": 5} for wait in waits]
        return tuple(RunFiles(Path(), {"seed": seed, "metrics": own}) for seed, own in enumerate(each))

    group = {
        "idle": runs(1, 1, 1, served=0.99999),
        "a": runs(10, 20, 31),
        "b": runs(11, 19, 31),
        "far": runs(90, 99, 110),
    }
    columns = [column_of(name, []) for name in ("served", "wait_s_mean")]
    cells = cells_of(Setting("c", "w", {}, group), columns, group)
    assert [cells[name][1].mark for name in group] == ["", "among", "among", ""]
    assert cells["idle"][0].text == "99.99 ± 0"
    assert [cells[name][0].mark for name in group] == ["", "best", "best", "best"]


def test_run_as_json_prints_only_json(finished: Path) -> None:
    done = called("run", "study.toml", "--out", "out", "--json", "--no-report", folder=finished.parent)
    answer = json.loads(done.stdout)
    assert [row["policy"] for row in answer["runs"]] == ["fcfs", "easy"]
    assert done.stderr == ""


def test_a_policy_can_be_added_from_a_file_and_a_seed_given(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SMALL)
    policy = f"{ROOT / 'examples' / 'my_policy.py'}:FEW"
    done = called("run", "study.toml", "--policy", policy, "--seed", 7, "--json", "--no-report", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["runs"]
    assert [(row["policy"], row["seed"]) for row in rows] == [("fcfs", 7), ("easy", 7), ("few at a time", 7)]


def marks(example: Path) -> list[pytest.MarkDecorator]:
    """Two run for ten seconds, and what they run is run by many tests."""
    return [pytest.mark.long] if example.name in ("nvme.toml", "load-sweep.toml") else []


@pytest.mark.parametrize("example", [pytest.param(one, marks=marks(one), id=one.name) for one in EXAMPLES])
def test_every_example_runs(example: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    variables = {}
    if example.name in NEED_DATA:
        data = Path(os.environ.get("UNRACK_DATA", ROOT.parent / "shared" / "data")) / "swf"
        if not data.is_dir():
            pytest.skip("needs real logs: set UNRACK_DATA")
        variables["UNRACK_TRACES"] = str(data)
    done = called("run", example, "--out", tmp_path / "out", "--jobs", 1, "--seed", 1, folder=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.parametrize("listing", ["policies", "metrics", "presets", "traces"])
def test_lists_have_a_line_for_everything_and_can_be_json(listing: str) -> None:
    lines = called(listing)
    assert lines.returncode == 0, lines.stderr
    entries = json.loads(called(listing, "--json").stdout)
    for name in entries.get("formats", entries):
        assert any(line.startswith(name) for line in lines.stdout.splitlines()), name


def test_explain_tells_a_jobs_life(finished: Path) -> None:
    done = called("explain", finished, 12, "--run", "fcfs")
    assert done.returncode == 0, done.stderr
    for words in ("job 12 (job) under fcfs", "asks for", "waited for", "no-room: cores (asked 4, free 0)", "ended"):
        assert words in done.stdout
    story = json.loads(called("explain", finished, 12, "--run", "fcfs", "--json").stdout)
    assert story["attempts"][0]["outcome"] == "finished"
    assert story["attempts"][0]["start_us"] == story["spells"][-1]["to_us"]


def test_explain_has_the_dates_of_the_log(tmp_path: Path) -> None:
    jobs = "".join(f"{i} {10 * i} -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1\n" for i in range(1, 5))
    (tmp_path / "log.swf").write_text(f"; UnixStartTime: 1767600469\n; TimeZoneString: Europe/Madrid\n{jobs}")
    lines = SMALL.partition("[[workloads]]")[0] + '[[workloads]]\ntrace = "log.swf"\n'
    (tmp_path / "study.toml").write_text(lines)
    assert called("run", "study.toml", "--out", "out", "--jobs", 1, "--no-report", folder=tmp_path).returncode == 0
    told = called("explain", "out", 3, "--run", "fcfs", folder=tmp_path).stdout
    assert "submitted   2026-01-05 09:08:19 = 30 s, " in told
    assert "started     2026-01-05 09:09:39 = 110 s (+1 min 20 s) on node(s) 0-1" in told


def test_report_is_built_again_byte_for_byte(finished: Path) -> None:
    before = (finished / "report.html").read_bytes()
    (finished / "report.html").unlink()
    assert called("report", finished).returncode == 0
    assert (finished / "report.html").read_bytes() == before


WRONG = {
    "no study": (["run", "nowhere.toml"], ["nowhere.toml"]),
    "a folder as study": (["run", "."], ["folder"]),
    "no such policy file": (["run", "study.toml", "--policy", "gone.py:X"], ["gone.py"]),
    "no such name in it": (["run", "study.toml", "--policy", "empty.py:X"], ["empty.py", "'X'"]),
    "a policy file with an error": (["run", "study.toml", "--policy", "faulty.py:X"], ["ZeroDivisionError"]),
    "not a policy": (["run", "study.toml", "--policy", "number.py:X"], ["decide"]),
    "no such policy": (["run", "study.toml", "--policy", "esay"], ["'easy' perhaps"]),
    "negative jobs": (["run", "study.toml", "--jobs", "-1"], ["--jobs"]),
    "a seed that is no number": (["run", "study.toml", "--seed", "x"], ["--seed"]),
    "an unknown option": (["run", "study.toml", "--ouput", "x"], ["--ouput"]),
    "no such command": (["rnu"], ["rnu"]),
    "report of nothing": (["report", "."], ["summary.csv"]),
    "explain of nothing": (["explain", ".", "1"], ["no finished runs"]),
    "explain without a choice": (["explain", "out", "1"], ["--run", "fcfs", "easy"]),
    "explain with a wrong choice": (["explain", "out", "1", "--run", "x"], ["'x'"]),
    "explain of no such job": (["explain", "out", "999", "--run", "easy"], ["'999'"]),
    "holdings into no folder": (["holdings", "out", "--run", "fcfs", "--out", "gone/h.csv"], ["--out gone/h.csv"]),
    "trace that is not there": (["trace", "info", "gone.swf"], ["gone.swf"]),
    "trace that is none": (["trace", "info", "study.toml"], ["study.toml"]),
    "trace of an unknown format": (["trace", "info", "study.toml", "--format", "swff"], ["swff"]),
    "an empty trace": (["trace", "info", "empty.py"], ["empty"]),
    "a name too long for a file": (["report", "x" * 300], ["File name too long"]),
    "a policy with a name too long": (["init", "policy", "x" * 300], ["File name too long"]),
    "no such preset": (["cluster", "bill", "kth-sp3"], ["'kth-sp2' perhaps"]),
    "no such preset of a site": (["site", "check", "study.toml", "--cluster", "kth-sp3"], ["'kth-sp2' perhaps"]),
    "no such machine": (["topology", "dgx-1000"], ["'dgx-1' perhaps"]),
    "a manifest that is too deep": (["what-if", "deep.json"], ["deep.json", "recursion"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_ends_with_exit_code_2_and_one_message(case: str, finished: Path) -> None:
    folder = finished.parent
    (folder / "empty.py").write_text("")
    (folder / "faulty.py").write_text("1 / 0\n")
    (folder / "number.py").write_text("X = 3\n")
    (folder / "deep.json").write_text("[" * 100_000)
    arguments, words = WRONG[case]
    done = called(*arguments, folder=folder)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_nothing_is_written_where_the_study_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SMALL.replace('"easy"', '"esay"'))
    assert called("run", "study.toml", "--out", "out", folder=tmp_path).returncode == 2
    assert not (tmp_path / "out").exists()


def test_help_answers_at_once_and_every_command_has_its_own() -> None:
    unrack("--help")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = unrack("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.6
    )  # the goal is 0.3 s, on any machine
    commands = ["run", "trace", "policies", "metrics", "presets", "traces", "explain", "report"]
    for command in commands:
        assert command in done.stdout
        assert called(command, "--help").stdout.count("\n") > 4


def test_a_finished_study_is_read_again_without_what_only_runs_need(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SMALL)
    assert called("run", "study.toml", folder=tmp_path).returncode == 0
    program = (
        "import sys; from unrack.cli.main import main; sys.argv = ['unrack', 'run', 'study.toml', '--no-report']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'ortools', 'altair', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_words_in_brackets_are_printed_as_they_are(tmp_path: Path) -> None:
    text = 'question = "is [/b] [red]?"\n' + SMALL.replace('"fcfs"', '{name = "fcfs", label = "a[/x]b"}')
    (tmp_path / "study.toml").write_text(text)
    done = called("run", "study.toml", "--jobs", 1, "--no-report", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "is [/b] [red]?" in done.stdout
    assert "a[/x]b" in done.stdout


def test_a_name_is_never_a_way_out_of_the_output_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "study.toml").write_text(SMALL.replace('"small"', '"../../escaped"'))
    assert called("run", "study.toml", "--jobs", 1, "--no-report", folder=tmp_path / "inner").returncode == 0
    assert [path.name for path in (tmp_path / "inner" / "out").iterdir()] == ["escaped"]
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]


def test_explain_is_told_where_a_policy_file_is(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SMALL)
    policy = f"{ROOT / 'examples' / 'my_policy.py'}:FEW"
    command = ("run", "study.toml", "--out", "out", "--policy", policy, "--jobs", 1, "--no-report")
    assert called(*command, folder=tmp_path).returncode == 0
    lost = called("explain", "out", 3, "--run", "few at a time", folder=tmp_path)
    assert lost.returncode == 2
    assert "--policy FILE.py:NAME" in lost.stderr
    found = called("explain", "out", 3, "--run", "few at a time", "--policy", policy, folder=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "job 3 (job) under few at a time" in found.stdout


@pytest.mark.long
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(tmp_path: Path, ending: signal.Signals) -> None:
    big = SMALL.replace("jobs = 30", "jobs = 40000").replace("gap_s = 5", "gap_s = 90")
    (tmp_path / "study.toml").write_text("seeds = 6\n" + big)
    command = [sys.executable, "-m", "unrack", "run", "study.toml", "--out", "out", "--jobs", "2", "--no-report"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        pytest.skip("needs /proc to list child processes")
    workers: list[str] = []
    for _ in range(300):
        workers = children.read_text().split()
        if len(workers) >= 3:  # two workers and Python's own resource tracker
            break
        time.sleep(0.1)
    assert len(workers) >= 3
    time.sleep(1)
    process.send_signal(ending)
    process.wait(timeout=60)
    for _ in range(100):
        if not any(Path(f"/proc/{worker}").exists() for worker in workers):
            break
        time.sleep(0.1)
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]


@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path: Path, jobs: int) -> None:
    big = SMALL.replace("jobs = 30", "jobs = 40000").replace("gap_s = 5", "gap_s = 90")
    (tmp_path / "study.toml").write_text("seeds = 6\n" + big)
    command = [sys.executable, "-m", "unrack", "run", "study.toml", "--out", "out", "--jobs", str(jobs), "--no-report"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for _ in range(600):
        if len(list(tmp_path.glob("out/runs/*/run.json"))) >= 1:
            break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    kept = list(tmp_path.glob("out/runs/*/run.json"))
    assert process.returncode == 130, errors
    assert f"interrupted: {len(kept)} of 12 runs are kept" in errors
    assert "Traceback" not in errors
    assert 1 <= len(kept) < 12
    assert not list(tmp_path.glob("out/runs/.*"))
