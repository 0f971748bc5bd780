"""Which description of a system a file is, from its content, and what it says.

The shortest format is read here itself: the list of nodes with GPUs that Alibaba published in 2023
(``sn,cpu_milli,memory_mib,gpu,model``).
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import re
import zlib
from dataclasses import replace
from pathlib import Path

from unrack.cluster.formats import accounting, partitions, reservations, slurm
from unrack.cluster.formats.described import Described, DescribedNode
from unrack.cluster.formats.kubernetes.nodes import kubernetes_nodes
from unrack.cluster.formats.kubernetes.queues import kubernetes_queues
from unrack.cluster.formats.site import host_name, whole
from unrack.errors import ClusterError
from unrack.kubernetes_text import objects

KNOWN = (
    "slurm.conf, the output of scontrol show node (also -o or --json) or of kubectl get nodes -o json, with it that of "
    "scontrol show partition or reservation, sacctmgr show assoc -P, sacctmgr show qos -P or sacctmgr dump, or of "
    "kubectl get clusterqueues,cohorts,localqueues,resourceflavors -o json, or a CSV with the header "
    "sn,cpu_milli,memory_mib,gpu,model"
)
"""What can be read."""


def text_of(path: Path, where: str) -> str:
    """The text of a file, which may be packed by gzip, bzip2 or xz.

    A ClusterError if it cannot be read, or is no text in UTF-8.
    """
    try:
        content = path.expanduser().read_bytes()
        for magic, unpack in ((b"\x1f\x8b", gzip.decompress), (b"BZh", bz2.decompress), (b"\xfd7zXZ", lzma.decompress)):
            if content.startswith(magic):
                content = unpack(content)
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise ClusterError(where, getattr(error, "strerror", None) or str(error), "a readable text file") from None


def described(path: Path, text: str, where: str, *, milli: bool = False) -> Described | None:
    """What a file says of a system; ``None``: it is no description that is known here.

    ``path``, ``text``: the file, and what is in it; ``where``: what errors call it; ``milli``: count thousandths of
    cores, where the system does. A ClusterError if it says something that cannot be.
    """
    name = path.name.split(".")[0] or "cluster"
    start = text.lstrip()
    if start.startswith("{"):
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ClusterError(where, f"damaged JSON ({str(error)[:80]})", "whole JSON") from None
        if "kind" in content:
            queues = kubernetes_queues(content, where, milli=milli)
            if queues is not None and not objects(content, "Node"):
                return Described(where, name, (), queues=queues)
            return replace(kubernetes_nodes(content, where, name, milli=milli), queues=queues)
        return slurm.json_nodes(content, where, name)
    if re.match(r"(---\s+)?(apiVersion|kind|items):", start):
        raise ClusterError(where, "YAML", "the same as JSON: kubectl get … -o json")
    if HEADER.match(start):
        return listed_nodes(text, where, name, milli=milli)
    if slurm.SHOWN.match(start[:2000]):
        return slurm.shown_nodes(text, where, name)
    if partitions.SHOWN.match(text[:4000]):
        return partitions.shown_partitions(text, where, name)
    if reservations.SHOWN.match(text[:4000]):
        return reservations.shown_reservations(text, where, name)
    if accounting.DUMP.search(text):
        return accounting.dumped(text, where, name)
    if accounting.heads(text):
        return accounting.listed(text, where, name)
    if slurm.CONFIGURATION.search(text):
        return slurm.slurm_conf(path, text, where)
    return None


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
    header = [field.strip() for field in next(filter(None, rows))]
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
        host_name(node, f"{at}, sn")
        cores, memory_mb, gpus = (whole(said[column], f"{at}, {column}") for column in COLUMNS[1:4])
        cores, model = cores if milli else cores // 1000, said["model"] if gpus else ""
        nodes[node] = DescribedNode(node, cores, memory_mb, gpus, model, down="" if gpus else "without GPUs")
    return Described(where, name, tuple(nodes.values()), in_order=True)
