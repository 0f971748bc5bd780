"""The few things that a journal does to a disk; tests put a disk behind it that fails, or loses its power."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from unrack.live.durable import sync_folder


class Disk:
    """The disk of this machine: all that a journal needs of a file system. Everything may raise ``OSError``.

    Parameters
    ----------
    durable
        False: nothing waits for the disk. A crash of the program still loses nothing, one of the machine may.
    """

    def __init__(self, durable: bool = True) -> None:
        self.durable = durable

    def open(self, path: Path, new: bool) -> int:
        """Open a file, which its owner may write and its group may read; ``new``: make it, or fail if it is there."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags | (os.O_CREAT | os.O_EXCL if new else 0), 0o640)

    def write(self, file: int, content: bytes, offset: int) -> None:
        """Write all of it at that offset, in as many steps as it takes."""
        left = memoryview(content)
        while left:
            done = os.pwrite(file, left, offset)
            left, offset = left[done:], offset + done

    def sync(self, file: int) -> None:
        """Return when content and size are on disk."""
        if self.durable:
            os.fdatasync(file)

    def cut(self, file: int, size: int) -> None:
        """Cut a file to that size."""
        os.ftruncate(file, size)

    def close(self, file: int) -> None:
        """Close a file."""
        os.close(file)

    def rename(self, path: Path, to: Path) -> None:
        """Rename a file within its folder, in one step."""
        path.rename(to)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in a folder are on disk."""
        if self.durable:
            sync_folder(folder)

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(os.listdir(folder))

    def size(self, path: Path) -> int:
        """The size of a file in bytes."""
        return path.stat().st_size

    def read(self, path: Path) -> BinaryIO:
        """A file to read, from its beginning."""
        return path.open("rb", buffering=2**18)
