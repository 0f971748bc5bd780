"""A disk in memory that loses its power, or fails, at a chosen call; what was not synced may then be there or not."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from random import Random

from unrack.live.journal.disk import Disk

PAGE = 16


class PowerCutError(BaseException):
    """The machine is gone: nothing in the program may catch this."""


@dataclass
class Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def apply(self, offset: int, piece: bytes | None) -> None:
        if piece is None:
            del self.content[offset:]
        else:
            self.content.extend(bytes(max(0, offset + len(piece) - len(self.content))))
            self.content[offset : offset + len(piece)] = piece

    def change(self, offset: int, piece: bytes | None) -> None:
        self.apply(offset, piece)
        self.pending.append((offset, piece))


class FragileDisk(Disk):
    def __init__(self) -> None:
        self.names_now: dict[str, Inode] = {}
        self.names_durable: dict[str, Inode] = {}
        self.pending: list[tuple[str, str, Inode | None]] = []
        self.files: dict[int, Inode] = {}
        self.calls = 0
        self.cut_at = -1
        self.fail: dict[int, int] = {}
        self.always_fails: int = 0

    def _call(self) -> bool:
        """Count a call; True if the power goes in the middle of it."""
        self.calls += 1
        code = self.fail.get(self.calls, self.always_fails)
        if code:
            raise OSError(code, errno.errorcode[code])
        return self.calls == self.cut_at

    def _whole(self) -> None:
        if self._call():
            raise PowerCutError

    def open(self, path: Path, new: bool) -> int:
        self._whole()
        if new:
            if path.name in self.names_now:
                raise FileExistsError(errno.EEXIST, path.name)
            self._name("", path.name, Inode())
        number = len(self.files) + 3
        self.files[number] = self.names_now[path.name]
        return number

    def _name(self, old: str, new: str, inode: Inode | None) -> None:
        self.pending.append((old, new, inode))
        _rename(self.names_now, old, new, inode)

    def write(self, file: int, content: bytes, offset: int) -> None:
        pages = [(offset + at, content[at : at + PAGE]) for at in range(0, len(content), PAGE)]
        try:
            gone = self._call()
        except OSError:
            for at, page in pages[: len(pages) // 2]:
                self.files[file].change(at, page)
            raise
        for at, page in pages[: len(pages) // 2 if gone else None]:
            self.files[file].change(at, page)
        if gone:
            raise PowerCutError

    def sync(self, file: int) -> None:
        self._whole()
        inode = self.files[file]
        inode.durable, inode.pending = bytes(inode.content), []

    def cut(self, file: int, size: int) -> None:
        self._whole()
        self.files[file].change(size, None)

    def close(self, file: int) -> None:
        assert self.files.pop(file) is not None
        self.files[file] = Inode()  # numbers are not used again

    def rename(self, path: Path, to: Path) -> None:
        self._whole()
        self._name(path.name, to.name, self.names_now[path.name])

    def remove(self, path: Path) -> None:
        self._whole()
        self._name(path.name, "", None)

    def sync_folder(self, folder: Path) -> None:
        self._whole()
        self.names_durable, self.pending = dict(self.names_now), []

    def names(self, folder: Path) -> list[str]:
        return sorted(self.names_now)

    def size(self, path: Path) -> int:
        return len(self.names_now[path.name].content)

    def read(self, path: Path) -> BytesIO:
        if path.name not in self.names_now:
            raise FileNotFoundError(errno.ENOENT, path.name)
        return BytesIO(bytes(self.names_now[path.name].content))

    def after_kill(self) -> FragileDisk:
        """The disk as the next program finds it when only this one was killed."""
        later = FragileDisk()
        later.names_now, later.names_durable, later.pending = self.names_now, self.names_durable, self.pending
        return later

    def after_power_cut(self, random: Random) -> FragileDisk:
        """The disk after the machine went down: of what was not synced, any pages and any names are there."""
        later = FragileDisk()
        names = dict(self.names_durable)
        for old, new, inode in self.pending:
            if random.random() < 0.5:
                _rename(names, old, new, inode)
        copies = {}
        for inode in names.values():
            copy = Inode(bytearray(inode.durable))
            for offset, piece in inode.pending:
                if random.random() < 0.5:
                    copy.apply(offset, piece)
            copy.durable = bytes(copy.content)
            copies[id(inode)] = copy
        later.names_now = {name: copies[id(inode)] for name, inode in names.items()}
        later.names_durable = dict(later.names_now)
        return later


def _rename(names: dict[str, Inode], old: str, new: str, inode: Inode | None) -> None:
    names.pop(old, None)
    if inode is not None:
        names[new] = inode
