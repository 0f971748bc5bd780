from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from machines_of import RECORDED, recorded

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.machine import PRESETS, preset
from unrack.resources.gpus.machines.reading.from_file import machine_from
from unrack.resources.gpus.machines.reading.read import machine_in, read_machine
from unrack.resources.gpus.machines.written import written, written_toml

OWN = """
name = "own"
model = "L4"
[[sockets]]
cores = "0-3,8"
gpus = [0]
[[sockets]]
cores = [4, 5]
weight = 7
[[switches]]
on = 1
gpus = [2, 1]
[[switches]]
name = "inner"
on = "switch 0"
weight = 3
gpus = [3]
gpu_weight = 2
[[links]]
between = [0, 1]
weight = 5
"""


def test_a_file_of_one_s_own_has_the_distances_that_it_says() -> None:
    found = machine_in(OWN)
    assert found.distance.tolist() == [[0, 5, 30, 34], [5, 0, 2, 6], [30, 2, 0, 6], [34, 6, 6, 0]]
    assert found.cores == ((0, 1, 2, 3, 8), (4, 5))
    assert (found.name, found.model, found.switch.tolist()[1:]) == ("own", "L4", [0, 0, 1])


def test_bandwidths_are_weights_that_are_larger_the_less_a_link_carries() -> None:
    found = machine_in(
        'base = "minsky"\ngb_s = {pcie = 16, bus = 38.4, nvlink = 40}\n[[links]]\nbetween = [2, 3]\ngb_s = 80\n'
    )
    assert found.distance[0, 1] == 25  # 1000 / 40
    assert found.distance[2, 3] == 12  # 1000 / 80, even
    assert found.distance[0, 2] == 2 * 62 + 2 * 26  # 1000 / 16 = 62.5 to even, 1000 / 38.4
    assert len(found.links) == len(preset("minsky").links)  # the link took the place of that of the preset


def test_a_base_takes_cores_slices_and_a_name() -> None:
    found = machine_in('base = "minsky"\nname = "mine"\nslices = 4\ncores = ["0-7", "8-15"]')
    assert (found.name, found.slices, found.model) == ("mine", 4, "P100")
    assert found.cores == (tuple(range(8)), tuple(range(8, 16)))


@pytest.mark.parametrize("name", PRESETS)
def test_presets_written_and_read_again_are_the_same(name: str) -> None:
    same(name, preset(name))


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.iterdir()))
def test_recorded_machines_written_and_read_again_are_the_same(name: str) -> None:
    same(name, recorded(name))


@pytest.mark.parametrize("name", ["minsky", "dgx1_v100", "dgx_a100"])
def test_so_are_those_with_links_between_sockets(name: str) -> None:
    same(name, recorded(f"{name}.txt", f"{name}_numactl.txt"))


def test_so_are_those_with_weights_of_their_own() -> None:
    same("own", machine_in(OWN))
    same("one", machine_in('base = "minsky"\n[[links]]\nbetween = ["socket 0", "GPU0"]\nweight = 9'))


def same(name: str, machine: object) -> None:
    for read in (machine_from(written(machine), name), machine_in(written_toml(machine, "a comment"))):
        assert np.array_equal(read.distance, machine.distance)
        assert np.array_equal(read.socket, machine.socket)
        assert np.array_equal(read.switch, machine.switch)
        assert sorted(read.links and read.vertices) == sorted(machine.vertices)
        assert (read.name, read.cores, read.model, read.slices) == (
            machine.name, machine.cores, machine.model, machine.slices,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 3", "m.toml, name: got 3"),
        ("sokets = []", "m.toml, sokets: got an unknown key, wanted 'sockets' perhaps, or one of name, base"),
        ("[[sockets]]\ncolour = 1", "m.toml, sockets.0.colour: got an unknown key, wanted one of weight"),
        ("", "m.toml: got no sockets"),
        ('base = "dgx-9"', "m.toml, base: got 'dgx-9', wanted 'dgx-2' perhaps, or one of minsky"),
        ('base = "minsky"\n[[sockets]]', "m.toml, base: got sockets or switches beside it"),
        ('base = "minsky"\ncores = ["0-1"]', "got 1 lists, wanted 2"),
        ("[[sockets]]\ngpus = [0, 2]", "2 GPUs, but no GPU 1"),
        ("[[sockets]]\ngpus = [0]\n[[sockets]]\ngpus = [0]", "sockets.1, gpus: got GPU 0 a second time"),
        ("[[sockets]]\ngpus = [true]", "sockets.0.gpus.0: got True"),
        ('[[sockets]]\ncores = "3-1"', "ranges of CPUs from low to high"),
        ('[[sockets]]\ncores = "0-3"\n[[sockets]]\ncores = "3"', "CPU 3 on two sockets"),
        ("[[sockets]]\nweight = 0", "sockets.0.weight: got 0"),
        ("[[sockets]]\nweight = 1\ngb_s = 2", "weight or gb_s, not both"),
        ("[[sockets]]\n[[switches]]\non = 4", "switches.0, on: got 4, wanted one of socket 0"),
        ("[[sockets]]\n[[switches]]", "switches.0.on: got nothing, wanted this key"),
        ("[[sockets]]\ngpus=[0]\n[[links]]\nbetween = [0, 5]\nweight = 1", "links.0: got 5, wanted one of"),
        ("[[sockets]]\ngpus=[0]\n[[links]]\nbetween = [0, 0]", "a link from GPU0 to itself"),
        ("[[sockets]]\ngb_s = 3\ngpus = [0]", "no bandwidth of the link socket 0 to GPU0"),
        ('[[sockets]]\nname = "a"\n[[sockets]]\nname = "a"', "the name 'a' a second time"),
        ("[[sockets]\n", "wanted a TOML file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text)
    with pytest.raises(ClusterError) as error:
        read_machine(path)
    assert said in str(error.value)


def test_unknown_names_and_formats_say_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="got 'dgx-9', wanted a file, or 'dgx-2' perhaps, or one of minsky"):
        read_machine("dgx-9")
    with pytest.raises(ClusterError, match="No such file"):
        read_machine(tmp_path / "none.txt")
    (tmp_path / "letter.txt").write_text("Dear all,\n")
    with pytest.raises(ClusterError, match=r"got 'Dear all,', wanted what nvidia-smi"):
        read_machine(tmp_path / "letter.txt")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ClusterError, match="wanted text"):
        read_machine(tmp_path / "bytes")
    with pytest.raises(ClusterError, match="beside the preset minsky"):
        read_machine("minsky", tmp_path / "letter.txt")
