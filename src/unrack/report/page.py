"""The report: one HTML page with everything in it, from the files of a finished study."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from unrack.facts import counted, some
from unrack.metric.estimate import ComparedRow, Mark, marks
from unrack.report.answer import answer
from unrack.report.charts.canvas import MOST_ROWS_A_PAGE, MOST_RUNS, budgets, gantt_data
from unrack.report.charts.chart import MOST_POLICIES, MOST_SETTINGS, metric_choices
from unrack.report.charts.spec import colour_of
from unrack.report.charts.vega import vega
from unrack.report.sections.contents import SECTIONS, contents_of
from unrack.report.sections.section import PlainTable, first_runs, plain
from unrack.report.setting import FinishedStudy, RunFiles, Setting, read_finished
from unrack.report.table import column_of, comparison, number_text
from unrack.study.notes import site_of, told_of
from unrack.study.results.keep import PAST
from unrack.study.results.record import believed, write_whole
from unrack.workload.formats.rules import RULES, heeded

if TYPE_CHECKING:
    import jinja2


TOP = 10
_KINDS = {
    "user": "User", "account": "Account", "app": "Application or class", "queue": "Queue", "group": "Group",
    "partition": "Partition", "qos": "Quality of service",
}  # fmt: skip


_DONE = {"dropped": "dropped", "ignored": "not honoured", "changed": "changed"}
"""What a reader did by a rule, by its name in the record → in words."""

Intake = tuple[str, Mapping[str, Any], list[tuple[str, str, int, str]]]
"""Workload, what the record says of its reader, and what that did: in words, the rule, to how many jobs, a sentence."""


def inputs(runs: Iterable[RunFiles]) -> list[Intake]:
    """One for each different intake of the study's workloads."""
    seen: dict[str, Intake] = {}
    for run in runs:
        intake = run.record["workload"].get("intake") or {}
        done = [
            (words, rule, int(count), RULES.get(rule, ""))
            for name, words in _DONE.items()
            for rule, count in (intake.get(name) or {}).items()
            if count and not (name == "ignored" and heeded(rule, site_of(run.record)))
        ]
        seen[run.workload + repr((intake, done))] = run.workload, intake, done
    return list(seen.values())


@dataclass(frozen=True)
class Loss:
    """Jobs of one setting that did not finish, for one reason: how many at least and at most over the runs."""

    setting: str
    state: str
    reason: str
    low: int
    high: int
    policies: str
    examples: str


def losses(settings: Sequence[Setting]) -> list[Loss]:
    """Jobs that were rejected or still queued at the end, by setting and reason."""
    found = []
    for setting in settings:
        lost = [
            _lost(run).with_columns(pl.lit(policy).alias("policy"))
            for policy, runs in setting.runs.items()
            for run in runs
            if run.record.get("window_us") or any(run.metrics.get(f"jobs_{name}", 1) for name in ("rejected", "queued"))
        ]
        kinds = pl.concat(lost).group_by("state", "reason", maintain_order=True) if lost else ()
        for (state, reason), own in kinds:
            count, policies = own["count"].to_list(), own["policy"].unique(maintain_order=True).to_list()
            names = "all" if len(policies) == len(setting.runs) else ", ".join(policies)
            low = min(count) if len(count) == sum(map(len, setting.runs.values())) else 0
            found.append(Loss(setting.title, str(state), str(reason), low, max(count), names, own["examples"][0]))
    return found


def _lost(run: RunFiles) -> pl.DataFrame:
    """A row a state and reason: how many jobs did not finish, and some of them."""
    some = pl.col("job").cast(pl.String).head(5).str.join(", ").alias("examples")
    return (
        run.frame("jobs", ("job", "state", "reason"))
        .filter(pl.col("state") != "finished")
        .group_by("state", _kind(pl.col("reason").fill_null("")), maintain_order=True)
        .agg(pl.len().alias("count"), some)
        .sort("state", "reason")
    )


def _kind(reason: pl.Expr) -> pl.Expr:
    """Reasons without their amounts, so that those of one kind are alike."""
    return reason.str.replace_all(r" \([^()]*\)", "").str.replace_all(r"\b\d+ (have|are|share) ", "some $1 ")


Breakdown = tuple[str, PlainTable, int]
"""What it is by, the table, and how many values are left out."""


