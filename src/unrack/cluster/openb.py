"""Nodes of a cluster with GPUs, as published by Alibaba in 2023: ``sn,cpu_milli,memory_mib,gpu,model``."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from unrack.errors import ClusterError

COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
"""The header."""
_MILLI = 1000
_MOST = 2**31 - 1  # of anything, on a node
_SIZES = ("cores", "memory_mb", "gpus", "model")


def openb_nodes(
    path: str | Path, cpu: Literal["whole", "milli"] = "whole", gpu_nodes_only: bool = True
) -> list[dict[str, Any]]:
    """Read a list of nodes as runs of equal nodes, in the order of the file.

    Parameters
    ----------
    path
        A CSV file; it may be packed by gzip.
    cpu
        ``"whole"``: cores, rounded down; ``"milli"``: thousandths of a core.
    gpu_nodes_only
        Leave out nodes without GPUs.

    Returns
    -------
    list of dict
        ``count``, and of each node ``cores``, ``memory_mb``, ``gpus`` and their ``model`` (``""``: not said).

    Raises
    ------
    ClusterError
        The file cannot be read, lacks a column, has a value that cannot be, or no node is left.
    """
    if cpu not in ("whole", "milli"):
        raise ClusterError("cpu", repr(cpu), "whole or milli")
    runs: list[dict[str, Any]] = []
    for node in _nodes(str(path), 1 if cpu == "milli" else _MILLI):
        if gpu_nodes_only and not node["gpus"]:
            continue
        if runs and all(runs[-1][name] == node[name] for name in _SIZES):
            runs[-1]["count"] += 1
        else:
            runs.append({"count": 1, **node})
    if not runs:
        raise ClusterError(str(path), "no node" + " with GPUs" * gpu_nodes_only, "one or more")
    return runs


def cluster_toml(runs: Sequence[dict[str, Any]], name: str, source: str = "") -> str:
    """A cluster file with these nodes and their GPUs.

    Parameters
    ----------
    runs
        As of :func:`openb_nodes`.
    name
        Of the cluster.
    source
        A comment for the first line; ``""``: none.
    """
    lines = [f"# {' '.join(source.split())}"] if source else []
    lines += [f"name = {json.dumps(name, ensure_ascii=False)}", ""]
    if held := list(_with_gpus(runs)):
        lines += ["gpus = [", *(f"    {{ nodes = {nodes}, machine = {machine} }}," for nodes, machine in held), "]", ""]
    lines += ["nodes = ["]
    lines += [f"    {{ count = {run['count']}, cores = {run['cores']}, memory = {run['memory_mb']} }}," for run in runs]
    return "\n".join([*lines, "]", ""])


def _with_gpus(runs: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Node ids and their machine, as TOML; neighbours with the same GPUs together."""
    spans: list[list[Any]] = []
    first = 0
    for run in runs:
        after = first + run["count"]
        if run["gpus"]:
            model = f", model = {json.dumps(run['model'], ensure_ascii=False)}" if run["model"] else ""
            machine = f"{{ gpus = {run['gpus']}{model} }}"
            if spans and spans[-1][1] == first and spans[-1][2] == machine:
                spans[-1][1] = after
            else:
                spans.append([first, after, machine])
        first = after
    for begin, end, machine in spans:
        yield (f'"{begin}-{end - 1}"' if end - begin > 1 else f'"{begin}"'), machine


def _nodes(path: str, core: int) -> Iterator[dict[str, Any]]:
    """One dict a node; ``core``: how much of ``cpu_milli`` is one core."""
    rows = csv.reader(_text(path).splitlines())
    header = [field.strip() for field in next(rows, [])]
    for name in COLUMNS:
        if name not in header:
            raise ClusterError(f"{path}, column {name}", "no such column", f"the columns {', '.join(COLUMNS)}")
    for row in rows:
        if not row:
            continue
        at = f"{path}, line {rows.line_num}"
        if len(row) != len(header):
            raise ClusterError(at, f"{len(row)} fields", f"{len(header)}, as in the first line")
        fields = dict(zip(header, (field.strip() for field in row), strict=True))
        gpus = _whole(fields, "gpu", 0, at)
        yield {
            "cores": _whole(fields, "cpu_milli", core, at) // core,
            "memory_mb": _whole(fields, "memory_mib", 0, at),
            "gpus": gpus,
            "model": fields["model"] if gpus else "",
        }


def _whole(fields: dict[str, str], name: str, least: int, at: str) -> int:
    text = fields[name]
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= _MOST):
        raise ClusterError(f"{at}, {name}", repr(text), f"a whole number from {least} to {_MOST}")
    return int(text)


def _text(path: str) -> str:
    try:
        content = Path(path).expanduser().read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ClusterError(path, getattr(error, "strerror", None) or str(error), "a readable CSV file") from None
