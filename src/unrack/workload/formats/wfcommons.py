"""Workflows in the JSON of WfCommons: tasks, which others they follow, and how long each ran in one execution.

References
----------
Coleman et al.: WfCommons: a framework for enabling scientific workflow research and development. Future Generation
Computer Systems 128 (2022); versions 1.0 to 1.6 of its format.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from unrack.units import LONGEST_US, SECOND_US
from unrack.workload.formats.intake import EXTRA, Tally, workload
from unrack.workload.formats.quantities import MOST, MOST_MB, choice, shown, time_option_us
from unrack.workload.formats.source import Source, load, text_bytes
from unrack.workload.job import Workload

_WANT = 'a workflow such as {"workflow": {"specification": {"tasks": […]}, "execution": {"tasks": […]}}}'
_BEFORE = {"parents": True, "children": False}
_AMOUNTS: dict[str, dict[str, float]] = {  # names of one amount, newest first → its factor
    "work_us": {"runtimeInSeconds": SECOND_US, "runtime": SECOND_US},
    "cores": {"coreCount": 1, "cores": 1},
    "memory_mb": {"memoryInBytes": 2**-20, "memory": 2**-10},
}
_MOST = {"work_us": LONGEST_US, "cores": MOST, "memory_mb": MOST_MB}


def read_workflow(path: str | os.PathLike[str] | Source, *, submit: float | str = 0, memory: str = "used") -> Workload:
    """Read a workflow: each task becomes a job of one task that waits for the tasks that it follows to end well.

    Their names are those of the file, with ``-`` for ``:``, ``,``, ``?`` and blanks. Files that they read and write are
    left out.

    Parameters
    ----------
    path
        The file.
    submit
        When all jobs are submitted: s, or text such as ``"1 h"``.
    memory
        ``"used"``: jobs ask for the memory that their tasks used; or ``"ignore"``.

    Raises
    ------
    TraceError
        The file is no workflow, or has no run times; a task comes twice, follows one that is not there, or itself.
    InputError
        An option has a value it cannot have.
    """
    choice("memory", memory, ("used", "ignore"))
    submit_us = time_option_us("submit", submit, "a time such as 0 or '1 h'")
    source = load(path)
    try:
        content = json.loads(text_bytes(source).decode())
    except (ValueError, RecursionError) as error:
        raise source.fault(None, "", f"damaged JSON ({str(error)[:80]})", _WANT) from None
    flow = _table(source, content, "workflow")
    parts = [(part, _table(source, flow, part)) for part in ("specification", "execution") if part in flow]
    lists = [_tasks(source, f"workflow.{part}", one) for part, one in parts] or [_tasks(source, "workflow", flow)]
    tasks = {name: (where, dict(task)) for name, (where, task) in lists[0].items()}
    for name, (where, ran) in (lists[1] if len(lists) > 1 else {}).items():
        if name not in tasks:
            raise source.fault(None, where, f"a task {name!r}", "a task of the specification")
        tasks[name] = (where, tasks[name][1] | dict(ran))
    follows = _follows(source, lists[0])
    rows = [
        (_plain(name), submit_us, *(_amount(source, where, task, ours) for ours in _AMOUNTS), 1, _program(task),
         f"afterok:{':'.join(map(_plain, follows[name]))}" if follows[name] else None)
        for name, (where, task) in tasks.items()
    ]  # fmt: skip
    names = ("id", "submit_us", *_AMOUNTS, "tasks", "app", f"{EXTRA}dependency")
    texts = ("id", "app", f"{EXTRA}dependency")
    frame = pl.DataFrame(rows, {name: pl.String if name in texts else pl.Int64 for name in names}, orient="row")
    if not frame["id"].is_unique().all():
        raise source.fault(None, "tasks", "names that are alike with '-' for ':'", "names of their own")
    frame = frame.drop("memory_mb") if memory == "ignore" else frame
    header = {"Columns": f"a job a task; {memory} memory"} | {
        key: str(content[key])[:100] for key in ("name", "schemaVersion") if key in content
    }
    return workload(source, "wfcommons", frame.height, frame, Tally(), "truncate", header)


def _table(source: Source, content: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(content, dict) or not isinstance(content.get(key), dict):
        raise source.fault(None, key, "no such table", _WANT)
    table: Mapping[str, Any] = content[key]
    return table


def _tasks(source: Source, where: str, part: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Name of a task → where it is, and what it is."""
    key = "tasks" if "tasks" in part else "jobs"  # of 1.0 and 1.1
    listed, found = part.get(key), dict[str, tuple[str, Mapping[str, Any]]]()
    if not isinstance(listed, list) or not listed:
        raise source.fault(None, f"{where}.{key}", "no tasks", _WANT)
    for place, task in enumerate(listed):
        at = f"{where}.{key}.{place}"
        name = (task.get("id") or task.get("name")) if isinstance(task, dict) else None
        if not isinstance(name, str) or name in found:
            raise source.fault(None, f"{at}.id", shown(str(name)), "a name that no other task has")
        found[name] = (at, task)
    return found


def _follows(source: Source, tasks: Mapping[str, tuple[str, Mapping[str, Any]]]) -> dict[str, list[str]]:
    """Name → the tasks that are to end before it; either side may say so, by names or ids."""
    called = {str(task.get("name")): name for name, (_, task) in tasks.items()} | {name: name for name in tasks}
    found: dict[str, dict[str, None]] = {name: {} for name in tasks}
    for name, (where, task) in tasks.items():
        for key, before in _BEFORE.items():
            others = task.get(key) or []
            for other in others if isinstance(others, list) else [others]:
                if str(other) not in called:
                    raise source.fault(None, f"{where}.{key}", shown(str(other)), "a task of the workflow")
                first, last = (called[str(other)], name) if before else (name, called[str(other)])
                found[last][first] = None
    return {name: list(first) for name, first in found.items()}


def _amount(source: Source, where: str, task: Mapping[str, Any], ours: str) -> int | None:
    key = next((key for key in _AMOUNTS[ours] if task.get(key) is not None), None)
    if key is None and ours == "work_us":
        raise source.fault(None, f"{where}.runtimeInSeconds", "nothing", "a run time, as once it was executed")
    if key is None:
        return None
    value, least = task[key], 1 if ours == "cores" else 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise source.fault(None, f"{where}.{key}", shown(str(value)), "a number of 0 or more")
    amount: float = value * _AMOUNTS[ours][key]
    if amount >= _MOST[ours]:
        raise source.fault(None, f"{where}.{key}", shown(str(value)), "a number that can be")
    return max(round(amount) if ours == "work_us" else math.ceil(amount), least)


def _program(task: Mapping[str, Any]) -> str | None:
    command = task.get("command")
    program = command.get("program") if isinstance(command, dict) else None
    name = task.get("category") or program or re.sub(r"_(ID)?[0-9]+$", "", str(task.get("name") or ""))
    return str(name) or None


def _plain(name: str) -> str:
    """A name without what stands between names in a dependency."""
    return re.sub(r"[:,?\s]", "-", name)
