"""The tutorials run from beginning to end as they are written, and show what they say."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest
from browser import look
from stories import STORIES
from tutorial import ROOT, TUTORIALS, anew, environment_of, follow, steps

FILES = {"researcher": ["out/log/figures/README.md"], "planner": ["pool.toml"], "operator": ["cluster.toml"]}


def test_every_user_has_a_tutorial_with_commands() -> None:
    assert set(TUTORIALS) == set(STORIES) == set(FILES)
    for page in TUTORIALS.values():
        assert sum(kind == "command" for kind, _, _ in steps(page)) >= 5


def test_outputs_are_written_again_as_far_as_pages_show_them() -> None:
    printed = "a\nb  \n\nc\nd\n\n"
    assert anew("", printed) == ""
    assert anew("old\n", printed) == "a\nb\n\nc\nd\n"
    assert anew("1\n2\n…\n3\n", printed) == "a\nb\n…\nd\n"
    assert anew("1\n…\n", printed) == "a\n…\n"
    assert anew("…\n\n1\n2\n", printed) == "…\n\nc\nd\n"
    assert anew("1\n", "") == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_a_tutorial_runs_from_beginning_to_end(name: str, tmp_path: Path) -> None:
    environment = environment_of(Path(sys.executable).parent, PYTHONPATH=str(ROOT / "src"))
    for typed in follow(TUTORIALS[name], tmp_path, environment):
        assert typed.code == 0, (typed.command, typed.said)
        assert typed.shown == anew(typed.shown, typed.printed), (typed.command, "make docs writes it again")
    pages, _ = STORIES[name]
    for path in (*pages, *FILES[name]):
        assert (tmp_path / path).is_file(), path
    if name == "planner":  # what its text says of first fit, whose table it leaves out
        found = json.loads((tmp_path / "out" / "plan-nvme" / "plan.json").read_text())
        drives = {line["policy"]: line["answer"]["values"]["clusters.0.pools.0.count"] for line in found["lines"]}
        assert drives["first-fit"] > drives["disaggregation-aware"], drives
    if (shutil.which("chromium") or shutil.which("chromium-browser")) and importlib.util.find_spec("playwright"):
        for path in pages:
            assert look(tmp_path / path) == []
