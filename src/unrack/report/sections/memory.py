"""What the page shows of lent memory: of the study, of a setting, and of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.spec import UNCOUNTED_MB, Cluster
from unrack.kernels.arrays import Floats
from unrack.metric.estimate import estimate
from unrack.plots.series import bin_edges, binned_mean, rising, rounded, six_digits
from unrack.report.charts.chart import MOST_POLICIES, SHARE, Chart, span_axis
from unrack.report.charts.node_map import (
    COLUMNS,
    LENT,
    SIDE,
    bands_of,
    cell_map,
    held_map,
    lent_between,
    matrix_spec,
    node_bounds,
)
from unrack.report.charts.spec import (
    Spec,
    coloured_parts,
    framed,
    line_spec,
    number,
    policy_channels,
    series_of,
    stacked,
    throughput_spec,
    told,
    word,
)
from unrack.report.sections.section import SectionKind, Shown, stack_chart
from unrack.report.sections.tiers import has_tiers
from unrack.report.setting import RunFiles, Setting, interval_words
from unrack.report.table import number_text
from unrack.study.world import RunTimes, world_of

MOST_NOTES, MOST_MIXES, MOST_MARKS = 6, 8, 2_000
PARTS = {"local": "#4477AA", "remote": "#EE8866", "not held": "#B8C0C8"}
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")


def lends(run: RunFiles) -> bool:
    """Whether the run's policy lends memory of nodes; memory on tiers has a section of its own."""
    return "remote_share" in run.metrics and not has_tiers(run)


def of_setting(setting: Setting, policies: Sequence[str]) -> Shown:
    """Local and remote memory, and by how much jobs were stretched, under each policy (the first ``MOST_POLICIES``)."""
    chosen = dict(list(setting.runs.items())[:MOST_POLICIES])
    return [*_shares(chosen), *_stretch(chosen, policies)], {}


def _shares(chosen: Mapping[str, Sequence[RunFiles]]) -> list[Chart]:
    rows: dict[str, tuple[float, float]] = {}
    for policy, runs in chosen.items():
        held = [(run.metrics.get("utilisation_memory"), run.metrics.get("remote_share") or 0.0) for run in runs]
        local, remote = (
            estimate(None if all_ is None else all_ * (share if far else 1 - share) for all_, share in held)
            for far in (False, True)
        )
        if local is not None and remote is not None:
            rows[policy] = local.mean, remote.mean
    if not rows:
        return []
    stack = {}
    for policy, (near, far) in rows.items():
        amounts = dict(zip(PARTS, (near, far, max(1 - near - far, 0.0)), strict=True))
        words = f"{100 * far / (near + far):.3g} % of what jobs hold is remote" if near + far > 0 else "nothing is held"
        stack[policy] = [(part, share, words) for part, share in amounts.items() if share > 0]
    note = "Of the installed memory: what jobs held on their own nodes, what they held on others, the rest."
    title = "Local and remote memory"
    return [stack_chart("memory shares", title, note, stack, PARTS, "share of the memory installed")]


def _stretch(chosen: Mapping[str, Sequence[RunFiles]], policies: Sequence[str]) -> list[Chart]:
    found: dict[str, tuple[Floats, Floats]] = {}
    for policy, runs in chosen.items():
        jobs = runs[0].jobs(("run_s", "work_s", "state"))
        if "work_s" in jobs.columns:
            done = jobs.filter((pl.col("state") == "finished") & (pl.col("work_s") > 0))
            found[policy] = rising((done["run_s"] / done["work_s"]).cast(pl.Float64).to_numpy())
    found = {policy: own for policy, own in found.items() if len(own[0])}
    most = max((float(x[-1]) for x, _ in found.values()), default=1.0)
    if most <= 1 + 1e-9:
        return []
    series = [
        {"policy": policy, "x": rounded(np.append(x, most), 6), "y": rounded(np.append(share, 1.0))}
        for policy, (x, share) in found.items()
    ]  # fmt: skip
    x = number("x", "run time, undisturbed = 1", scale={"zero": False, "nice": False}, tip=".4~g")
    y = number("y", "share of jobs", **SHARE)
    return [{"id": "stretch", "title": "By how much jobs are stretched", "series": series,
             "note": "Share of finished jobs that ran at most so many times as long as undisturbed; left is better.",
             "spec": line_spec(policies, x, y, "step-after")}]  # fmt: skip


