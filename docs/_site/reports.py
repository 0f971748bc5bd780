"""Links of the gallery to whole reports, where they have been made (`make gallery`)."""

from __future__ import annotations

import re
from pathlib import Path

REPORT = re.compile(r"^<!-- report of ([\w-]+) -->$", re.MULTILINE)


def with_reports(text: str, folder: Path) -> str:
    """The text with each mark replaced by a link to the report, or by nothing where there is none."""

    def link(match: re.Match[str]) -> str:
        if not (folder / match[1] / "report.html").is_file():
            return ""
        return f"[Open the report](gallery/{match[1]}.html){{ .md-button target=_blank }}"

    return REPORT.sub(link, text)
