"""Commands about a driver, of any orchestrator: run, replay, status, compare; and the options that they share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.errors import InputError

if TYPE_CHECKING:
    from unrack.live.driver.service.rehearsal import Rehearsal
    from unrack.live.driver.service.tables import ServiceTable


DECISIONS_SHOWN = 40


def drive(
    site: ServiceTable, dry_run: bool, as_json: bool, rehearse: Callable[[], Rehearsal], serve: Callable[[], None]
) -> None:
    """Say what would be decided, or schedule."""
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
        for one in chosen[:DECISIONS_SHOWN]:
            typer.echo(
                f"  {one.job:>10}  {words:<11}  {_place(one.nodes, one.devices) if what == 'start' else one.why}"
            )
        if len(chosen) > DECISIONS_SHOWN:
            typer.echo(f"  and {len(chosen) - DECISIONS_SHOWN} more; --json has all")
    if found.fault:
        typer.echo(f"the policy failed: {found.fault}")
    for problem in found.unreadable:
        typer.echo(f"not understood: {problem}")


def _place(nodes: list[str], devices: list[str]) -> str:
    from unrack.slurm_text.hostlists import compress

    return f"on {compress(nodes)}" + (f" with {', '.join(devices)}" if devices else "")


def replay(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal's folder, or the state folder.")],
    policy: Annotated[
        str | None, typer.Option(metavar="POLICY", help="What another policy would have decided on the same events.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Play a journal again; exits with 1 if decisions differ from those in it."""
    from unrack.live.driver.service.folders import journal_of
    from unrack.live.driver.state.replay import replay as play
    from unrack.live.journal.reading import read_journal

    found = play((record.value for record in read_journal(journal_of(journal))), policy)
    if as_json:
        told = {**found._asdict(), "differences": [one._asdict() for one in found.differences]}
        typer.echo(json.dumps(told, indent=2))
    else:
        typer.echo(f"{found.decisions} decisions in {found.turns} turns of {found.epochs} epochs played again")
        if not found.differences:
            typer.echo("all the same")
        for one in found.differences[:20]:
            typer.echo(f"turn {one.turn}, {one.now_us / 1e6:.3f} s after the driver first began:")
            typer.echo(f"  then {json.dumps(one.was)[:300]}")
            typer.echo(f"  now  {json.dumps(one.now)[:300]}")
    if found.differences and policy is None:
        raise typer.Exit(1)


JOBS_SHOWN = 30
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
    for entry in found.entries[:JOBS_SHOWN]:
        where = " ".join(entry.nodes[:4]) + (" …" if len(entry.nodes) > 4 else "")
        typer.echo(f"  {entry.key:>10}  {entry.phase:<10}  {where:<24}  {entry.why[:60]}".rstrip())
    if len(found.entries) > JOBS_SHOWN:
        typer.echo(f"  and {len(found.entries) - JOBS_SHOWN} more; --json has all")


DriverState = Annotated[
    Path, typer.Argument(metavar="STATE", help="The state folder of a driver, as of `unrack slurm run`.")
]
PAIRS_SHOWN = 20


def compare(
    state: DriverState,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Acknowledge simulated starts at once; else as late as the real ones.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Simulate the journal's submissions with the real run times; list which jobs started in another order, and why."""
    from unrack.live.driver.history.order import compare as compared
    from unrack.live.driver.history.past import past_of

    found = compared(past_of(state), at_once)
    if as_json:
        typer.echo(json.dumps({**found._asdict(), "different": [one._asdict() for one in found.different]}, indent=1))
        return
    typer.echo(f"{found.jobs} jobs, {found.pairs} pairs that were not started in the same turn")
    if not found.different:
        typer.echo("started in the same order as in the simulation")
    else:
        typer.echo(f"{found.differing} pairs in another order than in the simulation:")
        for cause, count in found.causes.items():
            typer.echo(f"  {count:>6}  {cause}")
        for one in found.different[:PAIRS_SHOWN]:
            really, there = f"{one.live_s:.1f} s before", f"{one.simulated_s:.1f} s after"
            typer.echo(f"  job {one.first} {really} {one.second}, there {there}: {one.cause}")
    typer.echo(f"on other nodes: {found.elsewhere} jobs; starts differ by {found.shift_s:.1f} s at most")
    for note in found.notes:
        typer.echo(f"note: {note}")


Config = Annotated[Path | None, typer.Option(metavar="SITE.toml", help="The site file, which names the state folder.")]
State = Annotated[Path | None, typer.Option(metavar="DIR", help="The state folder itself.")]
Unlimited = Annotated[
    str, typer.Option(metavar="TIME", help="How long a job without a time limit is taken to run, such as '7 d'.")
]


def longest_us(text: str) -> int:
    """The option ``--unlimited`` in µs; an InputError if it is no time of 1 s or more."""
    from unrack.units import time_us

    try:
        found = time_us(text)
    except ValueError:
        found = 0
    if not 1_000_000 <= found <= 2**52:
        raise InputError("--unlimited", repr(text), "a time of 1 s or more, such as '7 d'")
    return found


def state_of(config: Path | None, state: Path | None, load: Callable[[Path], ServiceTable]) -> Path:
    """The folder of the driver's state, by a site file, which ``load`` reads, or itself; both or neither is refused."""
    if (config is None) == (state is None):
        raise InputError("--config and --state", "both" if config else "neither", "one of them")
    if state is not None:
        return state
    assert config is not None
    return load(config).state
