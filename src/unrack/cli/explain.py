"""``unrack explain DIR JOB``: one job's life; ``unrack explain DIR --round TIME``: one round of the scheduler."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli.completion import runs
from unrack.cli.on import say_when_compiling
from unrack.cli.parts.explain_round import attempt_lines, node_hours

if TYPE_CHECKING:
    from unrack.sim.explained.job import Story
    from unrack.study.results.from_folder import Again
    from unrack.workload.job import Demand
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unrack.live.slurm.service.life import Life

USUAL = Path("/var/lib/unrack")
SEEN_AS = {
    "waiting": "waits", "attaching": "start decided, devices are attached", "ordering": "start decided",
    "released": "released", "recalling": "taken back", "running": "runs", "stopping": "stopped by the policy",
    "holding": "waits, and is to be held again",
    "detaching": "devices are detached", "foreign": "runs, started by others", "aside": "not to be started now",
    "over": "over",
}  # fmt: skip
MOST = 10
"""Lines of a list that are printed without --all."""


def explain(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The directory that `unrack run` wrote.", show_default=False),
    ] = None,
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="The job's id in the trace.", show_default=False)
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", help="Which run: its policy, or its id or the start of it.", autocompletion=runs),
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="FILE.py:NAME", help="Where the run's policy file is now.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--round", metavar="TIME", help="Not a job, but the first round at TIME or later ('1 h'), or busiest."
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE.svg", help="Draw the networks of the round.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="From the journal of `unrack slurm run`: unrack explain --live JOB.")
    ] = False,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --live: the state folder. [default: /var/lib/unrack]")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print long lists whole.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell one job's life: what it waited for, when there was room for it, who went first; or one round."""
    from unrack.errors import InputError
    from unrack.study.results.from_folder import finished_run

    if live:
        _tell_live(directory, job, state, as_json)
        return
    if directory is None or state is not None:
        got = "no directory" if directory is None else "--state without --live"
        raise InputError("explain", got, "unrack explain DIR JOB, or unrack explain --live JOB")
    if (job is None) == (at is None):
        got = "neither a job nor --round" if job is None else f"job {job!r} and --round {at!r}"
        raise InputError("explain", got, "one of them: unrack explain DIR JOB, or unrack explain DIR --round TIME")
    if out is not None and (at is None or not out.endswith(".svg")):
        want = "--round, whose networks are drawn" if at is None else "a file that ends in .svg"
        raise InputError("--out", repr(out), want)
    say_when_compiling()
    again = finished_run(directory, run)
    if at is not None:
        _tell_round(again, at, policy, out, everything, as_json)
    else:
        assert job is not None
        _tell_job(again, job, policy, everything, as_json)


def _tell_live(directory: Path | None, job: str | None, state: Path | None, as_json: bool) -> None:
    """Print the life of a job of a live scheduler: ``--live JOB``, or ``--live DIR JOB``."""
    from unrack.errors import InputError

    if directory is None or (job is not None and state is not None):
        got = "no job" if directory is None else "a directory and --state"
        raise InputError("explain --live", got, "unrack explain --live JOB [--state DIR]")
    tell_live(state or (USUAL if job is None else directory), job or str(directory), as_json)


def _tell_job(again: Again, job: str, policy: str | None, everything: bool, as_json: bool) -> None:
    """Print a job's life."""
    from unrack.slowdown.combined import WORDS

    story = again.story(job, policy)
    if as_json:
        how = {} if again.slowdowns is None else {"slowdowns": str(again.slowdowns)}
        typer.echo(json.dumps({"run": again.record["id"], **how, **asdict(story)}, default=str, indent=1))
        return
    for line in _lines(story, again.record["policy_label"], None if everything else MOST):
        typer.echo(line)
    if again.slowdowns is not None:
        typer.echo(f"  speeds      {WORDS[again.slowdowns]} (slowdowns = '{again.slowdowns}')")


def _tell_round(again: Again, at: str, policy: str | None, out: str | None, everything: bool, as_json: bool) -> None:
    """Print a round, and draw it."""
    from unrack.cli.parts.explain_round import round_lines, round_table, round_time_us
    from unrack.errors import InputError

    story = again.round_story(round_time_us(at), policy)
    if out is not None:
        from unrack.report.rounds.picture import drawn

        try:
            Path(out).expanduser().write_text(drawn(story, again.record["policy_label"]), encoding="utf-8")
        except OSError as error:
            raise InputError(out, error.strerror or str(error), "a file that can be written") from None
    if as_json:
        typer.echo(json.dumps({"run": again.record["id"], **round_table(story)}, indent=1))
        return
    for line in round_lines(story, again.record["policy_label"], None if everything else MOST):
        typer.echo(line)
    if out is not None:
        typer.echo(out)


