from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from unrack.live.fabric.attachment_files import AttachmentFiles
from unrack.live.fabric.contract import Attachment
from unrack.live.fabric.files.scripts import scripts_folder
from unrack.live.fabric.table import FABRICS

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "fabric.md").read_text()


def keys_of_rows(text: str) -> set[str]:
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


def test_every_fabric_and_every_key_of_it_is_described() -> None:
    for name, kind in FABRICS.items():
        assert f"| `{name}` | {kind.summary} |" in TEXT
        assert set(kind.options.model_fields) <= keys_of_rows(TEXT.partition("## Files")[0])


def test_the_keys_of_files_and_of_settings_are_those_of_the_code(tmp_path: Path) -> None:
    files = AttachmentFiles(tmp_path / "f")
    files.put(Attachment("17.n3", "17", "n3", ("rack0/nvme2",), {"capacity_mb": 1000}), whole=True)
    (path,) = (tmp_path / "f" / "attached").rglob("*.json")
    shown, settings = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL))
    assert json.loads(path.read_text()) == shown
    layout, on_nodes = TEXT.partition("## Files")[2].split("### On the nodes")
    assert keys_of_rows(layout) == {*shown, "boot"}
    keys = re.search(r"^KEYS = (\{.*?\})", (scripts_folder() / "unrack_node.py").read_text(), re.MULTILINE | re.DOTALL)
    assert keys is not None
    assert keys_of_rows(on_nodes) == set(re.findall(r'"(\w+)"', keys[1])) >= set(settings)


@pytest.mark.parametrize("name", ["unrack-prolog", "unrack-epilog"])
def test_the_scripts_can_be_run_as_they_are_shipped(name: str) -> None:
    path = scripts_folder() / name
    assert path.read_text().startswith("#!/usr/bin/python3 -I\n")
    assert path.stat().st_mode & 0o111
