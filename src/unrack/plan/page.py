"""The page of a plan: the answer, the charts, every system that was tried, and the bill."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from unrack.plan.chart import chart
from unrack.plan.decided import share_text
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
        "share": lambda share: share_text(share),
    }
    template = environment.from_string((files("unrack.plan") / "assets" / "plan.html.j2").read_text("utf-8"))
    style = (files("unrack.report") / "assets" / "page.css").read_text("utf-8")
    goals = [
        {"words": words, "chart": chart(found, at), "decisions": _decisions(found, at)}
        for at, words in enumerate(found["goals"])
        if at in found["shown"]
        and any(system["goals"][at]["value"] is not None for line in found["lines"] for system in line["tried"])
    ]
    return template.render(
        name=name, found=found, style=style, charts=goals, lines=[_line(found, at) for at in range(len(found["lines"]))]
    )


def _decisions(found: Mapping[str, Any], goal: int) -> list[dict[str, str]]:
    """The margins of the answer of each line and of the one below it, in words."""
    told = []
    for at, line in enumerate(found["lines"]):
        for key, system in (("answer", line["answer"]), ("below", line["below"])):
            if system is None:
                continue
            own, margin = system["goals"][goal], system["goals"][goal]["margin"]
            values = values_text(system["values"], found["labels"])
            far = "" if margin is None or not math.isfinite(margin) else f" by {100 * abs(margin):.3g} % of it"
            if system["seeds"] and own["value"] is None:
                words = "has no value on a seed that counts"
            elif key == "answer" or (margin or 0.0) > 0:
                words = f"has {own['text']}, within the goal{far}"
            else:
                words = f"has {own['text']}, past the goal{far}"
            told.append({"colour": colour_of(at), "key": key, "words": f"{line['policy']}: {values} {words}"})
    return told


def _line(found: Mapping[str, Any], at: int) -> dict[str, Any]:
    """A line with the cells of its table."""
    line = found["lines"][at]
    chosen = None if line["answer"] is None else line["answer"]["values"]
    rows: list[dict[str, Any]] = []
    before: float | None = None
    for system in line["tried"]:
        cost = system["cost"]["total"]
        cells = [_cell(system["goals"][goal]) for goal in found["shown"]]
        step = None if before is None else cost - before
        rows.append({**system, "cells": cells, "chosen": system["values"] == chosen, "step": step, "total": cost})
        before = cost
    return {**line, "rows": rows, "colour": colour_of(at), "keys": list(line["tried"][0]["values"])}


def _cell(own: Mapping[str, Any]) -> dict[str, str]:
    margin = own["margin"]
    return {"value": own["text"], "margin": "" if margin is None else f"{100 * margin:+.3g} %"}