def of_run(run: RunFiles, setting: Setting) -> Shown:
    """How much each node lent when, and to which, and local against remote memory over time.

    Those of cells have ``map`` (of :func:`unrack.report.charts.node_map.cell_map`) in place of rows, and ``shares``:
    whether memory is counted.
    """
    spans = [own[0].span for own in setting.runs.values() if lends(own[0])]
    edges = bin_edges([span for span in spans if span] or [(0.0, 1.0)], COLUMNS)
    loans = run.loans()
    return [*(_maps(loans, run.hardware, edges) if len(loans) else []), *_parts_over_time(run, edges)], {}


def _maps(loans: pl.DataFrame, cluster: Cluster, edges: Floats) -> list[Chart]:
    installed = np.where(cluster.memory_mb == UNCOUNTED_MB, 0, cluster.memory_mb)
    nodes, bands = len(cluster), bands_of(cluster.node_class, cluster.class_names)
    sides = node_bounds(nodes, SIDE, bands)
    between = lent_between(loans, sides, float(edges[0]), float(edges[-1]))
    sided = f" A cell is up to {np.diff(sides).max():,} nodes each way." if nodes > SIDE else ""
    dashed = " Dashed: classes of nodes." if bands else ""
    note = f"Averages over {len(edges) - 1} equal spans of time; empty: nothing is lent."
    when = held_map(
        loans, installed, bands, edges, LENT, note, id="lent over time", title="How much each node lends, and when",
        shares=bool((installed > 0).all()),
    )  # fmt: skip
    return [
        when,
        {"id": "lent between", "title": "Which nodes lend to which", "shares": False, "series": [],
         "note": f"Averages over the run.{sided}{dashed}", "map": cell_map(between, sides, installed, bands),
         "spec": matrix_spec(nodes, bands)},
    ]  # fmt: skip


def _parts_over_time(run: RunFiles, edges: Floats) -> list[Chart]:
    usage = run.frame("usage", ("time_s", "memory_mb_held", "memory_mb_lent"))
    if len(usage) < 2:
        return []
    lent = usage["memory_mb_lent"] if "memory_mb_lent" in usage.columns else pl.zeros(len(usage), eager=True)
    times, held, far = (own.cast(pl.Float64).to_numpy() for own in (usage["time_s"], usage["memory_mb_held"], lent))
    x, at = span_axis(edges)
    total = run.total_mb
    unit = float(total) if total else 1024.0
    starts = at(edges[:-1])
    amounts = [np.nan_to_num(binned_mean(times, values, edges)) / unit for values in (held - far, far)]
    series = {"policy": "", "x": [*starts, *starts], "y": rounded(np.concatenate(amounts)),
              "part": ["local"] * len(starts) + ["remote"] * len(starts)}  # fmt: skip
    parts = {name: PARTS[name] for name in ("local", "remote")}
    note = f"What running jobs hold on their own nodes and on others; means over {len(edges) - 1} equal spans of time."
    title = "share of the memory installed" if total else "GB held"
    return [{"id": "memory parts", "title": "Local and remote memory over time", "series": [series],
             "note": note, "spec": area_spec(x, parts, title, total is not None)}]  # fmt: skip


def area_spec(x: Spec, parts: Mapping[str, str], y_title: str, share: bool) -> Spec:
    """Amounts over time stacked on each other (fields ``x``, ``y``, ``part``); a ``share`` is out of 1."""
    scale = {"scale": {"domain": [0, 1]}} if share else {}
    y = number("y", y_title, stack="zero", axis={"format": ".0%" if share else "~s"}, **scale)
    rows = told(("part", "memory"), ("x", x["title"], ",.4~g"), ("y", y_title, ".1%" if share else ",.4~g"))
    return framed(stacked({
        "mark": {"type": "area", "interpolate": "step-after", "line": False},
        "encoding": {"x": x, "y": y, "color": coloured_parts(parts, 4), "tooltip": rows},
    }, parts))  # fmt: skip


