"""What the page shows of resources and plug-ins: a section each, with the tables that it makes of every setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from unrack.errors import InputError
from unrack.live.driver.history.columns import LATENCIES, LIVE
from unrack.plugins.code import blamed
from unrack.plugins.table import Table as Extensible
from unrack.report.charts.chart import MOST_POLICIES
from unrack.report.charts.spec import colour_of
from unrack.report.setting import Setting, policies_of
from unrack.resources.contract import Nodes
from unrack.resources.site.installed import Site
from unrack.resources.table import RESOURCES
from unrack.resources.use import Kept, Table


class ResourceSection(NamedTuple):
    """The section of a resource: its name and heading, and the title and tables of every setting that has any."""

    name: str
    title: str
    settings: tuple[tuple[str, tuple[Table, ...]], ...]


class Section(NamedTuple):
    """A section of the report: its heading, and what it shows of the runs of one setting; none: nothing."""

    title: str
    tables: Callable[[Sequence[Kept]], tuple[Table, ...]]


def _of_others(name: str, found: Any) -> Section:
    if not isinstance(found, Section):
        raise InputError(f"the section {name}", f"{found!r:.100}", "Section(title, tables)")
    return found


SECTIONS: Extensible[Section] = Extensible("sections", {}, _of_others)
"""Name → section."""


def resource_sections(settings: Sequence[Setting]) -> tuple[ResourceSection, ...]:
    """A section for every resource that some cluster of these settings has, and for every plug-in's in use."""
    found = []
    colours = {policy: colour_of(at) for at, policy in enumerate(policies_of(settings))}
    of_resources = {name: Section(resource.title, resource.section) for name, resource in RESOURCES.items()}
    for name, section in (of_resources | SECTIONS.taking_part()).items():
        resource = name if name in of_resources else None
        with blamed(f"the section {name}"):
            own = [(setting.title, section.tables(_kept(setting, resource, colours))) for setting in settings]
        shown = tuple((title, tuple(map(_told, tables))) for title, tables in own if tables)
        if shown:
            found.append(ResourceSection(name, section.title, shown))
    return tuple(found)


def _told(table: Table) -> Table:
    """The table, with a picture, if it has one, that says to screen readers what it is."""
    if not table.picture or "aria-label=" in table.picture.partition(">")[0]:
        return table
    return table._replace(picture=table.picture.replace("<svg", f'<svg aria-label="{escape(table.title)}"', 1))


def _kept(setting: Setting, resource: str | None, colours: Mapping[str, str]) -> list[Kept]:
    """The runs that have a resource, with its claims alone; of no resource: all, with all claims."""
    kept = []
    for policy, runs in list(setting.runs.items())[:MOST_POLICIES]:
        for run in runs:
            has = run.has("claims")
            written = None if resource is None else run.record["cluster"].get("resources", {}).get(resource)
            if resource is None or (written is not None and has):
                claims = run.frame("claims") if has else pl.DataFrame()
                mine = claims if resource is None else claims.filter(pl.col("resource") == resource)
                own = run.hardware
                site = own.places.installed.get("site")
                counters = site.cluster_nodes.counters if isinstance(site, Site) else ()
                nodes = Nodes(own.cores, own.memory_mb, own.rack, own.rack_names, counters=counters)
                kept.append(Kept(policy, run.seed, written, run.metrics, mine, nodes, run.frame, colours[policy]))
    return kept


WORDS = (
    "A start is decided, then Slurm is told where (after the devices of the job are attached), then Slurm reports it. "
    "The job counts as holding its nodes from the decision to the moment in which all that it held was free again; "
    "waits and run times of live and simulated runs are counted so."
)
HEAD = ("policy", "step", "jobs", "median (s)", "90 % (s)", "longest (s)")


def live_section(settings: Sequence[Setting]) -> ResourceSection | None:
    """The section; ``None``: no run is a live one."""
    found = []
    for setting in settings:
        rows: list[tuple[str, ...]] = []
        for policy, runs in list(setting.runs.items())[:MOST_POLICIES]:
            if policy.startswith(LIVE):
                rows += _rows(policy, runs[0].frame("jobs"))
        if rows:
            found.append((setting.title, (Table("From submission to start", WORDS, HEAD, tuple(rows)),)))
    return ResourceSection("live", "Live", tuple(found)) if found else None


def _rows(policy: str, jobs: pl.DataFrame) -> list[tuple[str, ...]]:
    rows = []
    for column, words in LATENCIES.items():
        values = jobs[column].drop_nulls() if column in jobs.columns else pl.Series([], dtype=pl.Float64)
        if len(values):
            told = np.quantile(values.to_numpy(), (0.5, 0.9, 1.0)).tolist()
            rows.append((policy, words, f"{len(values):,}", *(f"{one:.2f}" for one in told)))
    return rows
