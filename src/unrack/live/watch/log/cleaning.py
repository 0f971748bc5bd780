"""Values as logs may show them: bounded, on one line, without secrets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from unrack.live.printable import printable

MOST_TEXT = 500
MOST_ITEMS = 50
MOST_DEPTH = 3
HIDDEN = "[hidden]"

Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]
"""What becomes JSON."""

_SECRET_NAME = re.compile(
    r"token|passw|secret|credential|authori[sz]|cookie|environ|jwt|private|api_?key", re.IGNORECASE
)
_SECRET_TEXT = re.compile(
    r"eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"  # a JSON web token, wherever it stands
    r"|(?<=Bearer )\S+"
    r"|(?<=X-SLURM-USER-TOKEN: )\S+"
    r"|(?<=JWT=)\S+|(?<=token=)\S+|(?<=secret=)\S+|(?<=password=)\S+"
    r"|(?<=MUNGE:)\S+",
    re.IGNORECASE | re.ASCII,
)


def clean_text(text: str, most: int = MOST_TEXT) -> str:
    """A text on one line, cut, with what looks like a token hidden.

    Examples
    --------
    >>> clean_text("sent SLURM_JWT=eyJhbGciOi.eyJleHAiOj.c2ln to it")
    'sent SLURM_JWT=[hidden] to it'
    """
    return printable(_SECRET_TEXT.sub(HIDDEN, text[: most * 8]), most)


def clean(name: str, value: object, depth: int = 0) -> Plain:
    """A value of an event as JSON may have it: secrets hidden by their names, texts and lists cut."""
    if _SECRET_NAME.search(name):
        return HIDDEN
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 2**63 else clean_text(hex(value), 40)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, str | Path):
        return clean_text(str(value))
    if isinstance(value, bytes):
        return clean_text(value[: MOST_TEXT * 8].decode("utf-8", "replace"))
    if depth < MOST_DEPTH:
        if isinstance(value, Mapping):
            items = list(value.items())
            found: dict[str, Plain] = {
                clean_text(str(key), 80): clean(str(key), one, depth + 1) for key, one in items[:MOST_ITEMS]
            }
            return found if len(items) <= MOST_ITEMS else {**found, "...": len(items) - MOST_ITEMS}
        if isinstance(value, list | tuple | set | frozenset):
            sorted_once = sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)
            shown: list[Plain] = [clean(name, one, depth + 1) for one in sorted_once[:MOST_ITEMS]]
            return (
                shown if len(sorted_once) <= MOST_ITEMS else [*shown, f"... and {len(sorted_once) - MOST_ITEMS} more"]
            )
    return clean_text(repr(value))
