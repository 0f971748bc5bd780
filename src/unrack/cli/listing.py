"""``unrack policies | metrics | presets | scenarios | traces``: what there is, one line each."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def show(entries: dict[str, dict[str, Any]], as_json: bool, tail: tuple[str, ...] = ()) -> None:
    """Print names with one line each, and what each can be given."""
    if as_json:
        typer.echo(json.dumps(entries, indent=1, ensure_ascii=False))
        return
    width = max(len(name) for name in entries)
    for name, entry in entries.items():
        typer.echo(f"{name:{width}}  {entry['summary']}")
        for key, words in entry.get("parameters", {}).items():
            typer.echo(f"{'':{width}}    {key}: {words}")
    for line in tail:
        typer.echo(line)


def policies(
    as_json: Json = False,
    long: Annotated[bool, typer.Option("--long", "-l", help="With each policy's parameters.")] = False,
) -> None:
    """List the scheduling policies."""
    from unrack.policy.table import POLICIES

    entries: dict[str, dict[str, Any]] = {}
    for name, entry in POLICIES.items():
        entries[name] = {"summary": entry.summary}
        if as_json or long:
            entries[name]["parameters"] = {
                key: f"{parameter.words} (default {_default(key, parameter.default, entry.fixed)})"
                for key, parameter in entry.parameters.items()
            }
    tail = () if long else ("", "Parameters: unrack policies --long. Written as easy(order=sjf, nodes=whole).")
    show(entries, as_json, tail)


def _default(key: str, default: str, fixed: Any) -> str:
    value = fixed.get(key, default)
    return value if isinstance(value, str) else default


def metrics(as_json: Json = False) -> None:
    """List the metrics with their units."""
    from unrack.metric.table import EVERY_METRIC

    entries = {}
    for name, metric in EVERY_METRIC.items():
        unit = f" [{metric.unit}]" if metric.unit else ""
        entry: dict[str, Any] = {"summary": f"{metric.summary}{unit}"}
        if as_json:
            entry = {"summary": metric.summary, "unit": metric.unit, "better": metric.better, "formula": metric.formula}
        entries[name] = entry
    show(entries, as_json)


def presets(as_json: Json = False) -> None:
    """List the named clusters."""
    from unrack.cluster.presets import PRESETS

    show({name: {"summary": preset.summary} for name, preset in PRESETS.items()}, as_json)


def prices(as_json: Json = False) -> None:
    """List the prices by name: prices = "NAME" of a cluster, or unrack plan --prices NAME."""
    from unrack.cluster.prices.prices import PRICES

    show({name: {"summary": preset.summary} for name, preset in PRICES.items()}, as_json)


def scenarios(as_json: Json = False) -> None:
    """List the papers' mixes of jobs: generate = {scenario = "NAME", load = 0.7}."""
    from unrack.workload.generate.scenarios import SCENARIOS

    show({name: {"summary": entry.summary} for name, entry in SCENARIOS.items()}, as_json)


def models(as_json: Json = False) -> None:
    """List the published performance models: models = ["NAME"] in a study."""
    from unrack.slowdown.model import PUBLISHED

    show({name: {"summary": entry.summary} for name, entry in PUBLISHED.items()}, as_json)


def traces(as_json: Json = False) -> None:
    """List the workload formats, what they can say and their options; and the traces in $UNRACK_TRACES."""
    from unrack.workload.formats.readers import FORMATS
    from unrack.workload.formats.source import traces_found

    entries: dict[str, dict[str, Any]] = {}
    for name, entry in FORMATS.items():
        offers = ", ".join(sorted(entry.offers))
        entries[name] = {"summary": f"{entry.summary}; can say: {offers}"}
        if as_json:
            entries[name] = {
                "summary": entry.summary,
                "offers": sorted(entry.offers),
                "options": {key: repr(default) for key, default in entry.options.items()},
            }
        else:
            entries[name]["parameters"] = {key: f"default {default!r}" for key, default in entry.options.items()}
    found = traces_found()
    if as_json:
        typer.echo(json.dumps({"formats": entries, "found": found}, indent=1, ensure_ascii=False))
        return
    show(entries, as_json)
    typer.echo("")
    if found:
        typer.echo("found in $UNRACK_TRACES:")
        for name in found:
            typer.echo(f"  {name}")
    else:
        typer.echo("Set UNRACK_TRACES to a folder of traces, and they are found by name and listed here.")
