"""An append-only journal: what is to be done is on disk before it is done.

A batch of records is written, and on disk, when :meth:`Journal.append` returns; if the writer is stopped before that,
in whatever moment, all of the batch is read back or nothing of it. Snapshots begin new files, so that those from before
can go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, Self

from unrack.errors import InputError, RunError
from unrack.live.journal.disk import Disk
from unrack.live.journal.reading import read_journal
from unrack.live.journal.record import Record, line_of
from unrack.live.journal.segments import End, Segment, Tail, batches_of, segment_at, segments_of

KEEP = 4
_NEW = ".new"
_CLOSED = "it was closed"


class JournalError(RunError):
    """Nothing was written: the disk is full, or fails. What was to be written must not be done."""


class Journal:
    """A journal that is open to be written to, by this process alone: see :mod:`unrack.live.journal.lock`.

    Made by :meth:`open`. Its methods may be called from any thread.

    Attributes
    ----------
    folder
        Where it is.
    tail
        What was found behind the last whole batch when it was opened, and set aside; ``None``: nothing.
    """

    def __init__(self, folder: Path, segments: list[Segment], end: End, keep: int, disk: Disk) -> None:
        self.folder = folder
        self.tail = end.tail
        self._segments = segments
        self._sizes = {segment.path: disk.size(segment.path) for segment in segments[:-1]}
        self._number, self._offset = end.number, end.offset
        self._keep, self._disk = keep, disk
        self._file = disk.open(segments[-1].path, new=False)
        self._guard = Lock()
        self._half_written = False
        self._unusable = ""

    @classmethod
    def open(cls, folder: Path, *, keep: int = KEEP, disk: Disk | None = None) -> Self:
        """Open a journal; make it if there is none. What is no whole batch at its end is set aside.

        Parameters
        ----------
        folder
            Its folder, made if need be.
        keep
            How many segments from before the newest snapshot are kept. Default: 4.
        disk
            Where the folder is; the machine's. ``Disk(durable=False)`` does not wait for it.

        Raises
        ------
        InputError
            The folder cannot be used, or the journal is damaged.
        """
        if keep < 0:
            raise InputError("keep", str(keep), "0 or more")
        disk = Disk() if disk is None else disk
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o750)
            return cls._open(folder, keep, disk)
        except OSError as error:
            raise InputError(str(folder), error.strerror or str(error), "a folder for a journal") from None

    @classmethod
    def _open(cls, folder: Path, keep: int, disk: Disk) -> Self:
        for name in disk.names(folder):
            if name.startswith("journal.") and name.endswith(_NEW):
                disk.remove(folder / name)
        segments = segments_of(folder, disk)
        if not segments:
            segments = [segment_at(folder, 1)]
            disk.close(disk.open(segments[0].path, new=True))
            disk.sync_folder(folder.parent)
        disk.sync_folder(folder)  # a name that the last writer had no time to make last
        with disk.read(segments[-1].path) as file:
            *_, end = batches_of(segments[-1], file, is_last=True)
        assert isinstance(end, End)
        if end.tail is not None:
            end = end._replace(tail=_set_aside(end.tail, disk))
        journal = cls(folder, segments, end, keep, disk)
        disk.sync(journal._file)  # its last batch, if the last writer was stopped before it could
        return journal

    @property
    def next_number(self) -> int:
        """The number that the next record gets."""
        return self._number

    @property
    def segment_bytes(self) -> int:
        """The size of the segment that is written to: what was written since the newest snapshot, and that."""
        return self._offset

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return sum(list(self._sizes.values())) + self._offset

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Write a batch; when this returns, it is on disk.

        Raises
        ------
        InputError
            A record holds something that cannot be kept; nothing was written.
        JournalError
            The disk is full, or failed; nothing was written, and what is there can be read.
        """
        with self._guard:
            self._make_ready()
            first, size = self._number, len(records)
            lines = [line_of(first + i, first, size - 1 - i, record) for i, record in enumerate(records)]
            if not lines:
                return
            content = b"".join(lines)
            self._half_written = True
            try:
                self._disk.write(self._file, content, self._offset)
                self._disk.sync(self._file)
            except OSError as error:
                self._cut_back()
                raise self._failed(error) from error
            self._number, self._offset, self._half_written = first + size, self._offset + len(content), False

    def rotate(self, snapshot: Mapping[str, Any]) -> None:
        """Begin a new segment with a snapshot: all that is needed to go on from here without what was written before.

        Raises
        ------
        InputError
            The snapshot holds something that cannot be kept; nothing was changed.
        JournalError
            The disk is full, or failed; what is there can be read.
        """
        with self._guard:
            self._make_ready()
            content = line_of(self._number, self._number, 0, snapshot)
            segment = segment_at(self.folder, self._number)
            new = segment.path.with_name(f"{segment.path.name}{_NEW}")
            file = self._write_new(new, content)
            try:
                self._disk.rename(new, segment.path)
                self._disk.sync_folder(self.folder)
            except OSError as error:
                self._unusable = f"{segment.path}: {error.strerror or error}"  # it may be there after a crash, or not
                self._disk.close(file)
                raise JournalError(f"{self._unusable}; open the journal again") from error
            self._disk.close(self._file)
            if self._segments[-1] == segment:  # it was empty, and is replaced
                self._segments.pop()
            else:
                self._sizes[self._segments[-1].path] = self._offset
            self._segments.append(segment)
            self._file, self._offset, self._number = file, len(content), self._number + 1
            self._forget()

    def read(self, *, from_newest_snapshot: bool = False) -> Iterator[Record]:
        """The records, as :func:`read_journal` gives them."""
        return read_journal(self.folder, from_newest_snapshot=from_newest_snapshot, disk=self._disk)

    def close(self) -> None:
        """Close it; it may be closed twice."""
        with self._guard:
            if self._unusable != _CLOSED:
                self._unusable = _CLOSED
                self._disk.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        self.close()

    def _make_ready(self) -> None:
        """Refuse if it cannot be written to; drop what an interrupted :meth:`append` left."""
        if self._half_written:
            self._cut_back()
        if self._unusable:
            raise JournalError(f"the journal in {self.folder} cannot be written to: {self._unusable}")

    def _cut_back(self) -> None:
        """Cut the segment to what was written wholly; where that cannot be done, write no more."""
        try:
            self._disk.cut(self._file, self._offset)
            self._disk.sync(self._file)
            self._half_written = False
        except OSError as error:
            self._unusable = error.strerror or str(error)

    def _failed(self, error: OSError) -> JournalError:
        return JournalError(f"{self._segments[-1].path}: {error.strerror or error}; nothing was written")

    def _write_new(self, path: Path, content: bytes) -> int:
        file = -1
        try:
            if path.name in self._disk.names(self.folder):  # left by a rotation that failed
                self._disk.remove(path)
            file = self._disk.open(path, new=True)
            self._disk.write(file, content, 0)
            self._disk.sync(file)
        except OSError as error:
            with suppress(OSError):
                if file >= 0:
                    self._disk.close(file)
                    self._disk.remove(path)
            raise self._failed(error) from error
        return file

    def _forget(self) -> None:
        """Remove segments that are too old, oldest first, so that no gap comes about; what fails is left for later."""
        with suppress(OSError):
            while len(self._segments) - 1 > self._keep:
                oldest = self._segments[0].path
                with suppress(FileNotFoundError):
                    self._disk.remove(oldest)
                del self._segments[0], self._sizes[oldest]
                self._disk.sync_folder(self.folder)


def _set_aside(tail: Tail, disk: Disk) -> Tail:
    """Move what is no whole batch to a file beside the segment."""
    with disk.read(tail.path) as file:
        file.seek(tail.offset)
        content = file.read()
    names = set(disk.names(tail.path.parent))
    aside = next(name for name in (f"{tail.path.name}.cut-{i}" for i in count(1)) if name not in names)
    copy, segment = disk.open(tail.path.with_name(aside), new=True), disk.open(tail.path, new=False)
    try:
        disk.write(copy, content, 0)
        disk.sync(copy)
        disk.sync_folder(tail.path.parent)
        disk.cut(segment, tail.offset)
        disk.sync(segment)
    finally:
        disk.close(copy)
        disk.close(segment)
    return tail._replace(size_bytes=len(content), kept_in=tail.path.with_name(aside))
