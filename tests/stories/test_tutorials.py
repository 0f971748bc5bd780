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
from tutorial import ROOT, TUTORIALS, environment_of, follow, steps, words_of

FILES = {"researcher": ["out/log/figures/README.md"], "planner": ["pool.toml"], "operator": ["cluster.toml"]}


def test_every_user_has_a_tutorial_with_commands() -> None:
    assert set(TUTORIALS) == set(STORIES) == set(FILES)
    for page in TUTORIALS.values():
        assert sum(kind == "command" for kind, _, _ in steps(page)) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_a_tutorial_runs_from_beginning_to_end(name: str, tmp_path: Path) -> None:
    environment = environment_of(Path(sys.executable).parent, PYTHONPATH=str(ROOT / "src"))
    for typed in follow(TUTORIALS[name], tmp_path, environment):
        assert typed.code == 0, (typed.command, typed.said)
        missing = [word for word in words_of(typed.shown) if word not in typed.said]
        assert not missing, (typed.command, missing, typed.said)
    pages, _ = STORIES[name]
    for path in (*pages, *FILES[name]):
        assert (tmp_path / path).is_file(), path
    if (shutil.which("chromium") or shutil.which("chromium-browser")) and importlib.util.find_spec("playwright"):
        for path in pages:
            assert look(tmp_path / path) == []


@pytest.mark.slow
def test_the_plan_of_the_tutorial_has_the_answer_that_the_page_shows(tmp_path: Path) -> None:
    environment = environment_of(Path(sys.executable).parent, PYTHONPATH=str(ROOT / "src"))
    copied, planned = follow(TUTORIALS["planner"], tmp_path, environment, most=2)
    assert copied.code == planned.code == 0
    found = json.loads((tmp_path / "out" / "plan-nvme" / "plan.json").read_text())
    drives = {line["policy"]: line["answer"]["values"]["clusters.0.pools.0.count"] for line in found["lines"]}
    assert drives == {"first-fit": 11, "disaggregation-aware": 6}
