from __future__ import annotations

import os
from pathlib import Path

import pytest
from fabrics import SIZE_MB, attachment, fabric, is_clean, loops

from unrack.errors import InputError
from unrack.live.fabric.contract import FabricError
from unrack.live.fabric.loop.fabric import LoopFabric


@pytest.fixture
def loop(tmp_path: Path) -> LoopFabric:
    made = fabric("loop", tmp_path / "f")
    assert isinstance(made, LoopFabric)
    return made


def size_mb(path: Path) -> float:
    number = os.open(path, os.O_RDONLY)
    try:
        return os.lseek(number, 0, os.SEEK_END) / 2**20
    finally:
        os.close(number)


def test_each_device_is_a_block_device_that_keeps_what_is_written(loop: LoopFabric, tmp_path: Path) -> None:
    one = attachment(devices="d1 rack/d:2")
    loop.attach(one)
    links = [loop.link(one, device) for device in one.devices]
    assert [link.parent for link in links] == [tmp_path / "f" / "devices" / "n1" / "7"] * 2
    assert all(link.is_block_device() and size_mb(link) == SIZE_MB for link in links)
    assert links[0].resolve() != links[1].resolve()
    with links[0].open("r+b") as device:
        device.write(b"written")
    loop.attach(one)
    assert links[0].open("rb").read(7) == b"written"
    assert loops(tmp_path / "f").keys() == {str(link.resolve()) for link in links}
    loop.detach(one.operation)
    assert is_clean(tmp_path / "f")


def test_a_share_is_as_large_as_its_capacity_and_all_shares_fit(loop: LoopFabric, tmp_path: Path) -> None:
    first, second = attachment("a", "1", mb=5), attachment("b", "2", devices="d1 d2", mb=5)
    loop.attach(first)
    loop.attach(second)
    assert [size_mb(loop.link(second, device)) for device in ("d1", "d2")] == [3, 2]
    with pytest.raises(FabricError, match="d1 has 0 MB left"):
        loop.attach(attachment("c", "3", mb=1))
    with pytest.raises(FabricError, match="wants 9"):
        loop.attach(attachment("d", "4", devices="d9", mb=9))
    with pytest.raises(FabricError, match="has d2 on n1 already"):
        loop.attach(attachment("e", "2", devices="d2", mb=1))
    for operation in "ab":
        loop.detach(operation)
    assert is_clean(tmp_path / "f")


def test_a_device_in_use_is_not_given_away(loop: LoopFabric, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unrack.live.fabric.loop.losetup.GONE_S", 0.1)
    one = attachment()
    loop.attach(one)
    with loop.link(one, "d1").open("rb"):
        with pytest.raises(FabricError, match="still in use"):
            loop.detach("op-1")
        assert loop.state() == [one]
        with pytest.raises(FabricError, match="held"):
            loop.attach(attachment("op-2"))
    loop.detach("op-1")
    assert is_clean(tmp_path / "f")


def test_nothing_of_a_job_is_left_for_the_next(loop: LoopFabric) -> None:
    one, other = attachment("a"), attachment("b", job="8")
    loop.attach(one)
    with loop.link(one, "d1").open("r+b") as device:
        device.write(b"secret")
    loop.detach("a")
    loop.attach(other)
    assert loop.link(other, "d1").open("rb").read(6) == bytes(6)
    loop.detach("b")


def test_devices_that_vanished_with_the_machine_are_made_again(loop: LoopFabric, tmp_path: Path) -> None:
    one = attachment()
    loop.attach(one)
    assert os.spawnlp(os.P_WAIT, "losetup", "losetup", "-d", *loops(tmp_path / "f")) == 0
    assert loops(tmp_path / "f") == {}
    loop.attach(one)
    assert loop.link(one, "d1").is_block_device()
    loop.detach("op-1")


def test_a_machine_without_loop_devices_is_an_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(InputError, match="loop devices"):
        LoopFabric(tmp_path / "f", 8)
