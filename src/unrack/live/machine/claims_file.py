"""The file that says which command holds which GPUs and CPUs of this machine.

JSON with one entry a claim. A process that reads or changes it holds a lock (``flock``) on ``FILE.lock`` beside it; a
change is written to a new file that takes the place of the old one, so that no reader and no crash ever meets half of
it.

A claim lasts as long as one of its processes lives: ``unrack exec`` itself or the command that it runs. Claims are
dropped, by the next that looks, if their processes are gone, were others with the same id, or ran before the machine
last started. Nothing needs to be cleaned up after ``kill -9``.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unrack.errors import InputError, first_fault, got_and_want
from unrack.live.machine.processes import Process, is_alive, machine_run, process_space

VERSION = 1
SHARED = Path("/run/lock/unrack")
"""Where the users of a machine keep their claims: a folder that all may write to."""
Number = Annotated[int, Field(strict=True, ge=0)]


class MachineClaim(BaseModel):
    """What one command holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str  # told apart from other claims by it
    processes: list[tuple[Number, Number]]  # those for which it is held: id and start of each
    # boot, space: in which run of the machine, and in which space of process ids, these count
    boot: str
    space: str
    # user, command, since: for people; ``since`` in ISO 8601, UTC
    user: str
    command: list[str]
    since: str
    # gpus, cores: by number
    gpus: list[Number]
    cores: list[Number]

    @property
    def is_held(self) -> bool:
        """True while one of its processes lives; also if they cannot be seen from here, as those of a container."""
        if self.boot != machine_run():
            return False
        if self.space != process_space():
            return True
        return any(is_alive(Process(*one)) for one in self.processes)


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Annotated[int, Field(strict=True, ge=VERSION, le=VERSION)]
    claims: list[MachineClaim]


def usual_place() -> Path:
    """``/run/lock/unrack/gpus.json``, for all users of the machine; where that cannot be, in ``$XDG_RUNTIME_DIR``.

    The folder is made if it is not there.

    Raises
    ------
    InputError
        Neither is a folder that can be written to.
    """
    own = os.environ.get("XDG_RUNTIME_DIR")
    for folder, mode in ((SHARED, 0o777), *([(Path(own) / "unrack", 0o700)] if own else [])):
        with suppress(OSError):
            if not folder.is_dir():
                folder.mkdir()
                folder.chmod(mode)
            if os.access(folder, os.W_OK):
                return folder / "gpus.json"
    raise InputError("--locks", "nothing, and /run/lock cannot be written to", "a file for claims of GPUs")


@dataclass
class Claims:
    """The claims while the file is locked; :meth:`add` and the others write the file at once."""

    path: Path
    held: tuple[MachineClaim, ...]

    @property
    def gpus(self) -> dict[int, MachineClaim]:
        """The claim on each GPU that is held."""
        return {gpu: claim for claim in self.held for gpu in claim.gpus}

    @property
    def cores(self) -> frozenset[int]:
        """The CPUs that are held."""
        return frozenset(core for claim in self.held for core in claim.cores)

    def add(self, claim: MachineClaim) -> None:
        """Add a claim."""
        self._write((*self.held, claim))

    def add_process(self, claim_id: str, process: Process) -> None:
        """Let a claim last as long as a further process."""
        self._write(
            tuple(
                claim.model_copy(update={"processes": [*claim.processes, (process.pid, process.started)]})
                if claim.id == claim_id else claim
                for claim in self.held
            )
        )  # fmt: skip

    def drop(self, claim_id: str) -> None:
        """Drop a claim, if it is still there."""
        self._write(tuple(claim for claim in self.held if claim.id != claim_id))

    def _write(self, held: Sequence[MachineClaim]) -> None:
        content = {"version": VERSION, "claims": [claim.model_dump(mode="json") for claim in held]}
        number, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fchmod(file.fileno(), _mode(self.path))
            Path(name).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
        self.held = tuple(held)


@contextmanager
def locked(path: Path) -> Iterator[Claims]:
    """The claims that are held, while no other process reads or changes the file; stale ones are left out.

    Raises
    ------
    InputError
        The file cannot be made or read, or holds something else than claims.
    """
    with _lock(path):
        yield Claims(path, tuple(claim for claim in _read(path) if claim.is_held))


def move_aside(path: Path) -> Path | None:
    """Rename a file of claims that is damaged; ``None``: it is not, or there is none."""
    with _lock(path):
        try:
            _read(path)
        except InputError:
            free = (path.with_name(f"{path.name}.damaged-{i}") for i in range(1, 1000))
            return path.rename(next(name for name in free if not name.exists()))
        return None


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    try:
        number = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a file for claims in a folder to write in") from None
    try:
        with suppress(OSError):  # another user's: it is open to all already
            os.fchmod(number, _mode(path))
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _mode(path: Path) -> int:
    """Open to all users where the folder is."""
    return 0o666 if path.parent.stat().st_mode & 0o002 else 0o644


def _read(path: Path) -> list[MachineClaim]:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a file that can be read") from None
    want = "claims of GPUs; --recover moves the file aside and forgets what is held"
    try:
        return _Content.model_validate_json(text).claims
    except ValidationError as error:
        fault = first_fault(error.errors())
        key = ".".join(map(str, fault["loc"]))
        got = got_and_want(fault)[0] if key else str(fault["msg"])
        raise InputError(f"{path}, {key}" if key else str(path), got[:100], want) from None
