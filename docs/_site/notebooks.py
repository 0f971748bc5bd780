"""Notebooks as pages: their text and code, and what the cells gave where they have been run (`make docs` runs them)."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RUN = Path(__file__).parents[2] / "out" / "notebooks"


def notebook_page(path: Path) -> str:
    """A notebook as Markdown, with outputs where it was run since it was last changed."""
    ran = RUN / path.name
    fresh = ran.is_file() and ran.stat().st_mtime >= path.stat().st_mtime
    cells = json.loads((ran if fresh else path).read_text())["cells"]
    first, *rest = [part for cell in cells for part in _cell(cell)]
    note = f"*This page is a notebook: [download it](../source/docs/notebooks/{path.name}).*"
    return "\n\n".join([first, note, *rest]) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        title, _, text = source.partition("\n")
        yield from (part for part in ((title, text.strip()) if title.startswith("# ") else (source,)) if part)
    elif source:
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            yield from _output(output)


def _output(output: dict[str, Any]) -> Iterator[str]:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        yield f'<div class="output" markdown="0">{_one_line("".join(data["image/svg+xml"]))}</div>'
    elif "text/html" in data:
        yield f'<div class="output" markdown="0">{_one_line("".join(data["text/html"]))}</div>'
    else:
        text = "".join(data.get("text/plain", output.get("text", "")))
        yield f'<pre class="output">{html.escape(text).replace(chr(10), "&#10;")}</pre>'


def _one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines())  # a blank line would end it as HTML
