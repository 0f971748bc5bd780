"""``unrack plugins``: what other distributions and files add, where it comes from, and what is wrong with it."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from unrack.cli.options import Json, print_json

TABLES = {
    "readers": "workload.formats.readers:FORMATS",
    "generators": "workload.generate.generator:GENERATORS",
    "resources": "resources.table:RESOURCES",
    "slowdowns": "slowdown.combined:SLOWDOWNS",
    "metrics": "metric.table:EVERY_METRIC",
    "sections": "report.resource_section:SECTIONS",
    "policies": "policy.table:POLICIES",
}
"""Where each table is."""


def plugins(
    every: Annotated[bool, typer.Option("--all", help="Also list what is built in, by name.")] = False,
    as_json: Json = False,
) -> None:
    """List extensions by kind: where each comes from, and what is wrong with those that cannot be used."""
    rows = [row for group in TABLES for row in _rows(group)] + _commands()
    if as_json:
        print_json(rows)
        return
    built_in = [row for row in rows if not row["from"]]
    shown = rows if every else [row for row in rows if row["from"]]
    kinds, names = (max((len(row[key]) for row in shown), default=0) for key in ("kind", "name"))
    for row in shown:
        fault = f"; ERROR: {row['error']}" if row["error"] else ""
        typer.echo(f"{row['kind']:{kinds}}  {row['name']:{names}}  {row['from'] or 'built in'}{fault}")
    counts = {group: sum(row["kind"] == group for row in built_in) for group in TABLES}
    if not every:
        typer.echo(f"built in: {', '.join(f'{count} {group}' for group, count in counts.items() if count)} (--all)")


def _rows(group: str) -> list[dict[str, Any]]:
    module, _, name = TABLES[group].partition(":")
    table = getattr(import_module(f"unrack.{module}"), name)
    found = [{"kind": group, "name": own, "from": "", "at": "", "error": ""} for own in table.own]
    for name, several in table.added().items():
        fault = table.fault(name)
        found += [{"kind": group, "name": name, "from": one.home, "at": one.at, "error": fault} for one in several]
    return found


def _commands() -> list[dict[str, Any]]:
    from unrack.plugins.code import in_words
    from unrack.plugins.table import installed

    found = []
    for name, several in installed().get("commands", {}).items():
        for one in several:
            fault = "" if len(several) == 1 else "several have this name"
            try:
                one.load()
            except Exception as error:  # of others, and told
                fault = in_words(error)
            found.append({"kind": "commands", "name": name, "from": one.home, "at": one.at, "error": fault})
    return found
