"""Reading a journal, also one that a running scheduler is writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from unrack.errors import InputError
from unrack.live.journal.disk import Disk
from unrack.live.journal.record import Record
from unrack.live.journal.segments import End, Segment, Tail, batches_of, segments_of

ATTEMPTS = 10


def read_journal(
    folder: Path,
    *,
    from_newest_snapshot: bool = False,
    on_tail: Callable[[Tail], None] = lambda tail: None,
    disk: Disk | None = None,
) -> Iterator[Record]:
    """The records of a journal, in order, each checked; changes nothing.

    Parameters
    ----------
    folder
        Its folder.
    from_newest_snapshot
        Begin with the newest snapshot, not with the oldest record that is kept.
    on_tail
        Told what stands behind the last whole batch: the writer was stopped in the middle of it, or is at it now.
    disk
        Where the folder is; the machine's.

    Raises
    ------
    InputError
        There is no journal, or it is damaged: with the file and the line.
    """
    disk = Disk() if disk is None else disk
    with ExitStack() as stack:
        opened = _open(folder, disk, stack, from_newest_snapshot)
        followers = [segment for segment, _ in opened[1:]]
        for (segment, file), following in zip_longest(opened, followers):
            for batch in batches_of(segment, file, is_last=following is None):
                if not isinstance(batch, End):
                    yield from batch
                elif following is not None and batch.number != following.first:
                    got = f"a journal that goes on with record {following.first}"
                    raise InputError(str(following.path), got, f"one that goes on with record {batch.number}")
                elif batch.tail is not None:
                    on_tail(batch.tail)


def _open(folder: Path, disk: Disk, stack: ExitStack, newest_only: bool) -> list[tuple[Segment, BinaryIO]]:
    """The segments, opened before any is read, so that none of them is removed meanwhile."""
    for _ in range(ATTEMPTS):
        try:
            segments = segments_of(folder, disk)[-1 if newest_only else 0 :]
        except OSError as error:
            raise InputError(str(folder), error.strerror or str(error), "the folder of a journal") from None
        if not segments:
            raise InputError(str(folder), "a folder without a journal", "the folder of a journal")
        with suppress(FileNotFoundError), ExitStack() as attempt:  # the writer removed it a moment ago: look again
            files = [attempt.enter_context(disk.read(segment.path)) for segment in segments]
            stack.push(attempt.pop_all())
            return list(zip(segments, files, strict=True))
    raise InputError(str(folder), "segments that vanish as they are read", "the folder of a journal")
