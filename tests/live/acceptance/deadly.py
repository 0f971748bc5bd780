"""The driver as ``unrack slurm run`` starts it, which kills itself at random points: deadly.py SITE SEED CHANCE."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from typing import Any

from unrack.live.fabric.files.fabric import FileFabric
from unrack.live.journal.journal import Journal
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.service import serve
from unrack.live.slurm.site.site import Site
from unrack.live.watch.log import start_log

DANGER = random.Random(0)
CHANCE = [0.0]


def danger(where: str) -> None:
    """Perhaps the end."""
    if DANGER.random() < CHANCE[0]:
        sys.stderr.write(f"killed {where}\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def dangerous(owner: Any, name: str) -> None:
    """Make a method deadly, before it and behind it."""
    inner: Callable[..., Any] = getattr(owner, name)

    def outer(*arguments: Any, **more: Any) -> Any:
        danger(f"before {name}")
        found = inner(*arguments, **more)
        danger(f"after {name}")
        return found

    setattr(owner, name, outer)


if __name__ == "__main__":
    DANGER.seed(int(sys.argv[2]))
    CHANCE[0] = float(sys.argv[3])
    for method in ("append", "rotate"):
        dangerous(Journal, method)
    for method in ("carry_out", "_give"):
        dangerous(CommandClient, method)
    for method in ("attach", "detach"):
        dangerous(FileFabric, method)
    start_log("info", "json")
    serve(Site.load(sys.argv[1]))
