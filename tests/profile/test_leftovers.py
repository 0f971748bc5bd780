"""What is made on a machine is undone: at the end, after an error, and after a kill -9 at any moment."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from unrack.errors import RunError
from unrack.profile.application import read_application
from unrack.profile.axes.axis import Rig
from unrack.profile.machine.journal import MARK, Journal, clean, default_folder
from unrack.profile.machine.machine import Machine
from unrack.profile.machine.marked import marked
from unrack.profile.profile import bench

ROOT = os.geteuid() == 0


def test_what_is_made_is_undone_in_the_opposite_order_also_after_an_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    outer, inner = tmp_path / f"{journal.token}-outer", tmp_path / f"{journal.token}-outer/{journal.token}-inner"

    def fail() -> None:
        with journal.made("file", str(outer)):
            outer.mkdir()
            with journal.made("file", str(inner)):
                inner.touch()
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not outer.exists()
    assert journal.path.exists()
    assert journal.close() == []
    assert not journal.path.exists()


def test_nothing_is_removed_that_has_not_the_word_of_the_journal_in_its_name(tmp_path: Path) -> None:
    mine = tmp_path / "thesis"
    mine.mkdir()
    with Journal(tmp_path / "journals") as journal:
        for kind in ("file", "cgroup", "mount", "netns"):
            journal.note(kind, [str(mine)])
    assert mine.is_dir()


def test_what_cannot_be_undone_is_said_and_kept_in_the_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.note("command", ["false"])
    journal.note("spaceship", ["x"])
    left = journal.close()
    assert len(left) == 2
    assert "no way to undo a spaceship" in left[0]
    assert "false: exit code 1" in left[1]
    assert journal.path.exists()
    assert clean(tmp_path) == (1, left)


def test_a_journal_that_was_cut_off_or_is_garbled_is_worked_off_as_far_as_it_goes(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    made = tmp_path / f"{journal.token}-made"
    made.touch()
    journal.note("file", [str(made)])
    journal._file.write('null\n7\n{"kind": "file"}\n{"kind": "file", "wh')
    assert journal.close() == []
    assert not made.exists()


def test_journals_of_processes_that_run_are_left_alone(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert clean(tmp_path) == (0, [])
        with Journal(tmp_path):
            assert journal.path.exists()
    assert clean(tmp_path) == (0, [])


def test_processes_are_ended_with_all_that_they_started(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    pids = tmp_path / "pids"
    child = f"import os, time; open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(100)"
    # the second is in a session of its own, and no child of it when the first is gone
    script = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n{child}"
    )
    process = marked([sys.executable, "-c", script], journal.token)
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    other = subprocess.Popen(["sleep", "100"], env={**os.environ, MARK: "unrack-other"})
    assert journal.close() == []
    assert process.wait() == -signal.SIGKILL
    wait_for(lambda: not any(runs(int(pid)) for pid in pids.read_text().split()))
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(RunError, match="no-such-program: No such file"):
        marked(["no-such-program"], "unrack-x")


def wait_for(holds: Callable[[], bool], most_s: float = 30) -> None:
    deadline = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def traces(token: str) -> dict[str, str]:
    """All that could be left of a run."""
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{token}*")]
    loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    return {
        "groups": " ".join(groups), "loops": loops if token in loops else "",
        "mounts": "\n".join(line for line in Path("/proc/mounts").read_text().splitlines() if token in line),
        "swaps": "\n".join(Path("/proc/swaps").read_text().splitlines()[1:]),
        "zram": " ".join(sorted(path.name for path in Path("/sys/block").glob("zram*"))),
        "namespaces": " ".join(path.name for path in Path("/run/netns").glob(f"{token}*")),
        "processes": " ".join(pid for pid in os.listdir("/proc") if pid.isdigit() and has_word(pid, token)),
    }  # fmt: skip


def has_word(pid: str, token: str) -> bool:
    try:
        return f"{MARK}={token}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


AXES = {
    "drives": 'levels = [[1, 2]]\nrate = "20 MB/s"\nsize = "32 MB"',
    "network": 'levels = [0.5]\nrate = "20 MB/s"\nserve = ["sleep", "100"]',
    "far-memory": 'levels = [0.5]\nby = "cgroup-zram"',
    "memory-bandwidth": "levels = [100]",
    "cpu": "levels = [0.5]",
}
HOLD = """
import sys
from pathlib import Path
from unrack.profile.application import read_application
from unrack.profile.axes.axis import Rig
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine
from unrack.profile.profile import bench
journal = Journal(Path(sys.argv[2]))
app = read_application(sys.argv[1])
rig = Rig(Machine(), journal, Path(sys.argv[2]), 1, app.memory_mb, ())
print(journal.token, flush=True)
with bench(app, app.axes[0], rig) as measure:
    while True:
        measure(app.axes[0].levels[0])
