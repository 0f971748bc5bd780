"""``unrack exec --gpus N -- CMD``: run a command on GPUs of this machine that no other command holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import print_json, print_lines

if TYPE_CHECKING:
    from unrack.live.machine.claims_file import Claims
    from unrack.live.machine.plan import MachinePlan

REFUSED = 1


def execute(
    gpus: Annotated[int, typer.Option(min=1, metavar="N", help="How many GPUs.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="CMD", help="The command and its arguments, after --.", show_default=False),
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many CPUs; default: the share of the GPUs.")
    ] = None,
    utility: Annotated[
        float,
        typer.Option(
            min=0, max=1, metavar="U", help="Wait for GPUs that are at least so near each other: 1 is the best set."
        ),
    ] = 0.0,
    topology: Annotated[
        str | None, typer.Option(metavar="FILE", help="The machine, from a file or preset in place of what tools say.")
    ] = None,
    locks: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file of claims; default: /run/lock/unrack/gpus.json.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do now.")] = False,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long to try again while others hold the GPUs.")
    ] = 0.0,
    recover: Annotated[bool, typer.Option("--recover", help="Move a damaged file of claims aside first.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say it as JSON; while the command runs, on the standard error.")
    ] = False,
) -> None:
    """Run a command on GPUs and CPUs of this machine that no other command holds, and release them at its end."""
    from unrack.errors import InputError
    from unrack.live.machine.claims_file import move_aside, usual_place
    from unrack.live.machine.execute import execute as run
    from unrack.live.machine.here import machine_here
    from unrack.live.machine.plan import WantedGpus
    from unrack.reasons import Reason
    from unrack.resources.gpus.machines.reading.read import read_machine

    machine = machine_here() if topology is None else read_machine(topology)
    if not machine.gpus:
        raise InputError(topology or "this machine", "a machine without GPUs", "one with GPUs")
    if machine.slices:
        raise InputError(topology or "this machine", "GPUs in slices (MIG)", "whole GPUs: slices cannot be claimed yet")
    place = usual_place() if locks is None else locks
    if recover and (aside := move_aside(place)) is not None:
        typer.echo(f"{place} was damaged and is now {aside}", err=True)
    wanted = WantedGpus(gpus, cores, utility)
    if dry_run:
        _say_only(machine, wanted, place, command or [], as_json)
        return
    if not command:
        raise InputError("the command", "nothing", "one after --, or --dry-run")

    def say(plan: MachinePlan) -> None:
        if as_json:
            print_json({**plan.as_json(), "command": command, "locks": str(place)}, None, err=True)
        elif not plan.cores:
            typer.echo("note: bound to no CPUs, as none of the machine's are known here", err=True)

    done = run(machine, wanted, command, place, wait, say)
    if isinstance(done, Reason):
        typer.echo(f"not started: {done}", err=True)
        raise typer.Exit(REFUSED)
    raise typer.Exit(done)


def _say_only(machine: Any, wanted: Any, place: Path, command: list[str], as_json: bool) -> None:
    from unrack.live.machine.claims_file import locked
    from unrack.live.machine.execute import held_plan
    from unrack.reasons import Reason

    with locked(place) as claims:
        planned = held_plan(machine, wanted, claims, None)
    if isinstance(planned, Reason):
        if as_json:
            print_json({"started": False, "why": str(planned)}, None)
        else:
            typer.echo(f"would not start: {planned}")
        raise typer.Exit(REFUSED)
    if as_json:
        held = [claim.model_dump(mode="json", include={"user", "command", "since", "gpus"}) for claim in claims.held]
        print_json({**planned.as_json(), "command": command, "locks": str(place), "held": held})
    else:
        print_lines(_lines(planned, claims, command, place), 11)


def _lines(plan: MachinePlan, claims: Claims, command: list[str], place: Path) -> list[str]:
    import shlex

    from unrack.resources.gpus.machines.machine import shown, text_of

    gpus, sockets = ", ".join(map(str, plan.choice.gpus)), ", ".join(map(str, plan.sockets))
    held = [
        f"held       GPU {', '.join(map(str, one.gpus))} by {one.user} since {one.since}: {shlex.join(one.command)}"
        for one in claims.held
    ]
    variables = " ".join(f"{key}={value}" for key, value in plan.environment.items())
    binds = len(plan.sockets) == 1 and plan.cores
    memory = f"of socket {sockets}, where numactl is installed" if binds else "not bound"
    apart, least = shown(plan.choice.distance), shown(plan.choice.least)
    return [
        f"GPUs       {gpus} of {plan.machine.name}, socket {sockets}",
        f"distance   {apart}, at best {least}: utility {plan.choice.utility:.3g}",
        f"CPUs       {text_of(plan.cores) or 'not bound: not known'}",
        f"memory     {memory}",
        *held,
        f"claim      in {place}",
        f"would run  {variables} {shlex.join(command)}".rstrip(),
    ]
