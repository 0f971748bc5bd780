"""What actuators tell the processes of an application, level by level, on machines that are files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from test_machine import made, resctrl

from unrack.errors import InputError, RunError
from unrack.profile.axes.axis import LevelNeeds, Reached, Rig, Usage, about, at_most, label_of
from unrack.profile.axes.far_memory import NumaBind
from unrack.profile.axes.gpus import VisibleDevices
from unrack.profile.axes.memory_throttle import Resctrl
from unrack.profile.axes.table import actuator_of, axis_of
from unrack.profile.machine import journal as journals
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine

IDLE = Usage(1.0, 0.0)


def rig(machine: Machine, tmp_path: Path) -> Rig:
    return Rig(machine, Journal(tmp_path / "journals"), tmp_path, 1, 100)


def test_resctrl_gives_a_group_its_share_in_every_domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)  # in the real one a group's files go with it
    machine = resctrl(tmp_path)
    axis = axis_of({"kind": "memory-throttle", "levels": [20, 50]}, "")
    with Resctrl().stand(axis, rig(machine, tmp_path)) as at, at(20.0, LevelNeeds()) as held:
        folder = Path(held.doors[0]).parent
        assert (folder / "schemata").read_text() == "MB:0=20;1=20\n"
        assert held.reached(IDLE).value is None
        made(folder, {"mon_data/mon_L3_00/mbm_total_bytes": "7\n"})
    assert not folder.exists()
    assert (tmp_path / "sys/fs/resctrl/schemata").exists()


def test_resctrl_refuses_what_the_processor_does_not_hold(tmp_path: Path) -> None:
    axis = axis_of({"kind": "memory-throttle", "levels": [25]}, "")
    stand = Resctrl().stand(axis, rig(resctrl(tmp_path), tmp_path))
    with pytest.raises(RunError, match="does not hold 25 %; wanted multiples of 10 from 10 on"):
        stand.__enter__()


def test_numa_binds_all_or_every_other_page(tmp_path: Path) -> None:
    node = "/sys/devices/system/node/node{}/meminfo"
    machine = made(tmp_path, {node.format(n): f"Node {n} MemTotal: 9 kB\n" for n in (0, 3)})
    axis = axis_of({"kind": "far-memory", "levels": [0.5, 1.0]}, "")
    with NumaBind().stand(axis, rig(machine, tmp_path)) as at:
        with at(1.0, LevelNeeds()) as held:
            assert held.prefix == ("numactl", "--membind=3")
        with at(0.5, LevelNeeds()) as held:
            assert held.prefix == ("numactl", "--interleave=0,3")
    odd = NumaBind().stand(axis_of({"kind": "far-memory", "levels": [0.3]}, ""), rig(machine, tmp_path))
    with pytest.raises(RunError, match=r"a share of 0\.3 by numa-bind"):
        odd.__enter__()


def test_gpus_are_chosen_by_index(tmp_path: Path) -> None:
    keys = {"kind": "gpus", "levels": ["spread", "beside"], "packed": "0,1", "spread": "0,4", "mps": False}
    axis = axis_of(keys, "")
    with VisibleDevices().stand(axis, rig(Machine(tmp_path), tmp_path)) as at:
        seen = {}
        for level in ("packed", "spread", "beside"):
            with at(level, LevelNeeds()) as held:
                seen[level] = (held.env["CUDA_VISIBLE_DEVICES"], held.copies)
    assert seen == {"packed": ("0,1", 1), "spread": ("0,4", 1), "beside": ("0,1", 2)}
    fewer = VisibleDevices().stand(axis_of({**keys, "spread": "3"}, ""), rig(Machine(tmp_path), tmp_path))
    with pytest.raises(RunError, match="wanted as many GPUs"):
        fewer.__enter__()


def test_commands_set_a_level_tell_it_and_clear_it(tmp_path: Path) -> None:
    file = tmp_path / "level"
    script = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
    keys = {
        "kind": "command", "levels": [3.5], "set": [sys.executable, "-c", script, str(file), "{level}"],
        "clear": ["rm", str(file)], "tell": ["cat", str(file)],
    }  # fmt: skip
    axis = axis_of(keys, "")
    here = rig(Machine(), tmp_path)
    with actuator_of(axis, here.machine, here.journal).stand(axis, here) as at:
        with at(3.5, LevelNeeds()) as held:
            assert file.read_text() == "3.5"
            assert held.reached(IDLE) == Reached(3.5, 3.5, True, "the command read")
            file.write_text("3.1")
            assert not held.reached(IDLE).held
            file.write_text("much")
            with pytest.raises(InputError, match="got 'much', wanted a number"):
                held.reached(IDLE)
        assert not file.exists()
    failing = axis_of({**keys, "set": ["false"], "clear": []}, "")
    with actuator_of(failing, here.machine, here.journal).stand(failing, here) as at:
        level = at(3.5, LevelNeeds())
        with pytest.raises(RunError, match="false: exit code 1"):
            level.__enter__()


def test_an_axis_that_cannot_be_measured_says_why_of_each_way(tmp_path: Path) -> None:
    axis = axis_of({"kind": "far-memory", "levels": [1.0]}, "")
    machine = Machine(tmp_path, superuser=False)
    with pytest.raises(RunError, match=r"numa-bind: no NUMA node with memory.*; cgroup-zram: not root"):
        actuator_of(axis, machine, Journal(tmp_path / "journals"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "kind: got None"),
        ({"kind": "cpus"}, "'cpu' perhaps"),
        ({"kind": 7}, "kind: got 7"),
        ({"kind": "cpu", "levels": []}, "levels: got"),
        ({"kind": "cpu", "levels": [2]}, "less than or equal to 1"),
        ({"kind": "cpu", "levels": [0.5, 0.5]}, "each level once"),
        ({"kind": "cpu", "levels": [1.0]}, "only the level of the controls"),
        ({"kind": "cpu", "levels": [float("nan")]}, "finite"),
        ({"kind": "cpu", "levels": [0.5], "by": "quota"}, "cgroup-quota"),
        ({"kind": "cpu", "levels": [0.5], "rate": 3}, "an unknown key"),
        ({"kind": "drives", "levels": [[1, 2]]}, "rate: got nothing"),
        ({"kind": "drives", "levels": [[1, 2]], "rate": "fast"}, "rate: got 'fast'"),
        ({"kind": "drives", "levels": [[1, 2]], "rate": 0}, "1 MB/s or more"),
        ({"kind": "drives", "levels": [[0, 2]], "rate": 5}, "greater than or equal to 1"),
        ({"kind": "drives", "levels": [4], "rate": 5}, "tuple"),
        ({"kind": "drives", "levels": [[1, 2]], "rate": 5, "size": 1}, "32 MB or more"),
        ({"kind": "network", "levels": [0], "rate": 5}, "greater than 0"),
        ({"kind": "network", "levels": [0.5], "rate": 5, "port": 70000}, "65535"),
        ({"kind": "memory-bandwidth", "levels": [10], "reads": 75}, "50 or 100"),
        ({"kind": "gpus", "levels": ["spread"], "packed": "a"}, "packed"),
        ({"kind": "command", "levels": [1], "name": "a b"}, "name"),
        (7, "kind: got None"),
    ],
)
def test_keys_that_cannot_be_are_refused(keys: object, message: str) -> None:
    with pytest.raises(InputError, match=r"^here, ") as error:
        axis_of(keys, "here, ")
    assert message in str(error.value)


def test_a_cap_holds_below_it_and_a_rate_about_it() -> None:
    assert [at_most(value, 20, "").held for value in (0, 20, 20.9, 21.1)] == [True, True, True, False]
    assert [about(value, 20, "").held for value in (0, 18.9, 19.1, 20.9, 21.1)] == [False, False, True, True, False]


def test_two_levels_hold_at_once() -> None:
    one = LevelNeeds(("a",), ("x",), {"E": "1"}, {"w": "1"}, 2)
    both = one.beside(LevelNeeds(("b",), ("y",), {"E": "2", "F": "3"}, {"v": "2"}))
    assert (both.doors, both.prefix, both.copies) == (("a", "b"), ("x", "y"), 2)
    assert both.env == {"E": "1", "F": "3"}
    assert both.words == {"w": "1", "v": "2"}


def test_levels_have_labels() -> None:
    assert [label_of(level) for level in (None, 0.5, (1, 4), "spread")] == ["alone", "0.5", "1 × 4", "spread"]


def test_every_kind_of_thing_that_is_made_can_be_undone() -> None:
    source = "".join(path.read_text() for path in Path(journals.__file__).parents[1].rglob("*.py"))
    kinds = {part.split('"')[1] for part in source.split(".made(")[1:] if part.startswith('"')}
    assert kinds == set(journals._UNDO)
