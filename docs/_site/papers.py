"""Tables of the pages of papers: what of a paper runs again, and how its claims and numbers came out."""

from __future__ import annotations

import re
from pathlib import Path

MARK = re.compile(r"^<!-- reproductions of (\w+) -->$", re.MULTILINE)
CLAIMS = re.compile(r"^Of (\d+) claims?, we agree with (\d+), differ from (\d+)[^,]*, and (\d+) cannot", re.MULTILINE)
VALUES = re.compile(r"^Of (\d+) values? of the paper, we agree with (\d+), differ from (\d+)", re.MULTILINE)
DIFFERS = re.compile(r"^\* ✗ \*\*differs\*\* – (.*)$", re.MULTILINE)


def with_tables(text: str, folder: Path) -> str:
    """The text with each mark replaced by what the pages of that paper's reproductions say."""
    return MARK.sub(lambda match: _tables(match[1], folder), text)


def pages_of(paper: str, folder: Path) -> list[Path]:
    """The pages of a paper's reproductions, in the paper's order; those with other options follow the first."""
    from importlib import import_module

    names = [one.name for one in import_module(f"unrack_papers.{paper}").REPRODUCTIONS]
    found = []
    for name in names:
        longer = [other for other in names if other != name and other.startswith(f"{name}-")]
        found += [
            path
            for path in sorted(folder.glob(f"{name}*.md"), key=lambda path: path.stem)
            if (path.stem == name or path.stem.startswith(f"{name}-"))
            and not any(path.stem == other or path.stem.startswith(f"{other}-") for other in longer)
        ]
    return found


def _tables(paper: str, folder: Path) -> str:
    rows = [
        "| table or figure | run again by | claims: agree / differ / open | numbers: agree of all |",
        "|---|---|---|---|",
    ]
    differing = []
    for path in pages_of(paper, folder):
        text = path.read_text()
        title = text.partition("\n")[0].removeprefix("# ")
        command = re.search(r"Written by `([^`]+)`", text)
        claims, values = CLAIMS.search(text), VALUES.search(text)
        link = f"../reproductions/{path.name}"
        rows.append(
            f"| [{title}]({link}) | `{command[1] if command else ''}` | "
            f"{' / '.join(claims.group(2, 3, 4)) if claims else '–'} | "
            f"{f'{values[2]} of {values[1]}' if values else '–'} |"
        )
        differing += [f"* {claim.partition('<br>')[0]} [→]({link}#claims)" for claim in DIFFERS.findall(text)]
    if not differing:
        return "\n".join(rows)
    return "\n".join([*rows, "", "## Claims that differ", "", *dict.fromkeys(differing)])
