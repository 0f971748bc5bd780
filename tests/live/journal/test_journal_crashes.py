"""Whatever moment a writer is stopped in, what it said was written is read back, and of the rest whole batches."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from fragile_disk import FragileDisk, PowerCutError
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.live.journal.journal import Journal, JournalError
from unrack.live.journal.reading import read_journal

STEPS = st.lists(st.integers(0, 6), min_size=1, max_size=10)
"""0: a snapshot; n: a batch of n records."""
KEEP = 1


class Writer:
    """Carries steps out, and knows what a journal must give back after them."""

    def __init__(self, folder: Path, disk: FragileDisk) -> None:
        self.folder, self.disk = folder, disk
        self.wanted: list[list[dict[str, int]]] = []
        self.done = 0
        self.value = 0

    def run(self, steps: list[int]) -> None:
        with Journal.open(self.folder, keep=KEEP, disk=self.disk) as journal:
            for step in steps:
                self.step(journal, step)

    def step(self, journal: Journal, step: int) -> None:
        batch = [{"value": self.value + i, "filling": 7**i} for i in range(max(1, step))]
        self.value += len(batch)
        self.wanted.append(batch)
        if step == 0:
            journal.rotate(batch[0])
        else:
            journal.append(batch)
        self.done += 1

    def check(self, disk: FragileDisk) -> None:
        """Open what is left: it is whole batches, all that were done, and can be written on."""
        with Journal.open(self.folder, keep=KEEP, disk=disk) as journal:
            found = list(journal.read())
            numbers = [record.number for record in found]
            assert numbers == list(range(journal.next_number - len(found), journal.next_number))
            whole = [record for batch in self.wanted for record in batch]
            done = sum(len(batch) for batch in self.wanted[: self.done])
            begun = sum(len(batch) for batch in self.wanted[: self.done + 1])
            assert journal.next_number - 1 in {done, begun}
            assert [record.value for record in found] == whole[numbers[0] - 1 : numbers[-1]] if numbers else not done
            segments = [Path(name) for name in disk.names(self.folder) if name.endswith(".jsonl")]
            assert journal.size_bytes == sum(map(disk.size, segments))
            journal.append([{"value": -1}])
        assert [record.value for record in read_journal(self.folder, disk=disk)][-1] == {"value": -1}


def calls_of(steps: list[int], folder: Path) -> int:
    disk = FragileDisk()
    Writer(folder, disk).run(steps)
    return disk.calls


@draws(40)
@given(steps=STEPS, seed=st.integers(0, 2**32))
def test_a_crash_in_any_call_loses_nothing_that_was_written(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    for call in range(1, calls_of(steps, folder) + 1):
        for power in (False, True):
            writer = Writer(folder, FragileDisk())
            writer.disk.cut_at = call
            with pytest.raises(PowerCutError):
                writer.run(steps)
            random = Random(f"{seed} {call}")
            left = writer.disk.after_power_cut(random) if power else writer.disk.after_kill()
            writer.check(left)


@draws(40)
@given(steps=STEPS, seed=st.integers(0, 2**32), second=st.integers(1, 12))
def test_a_second_crash_while_it_is_opened_again_loses_nothing_either(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], seed: int, second: int
) -> None:
    folder, random = tmp_path_factory.mktemp("journal"), Random(seed)
    writer = Writer(folder, FragileDisk())
    writer.disk.cut_at = random.randrange(1, calls_of(steps, folder) + 1)
    with pytest.raises(PowerCutError):
        writer.run(steps)
    left = writer.disk.after_power_cut(random)
    left.cut_at = second
    try:
        Journal.open(folder, keep=KEEP, disk=left).close()
    except PowerCutError:
        left = left.after_power_cut(random)
    left.cut_at = -1
    writer.check(left)


@draws(60)
@given(steps=STEPS, seed=st.integers(0, 2**32), power=st.booleans())
def test_what_was_found_after_a_crash_and_written_on_outlives_a_power_cut(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], seed: int, power: bool
) -> None:
    folder, random = tmp_path_factory.mktemp("journal"), Random(seed)
    writer = Writer(folder, FragileDisk())
    writer.disk.cut_at = random.randrange(1, calls_of(steps, folder) + 1)
    with pytest.raises(PowerCutError):
        writer.run(steps)
    left = writer.disk.after_power_cut(random) if power else writer.disk.after_kill()
    with Journal.open(folder, keep=KEEP, disk=left) as journal:
        found = [record.value for record in journal.read()]
        if seed % 2:
            journal.append([{"value": -2}])
            found.append({"value": -2})
    later = left.after_power_cut(random)
    assert [record.value for record in Journal.open(folder, keep=KEEP, disk=later).read()] == found


@draws(60)
@given(steps=STEPS, data=st.data(), code=st.sampled_from([errno.ENOSPC, errno.EIO]))
def test_a_call_that_fails_leaves_a_journal_that_goes_on_or_can_be_opened_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], data: st.DataObject, code: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    opening = calls_of([], folder)
    total = calls_of(steps, folder)
    failing = data.draw(st.sets(st.integers(opening + 1, total + 4), min_size=1, max_size=3))
    disk = FragileDisk()
    writer = Writer(folder, disk)
    disk.fail = dict.fromkeys(failing, code)
    maybe = None
    journal = Journal.open(folder, keep=KEEP, disk=disk)
    for step in steps:
        try:
            writer.step(journal, step)
        except JournalError:
            maybe = writer.wanted.pop()
            writer.value -= len(maybe)
    disk.fail = {}
    journal.close()
    kept = [record.value for record in Journal.open(folder, keep=KEEP, disk=disk.after_kill()).read()]
    whole = [record for batch in writer.wanted for record in batch]
    # what was refused may be there only if the disk did not even let it be cut off, and then nothing follows it
    tails = [whole, whole + maybe] if maybe else [whole]
    assert any(tail[len(tail) - len(kept) :] == kept for tail in tails)
    assert any(len(kept) == len(tail) for tail in tails) or 0 in steps


def test_a_full_disk_is_said_and_writing_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk = FragileDisk()
    with Journal.open(tmp_path, disk=disk) as journal:
        journal.append([{"a": 1}])
        size = journal.size_bytes
        disk.fail = {disk.calls + 1: errno.ENOSPC}
        with pytest.raises(JournalError, match="ENOSPC"):
            journal.append([{"a": 2}] * 50)
        assert journal.size_bytes == size == disk.size(Path("journal.00000000000000000001.jsonl"))
        journal.append([{"a": 3}])
    assert [record.value["a"] for record in read_journal(tmp_path, disk=disk)] == [1, 3]


def test_a_disk_that_does_not_even_cut_is_not_written_to_again(tmp_path: Path) -> None:
    disk = FragileDisk()
    with Journal.open(tmp_path, disk=disk) as journal:
        journal.append([{"a": 1}])
        disk.always_fails = errno.EIO
        for _ in range(2):
            with pytest.raises(JournalError, match="EIO"):
                journal.append([{"a": 2}])
        disk.always_fails = 0
    assert [record.value["a"] for record in Journal.open(tmp_path, disk=disk.after_kill()).read()] == [1]


@pytest.mark.parametrize("call", [4, 5], ids=["rename", "sync_folder"])
def test_a_rotation_that_may_have_happened_stops_the_writer_until_it_is_opened_again(tmp_path: Path, call: int) -> None:
    disk = FragileDisk()
    with Journal.open(tmp_path, disk=disk) as journal:
        journal.append([{"a": 1}])
        disk.fail = {disk.calls + call: errno.EIO}
        with pytest.raises(JournalError, match="open the journal again"):
            journal.rotate({"a": 2})
        with pytest.raises(JournalError, match="cannot be written to"):
            journal.append([{"a": 3}])
    left = disk.after_kill()
    with Journal.open(tmp_path, disk=left) as journal:
        journal.append([{"a": 4}])
    values = [record.value["a"] for record in read_journal(tmp_path, disk=left)]
    assert values == ([1, 4] if call == 4 else [1, 2, 4])


def test_an_interrupted_append_leaves_nothing_behind_the_next(tmp_path: Path) -> None:
    disk = FragileDisk()
    with Journal.open(tmp_path, disk=disk) as journal:
        disk.cut_at = disk.calls + 1
        with pytest.raises(PowerCutError):  # as Ctrl-C would
            journal.append([{"a": 2}] * 50)
        journal.append([{"a": 3}])
    assert [record.value["a"] for record in read_journal(tmp_path, disk=disk)] == [3]


KILLED = """
import os, signal, sys
from pathlib import Path
from unrack.live.journal.disk import Disk
from unrack.live.journal.journal import Journal

