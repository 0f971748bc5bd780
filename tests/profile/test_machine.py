"""What a machine can measure: control groups of every version, no root, files that are not what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from unrack.profile.axes.axis import LevelNeeds
from unrack.profile.axes.far_memory import NumaBind
from unrack.profile.axes.memory_throttle import Resctrl, domains, moved
from unrack.profile.axes.table import KINDS, probe
from unrack.profile.machine.cgroups import Group, group, lacks_group
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine

V1 = "cgroup /sys/fs/cgroup/{0} cgroup rw,{0} 0 0\n"
V2 = "cgroup2 {} cgroup2 rw 0 0\n"


def made(root: Path, files: dict[str, str]) -> Machine:
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Machine(root, superuser=True)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journals")


def v1(root: Path) -> Machine:
    names = ("cpu", "memory", "blkio")
    return made(
        root, {"/proc/mounts": "".join(map(V1.format, names)), **{f"/sys/fs/cgroup/{n}/tasks": "" for n in names}}
    )


def v2(root: Path, controllers: str = "cpu io memory") -> Machine:
    at = "/sys/fs/cgroup"
    files = {f"{at}/cgroup.controllers": controllers, f"{at}/cgroup.subtree_control": controllers}
    return made(root, {"/proc/mounts": V2.format(at), **files})


def hybrid(root: Path) -> Machine:
    at = "/sys/fs/cgroup/unified"
    mounts = V1.format("cpu") + V2.format(at)
    files = {f"{at}/cgroup.controllers": "memory", f"{at}/cgroup.subtree_control": "memory"}
    return made(root, {"/proc/mounts": mounts, "/sys/fs/cgroup/cpu/tasks": "", **files})


def nothing(root: Path) -> Machine:
    return Machine(root, superuser=False)


def garbled(root: Path) -> Machine:
    (root / "sys/devices/system/node/node0").mkdir(parents=True)
    return made(root, {
        "/proc/mounts": "\n\x00 cgroup\ncgroup2 / cgroup2\ncgroup /nowhere cgroup rw,cpu 0 0\n"
            "cgroup2 /no\\040where cgroup2 rw 0 0\n",
        "/proc/filesystems": "nodev resctrl", "/sys/fs/resctrl/schemata": "MB:;;=\n", "/proc/loadavg": "many",
        "/sys/devices/system/node/nodeX/meminfo": "MemTotal:",
        "/sys/devices/system/node/node1/meminfo": "MemTotal: x kB",
    })  # fmt: skip


@pytest.mark.parametrize("machine", [v1, v2, hybrid, nothing, garbled])
def test_a_probe_answers_for_every_actuator_on_every_machine(tmp_path: Path, machine: object, journal: Journal) -> None:
    found = probe(machine(tmp_path), journal)  # type: ignore[operator]
    assert {(one.axis, one.actuator) for one in found} == {
        (kind.name, one.name) for kind in KINDS.values() for one in kind.actuators
    }
    by = {one.actuator: one.lacks for one in found}
    assert by["resctrl"]
    assert by["numa-bind"]
    assert by["command"] == ""


def test_the_probe_of_this_machine_leaves_no_journal(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        probe(Machine(), journal)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (v1, {"cpu": 1, "memory": 1, "io": 1}), (v2, {"cpu": 2, "memory": 2, "io": 2}),
        (hybrid, {"cpu": 1, "memory": 2, "io": None}), (nothing, {"cpu": None, "memory": None, "io": None}),
    ],
)  # fmt: skip
def test_controllers_are_found_in_their_hierarchy(tmp_path: Path, machine: object, expected: dict[str, object]) -> None:
    here = machine(tmp_path)  # type: ignore[operator]
    homes = {name: here.cgroup(name) for name in expected}
    assert {name: home and home.version for name, home in homes.items()} == expected


def test_limits_are_written_as_each_version_has_them(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    old, new = Group(tmp_path / "1", 1), Group(tmp_path / "2", 2)
    for one in (old, new):
        one.limit_cpu(0.5)
        one.limit_memory(1 << 20)
        one.limit_device("7:0", 20_000_000)
    files = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.glob("*/*")}
    assert files == {
        "1/cpu.cfs_period_us": "100000", "1/cpu.cfs_quota_us": "50000", "1/memory.limit_in_bytes": "1048576",
        "1/blkio.throttle.read_bps_device": "7:0 20000000", "1/blkio.throttle.write_bps_device": "7:0 20000000",
        "2/cpu.max": "50000 100000", "2/memory.max": "1048576", "2/memory.swap.max": "max",
        "2/io.max": "7:0 rbps=20000000 wbps=20000000",
    }  # fmt: skip
    (old.folder / "blkio.throttle.io_service_bytes").write_text("7:0 Read 5\n7:0 Write 6\n7:1 Read 9\nTotal 20\n")
    (new.folder / "io.stat").write_text("7:1 rbytes=9 wbytes=9\n7:0 rbytes=5 wbytes=6 rios=1\n")
    assert old.moved("7:0") == new.moved("7:0") == (5, 6)
    assert old.moved("9:9") == new.moved("9:9") == (0, 0)
    assert old.peak_memory() == 0


def test_a_controller_that_groups_do_not_have_yet_is_handed_down(tmp_path: Path, journal: Journal) -> None:
    machine = v2(tmp_path)
    switch = tmp_path / "sys/fs/cgroup/cgroup.subtree_control"
    switch.write_text("cpu")
    with group(machine, journal, "io") as found:
        assert switch.read_text() == "+io"
        assert found.version == 2
        assert found.folder.is_dir()
    assert not found.folder.exists()


def test_limits_of_one_hierarchy_hold_all_as_its_groups_are_nested(tmp_path: Path, journal: Journal) -> None:
    two = v2(tmp_path)
    (tmp_path / "sys/fs/cgroup/cgroup.subtree_control").write_text("io")
    with group(two, journal, "io") as drive:
        switch = drive.folder / "cgroup.subtree_control"
        switch.write_text("")
        with group(two, journal, "cpu", (drive.door,)) as quota:
            assert quota.folder.parent == drive.folder
            assert switch.read_text() == "+cpu"
            assert LevelNeeds((drive.door,)).beside(LevelNeeds((quota.door,))).doors == (quota.door,)
        with group(two, journal, "cpu", ("/else/where/cgroup.procs",)) as other:
            assert other.folder.parent == tmp_path / "sys/fs/cgroup"
        switch.unlink()
    one = v1(tmp_path / "one")
    with group(one, journal, "io") as drive, group(one, journal, "cpu", (drive.door,)) as quota:
        assert LevelNeeds((drive.door,)).beside(LevelNeeds((quota.door,))).doors == (drive.door, quota.door)
        with group(one, journal, "cpu", (drive.door, quota.door)) as inner:
            assert inner.folder.parent == quota.folder


def test_why_there_is_no_group_is_said(tmp_path: Path, journal: Journal) -> None:
    assert lacks_group(nothing(tmp_path), journal, "cpu") == "no control groups of cpu"
    assert "no such file or directory" in lacks_group(garbled(tmp_path), journal, "cpu")


def resctrl(root: Path, schemata: str = "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n") -> Machine:
    return made(root, {
        "/proc/filesystems": "nodev\tresctrl\n", "/sys/fs/resctrl/schemata": schemata,
        "/sys/fs/resctrl/info/MB/bandwidth_gran": "10\n", "/sys/fs/resctrl/info/MB/min_bandwidth": "10\n",
    })  # fmt: skip


@pytest.mark.parametrize(
    ("schemata", "why"),
    [("MB:0=100\n", ""), ("L3:0=7ff\n", "no memory bandwidth allocation"), ("MB:0=2048\n", "mba_MBps")],
)
def test_resctrl_says_what_it_lacks(tmp_path: Path, journal: Journal, schemata: str, why: str) -> None:
    assert why in Resctrl().lacks(resctrl(tmp_path, schemata), journal)
    assert bool(why) == bool(Resctrl().lacks(resctrl(tmp_path, schemata), journal))
    assert domains(schemata) == (["0"] if "MB" in schemata else [])


def test_what_a_group_of_resctrl_moved_is_the_sum_over_domains(tmp_path: Path) -> None:
    assert moved(tmp_path) is None
    made(tmp_path, {"mon_data/mon_L3_00/mbm_total_bytes": "7\n", "mon_data/mon_L3_01/mbm_total_bytes": "5\n"})
    assert moved(tmp_path) == 12
    made(tmp_path, {"mon_data/mon_L3_01/mbm_total_bytes": "Unavailable\n"})
    assert moved(tmp_path) is None


def test_two_nodes_with_memory_are_needed_to_bind(tmp_path: Path, journal: Journal) -> None:
    node = "/sys/devices/system/node/node{}/meminfo"
    machine = made(
        tmp_path, {node.format(0): "Node 0 MemTotal:   100 kB\n", node.format(1): "Node 1 MemTotal:  0 kB\n"}
    )
    assert "1 NUMA node with memory" in NumaBind().lacks(machine, journal)
    made(tmp_path, {node.format(2): "Node 2 MemTotal:  5 kB\n", node.format(10): "Node 10 MemTotal:  5 kB\n"})
    assert machine.nodes() == (0, 2, 10)
    assert "NUMA" not in NumaBind().lacks(machine, journal)
