"""Ways in which the authors' simulator of pools departs from the papers' text, as options of a reproduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unrack.cluster.presets import PRESETS
from unrack.errors import InputError
from unrack.papers.options import Options, flag_of
from unrack.papers.reproduction import Reproduction, Row

POLICY_WAYS = {"late_joins": "late_joins=yes", "running_load": "load=running", "shortcuts": "shortcuts=yes"}
"""Option → parameter of the disaggregation-aware policy."""
AWARE = "disaggregation-aware"
LAYOUTS = ("6-4", "4-6")
"""Attached drives: how many on node 0 and how many on node 2."""
OF_THE_AUTHORS: dict[str, Any] = {
    "arrivals": "fixed", "frozen": True, **dict.fromkeys(POLICY_WAYS, True), "attached": "4-6"
}  # fmt: skip
"""All that ``--as-authors`` stands for."""


def as_authors(reproduction: Reproduction) -> dict[str, Any]:
    """The options that ``--as-authors`` stands for, as far as they change anything here.

    Raises
    ------
    InputError
        The reproduction is not of that simulator.
    """
    if "frozen" not in reproduction.takes:
        raise InputError(reproduction.name, "--as-authors", "a reproduction of pooled devices: nvme-* or vgpu-*")
    return {name: value for name, value in OF_THE_AUTHORS.items() if _changes(reproduction, name)}


def changed_row(row: Row, options: Options) -> Row:
    """The row under the options."""
    cluster = swapped(row.cluster) if options.attached != LAYOUTS[0] else row.cluster
    words = [words for name, words in POLICY_WAYS.items() if getattr(options, name)]
    policy = f"{AWARE}({', '.join(words)})" if words and row.policy == AWARE else row.policy
    return replace(row, policy=policy, cluster=cluster)


def swapped(cluster: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """A cluster with six drives attached to node 2 and four to node 0; as it is where none are attached so."""
    if cluster == "nvme-attached":
        return "nvme-attached-4-6"
    content = PRESETS[cluster].content if isinstance(cluster, str) else cluster
    counts = {"nvme-node0": 4, "nvme-node2": 6}
    pools = [{**pool, "count": counts.get(pool.get("name", ""), pool["count"])} for pool in content.get("pools", [])]
    if pools == list(content.get("pools", [])):
        return cluster
    return {"name": f"{cluster if isinstance(cluster, str) else cluster['name']}-4-6", **content, "pools": pools}


def check_ways(reproduction: Reproduction, options: Options) -> None:
    """Refuse a way that no row of the reproduction goes.

    Raises
    ------
    InputError
        The message says which rows it needs.
    """
    if options.attached not in LAYOUTS:
        raise InputError("--attached", repr(options.attached), f"one of {', '.join(LAYOUTS)}")
    for name in (*POLICY_WAYS, "attached"):
        if getattr(options, name) != getattr(reproduction.defaults, name) and not _changes(reproduction, name):
            want = "attached drives" if name == "attached" else f"a row of the policy {AWARE}"
            raise InputError(reproduction.name, flag_of(name), f"a reproduction with {want}")


def _changes(reproduction: Reproduction, name: str) -> bool:
    rows = [row for point in reproduction.points for row in point.rows]
    if name in ("frozen", "arrivals"):
        return True
    options = replace(reproduction.defaults, **{name: OF_THE_AUTHORS[name]})
    return any(changed_row(row, options) != row for row in rows)
