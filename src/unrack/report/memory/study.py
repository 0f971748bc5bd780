"""The charts of the memory section that look at a whole study: throughput by mix and system, memory against cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unrack.plots.series import six_digits
from unrack.report.charts.bars import throughput_spec
from unrack.report.charts.chart import Chart
from unrack.report.charts.spec import Spec, framed, number, policy_channels, series_of, told, word
from unrack.report.column import number_text
from unrack.report.setting import Setting, interval_words
from unrack.study.world import RunTimes, world_of

MOST_MIXES = 8
MOST_MARKS = 2_000
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")


def study_charts(settings: Sequence[Setting], policies: Sequence[str]) -> list[Chart]:
    """Throughput by mix and system, and the utilisation of memory against that of cores."""
    return [*throughput_charts(settings, policies), *_scatter(settings, policies)]


def mix_of(setting: Setting) -> str:
    """The setting's workload, with what was swept of it."""
    return " · ".join([setting.workload, *(words for key, words in _swept(setting) if _is_of_workload(key))])


def system_of(setting: Setting) -> str:
    """The setting's cluster, with what else was swept."""
    return " · ".join([setting.cluster, *(words for key, words in _swept(setting) if not _is_of_workload(key))])


def _swept(setting: Setting) -> list[tuple[str, str]]:
    return [(key, f"{setting.label(key)} = {value}") for key, value in setting.parameters.items()]


def _is_of_workload(key: str) -> bool:
    return key.startswith("workload")


class Bar(NamedTuple):
    """The throughput of a policy on a system (jobs/h), relative to the highest of its mix; ``lost`` jobs never ran."""

    mix: str
    system: str
    policy: str
    lost: float
    jobs_per_h: float
    half: float
    relative: float = 0.0
    relative_half: float = 0.0


def bars_of(settings: Sequence[Setting]) -> list[Bar]:
    """A bar for every setting and policy, averaged over seeds; none where more jobs did not run than in the best case.

    The throughput of the other jobs alone says nothing. Throughput is relative to the best one in the study's world.
    """
    bars = []
    for setting in settings:
        rejected, queued = setting.values("jobs_rejected"), setting.values("jobs_queued")
        for policy, value in setting.values("throughput_jobs_per_h").items():
            lost = sum(own[policy].mean for own in (rejected, queued) if policy in own)
            bars.append(Bar(mix_of(setting), system_of(setting), policy, lost, value.mean, value.half))
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
    mixes = list(dict.fromkeys(mix_of(setting) for setting in settings))
    systems = list(dict.fromkeys(system_of(setting) for setting in settings))
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
    name: str, title: str, groups: Sequence[str], places: dict[Bar, str], policies: Sequence[str], words: str
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
