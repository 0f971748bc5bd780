"""The report: one HTML page with everything in it, from the files of a finished study."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrack.facts import counted, some
from unrack.report.answer import answer
from unrack.report.breakdown import breakdowns, inputs, losses
from unrack.report.charts.canvas import MOST_ROWS_A_PAGE, MOST_RUNS, budgets, gantt_data
from unrack.report.charts.chart import MOST_POLICIES, MOST_SETTINGS, metric_choices
from unrack.report.charts.spec import colour_of
from unrack.report.charts.vega import vega
from unrack.report.sections.contents import SECTIONS, contents_of
from unrack.report.sections.section import first_runs
from unrack.report.setting import FinishedStudy, RunFiles, Setting, read_finished
from unrack.report.table import comparison
from unrack.study.notes import told_of
from unrack.study.results.keep import PAST
from unrack.study.results.record import believed, write_whole

if TYPE_CHECKING:
    import jinja2

MOST_NAMES = 12
MOST_INPUTS = 8
_SCRIPTS = ("time_canvas.js", "gantt_rows.js", "gantt.js", "pool_rows.js", "pools.js", "page.js")
_MAPS = ("memory_map.js",)


def write_report(study_dir: Path, bootstrap: float | None = None) -> Path:
    """Write ``report.html`` in the directory of a finished study, or write it again; returns its path.

    The page needs no network and no other file, and its bytes follow from the study's files alone. ``bootstrap``:
    intervals of a study with one seed, of blocks of so many seconds, ``BY_RULE``: of a length by rule; see
    :mod:`unrack.metric.bootstrap`. An InputError says what is missing in the directory.
    """
    study = read_finished(study_dir)
    with believed(study_dir, [run.record for run in study.runs]):
        page = render(study, bootstrap)
    path = study_dir / "report.html"
    write_whole(path, page)
    return path


def render(study: FinishedStudy, bootstrap: float | None = None) -> str:
    """The page as text; ``bootstrap``: see :func:`write_report`."""
    found = contents_of(study, bootstrap)
    settings, shown, policies, swept = found.settings, found.shown, found.policies, found.swept
    gantts = _gantts(shown)
    table = comparison(settings)
    charts: dict[str, Any] = {
        "policies": [{"name": name, "colour": colour_of(index)} for index, name in enumerate(policies)],
        "sweeps": swept,
        **found.parts(),
    }
    return template("page.html.j2").render(
        name=str(study.table.get("name") or "A study"),
        question=str(study.table.get("question") or ""),
        answer=answer(settings),
        facts=_facts(study.runs, policies, settings[0].labels),
        failed=_failed(study),
        notes=told_of((run.label, run.record) for run in study.runs),
        table=table,
        colours={name: colour_of(index) for index, name in enumerate(policies)},
        settings=settings,
        choices=metric_choices(swept),
        worlds=any(len(setting.worlds) > 1 for setting in settings),
        less=any(setting.served_less for setting in settings),
        among=any(cell.mark == "among" for _, rows in table.groups for row in rows for cell in row.cells),
        limits={
            "inputs": MOST_INPUTS,
            "settings": MOST_SETTINGS,
            "policies": MOST_POLICIES,
            "runs": MOST_RUNS,
        },
        seeds=max(setting.seeds for setting in settings),
        intervals="; ".join(dict.fromkeys(setting.intervals for setting in settings if setting.intervals)),
        drawn=bootstrap is not None,
        gantts=gantts,
        **{name: found.sections.get(name) for name in SECTIONS},
        failures=found.failures,
        resources=found.resources,
        inputs=inputs(study.runs),
        losses=losses(settings),
        breakdowns=[table for setting in shown[:4] for table in breakdowns(_narrow(setting))],
        study_text=study.text,
        digests=_digests(study.runs),
        past=any(PAST in run.record for run in study.runs),
        versions=sorted({str(run.record.get("unrack", "unknown")) for run in study.runs}),
        charts_json=script_json(charts),
        gantt_json=script_json(gantts),
        pool_json=script_json(found.sections["pools"].packed if "pools" in found.sections else []),
        vega=vega(),
        scripts=[_asset(name) for name in (*_MAPS * bool({"memory", "tiers"} & set(found.sections)), *_SCRIPTS)],
    )


def template(name: str) -> jinja2.Template:
    """A page that is to be filled in, in the style of all."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_asset),
    )
    environment.globals["style"] = _asset("page.css")
    return environment.get_template(name)