def of_study(settings: Sequence[Setting], shown: Sequence[Setting], policies: Sequence[str]) -> dict[str, Any]:
    """Throughput by mix and system, and the utilisation of memory against that of cores; notes on contention."""
    runs = [run for setting in settings for own in setting.runs.values() for run in own]
    notes = dict.fromkeys((run.workload, note) for run in runs if (note := contention_note(run)))
    several = len({note for _, note in notes}) > 1
    said = dict.fromkeys(f"{workload}: {note}" if several else note for workload, note in notes)
    study = [*throughput_charts(settings, policies), *_scatter(settings, policies)]
    return {"study": study, "notes": tuple(said)[:MOST_NOTES]}


def contention_note(run: RunFiles) -> str:
    """What the run says of the jobs that ran as another application; ``""``: nothing."""
    said = run.record.get("contention")
    note = said.get("note") if isinstance(said, dict) else said
    return note if isinstance(note, str) else ""


def mix_and_system(setting: Setting) -> tuple[str, str]:
    """The setting's workload and its cluster, each with what was swept of it; what else was swept is the system's."""
    mix, system = [setting.workload], [setting.cluster]
    for key, value in setting.parameters.items():
        (mix if key.startswith("workload") else system).append(f"{setting.label(key)} = {value}")
    return " · ".join(mix), " · ".join(system)


class ThroughputBar(NamedTuple):
    """The throughput of a policy on a system (jobs/h), relative to the highest of its mix; ``lost`` jobs never ran."""

    mix: str
    system: str
    policy: str
    lost: float
    jobs_per_h: float
    half: float
    relative: float = 0.0
    relative_half: float = 0.0


def bars_of(settings: Sequence[Setting]) -> list[ThroughputBar]:
    """A bar for every setting and policy, averaged over seeds; none where more jobs did not run than in the best case.

    The throughput of the other jobs alone says nothing. Throughput is relative to the best one in the study's world.
    """
    bars = []
    for setting in settings:
        rejected, queued = setting.values("jobs_rejected"), setting.values("jobs_queued")
        for policy, value in setting.values("throughput_jobs_per_h").items():
            lost = sum(own[policy].mean for own in (rejected, queued) if policy in own)
            bars.append(ThroughputBar(*mix_and_system(setting), policy, lost, value.mean, value.half))
    least, best = dict[str, float](), dict[str, float]()
    for bar in bars:
        least[bar.mix] = min(least.get(bar.mix, bar.lost), bar.lost)
    whole = [bar for bar in bars if bar.lost <= least[bar.mix]]
    usual = [bar for bar in whole if world_of(bar.policy) == RunTimes.STUDY]
    for bar in usual or whole:
        best[bar.mix] = max(best.get(bar.mix, 0.0), bar.jobs_per_h)
    return [
        bar._replace(relative=bar.jobs_per_h / best[bar.mix], relative_half=bar.half / best[bar.mix])
        for bar in whole
        if best.get(bar.mix, 0.0) > 0
    ]


def throughput_charts(settings: Sequence[Setting], policies: Sequence[str]) -> list[Chart]:
    """Throughput by system, a chart a mix (the first ``MOST_MIXES``); by mix where there is only one system."""
    bars = bars_of(settings)
    mixes, systems = (list(dict.fromkeys(names)) for names in zip(*map(mix_and_system, settings), strict=True))
    words = interval_words((len(runs) for setting in settings for runs in setting.runs.values()), {})
    if len(systems) == 1:
        return _grouped("throughput", "Throughput by mix", mixes, {bar: bar.mix for bar in bars}, policies, words)
    return [
        chart
        for number, mix in enumerate(mixes[:MOST_MIXES])
        for chart in _grouped(
            f"throughput {number}", f"Throughput: {mix}", systems,
            {bar: bar.system for bar in bars if bar.mix == mix}, policies, words,
        )
    ]  # fmt: skip


