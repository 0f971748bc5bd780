"""Control groups of version 1 and 2 with one limit each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine

PERIOD_US = 100_000
_NUMBERS = count()


@dataclass(frozen=True)
class Group:
    """A group of processes."""

    folder: Path
    version: int

    @property
    def door(self) -> str:
        """The file into which a process writes 0 to join."""
        return str(self.folder / "cgroup.procs")

    def limit_cpu(self, cores: float) -> None:
        """Let it use so many cores' time, counted over a tenth of a second."""
        quota = max(1000, round(cores * PERIOD_US))
        if self.version == 1:
            self._write("cpu.cfs_period_us", PERIOD_US)
            self._write("cpu.cfs_quota_us", quota)
        else:
            self._write("cpu.max", f"{quota} {PERIOD_US}")

    def put_first(self) -> None:
        """Give it the time that it asks for ahead of all other programs; ``nice`` counts within a session alone."""
        name, most = ("cpu.shares", 2**18) if self.version == 1 else ("cpu.weight", 10_000)
        if (self.folder / name).exists():  # else a group of another controller
            self._write(name, most)

    def limit_memory(self, size: int) -> None:
        """Let it hold so many bytes in memory; the rest is swapped."""
        self._write("memory.limit_in_bytes" if self.version == 1 else "memory.max", size)
        with suppress(OSError):  # kernels without accounting of swap
            if self.version == 2:
                self._write("memory.swap.max", "max")

    def peak_memory(self) -> int:
        """The most bytes that it held; 0 where the kernel does not say."""
        return self._number("memory.max_usage_in_bytes" if self.version == 1 else "memory.peak")

    def limit_device(self, device: str, bytes_s: int) -> None:
        """Let it read, and write, so many bytes a second of a device (``"7:0"``)."""
        if self.version == 1:
            self._write("blkio.throttle.read_bps_device", f"{device} {bytes_s}")
            self._write("blkio.throttle.write_bps_device", f"{device} {bytes_s}")
        else:
            self._write("io.max", f"{device} rbps={bytes_s} wbps={bytes_s}")

    def moved(self, device: str) -> tuple[int, int]:
        """Bytes read and written of a device so far."""
        if self.version == 1:
            words = [line.split() for line in self._read("blkio.throttle.io_service_bytes").splitlines()]
            found = {line[1]: int(line[2]) for line in words if len(line) == 3 and line[0] == device}
            return found.get("Read", 0), found.get("Write", 0)
        for line in self._read("io.stat").splitlines():
            name, *pairs = line.split()
            if name == device:
                numbers = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
                return int(numbers.get("rbytes", 0)), int(numbers.get("wbytes", 0))
        return 0, 0

    def _write(self, name: str, value: object) -> None:
        (self.folder / name).write_text(f"{value}")

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text()
        except OSError:
            return ""

    def _number(self, name: str) -> int:
        text = self._read(name).strip()
        return int(text) if text.isdigit() else 0


@contextmanager
def group(machine: Machine, journal: Journal, controller: str, within: Sequence[str] = ()) -> Iterator[Group]:
    """A new group of a controller (named as in version 2), which is gone at the end with all processes in it.

    Parameters
    ----------
    within
        Doors of groups in which its processes are already. A process has one group of each hierarchy, and version 2
        has only one, so the new group is made inside of the last of these that is of its hierarchy: all limits hold.

    Raises
    ------
    OSError
        It cannot be made here.
    """
    home = machine.cgroup(controller)
    if home is None:
        raise OSError(f"no control groups of {controller}")
    outer = next((Path(door).parent for door in reversed(within) if home.folder in Path(door).parents), home.folder)
    folder = outer / f"{journal.token}-{next(_NUMBERS)}"
    with journal.made("cgroup", str(folder)):
        if home.version == 2:
            for parent in (*reversed(outer.parents), outer):
                if parent.is_relative_to(home.folder):
                    _hand_down(parent, controller)
        folder.mkdir()
        made = Group(folder, home.version)
        made.put_first()
        yield made


@contextmanager
def in_front(machine: Machine, journal: Journal, within: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
    """The door of a group with the time that it asks for ahead of other programs; none: it cannot be made here."""
    with ExitStack() as stack:
        doors: tuple[str, ...] = ()
        with suppress(OSError):
            doors = (stack.enter_context(group(machine, journal, "cpu", within)).door,)
        yield doors


def _hand_down(folder: Path, controller: str) -> None:
    """Have groups below one of version 2 the controller, and that of time if it can be had."""
    switch = folder / "cgroup.subtree_control"
    had = switch.read_text().split()
    if controller not in had:
        switch.write_text(f"+{controller}")
    with suppress(OSError):
        if "cpu" not in (*had, controller):
            switch.write_text("+cpu")


def lacks_group(machine: Machine, journal: Journal, controller: str) -> str:
    """Why there can be no groups of a controller, found out by making one; empty: there can be."""
    try:
        with group(machine, journal, controller):
            return ""
    except OSError as error:
        return error.strerror.lower() + f": {error.filename}" if error.strerror else str(error)