"""


def app_for(folder: Path, kind: str, command: str = '["sleep", "0.2"]') -> Path:
    path = folder / "app.toml"
    path.write_text(f'name = "a"\ncommand = {command}\nmemory = "64 MB"\n[[axes]]\nkind = "{kind}"\n{AXES[kind]}\n')
    return path


def lacking(kind: str, folder: Path) -> str:
    from unrack.profile.axes.table import actuator_of

    app = read_application(app_for(folder, kind))
    with Journal(folder / "probing") as journal:
        try:
            actuator_of(app.axes[0], Machine(), journal)
        except RunError as error:
            return str(error)
    return ""


@pytest.mark.long
@pytest.mark.parametrize("after_s", [0.02, 0.08, 0.2, 0.6])  # while it is set up, and while it runs
@pytest.mark.parametrize("kind", AXES)
def test_nothing_is_left_after_a_kill_and_a_clean_up(kind: str, after_s: float, tmp_path: Path) -> None:
    if why := lacking(kind, tmp_path):
        pytest.skip(why)
    if shutil.which("losetup") is None:
        pytest.skip("no losetup")
    before = traces("unrack-none")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(app_for(tmp_path, kind)), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    token = process.stdout.readline().strip()
    assert token.startswith("unrack-")
    time.sleep(after_s)
    process.kill()
    process.wait()
    process.stdout.close()
    done, left = clean(tmp_path)
    assert (done, left) == (1, [])
    assert traces(token) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("unrack-")] == []


def test_a_device_is_detached_whose_file_was_removed(tmp_path: Path) -> None:
    if why := lacking("drives", tmp_path):
        pytest.skip(why)
    journal = Journal(tmp_path)
    image = tmp_path / f"{journal.token}-drive.img"
    image.write_bytes(bytes(2**20))
    journal.note("loop", [str(image)])
    journal.called("losetup", "-f", str(image))
    image.unlink()
    assert journal.close() == []
    assert traces(journal.token)["loops"] == ""


@pytest.mark.parametrize("kind", AXES)
def test_nothing_is_left_when_a_run_fails(kind: str, tmp_path: Path) -> None:
    if why := lacking(kind, tmp_path):
        pytest.skip(why)
    before = traces("unrack-none")
    app = read_application(app_for(tmp_path, kind, '["sh", "-c", "sleep 100 & echo bad; exit 3"]'))
    with Journal(tmp_path) as journal:
        rig = Rig(Machine(), journal, tmp_path, 1, app.memory_mb)
        with bench(app, app.axes[0], rig) as measure, pytest.raises(RunError, match="exit code 3: bad"):
            measure(app.axes[0].levels[0])
    assert traces(journal.token) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("unrack-")] == []


ALL = """
name = "all"
command = ["sh", "-c", "cat {mount}/blob > /dev/null; sleep 0.1; sleep 100 & echo took 1"]
inputs = ["blob"]
memory = "64 MB"
warm_up = 0
progress = { regex = "took (1)", unit = "seconds" }
""" + "".join(f'[[axes]]\nkind = "{kind}"\n{keys}\n' for kind, keys in AXES.items())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_left_by_a_command_that_is_ended_at_any_moment(seed: int, tmp_path: Path) -> None:
    if why := next(filter(None, (lacking(kind, tmp_path) for kind in AXES)), ""):
        pytest.skip(why)
    draw = random.Random(seed)
    how, after_s = draw.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL)), draw.uniform(0.3, 12)
    (tmp_path / "blob").write_bytes(bytes(1_000_000))
    (tmp_path / "all.toml").write_text(ALL)
    before = traces("unrack-none")
    argv = [sys.executable, "-m", "unrack", "profile", "run", str(tmp_path / "all.toml"), "-o", str(tmp_path / "out")]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    token = f"unrack-{process.pid}-"
    time.sleep(after_s)
    process.send_signal(how)
    assert process.wait(60) in (0, 130, 143, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL)
    if how == signal.SIGKILL:
        clean()
    assert traces(token) == before
    assert list(default_folder().glob(f"{token}*")) == []
    assert not list(tmp_path.glob("out/scratch/*"))
