"""The page of examples: the question that each study asks."""

from __future__ import annotations

import tomllib
from pathlib import Path


def examples_page(root: Path) -> str:
    """Each study of examples/ with its question and the command that runs it."""
    rows = [
        "# Examples\n",
        "Studies that run as they are: `unrack run examples/NAME.toml`.\n",
        "| study | question |",
        "|---|---|",
    ]
    for path in sorted((root / "examples").glob("*.toml")):
        study = tomllib.loads(path.read_text())
        words = study.get("question") or study.get("name", "")
        rows.append(f"| [{path.name}](../source/examples/{path.name}) | {words} |")
    rows.append("\nPolicies beside them:\n")
    rows += [f"* [{path.name}](../source/examples/{path.name})" for path in sorted((root / "examples").glob("*.py"))]
    return "\n".join(rows) + "\n"
