"""The page of a plan: the answer, the charts, every system that was tried, and the bill."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from unrack.plan.chart import SEEDS_OF_INTERVALS, chart
from unrack.plan.goal import amount_text
from unrack.plan.words import shown, values_text
from unrack.report.charts.spec import colour_of
from unrack.study.results.record import write_whole

ANSWER = "plan.json"
PAGE = "plan.html"


def write_plan(directory: Path, name: str, found: Mapping[str, Any]) -> Path:
    """Write the answer of a plan as JSON and as a page; returns the page.

    Parameters
    ----------
    directory
        It exists.
    name
        What the study is called.
    found
        As :func:`unrack.plan.answer.answer` has it.
    """
    write_whole(directory / ANSWER, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_whole(directory / PAGE, page(name, found))
    return directory / PAGE


def page(name: str, found: Mapping[str, Any]) -> str:
    """The page as HTML, complete in itself."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    labels = found["labels"]
    environment.filters |= {
        "values": lambda values: values_text(values, labels),
        "key": lambda key: labels.get(key, key),
        "money": lambda value: f"{value:,.0f}",
        "shown": shown,
    }
    template = environment.from_string((files("unrack.plan") / "assets" / "plan.html.j2").read_text("utf-8"))
    style = (files("unrack.report") / "assets" / "page.css").read_text("utf-8")
    goals = [
        {"words": words, "chart": chart(found, at)}
        for at, words in enumerate(found["goals"])
        if at in found["shown"]
        and any(system["goals"][at]["mean"] is not None for line in found["lines"] for system in line["tried"])
    ]
    return template.render(
        name=name, found=found, style=style, charts=goals, lines=[_line(found, at) for at in range(len(found["lines"]))]
    )


def _line(found: Mapping[str, Any], at: int) -> dict[str, Any]:
    """A line with the cells of its table."""
    line = found["lines"][at]
    chosen = None if line["answer"] is None else line["answer"]["values"]
    rows: list[dict[str, Any]] = []
    before: float | None = None
    for system in line["tried"]:
        cost = system["cost"]["total"]
        cells = [_cell(system["goals"][goal], system["seeds"], found["relative"][goal]) for goal in found["shown"]]
        step = None if before is None else cost - before
        rows.append({**system, "cells": cells, "chosen": system["values"] == chosen, "step": step, "total": cost})
        before = cost
    return {**line, "rows": rows, "colour": colour_of(at), "keys": list(line["tried"][0]["values"])}


def _cell(own: Mapping[str, Any], seeds: int, relative: bool) -> dict[str, str]:
    metric = own["goal"].partition(" ")[0]
    if own["mean"] is None:
        return {"mean": "–", "half": "", "margin": ""}
    spread = own["half"] if seeds >= SEEDS_OF_INTERVALS else 0.0
    half = "" if not spread else f" ± {100 * spread:.3g} %" if relative else f" ± {amount_text(metric, spread)}"
    margin = "" if own["margin"] is None else f"{100 * own['margin']:+.3g} %"
    return {"mean": own["text"], "half": half, "margin": margin}
