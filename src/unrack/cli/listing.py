"""``unrack policies | metrics | presets | traces``: what there is, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from unrack.cli.options import Json, print_json, print_lines


def show(entries: dict[str, dict[str, Any]], as_json: bool, tail: tuple[str, ...] = ()) -> None:
    """Print names with one line each, and what each can be given."""
    if as_json:
        print_json(entries)
        return
    width = max(map(len, entries))
    for name, entry in entries.items():
        print_lines([f"{name:{width}}  {entry['summary']}"], width + 2)
        for key, words in entry.get("parameters", {}).items():
            print_lines([f"{'':{width}}    {key}: {words}"], width + 6)
    print_lines(tail)


def summaries(table: Mapping[str, Any], as_json: bool) -> None:
    """Print the names of a table, each with its ``summary``."""
    show({name: {"summary": entry.summary} for name, entry in table.items()}, as_json)


def policies(
    as_json: Json = False,
    long: Annotated[bool, typer.Option("--long", "-l", help="With each policy's parameters.")] = False,
) -> None:
    """List the scheduling policies."""
    from unrack.policy.table import POLICIES

    def parameters(entry: Any) -> dict[str, str]:
        defaults = {
            key: entry.fixed[key] if isinstance(entry.fixed.get(key), str) else parameter.default
            for key, parameter in entry.parameters.items()
        }
        return {key: f"{entry.parameters[key].words} (default {default})" for key, default in defaults.items()}

    entries = {
        name: {"summary": entry.summary, **({"parameters": parameters(entry)} if as_json or long else {})}
        for name, entry in POLICIES.items()
    }
    tail = () if long else ("", "Parameters: unrack policies --long. Written as easy(order=sjf, nodes=whole).")
    show(entries, as_json, tail)


def metrics(as_json: Json = False) -> None:
    """List the metrics with their units."""
    from unrack.metric.table import EVERY_METRIC

    if as_json:
        keys = ("summary", "unit", "better", "formula")
        print_json({name: {key: getattr(metric, key) for key in keys} for name, metric in EVERY_METRIC.items()})
        return
    units = {name: f" [{metric.unit}]" if metric.unit else "" for name, metric in EVERY_METRIC.items()}
    show({name: {"summary": metric.summary + units[name]} for name, metric in EVERY_METRIC.items()}, False)


def presets(as_json: Json = False) -> None:
    """List the named clusters."""
    from unrack.cluster.presets import PRESETS

    summaries(PRESETS, as_json)


def prices(as_json: Json = False) -> None:
    """List the prices by name: prices = "NAME" of a cluster, or unrack plan --prices NAME."""
    from unrack.cluster.prices.prices import PRICES

    summaries(PRICES, as_json)


def models(as_json: Json = False) -> None:
    """List the published performance models: models = ["NAME"] in a study."""
    from unrack.slowdown.model import PUBLISHED

    summaries(PUBLISHED, as_json)


def traces(as_json: Json = False) -> None:
    """List the workload formats, what they can say and their options; and the traces in $UNRACK_TRACES."""
    from unrack.workload.formats.readers import FORMATS
    from unrack.workload.formats.source import traces_found

    found = traces_found()
    if as_json:
        formats = {
            name: {
                "summary": entry.summary,
                "offers": sorted(entry.offers),
                "options": {key: repr(default) for key, default in entry.options.items()},
            }
            for name, entry in FORMATS.items()
        }
        print_json({"formats": formats, "found": found})
        return
    tail = ["Set UNRACK_TRACES to a folder of traces, and they are found by name and listed here."]
    if found:
        tail = ["found in $UNRACK_TRACES:", *(f"  {name}" for name in found)]
    entries = {
        name: {
            "summary": f"{entry.summary}; can say: {', '.join(sorted(entry.offers))}",
            "parameters": {key: f"default {default!r}" for key, default in entry.options.items()},
        }
        for name, entry in FORMATS.items()
    }
    show(entries, False, ("", *tail))


TABLES = {
    "readers": "workload.formats.readers:FORMATS",
    "generators": "workload.generate.generator:GENERATORS",
    "usages": "workload.usage.settings:USAGES",
    "resources": "resources.table:RESOURCES",
    "slowdowns": "slowdown.combined:SLOWDOWNS",
    "metrics": "metric.table:EVERY_METRIC",
    "sections": "report.resource_section:SECTIONS",
    "policies": "policy.table:POLICIES",
    "core_rules": "sim.frames.held:CORE_RULES",
    "commands": "cli.main:COMMANDS",
}
"""Where each table is."""


def plugins(
    every: Annotated[bool, typer.Option("--all", help="Also list what is built in, by name.")] = False,
    as_json: Json = False,
) -> None:
    """List extensions by kind: where each comes from, and what is wrong with those that cannot be used."""
    rows = [row for group in TABLES for row in _rows(group)]
    if as_json:
        print_json(rows)
        return
    built_in = [row for row in rows if not row["from"]]
    shown = rows if every else [row for row in rows if row["from"]]
    kinds, names = (max((len(row[key]) for row in shown), default=0) for key in ("kind", "name"))
    for row in shown:
        fault = f"; ERROR: {row['error']}" if row["error"] else ""
        print_lines([f"{row['kind']:{kinds}}  {row['name']:{names}}  {row['from'] or 'built in'}{fault}"], 4)
    counts = {group: sum(row["kind"] == group for row in built_in) for group in TABLES}
    if not every:
        print_lines([f"built in: {', '.join(f'{count} {group}' for group, count in counts.items() if count)} (--all)"])


def _rows(group: str) -> list[dict[str, Any]]:
    module, _, name = TABLES[group].partition(":")
    table = getattr(import_module(f"unrack.{module}"), name)
    found = [{"kind": group, "name": own, "from": "", "at": "", "error": ""} for own in table.own]
    for name, several in table.added().items():
        fault = table.fault(name)
        found += [{"kind": group, "name": name, "from": one.home, "at": one.at, "error": fault} for one in several]
    return found
