"""Files and folders that are on disk when the call returns, and are never there in part."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on disk."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, as far as they are not there."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o755)
    sync_folder(folder.parent)


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole, in place of the one that is there; beside it for a moment under another, hidden name."""
    new = path.with_name(f".{path.name}.new")
    number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(number, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(number)
    new.replace(path)
    sync_folder(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)
