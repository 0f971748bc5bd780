from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unrack.errors import InputError
from unrack.live.journal.lock import NAME, Lock, Owner, owner

HOLDER = """
import sys, time
from pathlib import Path
from unrack.live.journal.lock import Lock
with Lock.take(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


ASKING = """
import sys
from pathlib import Path
from unrack.live.journal.lock import owner
while True:
    owner(Path(sys.argv[1]))
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_instance_is_refused_and_told_who_holds_it_since_when(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        known = owner(tmp_path)
        assert known is not None
        assert known.pid == process.pid
        with pytest.raises(InputError, match=rf"process {process.pid} on .* since {known.since[:10]}") as caught:
            Lock.take(tmp_path)
        assert caught.value.exit_code == 2
        assert owner(tmp_path) == known


def test_a_killed_owner_frees_it(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert owner(tmp_path) is None
        with Lock.take(tmp_path) as lock:
            assert lock.is_held
            assert owner(tmp_path) == lock.owner
    assert owner(tmp_path) is None


def test_it_is_given_back_and_taken_again(tmp_path: Path) -> None:
    for _ in range(3):
        with Lock.take(tmp_path / "new") as lock:
            assert lock.owner.pid == os.getpid()
            with pytest.raises(InputError, match=f"process {os.getpid()} "):
                Lock.take(tmp_path / "new")
        assert not lock.is_held
        lock.release()
    assert owner(tmp_path / "new") is None
    assert owner(tmp_path / "none") is None


def test_asking_for_the_owner_keeps_nobody_from_taking_it(tmp_path: Path) -> None:
    Lock.take(tmp_path).release()
    with subprocess.Popen([sys.executable, "-c", ASKING, str(tmp_path)]) as process:
        try:
            for _ in range(100):
                with Lock.take(tmp_path):
                    pass
        finally:
            process.kill()


def write_owner(folder: Path, **changes: object) -> Owner:
    with Lock.take(folder) as lock:
        known = lock.owner.model_copy(update=changes)
    (folder / NAME).write_text(known.model_dump_json() + "\n")
    return known


def test_a_lock_of_another_host_is_not_taken_though_flock_would_let_it(tmp_path: Path) -> None:
    known = write_owner(tmp_path, host="elsewhere")
    assert owner(tmp_path) == known
    with pytest.raises(InputError, match=r"process .* on elsewhere since .* remove "):
        Lock.take(tmp_path)
    (tmp_path / NAME).unlink()
    Lock.take(tmp_path).release()


def test_a_live_owner_keeps_it_though_flock_would_let_it_go(tmp_path: Path) -> None:
    known = write_owner(tmp_path)
    assert owner(tmp_path) == known
    with pytest.raises(InputError, match=f"process {os.getpid()} "):
        Lock.take(tmp_path)


@pytest.mark.parametrize("change", [{"boot": "before"}, {"started": 1}, {"pid": 2**22 + 1}, {"space": "pid:[1]"}])
def test_an_owner_from_before_a_restart_or_with_a_reused_id_is_stale(tmp_path: Path, change: dict[str, object]) -> None:
    write_owner(tmp_path, **change)
    assert owner(tmp_path) is None
    with Lock.take(tmp_path) as lock:
        assert owner(tmp_path) == lock.owner


def test_a_lock_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    with Lock.take(tmp_path) as lock:
        (tmp_path / NAME).unlink()
        assert not lock.is_held
        with Lock.take(tmp_path) as other:
            assert other.is_held
            assert not lock.is_held


@pytest.mark.parametrize("text", ["{", "[]", '{"pid": "1"}', "x" * 9000])
def test_a_file_that_is_no_lock_is_an_input_error(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(InputError, match="lock"):
        Lock.take(tmp_path)
    with pytest.raises(InputError, match="lock"):
        owner(tmp_path)


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / NAME).symlink_to(tmp_path / "target")
    with pytest.raises(InputError):
        Lock.take(tmp_path)
    assert (tmp_path / "target").read_text() == "precious"
