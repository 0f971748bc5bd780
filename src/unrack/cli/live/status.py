"""What a driver holds, what it waits for, how fast it decides."""

from __future__ import annotations

import json
import time
from pathlib import Path

import typer

SHOWN = 30
AHEAD_S = 60
"""A journal that was written so long after now tells of a clock that was put back."""
FULL_BYTES = 2**16
"""With less room on its disk, the journal may not take what is decided."""


def show(state: Path, as_json: bool) -> None:
    """Show what a driver holds and waits for, from its journal; it may be running or not."""
    from unrack.live.driver.service.status import status_of

    found = status_of(state)
    if as_json:
        typer.echo(json.dumps(found.record(time.time()), indent=2))
        return
    typer.echo(f"running: {found.owner}" if found.owner is not None else "not running")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.origin_s + found.since_us / 1e6))
    typer.echo(f"policy {found.policy}; present epoch since {since}: {found.why}")
    typer.echo(
        f"{found.decisions} decisions in it, {found.decisions_a_second:.1f} a second lately; "
        f"journal {found.bytes / 1e6:.1f} MB"
    )
    if (ahead_s := found.ahead_s(time.time())) > AHEAD_S:
        typer.echo(
            f"its clock is {ahead_s:,.0f} s ahead of this machine's, which was put back: "
            "times here are that much too late"
        )
    if found.free_bytes < FULL_BYTES:
        free = f"{found.free_bytes:,} bytes free"
        typer.echo(f"the disk of the journal is full ({free}): nothing is decided until there is room")
    typer.echo(", ".join(f"{count} {phase}" for phase, count in found.counts().items() if count) or "no jobs")
    for entry in found.entries[:SHOWN]:
        where = " ".join(entry.nodes[:4]) + (" …" if len(entry.nodes) > 4 else "")
        typer.echo(f"  {entry.key:>10}  {entry.phase:<10}  {where:<24}  {entry.why[:60]}".rstrip())
    if len(found.entries) > SHOWN:
        typer.echo(f"  and {len(found.entries) - SHOWN} more; --json has all")
