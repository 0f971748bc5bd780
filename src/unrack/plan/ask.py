"""``unrack.plan_study``: the answer of a plan in Python, and its page in the report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from unrack.facts import Fact, table
from unrack.plan.answer import answer, chart
from unrack.plan.decided import share_text, shown, values_text
from unrack.plan.execute import Plan, Told, execute
from unrack.plan.goal import read_goal
from unrack.plan.settings import Vary, make_settings, values_of
from unrack.report.charts.spec import colour_of
from unrack.study.input.inputs import Document
from unrack.study.results.record import write_whole
from unrack.study.workers.shared import Workers
from unrack.study.workers.table import On, open_workers

ANSWER = "plan.json"
PAGE = "plan.html"


def write_plan(directory: Path, name: str, found: Mapping[str, Any]) -> Path:
    """Write what :func:`unrack.plan.answer.answer` found as JSON and as a page, into a folder that exists; its page."""
    write_whole(directory / ANSWER, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_whole(directory / PAGE, page(name, found))
    return directory / PAGE


def page(name: str, found: Mapping[str, Any]) -> str:
    """The page as HTML, complete in itself."""
    from unrack.report.charts.vega import vega
    from unrack.report.page import asset, script_json, template

    labels = found["labels"]
    of_values = {"values": lambda values: values_text(values, labels), "key": lambda key: labels.get(key, key)}
    money = {"money": lambda value: f"{value:,.0f}", "shown": shown, "share": share_text}
    goals = [
        {"words": words, "chart": chart(found, at), "decisions": _decisions(found, at)}
        for at, words in enumerate(found["goals"])
        if at in found["shown"]
        and any(system["goals"][at]["value"] is not None for line in found["lines"] for system in line["tried"])
    ]
    titles = [f"cost against {own['words'].split(' ')[0]} of all systems that were tried" for own in goals]
    specs = [{"title": title, "spec": own["chart"]} for title, own in zip(titles, goals, strict=True)]
    return template("plan.html.j2", **of_values, **money).render(
        name=name, found=found, charts=goals, lines=[_line(found, at) for at in range(len(found["lines"]))],
        charts_json=script_json(specs), scripts=[vega(), asset("theme.js"), asset("plan.js")] if goals else [],
    )  # fmt: skip


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
    line = found["lines"][at]
    chosen = None if line["answer"] is None else line["answer"]["values"]
    costs = [system["cost"]["total"] for system in line["tried"]]
    steps = [None, *(cost - before for before, cost in pairwise(costs))]
    rows = []
    for system, cost, step in zip(line["tried"], costs, steps, strict=True):
        own = [system["goals"][goal] for goal in found["shown"]]
        margins = ["" if one["margin"] is None else f"{100 * one['margin']:+.3g} %" for one in own]
        cells = [{"value": one["text"], "margin": margin} for one, margin in zip(own, margins, strict=True)]
        rows.append({**system, "cells": cells, "chosen": system["values"] == chosen, "step": step, "total": cost})
    return {**line, "rows": rows, "colour": colour_of(at), "keys": list(line["tried"][0]["values"])}


@dataclass(frozen=True)
class Planned:
    """The answer of a plan.

    Attributes
    ----------
    found
        Everything there is to say, as ``plan.json`` has it: see :func:`unrack.plan.answer.answer`.
    page
        The page; ``None``: nothing was to be kept.
    """

    found: Mapping[str, Any]
    page: Path | None = None

    @property
    def lines(self) -> Sequence[Mapping[str, Any]]:
        """The answer for each cluster and policy, with ``line["answer"]["values"]`` and ``line["sentence"]``."""
        return list(self.found["lines"])

    @property
    def least(self) -> Mapping[str, Any] | None:
        """The line that needs least; ``None``: nothing that was tried meets the goals."""
        at = self.found["least"]
        return None if at is None else self.lines[at]

    def __repr__(self) -> str:
        goals = " and ".join(self.found["goals"])
        said = "nothing that was tried meets it" if self.least is None else self.least["brief"]
        return f"<plan for {goals}: {said}>"

    def _repr_html_(self) -> str:
        rows = []
        for line in self.lines:
            takes = "nothing that was tried"
            if (own := line["answer"]) is not None:
                cost = f"{own['cost']['total']:,.0f} {self.found['currency']}"
                takes = f"{values_text(own['values'], self.found['labels'])}, {cost}"
            rows.append(Fact(f"{line['policy']} on {line['cluster']}", takes))
        return table("Plan", " and ".join(self.found["goals"]), rows)


def plan_study(
    study: str | Path | Mapping[str, Any],
    goals: Sequence[str] = (),
    vary: Mapping[str, str | Sequence[Any]] | None = None,
    *,
    directory: str | Path | None = None,
    policies: Sequence[str] = (),
    workers: int | Workers | On = 1,
    told: Told | None = None,
    audit: bool = True,
    **settings: Any,
) -> Planned:
    """Find the cheapest system that meets goals, for every cluster and policy of a study.

    Parameters
    ----------
    study
        A study file, or its content as a table.
    goals
        Such as ``"wait_s_p95 < 10 min"``; default: those of its ``[plan]``.
    vary
        Key → values, as a list or as text such as ``"1..20"``; default: those of its ``[plan]``.
    directory
        Where runs, ``plan.json`` and ``plan.html`` are kept; finished runs are not run again. ``None``: nowhere.
    policies
        Further policies: names, names with parameters, or ``FILE.py:NAME``.
    workers
        How many processes, or workers that are open.
    told
        Told how far it is.
    audit
        Check the tables of every run.
    settings
        ``objective``, ``share``, ``confidence``, ``seeds``, ``prices``, ``reference``, ``search``, in place of those of
        the study: see :class:`unrack.plan.settings.PlanTable`.

    Raises
    ------
    InputError
        The study, a goal or a setting cannot be.
    RunError
        A run failed; the others are kept.

    Examples
    --------
    >>> service = {"run_s": {"kind": "exponential", "mean": 300}, "cores": 4, "tasks": 2}
    >>> study = {
    ...     "policies": ["easy"],
    ...     "clusters": [{"nodes": [{"count": 4, "cores": 8}], "prices": {"node": 1000}}],
    ...     "workloads": [{"generate": {"jobs": 40, "arrivals": {"gap_s": 60}, "classes": [service]}}],
    ... }
    >>> found = plan_study(study, ["wait_s_p95 < 10 min"], {"clusters.0.nodes.0.count": "1..9"}, seeds=5)
    >>> found.least["answer"]["verdict"], found.least["below"]["verdict"]
    ('meets', 'fails')
    """
    document = Document("study", None, dict(study)) if isinstance(study, Mapping) else Document.read(study)
    varies = [Vary(key, values_of(values, f"vary {key}")) for key, values in (vary or {}).items()]
    made = make_settings(document, [read_goal(text, "goals") for text in goals], varies, **settings)
    return carried_out(Plan(document, made, policies), directory, workers, told, audit)


def carried_out(
    plan: Plan, directory: str | Path | None, workers: int | Workers | On, told: Told | None, audit: bool
) -> Planned:
    """Carry out a plan, and write its page where a directory is given."""
    folder = TemporaryDirectory(prefix="unrack-plan-") if directory is None else nullcontext(str(directory))
    with folder as where, open_workers(workers) as those:
        found = answer(plan, execute(plan, those, Path(where), told=told, audit=audit))
        return Planned(found, None if directory is None else write_plan(Path(where), plan.name, found))
