"""Actuators on this machine: levels hold for real programs. What is checked holds on a busy machine as well."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_leftovers import lacking

from unrack.profile.application import Application, application_of
from unrack.profile.axes.axis import Level, LevelNeeds, Rig
from unrack.profile.axes.drives import AHEAD_S, capped_drive
from unrack.profile.machine.cgroups import Group
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine, usable_cores
from unrack.profile.profile import bench
from unrack.profile.running.records import Run
from unrack.profile.running.session import Measure

pytestmark = pytest.mark.long


def made(folder: Path, script: str, axis: str, keys: str = "") -> Application:
    (folder / "script.py").write_text(script)
    command = f'command = ["{sys.executable}", "{folder}/script.py", "{{mount}}", "{{copy}}"]\n'
    text = f'name = "a"\n{command}{keys}[[axes]]\n{axis}'
    return application_of(text, folder, "app.toml")


@contextmanager
def measuring(app: Application, folder: Path) -> Iterator[Measure]:
    if why := lacking(app.axes[0].kind, folder):
        pytest.skip(why)
    with Journal(folder) as journal:
        rig = Rig(Machine(), journal, folder, app.file.cores, app.memory_mb, app.inputs)
        with bench(app, app.axes[0], rig) as measure:
            yield measure


SECONDS = "import time\nbegun = time.monotonic()\n{}\nprint('took', time.monotonic() - begun)\n"
TOOK = "progress = { regex = 'took ([0-9.]+)', unit = 'seconds' }\n"


def run_at(app: Application, folder: Path, *levels: Level | None) -> list[Run]:
    with measuring(app, folder) as measure:
        return [measure(level) for level in levels]


def test_a_quota_of_half_a_core_makes_work_take_twice_its_time(tmp_path: Path) -> None:
    script = SECONDS.format("while time.process_time() < 0.5: pass")
    app = made(tmp_path, script, 'kind = "cpu"\nlevels = [0.5]\n', TOOK)
    half, whole = run_at(app, tmp_path, 0.5, None)
    assert half.time_s > 0.75
    assert half.held
    assert half.source == "time of its processes"
    assert whole.cpu_s >= 0.5


def test_a_drive_reads_at_its_cap_and_copies_share_it(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(bytes(range(256)) * 4 * 4096)  # 4.2 MB
    script = SECONDS.format("import sys\nassert len(open(sys.argv[1] + '/blob', 'rb').read()) == 4194304")
    axis = 'kind = "drives"\nlevels = [[1, 2], [2, 1]]\nrate = "8 MB/s"\nsize = "32 MB"\n'
    app = made(tmp_path, script, axis, TOOK + "inputs = ['blob']\n")
    alone, again, shared = run_at(app, tmp_path, None, None, (1, 2))
    for run in (alone, again):  # the second would take no time if the first had left it in the cache
        assert run.times_s[0] > 0.4
        assert run.held
    assert len(shared.times_s) == 2
    assert max(shared.times_s) > 0.85
    assert shared.held
    assert shared.reached is not None
    assert 0 < shared.reached <= 8.4


def test_a_cap_is_older_than_the_time_it_lets_a_group_be_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if why := lacking("drives", tmp_path):
        pytest.skip(why)
    set_at, limit = [], Group.limit_device

    def limited(group: Group, device: str, bytes_s: int) -> None:
        limit(group, device, bytes_s)
        set_at.append(time.monotonic())

    monkeypatch.setattr(Group, "limit_device", limited)
    with (
        Journal(tmp_path) as journal,
        capped_drive(Rig(Machine(), journal, tmp_path, 1, 0), 32, 1) as drive,
        drive(8, LevelNeeds()),
    ):
        assert time.monotonic() - set_at[0] > AHEAD_S


def test_writes_are_capped_where_they_wait_for_the_drive(tmp_path: Path) -> None:
    script = SECONDS.format(
        "import os, sys\nwith open(sys.argv[1] + '/new', 'wb') as f:\n"
        "    f.write(bytes(4 << 20))\n    f.flush()\n    os.fsync(f.fileno())"
    )
    app = made(tmp_path, script, 'kind = "drives"\nlevels = [[1, 2]]\nrate = "8 MB/s"\nsize = "64 MB"\n', TOOK)
    (run,) = run_at(app, tmp_path, None)
    assert run.reached is not None
    assert run.held == (run.reached <= 8.4)  # version 1 counts what is flushed to its own group alone


def test_a_link_carries_its_share(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(bytes(3_000_000))
    fetch = "import urllib.request\nassert len(urllib.request.urlopen('http://198.18.0.2:8000/blob').read()) == 3000000"
    listen = f'"-m", "http.server", "8000", "--bind", "{{peer}}", "--directory", "{tmp_path}"'
    axis = f'kind = "network"\nlevels = [0.5]\nrate = "10 MB/s"\nport = 8000\nserve = ["{sys.executable}", {listen}]\n'
    whole, half = run_at(made(tmp_path, SECONDS.format(fetch), axis, TOOK), tmp_path, None, 0.5)
    assert whole.time_s > 0.25
    assert half.time_s > 0.5
    assert half.held
    assert half.reached is not None
    assert half.reached <= 5.25


def test_copies_that_share_a_drive_have_a_link_each(tmp_path: Path) -> None:
    if why := lacking("network", tmp_path):
        pytest.skip(why)
    (tmp_path / "blob").write_bytes(bytes(3_000_000))
    fetch = "import urllib.request\nassert len(urllib.request.urlopen('http://198.18.0.2:8000/blob').read()) == 3000000"
    listen = f'"-m", "http.server", "8000", "--bind", "{{peer}}", "--directory", "{tmp_path}"'
    link = f'kind = "network"\nlevels = [0.5]\nrate = "4 MB/s"\nport = 8000\nserve = ["{sys.executable}", {listen}]\n'
    drives = 'kind = "drives"\nlevels = [[1, 2]]\nrate = "50 MB/s"\nsize = "32 MB"\n'
    app = made(tmp_path, SECONDS.format(fetch), f"{drives}[[axes]]\n{link}", TOOK)
    alone, two = run_at(app, tmp_path, None, (1, 2))
    assert alone.time_s > 0.7
    assert len(two.times_s) == 2
    assert max(two.times_s) < 1.4 * alone.time_s  # of one link, each would take twice the time
    assert two.held


def test_a_generator_keeps_to_its_rate_or_says_that_it_could_not(tmp_path: Path) -> None:
    if len(usable_cores()) < 2:
        pytest.skip("one core")
    for reads in (50, 100):
        axis = f'kind = "memory-bandwidth"\nlevels = [200]\nreads = {reads}\n'
        (run,) = run_at(made(tmp_path, "import time; time.sleep(1)", axis), tmp_path, 200.0)
        assert run.reached is not None
        assert run.reached <= 210
        assert run.held == (run.reached >= 190)
        assert run.source == "own bytes"


TOUCH = """
import mmap
block = mmap.mmap(-1, 48 << 20)
for turn in range(2):
    for at in range(0, len(block), 4096):
        block[at] = turn