def script_json(value: object) -> str:
    r"""JSON that is safe inside a ``<script type="application/json">`` element, whatever the strings in it.

    Examples
    --------
    >>> script_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, default=lambda cells: cells.packed())
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return resources.files("unrack.report").joinpath("assets", name).read_text(encoding="utf-8")


def _narrow(setting: Setting) -> Setting:
    return replace(setting, runs=dict(list(setting.runs.items())[:MOST_POLICIES]), drawn={})


def _gantts(settings: Sequence[Setting]) -> list[dict[str, Any]]:
    chosen = [(run, title) for run, title, _ in first_runs(settings)][:MOST_RUNS]
    shares = budgets([run.rows("placements") for run, _ in chosen], MOST_ROWS_A_PAGE)
    return [gantt_data(run, title, budget) for (run, title), budget in zip(chosen, shares, strict=True)]


def _facts(runs: Sequence[RunFiles], policies: Sequence[str], labels: Mapping[str, str]) -> list[tuple[str, str]]:
    """What was run: (noun, words)."""
    clusters: dict[str, str] = {}
    for run in runs:
        size = [f"{run.record['cluster'][key]:,} {key}" for key in ("nodes", "cores") if run.record["cluster"].get(key)]
        clusters.setdefault(run.cluster, f"{run.cluster} ({', '.join(size)})" if size else run.cluster)
    workloads: dict[str, str] = {}
    for run in runs:
        kept = (run.record["workload"].get("intake") or {}).get("kept")
        workloads.setdefault(
            run.workload, f"{run.workload} ({counted(kept, 'job')})" if kept is not None else run.workload
        )
    swept: dict[str, list[str]] = {}
    for run in runs:
        for key, value in run.parameters.items():
            if str(value) not in swept.setdefault(key, []):
                swept[key].append(str(value))
    ties = list(dict.fromkeys(str(run.record["ties"]) for run in runs if run.record.get("ties")))
    facts = [
        ("Clusters", list(clusters.values())), ("Workloads", list(workloads.values())), ("Policies", list(policies)),
        *((f"Swept: {labels[key]}", values) for key, values in swept.items()),
        ("Seeds", [str(seed) for seed in dict.fromkeys(run.seed for run in runs)]), ("Ties", ties),
        ("Runs", [f"{len(runs):,}"]),
    ]  # fmt: skip
    return [(noun, some(names, MOST_NAMES)) for noun, names in facts if names]


def _digests(runs: Sequence[RunFiles]) -> list[tuple[str, str]]:
    """Every digest that the runs record, as (where, digest), each once."""

    def within(part: object, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(part, Mapping):
            for key, value in part.items():
                if isinstance(value, str) and any(word in key for word in ("digest", "sha256")):
                    yield f"{path}{key}", value
                else:
                    yield from within(value, f"{path}{key}.")

    found: dict[tuple[str, str], None] = {}
    for run in runs:
        for key in ("cluster", "workload"):
            own = run.record[key]
            found.update(dict.fromkeys((f"{own['name']}: {where}", digest) for where, digest in within(own, "")))
        rest = {key: value for key, value in run.record.items() if key not in ("cluster", "workload", "metrics")}
        found.update(dict.fromkeys(within(rest, "")))
    return list(found)[:50]


def _failed(study: FinishedStudy) -> list[str]:
    """Which runs are missing, a line an error; of each policy how many."""
    which: dict[str, dict[str, int]] = {}
    for policy, _, error in study.failed:
        own = which.setdefault(error.partition("\n")[0], {})
        own[policy] = own.get(policy, 0) + 1
    return [
        ", ".join(f"{counted(runs, 'run')} of {policy}" for policy, runs in own.items()) + f": {error}"
        for error, own in which.items()
    ]
