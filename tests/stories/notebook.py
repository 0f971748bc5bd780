"""Notebooks run as Jupyter runs them, cell after cell in a kernel of their own.

``python tests/stories/notebook.py`` runs all of them for the site, into out/notebooks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}
KEPT = ROOT / "out" / "notebooks"
SECONDS = 300


def run(path: Path, folder: Path) -> Any:
    """The notebook with what its cells gave; it runs in a folder, with this Python."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def is_newer(made: Path, *rooms: str) -> bool:
    """Whether a file, as `make docs` leaves it, is newer than all files in these folders that it may depend on."""
    files = (path for room in rooms for path in (ROOT / room).rglob("*") if path.is_file() and path.suffix != ".pyc")
    return made.is_file() and made.stat().st_mtime > max(path.stat().st_mtime for path in files)


def main() -> None:
    """Run those that were changed since they were last run."""
    import nbformat

    KEPT.mkdir(parents=True, exist_ok=True)
    for path in NOTEBOOKS.values():
        kept = KEPT / path.name
        if not kept.is_file() or kept.stat().st_mtime < path.stat().st_mtime:
            nbformat.write(run(path, KEPT), kept)


if __name__ == "__main__":
    main()