def _lines(story: Story, policy: str, most: int | None) -> list[str]:
    from unrack.units import SECOND_US, seconds_text

    job, demand = story.job, story.job.demand

    def clock(time_us: int) -> str:
        return f"{time_us / SECOND_US:,.0f} s"

    def after(time_us: int) -> str:
        return f"+{seconds_text((time_us - job.submit_us) / SECOND_US)}"

    memory = f", {demand.memory_mb:,} MB" if demand.memory_mb else ""
    who = "".join([f" of user {job.user}" if job.user else "", f" ({job.app})" if job.app else ""])
    devices = "".join(
        f", {kind} {', '.join(f'{name} {amount:,}' for name, amount in amounts.items())}"
        for kind, amounts in demand.devices.items()
        if any(amounts.values())
    )
    due = [] if job.deadline_us is None else [f"  due         {clock(job.deadline_us)} ({after(job.deadline_us)})"]
    lines = [
        f"job {job.id}{who} under {policy}",
        f"  asks for    {demand.tasks} task(s) of {demand.cores} core(s){memory}{devices}, "
        f"for {seconds_text(job.request_us / SECOND_US)}",
        *_of_tiers(demand),
        *due,
        f"  submitted   {clock(job.submit_us)}, {story.ahead} job(s) ahead; {story.free_cores} cores left free then",
    ]
    if story.reason is not None and not story.attempts:
        return [*lines, f"  never ran   {story.reason}"]
    if story.spells:
        lines.append("  waited for")
        shown = story.spells if most is None or len(story.spells) <= most else (
            *story.spells[: most // 2], None, *story.spells[-most // 2 :])  # fmt: skip
        for spell in shown:
            if spell is None:
                lines.append(f"    … {len(story.spells) - most // 2 * 2} more (--all)" if most else "")
            else:
                lines.append(
                    f"    {after(spell.from_us):>18}  {seconds_text((spell.to_us - spell.from_us) / SECOND_US):>14}"
                    f"  {spell.reason}"
                )
    if story.room_us is not None:
        lines.append(f"  had room    {after(story.room_us)}: it fitted then, but was not allowed to go")
    if story.before:
        lines.append(f"  before it   {story.before} job(s) submitted earlier started while it waited")
    if story.passed:
        lines.append(f"  passed by   {len(story.passed)} job(s) submitted later that started while it waited")
        for passed in story.passed[:most]:
            asked = passed.job.demand
            lines.append(
                f"    {after(passed.start_us):>18}  job {passed.job.id}: {asked.tasks * asked.cores} core(s) for "
                f"{seconds_text(passed.job.request_us / SECOND_US)}"
            )
        if most is not None and len(story.passed) > most:
            lines.append(f"    … {len(story.passed) - most} more (--all)")
    lines += [line for attempt in story.attempts for line in attempt_lines(story, attempt, clock, after, most)]
    if story.blocked_node_us:
        lines.append(f"  stood still {node_hours(story.blocked_node_us)}, as memory that it needed was not to be had")
    return lines


def _of_tiers(demand: Demand) -> list[str]:
    """What a server asks of tiers of memory, in a line; none where it asks nothing."""
    far = "" if demand.ceiling_mb is None else f"at most {demand.ceiling_mb:,} weighted MB that are not"
    parts = [
        f"at least {demand.local_mb:,} MB local" if demand.local_mb else "",
        far if demand.local_mb else far.replace("that are not", "not local"),
        f"nothing of {', '.join(demand.forbidden)}" if demand.forbidden else "",
        f"no {demand.spread} that others of {demand.group} use" if demand.spread else "",
    ]
    said = ", ".join(part for part in parts if part)
    return [f"  with        {said}"] if said else []


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
        lines.append(f"  {clock} {'+' + seconds_text(moment.at_s - first_s):>10}  {SEEN_AS[moment.phase]}{where}{why}")
    if life.ahead >= 0:
        lines.append(f"  waits for   {life.why}; {life.ahead} job(s) ahead of it")
    return lines
