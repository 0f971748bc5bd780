"""A cluster file as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def cluster_text(content: dict[str, Any], comments: Sequence[str] = ()) -> str:
    """A cluster file with these keys: a line for each class of nodes, machine and counter.

    Parameters
    ----------
    content
        Numbers, text, and lists of tables.
    comments
        Lines for the top.

    Examples
    --------
    >>> print(cluster_text({"name": "a", "nodes": [{"count": 2, "cores": 8}]}, ["from b"]), end="")
    # from b
    name = "a"
    nodes = [
        { count = 2, cores = 8 },
    ]
    """
    lines = [f"# {' '.join(comment.split())}" for comment in comments]
    for key, value in content.items():
        if isinstance(value, list):
            lines += [f"{key} = [", *(f"    {_value(entry)}," for entry in value), "]"]
        else:
            lines.append(f"{key} = {_value(value)}")
    return "\n".join([*lines, ""])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(entry)}' for key, entry in value.items())} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
