"""A driver that schedules, or says what it would decide."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from unrack.live.driver.service.rehearsal import Rehearsal
    from unrack.live.driver.service.tables import ServiceTable

SHOWN = 40


def drive(
    site: ServiceTable, dry_run: bool, as_json: bool, rehearse: Callable[[], Rehearsal], serve: Callable[[], None]
) -> None:
    """Say what would be decided, or schedule."""
    from unrack.errors import InputError

    if dry_run:
        _show(rehearse(), as_json)
        return
    if as_json:
        raise InputError("--json", "it without --dry-run", "--dry-run --json; a running scheduler logs JSON lines")
    from unrack.live.watch.log import start_log

    start_log(site.log.level, site.log.form)
    serve()


def _show(found: Rehearsal, as_json: bool) -> None:
    if as_json:
        decisions = [decision._asdict() for decision in found.decisions]
        typer.echo(json.dumps({**found._asdict(), "decisions": decisions}, indent=2))
        return
    counts = {what: sum(one.what == what for one in found.decisions) for what in ("start", "wait", "aside", "foreign")}
    typer.echo(f"{found.policy} on {found.usable} of {found.nodes} nodes; nothing is changed.")
    typer.echo(
        f"{counts['start']} would start, {counts['wait']} would wait, {counts['aside']} are not to be started now; "
        f"{counts['foreign']} of others hold nodes."
    )
    for what, words in (("start", "would start"), ("wait", "waits"), ("aside", "not now")):
        chosen = [one for one in found.decisions if one.what == what]
        for one in chosen[:SHOWN]:
            typer.echo(
                f"  {one.job:>10}  {words:<11}  {_place(one.nodes, one.devices) if what == 'start' else one.why}"
            )
        if len(chosen) > SHOWN:
            typer.echo(f"  and {len(chosen) - SHOWN} more; --json has all")
    if found.fault:
        typer.echo(f"the policy failed: {found.fault}")
    for problem in found.unreadable:
        typer.echo(f"not understood: {problem}")


def _place(nodes: list[str], devices: list[str]) -> str:
    from unrack.slurm_text.hostlists import compress

    return f"on {compress(nodes)}" + (f" with {', '.join(devices)}" if devices else "")
