"""What the page has a new user type, from a control plane to a scheduled namespace and back, is typed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DONE = re.compile(r"^example-\w+ +0/1 +(?:Completed|Succeeded)", re.MULTILINE)


def test_each_command_of_the_page_does_what_it_says(programs: Path, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    part = text.partition("### In fifteen minutes, and back\n")[2].partition("\n### ")[0]
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", part, re.DOTALL))
    assert commands.count("kubectl") > 8
    for name in ("docs", "tools", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    script = f"set -euo pipefail\ntrap 'kill $(jobs -p)' EXIT\n{commands}\nwait $DRIVER\n"
    found = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": paths}, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert found.returncode == 0, (found.stdout, found.stderr)
    assert len(DONE.findall(found.stdout)) == 6, found.stdout
