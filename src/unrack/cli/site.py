"""``unrack site``: the rules of a site, held against what really happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli.options import (
    All,
    Json,
    file_or_preset,
    grid,
    policies,
    presets,
    print_json,
    print_page,
    say_when_compiling,
    seconds_of,
)
from unrack.cli.trace.trace import Format, Log, Options, Strict, read
from unrack.facts import counted
from unrack.units import seconds_text, time_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from unrack.study.history.check import Check, WaitTimes

MOST = 10
"""Jobs that are listed without --all."""
app = typer.Typer(help="Hold the rules of a site against its history.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Hold the rules of a site against its history."""


@app.command()
def check(
    log: Log,
    cluster: Annotated[
        str,
        typer.Option(
            metavar="FILE|PRESET",
            help="The cluster with its site: a cluster file, slurm.conf, or a preset.",
            autocompletion=presets,
        ),
    ],
    policy: Annotated[str, typer.Option(help="The scheduler of the site.", autocompletion=policies)] = "slurm",
    tolerance: Annotated[
        str, typer.Option(metavar="TIME", help="How far apart starts may be and still agree.")
    ] = "1 min",
    format: Format = None,  # noqa: A002 -- named after the option
    option: Options = None,
    strict: Strict = False,
    everything: All = False,
    as_json: Json = False,
) -> None:
    """Simulate a log under the rules of its site, and tell how far starts agree with the real ones, and why not."""
    from unrack.study.history.check import check_history
    from unrack.units import SECOND_US

    limit_s = seconds_of("--tolerance", tolerance)
    own = file_or_preset(cluster)
    workload = read(log, format, option, strict)
    say_when_compiling()
    found = check_history(own, workload, policy, round(limit_s * SECOND_US))
    if as_json:
        waits = {key: _table(getattr(found, key)) for key in ("partitions", "users")}
        different = [one._asdict() for one in (found.different if everything else found.different[:MOST])]
        print_json({**found._asdict(), "waits": found.waits._asdict(), **waits, "different": different}, other=str)
        return
    print_page(_page(found, tolerance, None if everything else MOST))


def _table(waits: Mapping[str, WaitTimes]) -> dict[str, dict[str, float]]:
    return {name: one._asdict() for name, one in waits.items()}


def _page(found: Check, tolerance: str, most: int | None) -> list[Table | str]:
    waits = found.waits
    lines = [
        f"{counted(found.jobs, 'job')} under {found.policy}; {waits.jobs:,} started really and in the simulation",
        f"starts agree within {tolerance}: {waits.agree:.1%}",
    ]
    if found.correlation is not None and found.rank_correlation is not None:
        lines.append(f"waits correlate: {found.correlation:.2f}, by rank {found.rank_correlation:.2f}")
    if found.pairs:
        lines.append(f"started the other way round: {found.swapped:,} of {found.pairs:,} pairs of the first jobs")
    lines.append(f"cores in use: really {found.used_real:.1%}, simulated {found.used_simulated:.1%}")
    less = {"not read as jobs: unrack trace info tells why": found.left_out,
            "without a known real start, or with one before their submission": found.unknown}  # fmt: skip
    lines += [f"{counted(jobs, 'row')} of the log {why}" for why, jobs in less.items() if jobs]
    lines += [f"not started in the simulation: {counted(n, 'job')}: {why}" for why, n in found.not_started.items()]
    page: list[Table | str] = ["\n".join(lines), _waits("Waits", {"all": waits})]
    if len(found.partitions) > 1:
        page.append(_waits("By partition", found.partitions))
    page.append(_waits("By user, those with the most different waits", found.users))
    over_time = grid("Cores in use", ["since the first came"], ["really", "simulated"])
    for begin, real, told in found.over_time:
        over_time.add_row(seconds_text(begin - found.over_time[0][0]), f"{real:.1%}", f"{told:.1%}")
    page.append(over_time)
    if found.causes:
        causes = grid(f"Why starts differ, of the {found.looked_at:,} furthest apart", [], ["jobs", "hours apart"])
        causes.add_column("cause")
        for cause, (jobs, hours) in found.causes.items():
            causes.add_row(f"{jobs:,}", f"{hours:,.1f}", cause)
        shown = grid("Furthest apart", ["job", "user"], ["real wait", "simulated"])
        shown.add_column("why")
        for one in found.different[:most]:
            why = one.cause.partition(":")[0] + (f" ({one.words})" if one.words else "")
            shown.add_row(one.job, one.user, seconds_text(one.real_wait_s), seconds_text(one.simulated_wait_s), why)
        page += [causes, shown]
    return [*page, *(f"note: {note}" for note in found.notes)]


def _waits(title: str, rows: Mapping[str, WaitTimes]) -> Table:
    times = [value for one in rows.values() for value in one[2:]]
    unit, size_s = time_unit(times)
    digits = int(max(times) < 1000 * size_s)
    heads = [f"{what} {side}" for what in ("mean", "p50", "p95") for side in ("real", "sim.")]
    made = grid(f"{title}, in {unit}", [""], ["jobs", "agree", *heads])
    for name, one in rows.items():
        made.add_row(name, f"{one.jobs:,}", f"{one.agree:.1%}", *(f"{value / size_s:,.{digits}f}" for value in one[2:]))
    return made
