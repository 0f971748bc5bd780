"""Nodes of a cluster with GPUs, as published by Alibaba in 2023: ``sn,cpu_milli,memory_mib,gpu,model``."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from unrack.cluster.formats.reading import text_of
from unrack.errors import ClusterError
from unrack.resources.numbers import ranges

COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
"""The header."""
_MILLI = 1000
_MOST = 2**31 - 1  # of anything, on a node


def openb_nodes(
    path: str | Path, cpu: Literal["whole", "milli"] = "whole", gpu_nodes_only: bool = True
) -> list[dict[str, Any]]:
    """Read a list of nodes as runs of equal nodes, in the order of the file.

    Parameters
    ----------
    path
        A CSV file; it may be packed by gzip, bzip2 or xz.
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
    nodes = _nodes(str(path), 1 if cpu == "milli" else _MILLI)
    kept = (node for node in nodes if node["gpus"] or not gpu_nodes_only)
    runs = [{"count": len(list(alike)), **node} for node, alike in groupby(kept)]
    if not runs:
        raise ClusterError(str(path), "no node" + " with GPUs" * gpu_nodes_only, "one or more")
    return runs


def cluster_content(runs: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """The keys of a cluster file with these nodes and their GPUs.

    Parameters
    ----------
    runs
        As of :func:`openb_nodes`.
    name
        Of the cluster.
    """
    spans: list[tuple[int, int, dict[str, Any]]] = []  # of neighbours with the same GPUs
    first = 0
    for run in runs:
        after = first + run["count"]
        if run["gpus"]:
            machine = {"gpus": run["gpus"]} | ({"model": run["model"]} if run["model"] else {})
            begin = spans.pop()[0] if spans and spans[-1][1:] == (first, machine) else first
            spans.append((begin, after, machine))
        first = after
    gpus = [{"nodes": ranges(range(begin, end))[0], "machine": machine} for begin, end, machine in spans]
    nodes = [{"count": run["count"], "cores": run["cores"], "memory": run["memory_mb"]} for run in runs]
    return {"name": name, **({"gpus": gpus} if gpus else {}), "nodes": nodes}


def _nodes(path: str, core: int) -> Iterator[dict[str, Any]]:
    """One dict a node; ``core``: how much of ``cpu_milli`` is one core."""
    rows = csv.reader(text_of(Path(path), path).splitlines())
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
