"""Charts of a report as files: all of them, named and told of, in sizes and colours that a paper can use."""

import itertools
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import unrack
from unrack.report.figures.style import CIVIDIS, Style, shades, styled
from unrack.report.figures.write import figures_of, write_figures
from unrack.report.sections.contents import contents_of
from unrack.report.setting import read_finished
from unrack.study.grid import load_study
from unrack.study.runner import run_study

pytest.importorskip("altair")
STUDY = """
name = "small"
policies = ["fcfs", "easy", "easy(order=sjf)"]
[[clusters]]
nodes = [{ count = 8, cores = 2 }]
[[workloads]]
name = "waves"
[workloads.generate]
jobs = 120
arrivals = { load = 0.8, cores = 16 }
classes = [{ run_s = { kind = "lognormal", median = 600, sigma = 1 }, tasks = { kind = "power-of-two", max = 8 } }]
[sweep]
"workloads.scale_load" = [1.0, 1.5]
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    (folder / "study.toml").write_text(STUDY)
    run_study(load_study(str(folder / "study.toml")), folder / "out", jobs=1)
    return folder / "out"


def test_every_chart_of_the_page_is_a_file_and_in_the_index(finished, tmp_path):
    index, paths = write_figures(finished, "svg", to=tmp_path / "to")
    found = contents_of(read_finished(finished))
    charts = sum(len(own) for own in found.charts)
    metrics = sum(metric["shown"] for sweep in found.swept for metric in sweep["metrics"])
    assert len(paths) == charts + metrics + 2 * 3  # and the nodes over time of two settings under three policies
    text = index.read_text()
    for path in paths:
        assert path.read_text().startswith('<svg role="img" aria-label="')
        assert f"({path.name})" in text
    assert {"wait-s-mean-over-load.svg", "utilisation-load-1.5.svg"} <= {path.name for path in paths}
    assert len(text.splitlines()) == 4 + len(paths)


@pytest.mark.long
def test_figures_are_the_same_bytes_when_they_are_written_again(finished, tmp_path):
    first = write_figures(finished, "svg", to=tmp_path / "a")[1]
    second = write_figures(finished, "svg", to=tmp_path / "b")[1]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.long
def test_a_papers_figures_are_one_or_two_columns_wide_in_8_pt_and_without_a_title(finished, tmp_path):
    _, paths = write_figures(finished, "svg", Style("paper", "serif"), tmp_path)
    widths = set()
    for path in paths:
        text = path.read_text()
        widths.add(round(float(re.search(r'width="([0-9.]+)pt"', text)[1]) * 25.4 / 72))
        assert set(re.findall(r'font-size="([0-9.]+)px"', text)) == {"8"}, path
        assert "Liberation Serif" in text
        assert 'class="mark-text role-title-text"' not in text
    assert widths == {85, 180}


@pytest.mark.long
def test_pictures_of_points_have_300_dots_an_inch(finished, tmp_path):
    _, paths = write_figures(finished, "png", Style("paper"), tmp_path)
    one = next(path for path in paths if path.name.startswith("wait-load"))
    content = one.read_bytes()
    assert struct.unpack(">I", content[16:20])[0] == pytest.approx(85 / 25.4 * 300, abs=3)
    at = content.index(b"pHYs")
    assert struct.unpack(">I", content[at + 4 : at + 8])[0] == pytest.approx(300 / 0.0254, abs=20)


@pytest.mark.long
def test_a_pdf_is_a_pdf(finished, tmp_path):
    _, paths = write_figures(finished, "pdf", Style("paper"), tmp_path)
    assert all(path.read_bytes().startswith(b"%PDF") for path in paths)


def lightness(colour):
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 116 * (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]) ** (1 / 3) - 16


@pytest.mark.parametrize("count", range(2, 8))
def test_colours_of_a_paper_differ_in_grey(count):
    light = [lightness(colour) for colour in shades(count)]
    steps = [after - before for before, after in itertools.pairwise(light)]
    assert min(steps) > 60 / count - 4
    assert max(light) < 80  # still seen on white
    assert shades(len(CIVIDIS)) == list(CIVIDIS)


def test_every_policy_that_is_drawn_is_in_the_legend_and_no_other(finished):
    found = figures_of(contents_of(read_finished(finished)))
    for figure in found:
        if figure.spec is None or figure.name.startswith("nodes"):
            continue
        made = styled(figure.spec, figure.title, figure.note, figure.wide, Style("paper"))
        drawn = {row["policy"] for row in made["data"]["values"]}
        legends = []
        for layer in made.get("layer", [made]):
            legend = layer["encoding"].get("color", {}).get("legend")
            legends += [set(legend["values"])] if legend else []
        assert legends, figure.name
        assert all(own == drawn for own in legends), figure.name


@pytest.mark.long
def test_the_command_writes_figures_and_refuses_what_it_cannot(finished, tmp_path):
    def run(*words):
        command = [sys.executable, "-m", "unrack", "report", str(finished), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("--figures", "svg", "--style", "paper", "--to", str(tmp_path / "there"))
    assert done.returncode == 0, done.stderr
    assert "README.md: " in done.stdout
    assert len(list((tmp_path / "there").glob("*.svg"))) > 10
    blocked = tmp_path / "file"
    blocked.write_text("")
    for words, said in (
        (("--figures", "gif"), "svg, png or pdf"),
        (("--figures", "svg", "--style", "poster"), "page or paper"),
        (("--figures", "svg", "--font", "comic"), "sans or serif"),
        (("--style", "paper"), "--figures"),
        (("--figures", "svg", "--to", str(blocked)), str(blocked)),
    ):
        failed = run(*words)
        assert failed.returncode == 2, words
        assert said in failed.stderr, failed.stderr
        assert "Traceback" not in failed.stderr


def test_without_vl_convert_figures_say_what_to_install(finished, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(unrack.InputError, match=r"pip install 'unrack\[figures\]'"):
        write_figures(finished, "svg", to=tmp_path / "none")
    assert not Path(tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["demo"])
def test_nothing_is_left_behind_where_a_study_is_not_finished(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(unrack.InputError, match=r"study\.toml"):
        write_figures(tmp_path / name, "svg")
    assert not (tmp_path / name / "figures").exists()
    shutil.rmtree(tmp_path / name)
