"""A file that is touched when something has happened, so that a scheduler need not wait for its next look."""

from __future__ import annotations

from pathlib import Path


class Wake:
    """The file; what is there at first counts as seen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = self._touched()

    def changed(self) -> bool:
        """True if it was touched since the last call. One ``stat``; never raises where the file is not there."""
        before, self._seen = self._seen, self._touched()
        return self._seen != before

    def _touched(self) -> tuple[int, int, int]:
        try:
            found = self.path.stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_ino, found.st_mtime_ns, found.st_size)
