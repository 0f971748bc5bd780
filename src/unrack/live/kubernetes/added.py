"""What the site files of a Kubernetes may add to its nodes, and what not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unrack.study.input.inputs import Document

OWN_MEMORY = "none of it: a pod has memory of its own node alone"


def refuse_lending(cluster: Mapping[str, Any], document: Document) -> None:
    """Refuse memory that is lent between nodes, in the ``[cluster]`` table of a site file."""
    if lent := sorted({"lending", "memory_pools"} & cluster.keys()):
        raise document.fault(("cluster", lent[0]), "this key", OWN_MEMORY)
