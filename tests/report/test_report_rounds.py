"""The section on rounds, and the picture of one: what is in them, and that no text covers another."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from unrack.policy.around import Arc, HostGroup, NetworkStory, RoundCount, RoundStory, SubtaskClass
from unrack.report.page import render
from unrack.report.pictures.round import drawn, laid_out
from unrack.report.pictures.shortened import MOST, shortened
from unrack.report.sections.rounds import ROUNDS
from unrack.report.sections.section import section_of
from unrack.report.setting import read_finished, settings_of

STUDY = """
name = "rounds"
policies = ["flow", "fcfs"]
[[clusters]]
name = "two"
nodes = [{ count = 2, cores = 4 }]
[[workloads]]
name = "w"
[workloads.generate]
jobs = 12
arrivals = { gap_s = 5 }
[[workloads.generate.classes]]
run_s = { kind = "uniform", min = 10, max = 60 }
cores = { kind = "uniform", min = 1, max = 4 }
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of one policy with rounds, and one without."""
    folder = tmp_path_factory.mktemp("rounds")
    (folder / "study.toml").write_text(STUDY)
    assert unrack("run", folder / "study.toml", "--out", folder / "out", "--jobs", 1, "--no-report").returncode == 0
    return folder / "out"


def unrack(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "unrack", *map(str, arguments)], capture_output=True, text=True)


def network(classes: int, hosts: int, sorts: int) -> NetworkStory:
    """A large network, in which some arcs carry something."""
    arcs = []
    for i in range(classes):
        arcs += [Arc(f"c{i}", f"x{i % sorts}", 0, i // 2, i + 1), Arc(f"c{i}", "u", 1234.5, i + 1 - i // 2, i + 1)]
        arcs += [Arc(f"c{i}", f"h{i % hosts}", 0.333, i // 3, i, True)] if i % 2 else []
    arcs += [
        Arc(f"x{a}", f"h{b}", a * b / 7, 100 * ((a + b) % 5 == 0), 9999) for a in range(sorts) for b in range(hosts)
    ]
    arcs += [Arc(f"h{b}", "t", 0, 12345, 100000) for b in range(hosts)]
    return NetworkStory(
        "nodes", 1, False,
        tuple(SubtaskClass(f"c{i}", i + 1, "a long <name>" * 3, "1 core", i, "", ("7",)) for i in range(classes)),
        tuple("16 cores, 65,536 MB, 4 gpu and more than there is room for" for _ in range(sorts)),
        tuple(HostGroup(f"h{i}", f"nodes {i}-{i + 100}, 200-300, 404", 2, 10) for i in range(hosts)),
        (*arcs, Arc("u", "t", 0, 1, 2)), hosts, 1.5, 4, 1,
    )  # fmt: skip


@pytest.mark.parametrize("size", [(1, 1, 1), (3, 2, 2), (40, 12, 8), (120, 90, 60)])
def test_nothing_in_a_picture_covers_anything_else(size: tuple[int, int, int]) -> None:
    drawing = shortened(network(*size))
    layout = laid_out(drawing, 0)
    rects = list(layout.rects.values())
    labels = [wire.label for wire in layout.wires if wire.label is not None]
    assert max(len(drawing.classes), len(drawing.groups)) == min(max(size[:2]), MOST)
    for a, b in combinations(rects, 2):
        apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
        assert apart, (a, b)
    for (x, y), (other_x, other_y) in combinations(labels, 2):
        assert abs(y - other_y) >= 12 or abs(x - other_x) >= 70, (x, y, other_x, other_y)
    for x, y in labels:
        assert not any(r.x < x < r.x + r.width and r.y < y < r.y + r.height for r in rects)


@pytest.mark.parametrize("size", [(2, 2, 1), (120, 90, 60)])
def test_a_picture_is_xml_and_says_what_it_left_out(size: tuple[int, int, int]) -> None:
    story = RoundStory(3, RoundCount(10**9, 50, 40, 30, 1, 10, 10), (network(*size),) * 9, (), None)
    text = drawn(story, "flow(<odd>)")
    root = ElementTree.fromstring(text)
    words = "".join(root.itertext())
    assert "Round 3 at 1,000 s under flow(<odd>): 50 waited, 40 took part, 30 started" in words
    assert "and 1 smaller network" in words
    assert ("81 further classes" in words) == (size[0] > MOST)
    assert ("51 further groups" in words) == (size[0] > MOST)


def test_sums_of_a_shortened_network_are_those_of_the_whole() -> None:
    whole = network(120, 90, 60)
    lines = shortened(whole).lines
    assert sum(line.flow for line in lines) == sum(arc.flow for arc in whole.arcs)
    assert sum(line.capacity for line in lines) == sum(arc.capacity for arc in whole.arcs)


def test_the_section_counts_rounds_and_is_only_where_some_policy_tells_them(finished: Path) -> None:
    study = read_finished(finished)
    settings = settings_of(study.runs)
    section = section_of(ROUNDS, settings, settings, ("flow", "fcfs"))
    assert section is not None
    ((_, charts, tables, _),) = section.settings
    assert [chart["id"] for chart in charts] == ["cost of rounds", "placed", "left"]
    assert [[own["policy"] for own in chart["series"]] for chart in charts] == [["flow"]] * 3
    rows = dict(tables[""].rows)
    frame = study.runs[0].frame("rounds")
    assert rows["flow"][0][0] == f"{frame.height}"
    assert rows["fcfs"][0][0] == "–"
    assert '<section id="rounds">' in render(study)
    others = settings_of(study.runs[1:])
    assert section_of(ROUNDS, others, others, ("fcfs",)) is None


@pytest.mark.long
def test_explain_tells_a_round_as_words_as_a_picture_and_for_programs(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "round.svg"
    done = unrack("explain", finished, "--run", "flow", "--round", "busiest", "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("round ")
    for words in ("took part in", "cost  ", "networks", "nodes, attempt 1: ", "started", str(out)):
        assert words in done.stdout
    ElementTree.fromstring(out.read_text())
    table = json.loads(unrack("explain", finished, "--run", "flow", "--round", "10 s", "--json").stdout)
    assert table["at_us"] >= 10_000_000
    assert len(table["jobs_of_round"]) == table["jobs"]
    assert sum(bool(job["place"]) for job in table["jobs_of_round"]) == table["placed"]
    assert len(table["networks_solved"]) == table["networks"]


@pytest.mark.parametrize(("arguments", "words"), [
    (["--run", "fcfs", "--round", "3"], "tells no rounds"), (["--run", "flow"], "neither a job nor --round"),
    (["1", "--run", "flow", "--round", "1"], "one of them"), (["--run", "flow", "--round", "soon"], "'soon'"),
    (["--run", "flow", "--round", "9 d"], "after all rounds"), (["--run", "none", "--round", "1"], "--run"),
    (["1", "--run", "flow", "--out", "x.svg"], "--round"),
    (["--run", "flow", "--round", "1", "--out", "x.png"], ".svg"),
])  # fmt: skip
def test_wrong_use_is_said_with_exit_code_2(arguments: list[str], words: str, finished: Path) -> None:
    done = unrack("explain", finished, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
