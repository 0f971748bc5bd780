"""``unrack place`` as a user meets it, within this process, and small files for it."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from unrack.cli.main import main


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        """Its JSON; the exit status says whether all servers have a place."""
        assert self.code in (0, 3), self.err
        found = json.loads(self.out)
        assert self.code == (3 if found["unplaced"] else 0)
        return found


def place(*arguments: object) -> Done:
    """Run ``unrack place``; whatever is no error of unrack's own comes out as it is."""
    out, err = io.StringIO(), io.StringIO()
    line = ["unrack", "place", *map(str, arguments)]
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", line),
        patch.dict(os.environ, COLUMNS="200"),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def published() -> dict[str, Any]:
    """Two clusters of three pools, and three servers, as the published file has them."""
    pools = [
        {"type": "CPU", "cores": 4, "memory": 100, "penalty": 0},
        {"type": "LOCALMEM", "cores": 0, "memory": 400, "penalty": 1},
        {"type": "REMOTEMEM", "cores": 0, "memory": 800, "penalty": 2},
    ]
    servers = [
        {"cores": 1, "mem": 200, "local_SLA": 20, "remote_SLA": 270},
        {"cores": 2, "mem": 300, "local_SLA": 30, "remote_SLA": 400},
        {"cores": 1, "mem": 50, "local_SLA": 5, "remote_SLA": 60},
    ]
    return {
        "pools": [*pools, *map(dict, pools)],
        "clusters": [{"pools": [1, 2, 3]}, {"pools": [4, 5, 6]}],
        "servers": servers,
    }


def write(folder: Path, content: object, name: str = "in.json") -> Path:
    """A file of text, or of something as JSON."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


CENTRE = """
[[tiers]]
name = "local"
price = 100

[[tiers]]
name = "rack"
cost = 1
price = 50

[[tiers]]
name = "distant"
cost = 2.5
price = 12.75

[[nodes]]
count = 2
cores = 8
memory = 1000

[[memory_pools]]
name = "near"
count = 2
memory = 2000
tier = "rack"

[[memory_pools]]
name = "far"
count = 1
memory = 4000
tier = "distant"
shared_by = 2
"""
"""A data centre of two clusters that share a distant pool."""

REQUEST = """
[[servers]]
id = "a"
cores = 2
memory = 1000
local = 100
ceiling = 1200

[[servers]]
id = "b"
cores = 2
memory = 500
"""
"""Servers for it."""
