"""``unrack what-if NOW [ASK]``: when this would start, why not now, which jobs wait for it, what would help."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.live.prediction import short, when
from unrack.cli.options import (
    Json,
    grid,
    need_ending,
    policies,
    print_json,
    print_page,
    say_when_compiling,
    seconds_of,
    write,
)
from unrack.errors import InputError
from unrack.facts import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unrack.plan.what_if.answer import Answer
    from unrack.plan.what_if.scene import StudySource


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
        typer.Argument(metavar="ASK", help="The job to submit: a job script (#SBATCH), or a manifest beside NOW.json."),
    ] = None,
    job: Annotated[str | None, typer.Option(metavar="ID", help="A job that waits, in place of a new one.")] = None,
    tasks: Annotated[
        int | None, typer.Option("--nodes", "--tasks", min=1, help="How many equal tasks, a node each where there is.")
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores of each task.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory of each task: '32 GB'.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="GPUs of each task.")] = None,
    time: Annotated[str | None, typer.Option(metavar="TIME", help="How long it asks to run: '4 h'.")] = None,
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Partitions, with commas.")] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="The user of the job.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="The account that it counts for.")] = None,
    qos: Annotated[str | None, typer.Option(metavar="NAME", help="The quality of service of the job.")] = None,
    constraint: Annotated[str | None, typer.Option(metavar="FEATURES", help="Features: 'a100&nvlink'.")] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, help="Its priority; default: the lowest of the jobs that wait.")
    ] = None,
    other: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="COLUMN=VALUE", help="Another column of jobs: counted.matlab=1; repeatable."),
    ] = None,
    drain: Annotated[
        list[str] | None, typer.Option(metavar="NODES", help="Start nothing more on these nodes: 'n[3-4]'; repeatable.")
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option(metavar="'N like NODE'", help="More nodes: '4 like n1'; repeatable.")
    ] = None,
    end: Annotated[list[str] | None, typer.Option(metavar="ID", help="Cancel this job; repeatable.")] = None,
    requeue: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Stop this running job and queue it again; repeatable.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key of the study, such as clusters.0.site.limits.0.amounts.cores=64; repeatable.",
        ),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Default: the first of the study.", autocompletion=policies)
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Ask at this time of the study's run, in place of its beginning.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Learn run times from this, for a range: what sacct printed, or any trace."),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, max=10_000, help="How often learnt run times are drawn.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the draws.")] = 0,
    tries: Annotated[
        int, typer.Option(min=0, max=10_000, help="How many changes that might help are tried at most.")
    ] = 24,
    jobs: Annotated[int, typer.Option(min=1, help="How many other jobs are listed.")] = 10,
    out: Annotated[str | None, typer.Option(metavar="FILE.html", help="Write a page.")] = None,
    as_json: Json = False,
) -> None:
    """Tell what would happen if a job were submitted or the system changed; nothing is done."""
    from unrack.live.prediction.forecast import learnt_from
    from unrack.plan.what_if.answer import Question, answer, as_table, page
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
    from unrack.slurm_text.values import span_s

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
        number = value.isdecimal() and len(value) < 16
        if not equals or not value or not ("." in name or name in COLUMNS) or ("." in name and not number):
            want = "COLUMN=VALUE, such as counted.matlab=1 or reservation=maint"
            raise InputError("--ask", repr(text), want)
        found[name] = int(value) if "." in name else value
    return found


MANIFESTS = (".yaml", ".yml", ".json")
"""Endings of manifests; other files are job scripts."""


def opened(
    now: Path, ask: Path | None, policy: str | None, given: Mapping[str, Any]
) -> tuple[StudySource, list[dict[str, Any]], Sequence[str]]:
    """The study, the jobs that are submitted to it, and what of them is not kept.

    ``given``: what options say that the jobs ask for; it counts before what a script says.
    """
    from unrack.plan.what_if.scene import StudySource
    from unrack.study.input.inputs import Document

    objects = now.suffix == ".json"
    if ask is not None and objects != (ask.suffix in MANIFESTS):
        want = "a manifest: YAML or JSON" if objects else "NOW.json before it: what 'kubernetes snapshot' wrote"
        raise InputError("ASK", f"{ask} beside {now}", want)
    submit: list[dict[str, Any]] = []
    notes: Sequence[str] = ()
    if objects:
        source, submit, notes = _of_objects(now, ask, policy)
    else:
        source = StudySource(Document.read(now), policy)
    if ask is not None and not objects:
        submit, notes = _of_script(ask, source)
    if ask is None and given:
        if "request" not in given:
            raise InputError("--time", "nothing", "how long the job asks to run, such as --time '4 h'")
        submit = [{"id": "asked", "tasks": 1, "cores": 1}]
    return source, [{**one, **given} for one in submit], notes


def _of_script(path: Path, source: StudySource) -> tuple[list[dict[str, Any]], Sequence[str]]:
    from unrack.live.slurm.job_script import asked_by_script
    from unrack.plan.what_if.scene import columns_of
    from unrack.workload.store import one_row

    memory = bool(source.scene().jobs.memory_mb.any())
    job, notes = asked_by_script(path, lambda spare: source.scene((), spare).cluster, memory)
    return [columns_of(one_row(job, None), 0)], notes


def _of_objects(
    now: Path, ask: Path | None, policy: str | None
) -> tuple[StudySource, list[dict[str, Any]], Sequence[str]]:
    from unrack.extras import needed_for

    with needed_for("objects of Kubernetes"):
        from unrack.live.kubernetes.asked_pods import NOTHING, asked_pods
    from unrack.plan.what_if.scene import StudySource
    from unrack.study.input.inputs import Document

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{now.stem}.toml"
        submit, notes = asked_pods(now, ask, path)
        source = StudySource(Document.read(path), policy, NOTHING)
        source.scene()  # reads all files, which are gone then
    return source, submit, notes


def parts(found: Answer, source: str, most: int) -> Iterator[RenderableType]:
    """The parts of the page, top to bottom."""
    from rich.markup import escape
    from rich.text import Text

    from unrack.plan.what_if.answer import job_words

    def line(words: str) -> Text:
        return Text(words)

    yield line(f"{source}: {counted(found.runs, 'job')} run, {found.waits} wait; {found.policy}")
    if found.changes:
        yield line(f"if         {'; '.join(found.changes)}")
    for columns in found.asked[:most]:
        yield line(f"job        {job_words(columns)}")
    if len(found.asked) > most:
        yield line(f"           and {len(found.asked) - most} more")
    if found.look is not None:
        yield from map(line, _start(found))
    yield from map(line, _cost(found))
    if found.others.moved:
        table = grid("Others that start at another time", ["job"], ["before", "then", "difference"])
        for one in found.others.moved[:most]:
            gap = None if one.before_s is None or one.after_s is None else one.after_s - one.before_s
            apart = "-" if gap is None else f"{'-' if gap < 0 else '+'}{short(round(abs(gap)))}"
            table.add_row(escape(one.job), when(one.before_s), when(one.after_s), apart)
        yield table
        if len(found.others.moved) > most:
            yield line(f"… and {len(found.others.moved) - most} more (--jobs, --json)")
    advice = found.advice
    if advice.found:
        table = grid("What would help", ["if it were"], ["starts", "others later", "earlier", "work lost"])
        table.columns[0].no_wrap = False
        for column in table.columns[1:]:
            column.no_wrap = True
        for step in advice.found:
            later = f"{step.later} by {step.later_h:,.1f} h" if step.later else "-"
            lost = f"{step.lost_core_h:,.1f} core-h" if step.lost_core_h else "-"
            earlier = f"{step.earlier_h:,.1f} h" if step.earlier_h else "-"
            table.add_row(escape(step.words), when(step.start_s), later, earlier, lost)
        yield table
    if advice.of:
        none = "" if advice.found else "nothing that was tried helps: "
        yield line(f"{none}{advice.tried} of {counted(advice.of, 'change')} tried (--tries)")
    for note in found.notes:
        yield line(f"note: {note}")


def _start(found: Answer) -> Iterator[str]:
    from unrack.plan.what_if.answer import room_words

    look = found.look
    assert look is not None
    several = len(found.asked) > 1 and found.first_s != found.start_s
    first = f"first {when(found.first_s)}, last " if several else ""
    yield f"starts     {first}{when(found.start_s)}, if all jobs run for as long as they ask"
    if found.spread_s:
        early, middle, late = map(when, found.spread_s)
        yield f"           {middle} at the median, 10 to 90 %: {early} to {late} ({found.learnt.source})"
    if found.asks_less and found.before_s != found.start_s:
        yield f"           as it is: {when(found.before_s)}"
    if look.reason is not None:
        yield f"why        {look.reason}; {counted(look.ahead, 'job')} ahead"
    if look.room is not None:
        yield f"nodes      {room_words(look.room)}"


def _cost(found: Answer) -> Iterator[str]:
    others = found.others
    said = [
        f"{counted(others.later, 'job')} later, by {others.later_h:,.1f} h in all" if others.later else "",
        f"{counted(others.earlier, 'job')} earlier, by {others.earlier_h:,.1f} h" if others.earlier else "",
        f"{counted(len(others.never), 'job')} never" if others.never else "",
    ]
    told = "; ".join(one for one in said if one)
    if found.asked or found.changes:
        yield f"others     start {told}" if told else "others     start as they would"
    for job, why in list(others.never.items())[:5]:
        yield f"           job {job} never starts: {why}"
    if found.lost_core_h:
        yield f"lost       {found.lost_core_h:,.1f} core-hours of work"
