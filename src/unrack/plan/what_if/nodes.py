"""Changes of the nodes of a cluster file: some that are drained, and more that are like one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from unrack.cluster.node_names import NUMBERS, numbers_of
from unrack.cluster.recount import more_names
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.slurm_text.hostlists import compress, expand

Content = dict[str, Any]
_MORE = re.compile(r"\s*(\d{1,6})\s+like\s+(\S.*?)\s*")
_LISTED = ("domains", "failure_domains", "features")
"""Keys below which all texts are lists of nodes; elsewhere those of the key ``nodes`` are."""


def drained(cluster: Cluster, nodes: Sequence[str]) -> Callable[[Content], Content]:
    """The change by which nothing is started on further nodes; an InputError if there are none of that name."""
    found = set(cluster.drained)
    for text in nodes:
        found.update(_nodes("--drain", text, cluster))
    names = [cluster.names[node] if cluster.names else f"{node}" for node in sorted(found)]
    return lambda content: {**content, "drained": compress(names) if cluster.names else ",".join(names)}


def more_like(cluster: Cluster, text: str) -> Callable[[Content], Content]:
    """The change by which there are more nodes, as in ``4 like n1``, with all that is said of that one."""
    match = _MORE.fullmatch(text)
    if match is None or not int(match[1]):
        raise InputError("--add", repr(text), "how many and like which, such as '4 like n1'")
    found = _nodes("--add", match[2], cluster)
    if len(found) > 1 or not cluster.cores[found[0]]:
        raise InputError("--add", repr(match[2]), "one node with cores")
    return lambda content: _with_more(content, found[0], int(match[1]))


def _with_more(content: Content, node: int, count: int) -> Content:
    if content.get("memory_pools") or "memory_system" in content:
        raise InputError("--add", "a cluster with nodes that are memory alone", "a cluster where all nodes have cores")
    cluster = Cluster.from_dict(content)
    of, numbers = content["nodes"][int(cluster.node_class[node])], f"{len(cluster)}-{len(cluster) + count - 1}"
    name = cluster.names[node] if cluster.names else f"node{node}"
    names = more_names(cluster.names[-1], set(cluster.names), count) if cluster.names else []
    calls = {**of, "name": f"{of.get('name') or 'class'}-{len(content['nodes'])}", "count": count}
    if names:
        calls["names"] = compress(names)

    def is_in(text: object) -> bool:
        return isinstance(text, str) and bool(NUMBERS.fullmatch(text)) and node in numbers_of(text, {}, len(cluster))

    def longer(text: str) -> str:
        with suppress(ValueError):
            if names and name in expand(text):
                return compress([*expand(text), *names])
        return text

    def within(value: Any, listed: bool) -> Any:
        if isinstance(value, dict):
            return {key: within(one, listed or key == "nodes" or key in _LISTED) for key, one in value.items()}
        if isinstance(value, list):  # numbers get an entry of their own: not everywhere may one have commas
            more: list[Any] = [numbers] if listed and any(map(is_in, value)) else []
            more += [{**one, "nodes": numbers} for one in value if isinstance(one, dict) and is_in(one.get("nodes"))]
            return [*(within(one, listed) for one in value), *more]
        return longer(value) if listed and isinstance(value, str) else value

    rest = {key: within(value, key in _LISTED) for key, value in content.items() if key != "nodes"}
    return {**rest, "nodes": [*content["nodes"], calls]}


def _nodes(option: str, text: str, cluster: Cluster) -> list[int]:
    try:
        return numbers_of(text, cluster.number_of, len(cluster))
    except ValueError as error:
        got, _, want = str(error).rpartition(" is not ")
        raise InputError(option, got or repr(text[:80]), want) from None
