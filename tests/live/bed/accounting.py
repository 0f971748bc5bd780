"""Slurm's accounting for a test cluster: slurmdbd and a MariaDB of its own, without a port."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from free_ports import PortBlock
from munge_service import start_munge
from munge_service import why_not as why_no_munge
from slurm_bed import Bed


def why_not() -> str:
    """Why there is no accounting here; ``""``: there is."""
    missing = [name for name in ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr") if _path(name) is None]
    return f"{', '.join(missing)} not found: apt-get install slurmdbd mariadb-server" if missing else ""


class Accounting:
    """A slurmdbd on a port, with a database in a folder; end it with :meth:`stop`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        start_munge()
        database, socket = folder / "db", folder / "db.sock"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        own = ["--no-defaults", f"--datadir={database}", "--user=root"]
        made = subprocess.run(
            [_named("mariadb-install-db"), *own, "--auth-root-authentication-method=normal"],
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(made.stderr.decode(errors="replace")[-2000:])
        log = (folder / "db.log").open("wb")
        small = ["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=64M", "--innodb-lock-wait-timeout=900"]
        self._database = subprocess.Popen(
            [_named("mariadbd"), *own, f"--socket={socket}", "--skip-networking", *small,
             f"--pid-file={folder}/db.pid"], stdout=log, stderr=log,
        )  # fmt: skip
        self._wait(socket.exists, "the database answers")
        conf = folder / "slurmdbd.conf"
        lines = [
            "AuthType=auth/munge", "DbdHost=localhost", f"DbdPort={port}", "SlurmUser=root",
            f"LogFile={folder}/slurmdbd.log", f"PidFile={folder}/slurmdbd.pid",
            "StorageType=accounting_storage/mysql", "StorageLoc=slurm_acct", "StorageUser=root",
        ]  # fmt: skip
        conf.write_text("\n".join(lines) + "\n")
        conf.chmod(0o600)
        env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "MYSQL_UNIX_PORT": str(socket)}
        self._daemon = subprocess.Popen([_named("slurmdbd"), "-D"], env=env, stdout=log, stderr=log)
        said = folder / "slurmdbd.log"
        self._wait(lambda: said.exists() and "started" in said.read_text(errors="replace"), "slurmdbd answers")

    def _wait(self, done: Callable[[], bool], what: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise RuntimeError(f"not so after {seconds} s: {what}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End both."""
        for process in (self._daemon, self._database):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()


def _path(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _named(name: str) -> str:
    return _path(name) or name


@contextmanager
def accounted_bed(prefix: str, extra: Sequence[str] = (), **options: Any) -> Iterator[Bed]:
    """A Slurm that keeps accounts and enforces limits, in a folder of its own; the test is skipped where it cannot be.

    ``extra``: further lines of slurm.conf; ``options``: as of :class:`Bed`.
    """
    if reason := why_no_munge() or why_not():
        pytest.skip(reason)
    path, block = Path(tempfile.mkdtemp(prefix=prefix)), PortBlock()
    path.chmod(0o755)
    accounting = Accounting(path, block.ports[0])
    lines = (
        "AccountingStorageType=accounting_storage/slurmdbd", f"AccountingStoragePort={block.ports[0]}",
        "AccountingStorageHost=localhost", "AccountingStorageEnforce=associations,limits,qos", *extra,
    )  # fmt: skip
    try:
        with Bed(path, nvme=0, scheduler="backfill", extra=lines, remember_s=3000, **options) as bed:
            yield bed
    finally:
        accounting.stop()
        block.give_back()
        shutil.rmtree(path, ignore_errors=True)
