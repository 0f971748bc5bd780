"""Where things are in the folder of the driver's state."""

from __future__ import annotations

from pathlib import Path

JOURNAL, WAKE = "journal", "wake"
"""The journal's folder within the folder of the state; and the wake file, where the site names none."""


def journal_of(state: Path) -> Path:
    """The folder of the journal in a folder of state; or the folder itself, which is then the journal's."""
    return state / JOURNAL if (state / JOURNAL).is_dir() else state
