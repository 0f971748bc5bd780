"""Nodes of a cluster with GPUs, as published by Alibaba in 2023: ``sn,cpu_milli,memory_mib,gpu,model``."""

from __future__ import annotations

import csv
import re

from unrack.cluster.formats.described import Described, DescribedNode
from unrack.cluster.formats.site import whole
from unrack.errors import ClusterError

COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
"""The header."""
HEADER = re.compile(r"sn\s*,")
"""What the file begins with."""


def listed_nodes(text: str, where: str, name: str, *, milli: bool = False) -> Described:
    """The nodes of a list, in its order; those without GPUs count as not in use.

    ``milli``: count thousandths of cores in place of whole ones. A ClusterError if a column is lacking, or a node is
    named twice or has a value that cannot be.
    """
    rows = csv.reader(text.splitlines())
    header = [field.strip() for field in next(rows)]
    if lacking := [column for column in COLUMNS if column not in header]:
        raise ClusterError(f"{where}, column {lacking[0]}", "no such column", f"the columns {', '.join(COLUMNS)}")
    nodes: dict[str, DescribedNode] = {}
    for row in filter(None, rows):
        at = f"{where}, line {rows.line_num}"
        if len(row) != len(header):
            raise ClusterError(at, f"{len(row)} fields", f"{len(header)}, as in the first line")
        said = dict(zip(header, map(str.strip, row), strict=True))
        if not (node := said["sn"]) or node in nodes:
            raise ClusterError(f"{at}, sn", repr(node), "a name, and each node once")
        cores, memory_mb, gpus = (whole(said[column], f"{at}, {column}") for column in COLUMNS[1:4])
        cores, model = cores if milli else cores // 1000, said["model"] if gpus else ""
        nodes[node] = DescribedNode(node, cores, memory_mb, gpus, model, down="" if gpus else "without GPUs")
    return Described(where, name, tuple(nodes.values()), in_order=True)
