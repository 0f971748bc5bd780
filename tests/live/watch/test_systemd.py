"""What systemd is told, and the unit that starts the service."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from unrack.errors import InputError
from unrack.live.watch.systemd import Notifier
from unrack.live.watch.unit import WATCHDOG_S, unit_text


@pytest.fixture
def heard(tmp_path: Path) -> socket.socket:
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ear.bind(str(tmp_path / "notify"))
    ear.settimeout(1)
    return ear


def said(ear: socket.socket) -> list[str]:
    found = []
    ear.setblocking(False)
    while True:
        try:
            found.append(ear.recv(4096).decode())
        except BlockingIOError:
            return found


def test_systemd_hears_that_it_is_ready_and_stopping(heard: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(heard.getsockname())})
    notifier.ready("3 jobs\nREADY=0")
    notifier.alive()  # nobody asked for it
    notifier.stopping()
    assert said(heard) == ["READY=1\nSTATUS=3 jobs\\nREADY=0", "STOPPING=1"]


def test_the_watchdog_is_fed_three_times_in_its_time_and_no_oftener(heard: socket.socket) -> None:
    now = [0.0]
    environment = {"NOTIFY_SOCKET": str(heard.getsockname()), "WATCHDOG_USEC": "60000000"}
    notifier = Notifier(environment, lambda: now[0])
    assert notifier.interval_s == 20
    for turn in range(400):
        now[0] = turn * 0.2
        notifier.alive()
    assert said(heard) == ["WATCHDOG=1"] * 4


def test_an_abstract_socket_works_as_well() -> None:
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = f"unrack-test-{os.getpid()}"
    ear.bind(f"\0{name}")
    Notifier({"NOTIFY_SOCKET": f"@{name}"}).ready()
    assert said(ear) == ["READY=1"]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "relative"},
        {"NOTIFY_SOCKET": "/nowhere/at/all", "WATCHDOG_USEC": "x"},
    ],
)
def test_without_systemd_nothing_happens(environment: dict[str, str]) -> None:
    notifier = Notifier(environment)
    notifier.ready()
    notifier.alive()
    notifier.stopping()
    assert notifier.interval_s is None


def test_the_watchdog_of_another_process_is_not_fed(heard: socket.socket) -> None:
    own = {"NOTIFY_SOCKET": str(heard.getsockname()), "WATCHDOG_USEC": "1000"}
    assert Notifier({**own, "WATCHDOG_PID": "1"}).interval_s is None
    assert Notifier({**own, "WATCHDOG_PID": str(os.getpid())}).interval_s is not None


def test_the_unit_starts_watches_and_confines_the_service() -> None:
    text = unit_text("/etc/unrack/site.toml", "/opt/unrack/bin/unrack", "unrack")
    assert "@" not in text.replace("@system-service", "").replace("@privileged @resources", "")
    for line in (
        "Type=notify", "ExecStart=/opt/unrack/bin/unrack slurm run --config /etc/unrack/site.toml", "User=unrack",
        "StateDirectory=unrack", "Restart=on-failure", "RestartPreventExitStatus=2", f"WatchdogSec={WATCHDOG_S}",
        "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "CapabilityBoundingSet=",
    ):  # fmt: skip
        assert line in text.splitlines(), line
    assert "MemoryDenyWriteExecute=" not in text


def test_folders_elsewhere_may_be_written_to_and_homes_read() -> None:
    home = Path("/") / "home" / "kim"
    text = unit_text(home / "site.toml", "/usr/bin/unrack", "kim", state="/srv/unrack", writable=["/srv/fabric"])
    assert "ReadWritePaths=/srv/unrack /srv/fabric" in text.splitlines()
    assert "ProtectHome=read-only" in text.splitlines()
    assert "StateDirectory=" not in text


@pytest.mark.parametrize(
    "wrong",
    [
        {"site_path": "site.toml"},
        {"site_path": "/etc/a b"},
        {"site_path": "/etc/a\nExecStartPre=/bin/sh"},
        {"executable": "/bin/sh -c 'true'"},
        {"executable": "/bin/%h"},
        {"state": "/var/lib/../../etc"},
        {"writable": ["/x;y"]},
        {"user": "root\nGroup=wheel"},
        {"user": "a b"},
    ],
)
def test_nothing_but_paths_and_a_name_gets_into_the_unit(wrong: dict[str, object]) -> None:
    given = {"site_path": "/etc/site.toml", "executable": "/usr/bin/unrack", "user": "unrack", **wrong}
    with pytest.raises(InputError):
        unit_text(**given)  # type: ignore[arg-type]


def faults_found(path: Path, text: str) -> list[str]:
    """What ``systemd-analyze verify`` says of a unit."""
    path.write_text(text)
    command = ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return re.findall(r"unrack\.service.*", done.stderr)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = unit_text("/etc/unrack/site.toml", shutil.which("true") or sys.executable, "daemon")
    assert faults_found(tmp_path / "unrack.service", text) == []
    assert faults_found(tmp_path / "unrack.service", text.replace("Type=notify", "Type=tell")) != []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_systemd_rates_the_service_as_safe(tmp_path: Path) -> None:
    path = tmp_path / "unrack.service"
    path.write_text(unit_text("/etc/unrack/site.toml", shutil.which("true") or sys.executable, "daemon"))
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "unrecognized option" in done.stderr:
        pytest.skip("an older systemd-analyze")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
