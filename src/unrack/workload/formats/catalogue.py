"""The traces at hand."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unrack.workload.formats.source import TRACES_VARIABLE

_TRACE = re.compile(r".+\.(swf|csv|tsv|parquet|json)(\.(gz|bz2|xz))?", re.IGNORECASE)


def traces_found() -> list[str]:
    """Traces in the folder ``$UNRACK_TRACES`` and below it, as paths from there, in order of name."""
    folder = os.environ.get(TRACES_VARIABLE, "")
    if not folder:
        return []
    root = Path(folder).expanduser()
    files = (path for path in root.rglob("*") if path.is_file() and _TRACE.fullmatch(path.name))
    return sorted(path.relative_to(root).as_posix() for path in files)
