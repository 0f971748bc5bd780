from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from unrack.errors import InputError
from unrack.live.machine import claims_file
from unrack.live.machine.claims_file import MachineClaim, locked, move_aside
from unrack.live.machine.processes import Process, is_alive, machine_run, process, process_space


def claim(number: int, holder: Process | None = None, **changes: object) -> MachineClaim:
    holder = holder or process(os.getpid())
    assert holder is not None
    keys = {
        "id": str(number), "processes": [tuple(holder)], "boot": machine_run(), "space": process_space(),
        "user": "ann", "command": ["train"], "since": "2026-01-01T00:00:00+00:00", "gpus": [number], "cores": [],
    }  # fmt: skip
    return MachineClaim.model_validate({**keys, **changes})


def test_a_process_with_the_same_id_but_another_start_is_another() -> None:
    own = process(os.getpid())
    assert own is not None
    assert is_alive(own)
    assert not is_alive(Process(own.pid, own.started - 1))


def test_a_process_that_ended_but_was_not_waited_for_is_gone() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert Path(f"/proc/{child.pid}").exists()
    assert process(child.pid) is None
    child.wait()


def test_a_process_s_name_with_brackets_and_blanks_does_not_confuse(tmp_path: Path) -> None:
    odd = tmp_path / "a) R (b"
    odd.symlink_to(sys.executable)
    child = subprocess.Popen([odd, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = process(child.pid)
        assert found is not None
        assert found.started > 1000
    finally:
        child.communicate(b"\n")


def test_claims_last_from_one_look_to_the_next_until_they_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    with locked(path) as claims:
        claims.add(claim(0, cores=[4, 5]))
        claims.add(claim(2))
    with locked(path) as claims:
        assert sorted(claims.gpus) == [0, 2]
        assert claims.cores == {4, 5}
        claims.drop("0")
    with locked(path) as claims:
        assert sorted(claims.gpus) == [2]


def test_claims_of_processes_that_are_gone_are_dropped(tmp_path: Path) -> None:
    own = process(os.getpid())
    assert own is not None
    path = tmp_path / "claims.json"
    with locked(path) as claims:
        claims.add(claim(0, Process(own.pid, own.started - 1)))  # the id was used again
        claims.add(claim(1, boot="before the machine was started again"))
        claims.add(claim(2, Process(own.pid, own.started - 1), space="pid:[1]"))  # of a container: not known
        claims.add(claim(3, processes=[(own.pid, 1), tuple(own)]))  # one of two lives
    with locked(path) as claims:
        assert sorted(claims.gpus) == [2, 3]
        claims.add(claim(4))
    assert [one["gpus"] for one in json.loads(path.read_text())["claims"]] == [[2], [3], [4]]


def test_changes_by_many_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"

    def add(number: int) -> None:
        with locked(path) as claims:
            claims.add(claim(number))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with locked(path) as claims:
        assert sorted(claims.gpus) == list(range(24))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["claims.json", "claims.json.lock"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "invalid JSON"),
        ("", "invalid JSON"),
        ('{"version": 2, "claims": []}', "version: got 2"),
        ('{"version": 1, "claims": [{"id": "a"}]}', "claims.0.processes: got nothing"),
        ('{"version": 1, "claims": [], "more": 1}', "more: got an unknown key"),
    ],
)
def test_a_damaged_file_is_refused_until_it_is_moved_aside(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "claims.json"
    path.write_text(text)
    with pytest.raises(InputError) as error, locked(path):
        pass
    assert said.lower() in str(error.value).lower()
    assert "--recover" in str(error.value)
    aside = move_aside(path)
    assert aside is not None
    assert aside.read_text() == text
    with locked(path) as claims:
        assert claims.held == ()


def test_a_file_that_is_whole_is_not_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    assert move_aside(path) is None
    with locked(path) as claims:
        claims.add(claim(0))
    assert move_aside(path) is None
    assert path.exists()


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a file for claims in a folder to write in"), locked(tmp_path / "no" / "c"):
        pass


def test_the_usual_place_is_shared_or_else_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_file, "SHARED", tmp_path / "lock" / "unrack")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "own"))
    with pytest.raises(InputError, match="--locks"):
        claims_file.usual_place()  # neither folder is in one that exists
    (tmp_path / "own").mkdir()
    assert claims_file.usual_place() == tmp_path / "own" / "unrack" / "gpus.json"
    assert (tmp_path / "own" / "unrack").stat().st_mode & 0o777 == 0o700
    (tmp_path / "lock").mkdir()
    place = claims_file.usual_place()
    assert place == tmp_path / "lock" / "unrack" / "gpus.json"
    with locked(place) as claims:
        claims.add(claim(0))
    assert [path.stat().st_mode & 0o777 for path in (place.parent, place, Path(f"{place}.lock"))] == [
        0o777,
        0o666,
        0o666,
    ]
