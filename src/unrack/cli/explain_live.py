"""``unrack explain --live JOB``: one job's life from the journal of a driver, which may be running."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from unrack.live.slurm.service.life import Life

USUAL = Path("/var/lib/unrack")
WORDS = {
    "waiting": "waits", "attaching": "start decided, devices are attached", "ordering": "start decided",
    "released": "released", "recalling": "taken back", "running": "runs", "stopping": "stopped by the policy",
    "holding": "waits, and is to be held again",
    "detaching": "devices are detached", "foreign": "runs, started by others", "aside": "not to be started now",
    "over": "over",
}  # fmt: skip


def tell_live(state: Path, job: str, as_json: bool) -> None:
    """Print the life of a job."""
    from unrack.live.slurm.service.life import life_of

    life = life_of(state, job)
    if as_json:
        typer.echo(json.dumps({**life._asdict(), "moments": [one._asdict() for one in life.moments]}, indent=1))
        return
    for line in live_lines(life):
        typer.echo(line)


def live_lines(life: Life) -> list[str]:
    """What is printed."""
    from unrack.slurm_text.hostlists import compress
    from unrack.units import seconds_text

    asks = life.asks
    lines = [f"job {life.job}" + (f" of user {asks['user']}" if asks.get("user") else "")]
    if asks:
        memory = f", {asks['mb']:,} MB" if asks.get("mb") else ""
        devices = "".join(
            f", {kind} {', '.join(f'{name} {amount:,}' for name, amount in of.items())}"
            for kind, of in asks.get("devices", {}).items()
            if kind != "spread"
        )
        lines.append(
            f"  asks for    {asks['tasks']} task(s) of {asks.get('cores', 0)} core(s){memory}{devices}, "
            f"for {seconds_text(asks['request'] / 1e6)}"
        )
    first_s = life.moments[0].at_s
    for moment in life.moments:
        clock = time.strftime("%H:%M:%S", time.localtime(moment.at_s))
        where = f" on {compress(moment.nodes)}" if moment.nodes else ""
        why = f": {moment.why}" if moment.why else ""
        lines.append(f"  {clock} {'+' + seconds_text(moment.at_s - first_s):>10}  {WORDS[moment.phase]}{where}{why}")
    if life.ahead >= 0:
        lines.append(f"  waits for   {life.why}; {life.ahead} job(s) ahead of it")
    return lines