def _grouped(
    name: str, title: str, groups: Sequence[str], places: dict[ThroughputBar, str], policies: Sequence[str], words: str
) -> list[Chart]:
    shown = [policy for policy in policies if any(bar.policy == policy for bar in places)]
    series = [
        {"policy": policy, "x": [places[bar] for bar in own], "y": [six_digits(bar.relative) for bar in own],
         "low": [six_digits(max(bar.relative - bar.relative_half, 0.0)) for bar in own],
         "high": [six_digits(bar.relative + bar.relative_half) for bar in own],
         "amount": [f"{number_text(bar.jobs_per_h)} jobs/h" for bar in own]}
        for policy in shown for own in [[bar for bar in places if bar.policy == policy]]
    ]  # fmt: skip
    note = "Jobs ended per hour, relative to the highest of the mix. A bar is missing where jobs could not run at all."
    if words:
        note += f" Lines: {words}."
    most = max((bar.relative + bar.relative_half for bar in places), default=1.0)
    spec = throughput_spec(policies, shown, groups, six_digits(max(most, 1.0)), bool(words))
    return [{"id": name, "title": title, "note": note, "series": series, "spec": spec}] if series else []


def _scatter(settings: Sequence[Setting], policies: Sequence[str]) -> list[Chart]:
    marks = []
    for setting in settings:
        for policy, runs in setting.runs.items():
            for run in runs:
                x, y = (run.metrics.get(f"utilisation_{name}") for name in ("cores", "memory"))
                words = f"{setting.title}{f' · seed {run.seed}' if len(runs) > 1 else ''}"
                if x is not None and y is not None:
                    marks.append((policy, six_digits(x), six_digits(y), run.cluster, words))
    marks = marks[:MOST_MARKS]
    if not marks:
        return []
    series = [
        series_of(policy, "x y cluster run", [mark[1:] for mark in marks if mark[0] == policy])
        for policy in dict.fromkeys(mark[0] for mark in marks)
    ]
    clusters = list(dict.fromkeys(mark[3] for mark in marks))
    note = "A mark a run; averages over the window of measurement. What is lent counts as in use."
    if len(clusters) > 1:
        note += " Shapes are clusters."
    return [{"id": "utilisations", "title": "Memory in use against cores in use", "note": note,
             "series": series, "spec": scatter_spec(policies, clusters)}]  # fmt: skip


def scatter_spec(policies: Sequence[str], clusters: Sequence[str]) -> Spec:
    """Memory against core utilisation, a mark a run (fields ``x``, ``y``, ``cluster``, ``run``)."""
    axis: Spec = {"scale": {"domain": [0, 1]}, "axis": {"format": ".0%", "tickCount": 5}}
    shapes = [_SHAPES[place % len(_SHAPES)] for place in range(len(clusters))]
    shape = word("cluster", legend=None, scale={"domain": list(clusters), "range": shapes})
    if len(clusters) > 1:
        shape["legend"] = {"orient": "bottom", "direction": "horizontal", "columns": 3, "title": None,
                           "labelLimit": 200, "symbolFillColor": "#808890", "symbolStrokeWidth": 0}  # fmt: skip
    x, y = ("x", "cores in use"), ("y", "memory in use")
    return framed({
        "mark": {"type": "point", "size": 70, "filled": True, "opacity": 0.8},
        "encoding": {
            "x": number(*x, **axis), "y": number(*y, **axis), "color": policy_channels(policies)["color"],
            "shape": shape, "tooltip": told(("policy", "policy"), ("run", "run"), (*x, ".1%"), (*y, ".1%")),
        },
    }, 320)  # fmt: skip


MEMORY = SectionKind(lends, of_setting, of_run, of_study)
