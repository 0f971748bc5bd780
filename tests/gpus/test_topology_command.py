from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from machines_of import RECORDED
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import InputError
from unrack.resources.gpus.machines.machine import PRESETS
from unrack.resources.gpus.machines.reading.from_file import (
    LinkTable,
    MachineFile,
    NvswitchTable,
    SocketTable,
    SwitchTable,
)
from unrack.resources.gpus.machines.reading.read import machine_in


def topology(*words: object) -> str:
    done = CliRunner().invoke(app, ["topology", *map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_without_a_file_it_lists_the_presets() -> None:
    text = topology()
    assert all(f"{name} " in text and words in text for name, (words, _) in PRESETS.items())
    assert set(json.loads(topology("--json"))) == set(PRESETS)


def test_a_machine_is_shown_with_its_switches_cpus_and_distances() -> None:
    text = topology(RECORDED / "dgx1_v100.txt", "--cpus", RECORDED / "dgx1_v100_numactl.txt")
    assert "(0 1) (2 3)" in text
    assert "20-39,60-79" in text
    row = next(line for line in text.splitlines() if line.startswith("GPU5"))
    assert row.split() == ["GPU5", "44", "1", "44", "44", "1.5", "0", "1", "1.5"]


def test_what_it_writes_can_be_read_again(tmp_path: Path) -> None:
    topology("dgx-1", "--svg", tmp_path / "a.svg", "--toml", tmp_path / "a.toml")
    assert (tmp_path / "a.svg").read_text().startswith("<svg ")
    assert json.loads(topology(tmp_path / "a.toml", "--json")) == json.loads(topology("dgx-1", "--json"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--svg", "a.svg"], "got no machine"),
        (["dgx-1", "--svg", "a.png"], r"ends in \.svg"),
        (["dgx-1", "--toml", "a.svg"], r"ends in \.toml"),
        (["dgx-1", "--svg", "/no/such/folder/a.svg"], "a file that can be written"),
        (["dgx-7"], "got 'dgx-7'"),
    ],
)
def test_wrong_input_is_named(words: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        topology(*words)


def test_wrong_input_ends_with_code_2() -> None:
    command = [sys.executable, "-m", "unrack", "topology", "dgx-7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 2
    assert done.stderr.startswith("error: machine: got 'dgx-7'")
    assert "Traceback" not in done.stderr


def test_every_preset_and_every_key_of_a_file_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs" / "topology.md").read_text()
    for name, (words, _) in PRESETS.items():
        assert f"| `{name}` | {words} |" in text
    own = text.partition("## A machine of your own")[2].partition("\n## ")[0]
    for table in (MachineFile, SocketTable, SwitchTable, NvswitchTable, LinkTable):
        for key in table.model_fields:
            assert f"`{key}`" in own or f"`[[{key}]]`" in own, key


def test_the_example_on_the_page_is_a_machine() -> None:
    text = (Path(__file__).parents[2] / "docs" / "topology.md").read_text()
    found = machine_in(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
    assert found.distance.tolist() == [[0, 43, 43], [43, 0, 1], [43, 1, 0]]
