"""The page docs/what-if.md: its files are those of its example, and its commands print what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unrack.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "what-if.md"
FILES = re.findall(r"`([\w.]+)`:\n\n```\w*\n(.*?)```", PAGE.read_text(), re.DOTALL)
COMMANDS = re.findall(r"```\n\$ unrack (.*?)\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_example_has_its_files() -> None:
    assert [name for name, _ in FILES] == ["now.toml", "now.csv", "job.sh"]
    assert len(COMMANDS) == 3


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=lambda one: one[:30])
def test_a_command_of_the_page_prints_what_it_says(
    command: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in FILES:
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    found = CliRunner(env={"COLUMNS": "100"}).invoke(app, shlex.split(command))
    assert found.exit_code == 0
    assert [line.rstrip() for line in found.output.splitlines()] == printed.splitlines()
