"""What the page shows of resources: a section each, with the tables that it makes of every setting."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import polars as pl

from unrack.report.charts.chart import MOST_POLICIES
from unrack.report.setting import Setting
from unrack.resources.contract import Kept, Nodes, Table
from unrack.resources.table import RESOURCES


class ResourceSection(NamedTuple):
    """The section of a resource: its name and heading, and the title and tables of every setting that has any."""

    name: str
    title: str
    settings: tuple[tuple[str, tuple[Table, ...]], ...]


def resource_sections(settings: Sequence[Setting]) -> tuple[ResourceSection, ...]:
    """A section for every resource that some cluster of these settings has."""
    found = []
    for name, resource in RESOURCES.items():
        own = [(setting.title, resource.section(_kept(setting, name))) for setting in settings]
        shown = tuple((title, tuple(map(_told, tables))) for title, tables in own if tables)
        if shown:
            found.append(ResourceSection(name, resource.title, shown))
    return tuple(found)


def _told(table: Table) -> Table:
    """The table whose picture, if it has one, says to screen readers what it is."""
    if not table.picture or "aria-label=" in table.picture.partition(">")[0]:
        return table
    return table._replace(picture=table.picture.replace("<svg", f'<svg aria-label="{escape(table.title)}"', 1))


def _kept(setting: Setting, name: str) -> list[Kept]:
    kept = []
    for policy, runs in list(setting.runs.items())[:MOST_POLICIES]:
        for run in runs:
            written = run.record["cluster"].get("resources", {}).get(name)
            if written is not None and run.has("claims"):
                own, claims = run.hardware, run.frame("claims").filter(pl.col("resource") == name)
                nodes = Nodes(own.cores, own.memory_mb, own.rack, own.rack_names)
                kept.append(Kept(policy, run.seed, written, run.metrics, claims, nodes, run.frame))
    return kept