class Deadly(Disk):
    left = int(sys.argv[2])

def deadly(name):
    real = getattr(Disk, name)
    def call(self, *args, **named):
        Deadly.left -= 1
        if Deadly.left == 0:
            if name == "write":
                os.pwrite(args[0], args[1][: len(args[1]) // 2], args[2])
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, *args, **named)
    return call

for name in ("open", "write", "sync", "cut", "rename", "remove", "sync_folder"):
    setattr(Deadly, name, deadly(name))
with Journal.open(Path(sys.argv[1]), keep=1, disk=Deadly()) as journal:
    for i in range(4):
        journal.append([{"value": 3 * i + j} for j in range(2)])
        print(journal.next_number - 1, flush=True)
        journal.rotate({"value": 3 * i + 2})
        print(journal.next_number - 1, flush=True)
"""


def test_a_real_process_that_is_killed_in_any_call_loses_nothing(tmp_path: Path) -> None:
    for call in range(1, 60):
        folder = tmp_path / str(call)
        command = [sys.executable, "-c", KILLED, str(folder), str(call)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        said = int((ran.stdout.split() or ["0"])[-1])
        with Journal.open(folder) as journal:
            assert said <= journal.next_number - 1 <= said + 2
            found = [record.value["value"] for record in journal.read()]
            assert found == list(range(journal.next_number - 1))[-len(found) :] if found else said == 0
        if ran.returncode == 0:
            break
        assert ran.returncode == -signal.SIGKILL, ran.stderr
    else:
        pytest.fail("it was killed in every call")
    assert call > 20