print(open('/proc/self/status').read().split('VmSwap:')[1].split()[0])
"""


def test_far_memory_is_swapped_and_a_limit_that_is_not_felt_is_a_miss(tmp_path: Path) -> None:
    axis = 'kind = "far-memory"\nby = "cgroup-zram"\nlevels = [0.5]\n'
    near, far = run_at(made(tmp_path, TOUCH, axis, 'memory = "60 MB"\n'), tmp_path, None, 0.5)
    assert near.faults < 100 < far.faults
    assert far.held
    assert far.reached == pytest.approx(0.5, abs=0.05)
    (more,) = run_at(made(tmp_path, TOUCH, axis, 'memory = "600 MB"\n'), tmp_path, 0.5)
    assert not more.held


@pytest.mark.slow
def test_1_2_4_and_8_readers_share_a_drive_by_the_arithmetic_of_its_cap(tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("no fio")
    axis = '[[axes]]\nkind = "drives"\nlevels = [[1, 2], [1, 4], [1, 8]]\nrate = "20 MB/s"\nsize = "128 MB"\n'
    fio = '"--filename={drive}", "--readonly", "--direct=1", "--rw=randread", "--bs=64k", "--ioengine=libaio"'
    command = f'command = ["fio", "--name=a", {fio}, "--iodepth=4", "--size=64M"]\n'
    app = application_of(f'name = "a"\n{command}{axis}', tmp_path, "app.toml")
    times = {}
    with measuring(app, tmp_path) as measure:
        for level in ((1, 1), (1, 2), (1, 4), (1, 8)):
            times[level[1]] = min(max(measure(level).times_s) for _ in range(3))  # until the last has read all
    for sharers in (2, 4, 8):  # what starting takes is in both
        arithmetic = (sharers - 1) * 64 * 2**20 / 20e6
        assert times[sharers] - times[1] == pytest.approx(arithmetic, rel=0.05)


def test_an_application_has_its_drive_along_its_other_axes_too(tmp_path: Path) -> None:
    if why := lacking("drives", tmp_path):
        pytest.skip(why)
    (tmp_path / "blob").write_bytes(bytes(4_000_000))
    script = SECONDS.format("import sys\nassert '-drive/0' in sys.argv[1]\nopen(sys.argv[1] + '/blob', 'rb').read()")
    drives = '[[axes]]\nkind = "drives"\nlevels = [[1, 2]]\nrate = "8 MB/s"\nsize = "32 MB"\n'
    app = made(tmp_path, script, f'kind = "cpu"\nlevels = [0.5]\n{drives}', TOOK + "inputs = ['blob']\n")
    for run in run_at(app, tmp_path, 0.5, None):
        assert run.time_s > 0.4
        assert run.held
