"""Where a study is written to if nobody says it."""

from __future__ import annotations

import re
from pathlib import Path


def out_folder(name: str, otherwise: str) -> Path:
    """``out/`` and the name of the study, as far as it can be a folder's.

    Examples
    --------
    >>> out_folder("a/b: c", "study").as_posix(), out_folder("...", "study").as_posix()
    ('out/a-b- c', 'out/study')
    """
    return Path("out") / (re.sub(r"[^\w .-]+", "-", name).strip(".-") or otherwise)
