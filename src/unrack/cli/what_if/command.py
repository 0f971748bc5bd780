"""``unrack what-if NOW [ASK]``: when this would start, why not now, which jobs wait for it, what would help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unrack.cli.options import Json, policies, say_when_compiling, seconds_of
from unrack.cli.printed import need_ending, print_json, print_page, write
from unrack.errors import InputError

Many = Annotated[list[str] | None, typer.Option()]


def what_if(
    now: Annotated[
        Path,
        typer.Argument(
            metavar="NOW", help="A study, as 'snapshot' writes it; or objects of Kubernetes (kubectl get -o json)."
        ),
    ],
    ask: Annotated[
        Path | None,
        typer.Argument(metavar="ASK", help="What is submitted: a job script (#SBATCH), or a manifest beside NOW.json."),
    ] = None,
    job: Annotated[str | None, typer.Option(metavar="ID", help="Not a new job: one that waits.")] = None,
    tasks: Annotated[
        int | None, typer.Option("--nodes", "--tasks", min=1, help="How many equal tasks, a node each where there is.")
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Of each task.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Of each task: '32 GB'.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="Of each task.")] = None,
    time: Annotated[str | None, typer.Option(metavar="TIME", help="How long it asks to run: '4 h'.")] = None,
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Or several, with commas.")] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="The user of the job.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="For which it counts.")] = None,
    qos: Annotated[str | None, typer.Option(metavar="NAME", help="Its quality of service.")] = None,
    constraint: Annotated[str | None, typer.Option(metavar="FEATURES", help="Such as 'a100&nvlink'.")] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, help="Default: as low as the lowest of those that wait.")
    ] = None,
    other: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="COLUMN=VALUE", help="Another column of jobs: counted.matlab=1; repeatable."),
    ] = None,
    drain: Annotated[
        list[str] | None, typer.Option(metavar="NODES", help="Nothing is started there any more: 'n[3-4]'; repeatable.")
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option(metavar="'N like NODE'", help="More nodes: '4 like n1'; repeatable.")
    ] = None,
    end: Annotated[list[str] | None, typer.Option(metavar="ID", help="A job that is cancelled; repeatable.")] = None,
    requeue: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A job that runs, stopped and queued again; repeatable.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A key of the study, such as clusters.0.site.limits.0.amounts.cores=64; repeatable.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="POLICY", help="Default: the first of the study.", autocompletion=policies),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not the beginning of the study, but this time of its run.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Learn run times from this, for a range: what sacct printed, or any trace."),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, max=10_000, help="How often learnt run times are drawn.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    tries: Annotated[
        int, typer.Option(min=0, max=10_000, help="How many changes that might help are tried at most.")
    ] = 24,
    jobs: Annotated[int, typer.Option(min=1, help="How many other jobs are listed.")] = 10,
    out: Annotated[str | None, typer.Option(metavar="FILE.html", help="Write a page.")] = None,
    as_json: Json = False,
) -> None:
    """Tell what would happen if this were submitted, or so much were changed; nothing is."""
    from unrack.cli.what_if.opening import opened
    from unrack.cli.what_if.words import parts
    from unrack.live.prediction.forecast import learnt_from
    from unrack.plan.what_if.answer import Question, answer
    from unrack.plan.what_if.page import as_table, page
    from unrack.units import SECOND_US

    need_ending("--out", out, ".html")
    given: dict[str, Any] = {
        "tasks": tasks, "cores": cores, "memory": _mb(memory), "gpus.count": gpus, "request": _seconds(time),
        "partition": partition, "user": user, "account": account, "qos": qos, "constraint": constraint,
        "priority": priority, **_others(other or ()),
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    if job is not None and ask is not None:
        raise InputError("--job", f"{job!r} beside {ask}", "one of them")
    say_when_compiling()
    source, submit, notes = opened(now, ask, policy, given if job is None else {})
    at_us = None if at is None else round(seconds_of("--at", at) * SECOND_US)
    question = Question(
        submit, job or "", given if job is not None and given else None, at_us, end or (), requeue or (), drain or (),
        add or (), set_ or (),
    )  # fmt: skip
    learnt = None if history is None else learnt_from(history)
    found = answer(source, question, learnt=learnt, draws=draws, seed=seed, tries=tries, notes=notes)
    if out is not None:
        write(out, page(found, str(now)), "--out")
    if as_json:
        print_json(as_table(found))
        return
    print_page(parts(found, str(now), jobs))
    if out is not None:
        typer.echo(out)


def _mb(text: str | None) -> int | None:
    from unrack.units import memory_mb

    if text is None:
        return None
    try:
        found = memory_mb(float(text) if text.replace(".", "", 1).isdigit() else text)
    except ValueError:
        found = -1
    if found < 1:
        raise InputError("--memory", repr(text), "an amount of 1 MB or more, such as '32 GB'")
    return found


def _seconds(text: str | None) -> float | None:
    """A time as people write it, or as Slurm does (``1-00:00:00``)."""
    if text is None:
        return None
    from unrack.slurm_text.times import span_s

    try:
        found = span_s(text) if ":" in text else seconds_of("--time", text)
    except ValueError:
        found = None
    if found is None or not 1 <= found <= 3.2e9:
        raise InputError("--time", repr(text), "a time of 1 s or more, such as '4 h' or 04:00:00")
    return float(found)


def _others(texts: list[str] | tuple[str, ...]) -> dict[str, Any]:
    from unrack.workload.formats.asks.columns import COLUMNS

    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        number = value.isdigit() and len(value) < 16
        if not equals or not value or not ("." in name or name in COLUMNS) or ("." in name and not number):
            want = "COLUMN=VALUE, such as counted.matlab=1 or reservation=maint"
            raise InputError("--ask", repr(text), want)
        found[name] = int(value) if "." in name else value
    return found
