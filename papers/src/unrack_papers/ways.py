"""Ways in which the authors' simulator of pools departs from the papers' text, as options of a reproduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unrack.cluster import PRESETS
from unrack.errors import InputError
from unrack.slowdown import PUBLISHED
from unrack_papers.options import Options, flag_of
from unrack_papers.reproduction import Reproduction, Row

AWARE = "disaggregation-aware"
AUTHORS = "authors"
READINGS = ("text", AUTHORS)
"""Values of its parameter ``reading``."""
LAYOUTS = ("6-4", "4-6")
"""Attached drives: how many on node 0 and how many on node 2."""
OF_THE_AUTHORS: dict[str, Any] = {"arrivals": "fixed", "frozen": True, "reading": AUTHORS, "attached": "4-6"}
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
    policy = f"{AWARE}(reading={AUTHORS})" if options.reading == AUTHORS and row.policy == AWARE else row.policy
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


def models_of(reproduction: Reproduction, options: Options) -> tuple[str | Mapping[str, Any], ...]:
    """The models of a reproduction under the options."""
    if not options.frozen and options.reading != AUTHORS:
        return tuple(reproduction.models)
    tables = [{"model": model} if isinstance(model, str) else model for model in reproduction.models]
    more: dict[str, Any] = {"frozen": True} if options.frozen else {}
    whole = {"whole_seconds": True} if options.reading == AUTHORS else {}
    return tuple({**one, **more, **(whole if "times_s" in _keys(one) else {})} for one in tables)


def _keys(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a model, published or of one's own."""
    known = PUBLISHED.get(model["model"])
    return {**(known.keys if known else {}), **model}


def check_ways(reproduction: Reproduction, options: Options) -> None:
    """Refuse a way that no row of the reproduction goes.

    Raises
    ------
    InputError
        The message says which rows it needs.
    """
    if options.attached not in LAYOUTS:
        raise InputError("--attached", repr(options.attached), f"one of {', '.join(LAYOUTS)}")
    if options.reading not in READINGS:
        raise InputError("--reading", repr(options.reading), f"one of {', '.join(READINGS)}")
    for name in ("reading", "attached"):
        if getattr(options, name) != getattr(reproduction.defaults, name) and not _changes(reproduction, name):
            want = "attached drives" if name == "attached" else f"a row of the policy {AWARE}"
            raise InputError(reproduction.name, flag_of(name), f"a reproduction with {want}")


def _changes(reproduction: Reproduction, name: str) -> bool:
    rows = [row for point in reproduction.points for row in point.rows]
    if name in ("frozen", "arrivals"):
        return True
    options = replace(reproduction.defaults, **{name: OF_THE_AUTHORS[name]})
    return any(changed_row(row, options) != row for row in rows)
