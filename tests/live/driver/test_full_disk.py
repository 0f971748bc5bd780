"""A disk that is full stops the service from acting, and does not end it; it goes on when there is room."""

from __future__ import annotations

import errno
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_slurm import FakeSlurm, HandClock
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.live.driver.service.service import Stop
from unrack.live.driver.service.status import DriverStatus, status_of
from unrack.live.driver.state.replay import replay
from unrack.live.journal.disk import Disk
from unrack.live.journal.reading import read_journal
from unrack.live.slurm.service import serve, service
from unrack.live.slurm.site.site import Site

SITE = """partitions = ["ours"]
policy = "fcfs"
state = "{state}"
poll = "100 ms"
[metrics]
address = "127.0.0.1:{port}"
"""


class Watched(FakeSlurm):
    """Counts what is ordered."""

    def carry_out(self, orders: Any) -> Any:
        assert not self.full(), f"{orders} though it could not be written down"
        return super().carry_out(orders)


def wait_for(what: Callable[[], object], ended: list[str]) -> None:
    until = time.monotonic() + 20
    while not what():
        assert not ended
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.01)


@pytest.mark.parametrize("call", ["write", "sync", "rename", "open"])
def test_a_full_disk_stops_all_orders_and_the_service_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    full = threading.Event()
    inner = getattr(Disk, call)

    def fails(self: Disk, *given: Any, **more: Any) -> Any:
        if full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        return inner(self, *given, **more)

    monkeypatch.setattr(Disk, call, fails)
    monkeypatch.setattr(service, "FULL_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    (tmp_path / "site.toml").write_text(SITE.format(state=tmp_path / "state", port=port))
    slurm = Watched(HandClock())
    slurm.full = full.is_set
    stop, ended = Stop(), list[str]()

    def run() -> None:
        try:
            serve(Site.load(str(tmp_path / "site.toml")), slurm, stop, None)
        except BaseException as error:
            ended.append(repr(error))

    def health() -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as answer:
            return answer.code, json.loads(answer.read())

    thread = threading.Thread(target=run)
    slurm.submit(run_s=10_000)
    thread.start()
    try:
        wait_for(lambda: slurm.jobs[1].state == "RUNNING", ended)
        full.set()
        if call in ("rename", "open"):  # of a new segment
            slurm.nodes["n5"] = replace(slurm.nodes["n4"], name="n5")
        slurm.submit(run_s=10_000)
        wait_for(lambda: health()[0] == 503, ended)
        assert "No space left" in health()[1]["reason"]
        time.sleep(0.2)
        assert thread.is_alive()
        assert slurm.jobs[2].state == "PENDING"
        full.clear()
        wait_for(lambda: slurm.jobs[2].state == "RUNNING", ended)
        wait_for(lambda: health()[0] == 200, ended)
    finally:
        stop.ask()
        thread.join(20)
    assert not ended
    assert [len(job.starts) for job in slurm.jobs.values()] == [1, 1]
    assert status_of(tmp_path / "state").free_bytes > 0
    assert replay(record.value for record in read_journal(tmp_path / "state" / "journal")).differences == []


@pytest.mark.parametrize("ahead_s", [0, 3 * 86_400])
def test_status_tells_a_full_disk_and_a_clock_that_is_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    status = DriverStatus(
        None, "fcfs", "the driver started", 0, 1_000_000, time.time() + ahead_s - 1, [], 0, 0.0, 10, 0
    )
    monkeypatch.setattr("unrack.live.driver.service.status.status_of", lambda _: status)
    said = CliRunner().invoke(app, ["slurm", "status", "--state", str(tmp_path)]).output
    assert "the disk of the journal is full (0 bytes free): nothing is decided until there is room" in said
    assert ("ahead of this machine's" in said) == bool(ahead_s)
