"""What a distribution adds beside readers, metrics and resources; and that pages say what the papers' one brings."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from extension_pages import ROOT, install, unrack, unrack_anew
from test_extensions import MINE, STUDY, rows_of

from unrack.plugins.table import ELSEWHERE
from unrack.policy.table import POLICIES

PROJECT = """
[project]
name = "mine"
version = "2"

[project.entry-points."unrack.generators"]
pulses = "mine:draw"

[project.entry-points."unrack.slowdowns"]
slow = "mine:SLOW"

[project.entry-points."unrack.sections"]
said = "mine:SECTION"

[project.entry-points."unrack.policies"]
mine = "mine:MINE"
entry = "mine:ENTRY"

[project.entry-points."unrack.commands"]
greet = "mine:greet"
"""
OBJECTS = """
SLOW, SECTION, MINE, ENTRY = SLOWDOWNS["slow"], SECTIONS["mine"], POLICIES["mine"], POLICIES["entry"]


def greet(name: str):
    print("hello,", name)
"""


@pytest.mark.long
def test_generators_slowdowns_sections_policies_and_commands_of_a_distribution_serve(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE + OBJECTS)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    site, work = tmp_path / "site", tmp_path / "work"
    install(tmp_path / "pyproject.toml", site)
    work.mkdir()
    for plugins, response, shown in (("[]", "50.0", False), ('["slow"]', "100.0", False), ('["said"]', "50.0", True)):
        (work / "study.toml").write_text(STUDY.replace('["mine.py"]', plugins))
        done = unrack(work, "run", "study.toml", "--out", f"out{response}{shown}", "--jobs", "1", site=site)
        assert done.returncode == 0, done.stderr
        folder = work / f"out{response}{shown}"
        assert [row["response_s_mean"] for row in rows_of(folder)] == [response] * 3
        assert ("A section of mine" in (folder / "report.html").read_text()) == shown
    assert unrack_anew(work, "greet", "you", site=site).stdout == "hello, you\n"


def brought() -> dict[str, set[str]]:
    """Table → what the papers' distribution adds to it."""
    text = (ROOT / "papers" / "pyproject.toml").read_text(encoding="utf-8")
    groups = tomllib.loads(text)["project"]["entry-points"].items()
    return {group.removeprefix("unrack."): set(names) for group, names in groups}


def test_what_is_said_to_be_missing_is_what_the_papers_bring() -> None:
    assert {group: set(names) for group, names in ELSEWHERE.items()} == brought()


def test_no_page_says_that_a_policy_comes_with_the_papers_that_is_built_in() -> None:
    own = POLICIES.own.keys() - set.union(*brought().values())
    for page in (ROOT / "docs").glob("*.md"):
        for sentence in page.read_text(encoding="utf-8").replace("\n|", ". ").replace(".\n", ". ").split(". "):
            if "pip install 'unrack[papers]'" in sentence:
                assert not [name for name in own if f"`{name}`" in sentence], f"{page.name}: {sentence}"
