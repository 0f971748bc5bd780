"""Every chart of a report as a file of its own, in a folder with an index of them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unrack.errors import InputError
from unrack.extras import extra
from unrack.plots.accessor import gantt
from unrack.plots.series import clock_start, ended, span_unit
from unrack.report.charts.canvas import MOST_RUNS
from unrack.report.charts.chart import Sweep
from unrack.report.figures.style import PAGE_MM, PT_A_MM, Style, styled
from unrack.report.sections.contents import SECTIONS, Contents, contents_of
from unrack.report.sections.pool_counts import has_pools
from unrack.report.sections.section import first_runs
from unrack.report.setting import RunFiles, read_finished, told_apart
from unrack.steps import levels, spans
from unrack.study.results.record import believed, write_whole

KINDS = ("svg", "png", "pdf")
DPI = 300
MOST_BARS = 20_000
MOST_SHARED = 6
GANTT_RECTANGLES = 8_000


def write_figures(
    study_dir: Path, kind: str, style: Style | None = None, to: Path | None = None, bootstrap: float | None = None
) -> tuple[Path, tuple[Path, ...]]:
    """Write every chart of a finished study as a file, and ``README.md``, which says what each one shows.

    ``kind``: ``"svg"``, ``"png"`` (300 dpi) or ``"pdf"``; ``style``: as on the page unless another is given; ``to``:
    the folder, by default ``figures`` in the study's directory. Returns the index, and the figures in its order. An
    InputError if there is no such kind, the directory is no finished study, the folder cannot be written, or a package
    is missing.
    """
    if kind not in KINDS:
        raise InputError("--figures", repr(kind), " or ".join((", ".join(KINDS[:-1]), KINDS[-1])))
    style = style or Style()
    study = read_finished(study_dir)
    extra("vl_convert")
    extra("altair")
    with believed(study_dir, [run.record for run in study.runs]):
        figures = figures_of(contents_of(study, bootstrap))
    folder = to or study_dir / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = tuple(folder / f"{figure.name}.{kind}" for figure in figures)
        for figure, path in zip(figures, paths, strict=True):
            path.write_bytes(drawn(figure, kind, style))
        index = folder / "README.md"
        write_whole(index, index_of(str(study.table.get("name") or "A study"), figures, kind))
    except OSError as fault:
        raise InputError(str(folder), fault.strerror or str(fault), "a folder that can be made and written") from None
    return index, paths


def drawn(figure: Figure, kind: str, style: Style) -> bytes:
    """A figure as the bytes of its file."""
    if figure.spec is None:
        return _by_hand(figure.svg, kind)
    convert = extra("vl_convert")
    spec = json.dumps(styled(figure.spec, figure.title, figure.note, figure.wide, style))
    if kind == "png":
        return bytes(convert.vegalite_to_png(spec, ppi=DPI))
    if kind == "pdf":
        return bytes(convert.vegalite_to_pdf(spec))
    svg = _in_points(_numbered(str(convert.vegalite_to_svg(spec))))
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(figure.title)}"', 1).encode()


def _in_points(svg: str) -> str:
    """The picture with its size in pt, so that it has the same size wherever it is put."""
    head, end, rest = svg.partition(">")
    return re.sub(r'\b(width|height)="([0-9.]+)"', r'\1="\2pt"', head) + end + rest


def _numbered(svg: str) -> str:
    """The picture with its ids counted from 0: Vega counts on through all that a process draws."""
    ids = dict.fromkeys(re.findall(r'id="((?:clip|gradient_)[0-9]+)"', svg))
    new = {old: f"{old.rstrip('0123456789')}{place}" for place, old in enumerate(ids)}
    return re.sub(r'(?<=[#"])(?:clip|gradient_)[0-9]+(?=[")])', lambda match: new.get(match[0], match[0]), svg)


def _by_hand(svg: str, kind: str) -> bytes:
    """A picture that is SVG already, on white and as wide as a page if it says nothing else."""
    if "xmlns=" not in svg.partition(">")[0]:
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    if kind == "svg":
        return svg.encode()
    convert = extra("vl_convert")
    if kind == "pdf":
        return bytes(convert.svg_to_pdf(svg))
    found = re.search(r'viewBox="[0-9.-]+ [0-9.-]+ ([0-9.]+)', svg)
    scale = PAGE_MM * PT_A_MM / float(found[1]) if found else 1.0
    return bytes(convert.svg_to_png(svg, scale=scale, ppi=DPI))


def index_of(name: str, figures: list[Figure], kind: str) -> str:
    """A table of the figures in Markdown."""

    def cell(text: str) -> str:
        return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()

    rows = [
        f"| [{own.name}.{kind}]({own.name}.{kind}) | {cell(own.title)} | {cell(own.note)} | {cell(own.of)} |"
        for own in figures
    ]
    head = ["| file | title | what it shows | of |", "|---|---|---|---|"]
    return "\n".join([f"# Figures of {cell(name)}", "", *head, *rows, ""])


@dataclass(frozen=True)
class Figure:
    """One figure."""

    name: str  # of its file, without ending
    title: str  # what it is called
    note: str  # what it shows
    of: str  # of which runs it is
    spec: dict[str, Any] | None = None  # vega-Lite with its rows; ``None``: ``svg`` is the picture
    svg: str = ""  # a picture that was drawn by hand
    wide: bool = False  # whether it takes the whole width of a page


def figures_of(found: Contents) -> list[Figure]:
    """All figures, in the order of the page, each with a name of its own."""
    return list(_named([*_swept(found), *_charts(found), *_nodes(found), *_pools(found), *_pictures(found)]))


def _named(figures: Sequence[Figure]) -> Iterator[Figure]:
    taken: dict[str, int] = {}
    for figure in figures:
        name = re.sub(r"[^a-z0-9.]+", "-", figure.name.lower()).strip("-.")[:90] or "figure"
        taken[name] = taken.get(name, 0) + 1
        yield replace(figure, name=name if taken[name] == 1 else f"{name}-{taken[name]}")


def _swept(found: Contents) -> Iterator[Figure]:
    for sweep in found.swept:
        for metric in sweep["metrics"]:
            if metric["shown"]:
                yield _over(sweep, metric, found)


def _over(sweep: Sweep, metric: Mapping[str, Any], found: Contents) -> Figure:
    spec = copy.deepcopy(sweep["spec"])
    for layer in spec["layer"]:
        layer["encoding"]["y"]["title"] = metric["axis"]
    spec["data"] = {"values": _rows(metric["series"])}
    seeds = max(setting.seeds for setting in found.settings)
    of = f"{sweep['note'].split(' · ')[0]}; {'means over seeds' if seeds > 1 else 'one seed'}"
    title = f"{metric['words']} over {sweep['label']}"
    return Figure(f"{metric['name']} over {sweep['label']}", title, sweep["note"] + metric["note"], of, spec)


def _charts(found: Contents) -> Iterator[Figure]:
    parts = found.parts()
    for name in ("", *SECTIONS):
        section = parts.get(name, {}) if name else parts
        yield from (_figure(chart, "the whole study", "") for chart in section.get("study", ()))
        for own in (*section.get("settings", ()), *section.get("runs", ())):
            yield from (_figure(chart, own["title"], _short(own["title"], found)) for chart in own["charts"])


def _short(title: str, found: Contents) -> str:
    """What tells a setting, or a run of it, from the others: what all have in common is left out of file names."""
    if len(found.shown) == 1:
        return title.replace(found.shown[0].title, "")
    for setting, words in zip(found.shown, told_apart(found.shown), strict=True):
        if title.endswith(setting.title):
            return title.removesuffix(setting.title) + words
    return title


def _figure(chart: Mapping[str, Any], of: str, ending: str) -> Figure:
    spec = copy.deepcopy(chart["spec"])
    share = chart.get("shares") == "always"
    rows = chart["map"].rows(share) if "map" in chart else _rows(chart["series"])
    spec["data"] = {"values": rows}
    if share:
        spec["layer"][0]["encoding"]["color"]["legend"]["format"] = ".0%"
    policies = [own["policy"] for own in chart["series"] if own.get("policy")]
    words = f"{of}: {', '.join(policies)}" if policies else of
    return Figure(f"{chart['id']} {ending}", chart["title"], chart["note"], words, spec, "", bool(chart.get("wide")))


def _rows(series: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for own in series:
        columns = {name: values for name, values in own.items() if name != "policy"}
        rows = zip(*columns.values(), strict=True)
        found += [{"policy": own["policy"], **dict(zip(columns, row, strict=True))} for row in rows]
    return found


def _nodes(found: Contents) -> Iterator[Figure]:
    for run, title, _ in first_runs(found.shown)[:MOST_RUNS]:
        placements, jobs = run.frame("placements"), run.frame("jobs", ("job", "user", "app", "wait_s"))
        if not len(placements.drop_nulls("start_s")):
            continue
        cores = np.maximum(run.hardware.cores, 1)
        chart = gantt(placements, jobs, cores, title, most=GANTT_RECTANGLES).to_dict()
        chart["data"] = {"values": chart.pop("datasets")[chart["data"]["name"]]}
        words = str(chart["title"]["subtitle"])
        name, words = f"nodes over time {_short(title, found)}", f"A rectangle is a job: {words}."
        yield Figure(name, f"Nodes over time: {title}", words, run.id, chart, "", True)


def _pools(found: Contents) -> Iterator[Figure]:
    for run, title, _ in first_runs(found.shown, has_pools)[:MOST_RUNS]:
        if (made := occupancy_chart(run)) is not None:
            spec, words = made
            yield Figure(
                f"pools over time {_short(title, found)}", f"Devices over time: {title}", words, run.id, spec, "", True
            )


def _pictures(found: Contents) -> Iterator[Figure]:
    for section in found.resources:
        for title, tables in section.settings:
            for table in tables:
                if table.picture:
                    name = f"{section.name} {table.title} {_short(title, found)}"
                    yield Figure(name, table.title, table.words, title, None, str(table.picture), True)


def occupancy_chart(run: RunFiles) -> tuple[dict[str, Any], str] | None:
    """A Vega-Lite specification with its rows, and what it leaves out; ``None``: no job held a device."""
    shares, first, last = ended(run.frame("shares", ("start_s", "end_s", "devices", "composition")))
    if not len(shares):
        return None
    (unit, size), begin = span_unit(last - first), clock_start(first)
    own = shares.unique("composition", keep="first")
    held_by = dict(zip(own["composition"].to_list(), own["devices"].to_list(), strict=True))
    life, when, level = levels(shares["composition"].cast(pl.Int64).to_numpy(), *spans(shares))
    bars = [(float(when[k]), float(when[k + 1]), int(level[k]), held_by[int(life[k])])
            for k in np.flatnonzero(level > 0).tolist()]  # fmt: skip
    every = sum(len(devices) for *_, devices in bars)
    words = "A bar is a composition while the same jobs share it."
    if every > MOST_BARS:
        bars.sort(key=lambda bar: (bar[0] - bar[1]) * len(bar[3]))
        total = sum((bar[1] - bar[0]) * len(bar[3]) for bar in bars)
        counts = np.cumsum([len(bar[3]) for bar in bars])
        bars = bars[: max(int(np.searchsorted(counts, MOST_BARS, side="right")), 1)]
        kept = sum((bar[1] - bar[0]) * len(bar[3]) for bar in bars)
        words += f" The longest bars: {100 * kept / total:.3g} % of the device-time."
    names = [*map(str, range(1, MOST_SHARED)), f"{MOST_SHARED} or more"]
    rows = [
        {"x": round((low - begin) / size, 6), "x2": round((high - begin) / size, 6), "y": device, "y2": device + 1,
         "part": names[min(count, MOST_SHARED) - 1]}
        for low, high, count, devices in sorted(bars, key=lambda bar: bar[0]) for device in devices
    ]  # fmt: skip
    lanes = len(run.hardware.devices)
    shown = [name for name in names if any(row["part"] == name for row in rows)]
    hues = dict(zip(names, ("#7FC8A9", "#3FA7A0", "#3B7EA1", "#5B5EA6", "#8E3B8E", "#C2185B"), strict=True))
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": rows},
        "mark": {"type": "rect", "stroke": "white", "strokeWidth": 0.3},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": f"{unit} since the start of the log",
                  "scale": {"nice": False, "zero": False}},
            "x2": {"field": "x2"},
            "y": {"field": "y", "type": "quantitative", "title": "device", "axis": {"grid": False, "tickMinStep": 1},
                  "scale": {"domain": [0, lanes], "reverse": True, "nice": False}},
            "y2": {"field": "y2"},
            "color": {"field": "part", "type": "nominal", "title": "jobs that share it",
                      "scale": {"domain": shown, "range": [hues[name] for name in shown]},
                      "legend": {"orient": "bottom", "direction": "horizontal", "columns": 6}},
        },
    }  # fmt: skip
    return spec, words
