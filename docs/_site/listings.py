"""Pages that list what the code has: public names, metrics, decisions."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path


def names_page(module: str, title: str, words: str) -> str:
    """The public names of a module, each with its docstring."""
    names = import_module(module).__all__
    constants = [name for name in names if name.isupper()]
    rest = [name for name in names if name not in constants]
    parts = [f"# {title}\n\n{words} All of it is imported from `{module}`.\n"]
    if constants:
        parts.append(f"Rows of columns, by name: {', '.join(f'`{name}`' for name in constants)}.\n")
    parts += [f"::: {module}.{name}\n" for name in sorted(rest, key=lambda name: (name[0].islower(), name.lower()))]
    return "\n".join(parts)


def metrics_page() -> str:
    """Every metric with its unit, which way is better, and its formula."""
    from unrack.metric import table

    groups = {
        "Jobs and the cluster": table.METRICS,
        "Pools of devices": table.KIND_METRICS,
        "Cores": table.CORE_METRICS,
        "Memory": table.MEMORY_METRICS,
        "Memory in use": table.USE_METRICS,
        "Tiers of memory": table.TIER_METRICS,
        "Other resources": table.RESOURCE_METRICS,
        "Failures": table.FAILURE_METRICS,
    }
    parts = [
        "# Table of metrics\n",
        "Made from the code; [Metrics](../metrics.md) says what they mean. KIND, QUANTITY and NAME stand for those of "
        "the cluster.\n",
    ]
    shown: set[str] = set()
    for title, metrics in groups.items():
        new = [one for name, one in metrics.items() if name not in shown]
        shown.update(metrics)
        if not new:
            continue
        parts.append(f"## {title}\n\n| metric | unit | better | what | how |\n|---|---|---|---|---|")
        parts += [
            f"| `{one.name}` | {one.unit or '–'} | {one.better or '–'} | {_cell(one.summary)} | {_cell(one.formula)} |"
            for one in new
        ]
        parts.append("")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")


def decisions_page(folder: Path) -> str:
    """The list of decisions, by their titles."""
    rows = ["# Decisions\n", "Why it is built this way: a page for each hard choice, with what was rejected.\n"]
    for path in sorted(folder.glob("0*.md")):
        title = re.search(r"^# (.*)$", path.read_text(), re.MULTILINE)
        rows.append(f"* [{title[1] if title else path.stem}]({path.name})")
    return "\n".join(rows) + "\n"