def breakdowns(setting: Setting) -> list[Breakdown]:
    """Mean waits by user, account, application, queue, partition …, where the trace has them: the first by core-time.

    Core-time is cores held × time of all jobs; mean waits are of the finished jobs of each policy's first seed, and are
    marked only where that is the only seed and as many jobs of the value finished as under the others. Empty where no
    job finished.
    """
    frames = {policy: runs[0].jobs(("state", "wait_s", "core_s", *_KINDS)) for policy, runs in setting.runs.items()}
    first = next(iter(frames.values()))
    if not any((frame["state"] == "finished").any() for frame in frames.values()):
        return []
    return [
        _breakdown(setting, kind, words, frames)
        for kind, words in _KINDS.items()
        if kind in first.columns and first[kind].drop_nulls().n_unique() > 1
    ]


def _breakdown(setting: Setting, kind: str, words: str, frames: Mapping[str, pl.DataFrame]) -> Breakdown:
    first = next(iter(frames.values())).with_columns(pl.col(kind).cast(pl.String).fill_null("(not known)"))
    ranked = (
        first.group_by(kind)
        .agg(pl.col("core_s").sum().alias("work"), pl.len().alias("jobs"))
        .sort("work", kind, descending=[True, False])
    )
    total = float(ranked["work"].sum()) or 1.0
    found = {
        policy: {
            name: (wait, float(count))
            for name, wait, count in frame.filter(pl.col("state") == "finished")
            .group_by(pl.col(kind).cast(pl.String).fill_null("(not known)"))
            .agg(pl.col("wait_s").mean(), pl.len())
            .iter_rows()
        }
        for policy, frame in frames.items()
    }
    waits = {policy: {name: wait for name, (wait, _) in own.items()} for policy, own in found.items()}
    top = ranked.head(TOP)
    column = column_of("wait_s_mean", (own.get(name) for own in waits.values() for name in top[kind]))
    rows = []
    for name, work_s, jobs in top.iter_rows():
        marked = _marked(setting, {policy: own.get(name, (None, 0.0)) for policy, own in found.items()}, jobs)
        cells = tuple((column.text(waits[policy].get(name)), marked.get(policy, "")) for policy in frames)
        share = number_text(round(100 * (work_s or 0.0) / total, 1))
        rows.append((name, (*plain(f"{jobs:,}", share), *cells)))
    heads = (
        ("jobs", "All of them."),
        ("core-time (%)", "Cores held × time, of that of all jobs."),
        *((f"{policy} ({column.unit})", "Mean wait of finished jobs.") for policy in frames),
    )
    return f"{words} · {setting.title}", PlainTable(heads, tuple(rows)), max(len(ranked) - TOP, 0)


def _marked(setting: Setting, found: Mapping[str, tuple[float | None, float]], jobs: int) -> dict[str, Mark]:
    """Policy → mark, given its mean wait and how many jobs it served; none with several seeds, as one is shown."""
    if setting.seeds > 1:
        return {}
    rows = {
        policy: ComparedRow(
            {0: {"wait_s_mean": wait, "jobs_finished": served, "jobs_rejected": jobs - served}},
            setting.rows[policy].world,
        )
        for policy, (wait, served) in found.items()
        if policy not in setting.served_less
    }
    return marks(rows, "wait_s_mean", "low")


MOST_NAMES = 12
MOST_INPUTS = 8
_SCRIPTS = ("theme.js", "time_canvas.js", "gantt_rows.js", "gantt.js", "pool_rows.js", "pools.js", "page.js")
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
        limits={"inputs": MOST_INPUTS, "settings": MOST_SETTINGS, "policies": MOST_POLICIES, "runs": MOST_RUNS},
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
        scripts=[asset(name) for name in (*_MAPS * bool({"memory", "tiers"} & set(found.sections)), *_SCRIPTS)],
    )


def template(name: str, **filters: Callable[[Any], str]) -> jinja2.Template:
    """A page that is to be filled in, in the style of all; ``filters``: how it writes values."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(asset),
    )
    environment.globals["style"] = asset("page.css")
    environment.filters |= filters
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


def asset(name: str) -> str:
    """A script, a style or a template of pages."""
    return resources.files("unrack.report").joinpath("assets", name).read_text(encoding="utf-8")


def _narrow(setting: Setting) -> Setting:
    return replace(setting, runs=dict(list(setting.runs.items())[:MOST_POLICIES]), drawn={})


def _gantts(settings: Sequence[Setting]) -> list[dict[str, Any]]:
    chosen = [(run, title) for run, title, _ in first_runs(settings)][:MOST_RUNS]
    shares = budgets([run.rows("placements") for run, _ in chosen], MOST_ROWS_A_PAGE)
    return [gantt_data(run, title, budget) for (run, title), budget in zip(chosen, shares, strict=True)]


def _facts(runs: Sequence[RunFiles], policies: Sequence[str], labels: Mapping[str, str]) -> list[tuple[str, str]]:
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
