"""Pages that list what the code has: public names, metrics, decisions."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

PACKAGES = {
    "unrack.workload": "Filters and tables of jobs.",
    "unrack.workload.formats": "What readers of your own are made of.",
    "unrack.workload.generate": "What generators of your own are made of.",
    "unrack.workload.usage": "What jobs use of the memory that they ask for, over their progress.",
    "unrack.cluster": "Presets, families of clusters, and lists of nodes.",
    "unrack.slowdown": "How fast jobs run, and contention for memory after profiles.",
    "unrack.resources.gpus": "GPUs as they are connected.",
    "unrack.resources.links": "Network links and what jobs send.",
    "unrack.study": "Runs, and the workers that run them.",
    "unrack.metric": "Means of metrics, and what is counted besides.",
    "unrack.report": "Colours of charts, as reports have them.",
    "unrack.solver": "Problems and answers as arrays, without data centres.",
    "unrack.cli": "Options that commands of other distributions share.",
    "unrack.live": "Texts that a Slurm site installs.",
}
"""Public packages for research and for extensions, each with what it has."""


def names_page(module: str, title: str, words: str) -> str:
    """The public names of a module, each with its docstring."""
    return f"# {title}\n\n{words} All of it is imported from `{module}`.\n\n{_names(module)}"


def packages_page() -> str:
    """The public names of :data:`PACKAGES`."""
    parts = [
        "# For research and extensions\n\nWhat reproductions of papers, experiments and extensions need besides "
        "`unrack` and `unrack.policy`. Errors (`unrack.errors`), units (`unrack.units`), libraries of extras "
        "(`unrack.extras`), compiled kernels (`unrack.jit`), names that are loaded late (`unrack.extras`) and checks "
        "of policies (`unrack.testing`) are public modules as well.\n"
    ]
    parts += [f"## `{module}`\n\n{words}\n\n{_names(module)}" for module, words in PACKAGES.items()]
    return "\n".join(parts)


def _names(module: str) -> str:
    names = import_module(module).__all__
    constants = [name for name in names if name.isupper()]
    rest = [name for name in names if name not in constants]
    parts = [f"Constants: {', '.join(f'`{name}`' for name in constants)}.\n"] if constants else []
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
