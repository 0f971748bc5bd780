"""Figures written to a folder, with an index of them."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

from unrack.errors import InputError
from unrack.extras import extra
from unrack.report.directory import read_finished
from unrack.report.figures.gather import Figure, figures_of
from unrack.report.figures.style import PAGE_MM, PT_A_MM, Style, styled
from unrack.report.sections.contents import contents_of
from unrack.study.results.record import believed, write_whole

KINDS = ("svg", "png", "pdf")
DPI = 300


def write_figures(
    study_dir: Path, kind: str, style: Style | None = None, to: Path | None = None, bootstrap: float | None = None
) -> tuple[Path, tuple[Path, ...]]:
    """Write every chart of a finished study as a file, and ``README.md``, which says what each one shows.

    ``kind``: ``"svg"``, ``"png"`` (300 dpi) or ``"pdf"``; ``style``: as on the page unless another is given; ``to``:
    the folder, by default ``figures`` in the study's directory. Returns the index, and the figures in its order.

    Raises
    ------
    InputError
        There is no such kind, the directory is no finished study, the folder cannot be written, or a package is
        missing.
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
