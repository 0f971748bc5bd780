"""What a run is called: its names, and a hash of all that can change its result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

ENGINE = (
    "plugins", "kernels", "slurm_text", "kubernetes_text", "resources", "cluster", "ledger", "workload", "slowdown",
    "solver", "policy", "view", "core", "sim", "metric",
)  # fmt: skip
"""Rooms with code that can change a result."""


def id_of_run(names: Sequence[Any], seed: int, identity: Sequence[Any]) -> str:
    """Readable names, and eight hexadecimal digits of a hash of all that matters."""
    code = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:8]
    return "--".join(slug(str(name)) for name in names) + f"--s{seed}-{code}"


@cache
def engine_digest() -> str:
    """SHA-256 over the source of all that can change a result: a run of another engine is another run."""
    total = hashlib.sha256(version("unrack").encode())
    root = Path(__file__).parents[2]
    rooms = [path for room in ENGINE for path in sorted((root / room).rglob("*.py"))]
    for path in [*sorted(root.glob("*.py")), *rooms]:
        total.update(path.read_bytes())
    return total.hexdigest()


def slug(text: str) -> str:
    """A name as part of a folder's name.

    Examples
    --------
    >>> slug("easy(order=sjf)")
    'easy-order-sjf'
    >>> slug("easy++")
    'easy-plus-plus'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", text.replace("+", "-plus")).strip("-")[:48] or "x"
