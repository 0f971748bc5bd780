"""The page of predicted starts, and how good earlier ones were; for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.errors import InputError
from unrack.facts import counted, some

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from unrack.live.prediction.forecast import Forecast
    from unrack.live.prediction.hindsight import Hindsight
    from unrack.live.prediction.starts import Prediction, Start

WIDE = 100
"""Characters from which there is room for the names of jobs."""
NEVER = "never"

Policies = Annotated[
    list[str] | None,
    typer.Option(metavar="POLICY", help="Predict under this policy as well: a name, or FILE.py:NAME; repeatable."),
]
From = Annotated[
    Path | None,
    typer.Option("--from", metavar="NOW.toml", help="Predict from what 'snapshot' wrote; the system is not needed."),
]
History = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Learn run times from this: what sacct printed, or any trace with requests."),
]
Save = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Append the predictions, and the starts seen now, to a file.")
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|TIME",
        help="Compare earlier predictions with what happened: of a file, or of the --save file since '2 h' ago.",
    ),
]
Draws = Annotated[int, typer.Option(min=1, max=10_000, help="How often learnt run times are drawn.")]
OfDraws = Annotated[int, typer.Option(min=0, help="The seed of the draws.")]
Shown = Annotated[int, typer.Option(min=1, help="How many jobs the tables show.")]


def tell(make: Callable[[], Forecast], save: Path | None, since: str | None, jobs: int, as_json: bool) -> None:
    """Make predictions, hold earlier ones to what happened, append them to a file, and print them."""
    from rich.console import Console

    from unrack.live.prediction.saved import save as append

    with Console(stderr=True).status("simulating what comes next"):  # nothing where it cannot be seen
        made = make()
    looked_back = None if since is None else _hindsight(since, save, made)
    if save is not None:
        append(save, made.saved)
    if as_json:
        typer.echo(json.dumps(_json(made, looked_back), indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    for part in page(made, looked_back, jobs, console.width):
        console.print(part)


def _hindsight(since: str, save: Path | None, made: Forecast) -> list[Hindsight]:
    """What became of earlier predictions: of a file, or of the last while in the file that they are saved to."""
    from unrack.live.prediction.hindsight import hindsight
    from unrack.live.prediction.saved import load_saved, recent
    from unrack.units import SECOND_US, time_us

    if Path(since).is_file():
        return hindsight(load_saved(Path(since)), made.started)
    try:
        span_s = time_us(since) / SECOND_US
    except ValueError:
        raise InputError(
            "--since", repr(since), "a file that 'predict --save' wrote, or a time such as '2 h'"
        ) from None
    if save is None or not save.is_file():
        raise InputError("--since", repr(since), "--save FILE beside it, the file that predictions were saved to")
    return hindsight(recent(load_saved(save), made.at_s - span_s), made.started)


def _json(made: Forecast, looked_back: list[Hindsight] | None) -> dict[str, Any]:
    found = made.record()
    if looked_back is not None:
        found["hindsight"] = [{**asdict(one), "bias": one.bias} for one in looked_back]
    return found


def page(made: Forecast, looked_back: list[Hindsight] | None, most: int, width: int) -> Iterator[RenderableType]:
    """The parts of the page, in order."""
    from rich.markup import escape
    from rich.text import Text

    learnt = made.learnt
    yield Text(made.source)
    if learnt.runs == 1:
        yield Text(f"Run times learnt from 1 run ({learnt.source}), of which no range can be told.")
    elif learnt.runs:
        yield Text(f"Run times learnt from {learnt.runs:,} runs ({learnt.source}); ranges are 10 to 90 %.")
    else:
        yield Text("No runs to learn from: every job is taken to run for as long as it asks (no range).")
    if not made.predictions:
        yield Text("No job waits for its turn.")
    for prediction in made.predictions:
        yield Text("")
        yield _table(prediction, made, most, width)
        if len(prediction.starts) > most:
            yield Text(f"… and {len(prediction.starts) - most} more (--jobs, --json)")
    if made.aside:
        listed = some([f"{one.job} ({one.waits_for})" for one in made.aside], 10)
        yield Text(f"Not predicted, as they wait for something else: {listed}")
    for note in made.notes:
        yield Text(f"note: {note}")
    for one in looked_back or ():
        yield Text("")
        yield from (Text(escape(line)) for line in _hindsight_rows(one))


def _table(prediction: Prediction, made: Forecast, most: int, width: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(prediction.policy), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("job", no_wrap=True, max_width=14)
    table.add_column("user", no_wrap=True, overflow="ellipsis", max_width=10)
    if width >= WIDE:
        table.add_column("name", no_wrap=True, overflow="ellipsis", max_width=20)
    for heading in ("cores", "waited", "if as asked", "median", "range", "learnt"):
        table.add_column(heading, justify="right", no_wrap=True)
    for start in prediction.starts[:most]:
        facts = made.facts.get(start.job)
        names = [escape(facts.user or "-"), *([escape(facts.name or "-")] if width >= WIDE else [])] if facts else ["-"]
        cores = f"{facts.tasks}x{facts.cores}" if facts else "-"
        waited = "-" if facts is None or facts.waited_s is None else short(facts.waited_s)
        spread = f"{when(start.early_s)}..{when(start.late_s)}" if made.learnt.runs > 1 else "-"
        median = when(start.middle_s) if made.learnt.runs else "-"
        table.add_row(
            escape(start.job), *names, cores, waited, when(start.requested_s), median, spread, _learnt(start, made)
        )
    return table


def _learnt(start: Start, made: Forecast) -> str:
    if not made.learnt.runs:
        return "-"
    return f"{start.runs} own" if start.of_user else f"{start.runs} all"


def _hindsight_rows(one: Hindsight) -> Iterator[str]:
    yield f"Earlier predictions, {one.policy}: {counted(one.compared, 'job')} started since, {one.open} have not"
    if one.error_s is None:
        yield f"  {one.bias}"
        return
    low, middle, high = map(signed, one.error_s)
    yield f"  actual - predicted (median): {middle} at the median, 10 to 90 %: {low} to {high}"
    if one.requested_error_s is not None:
        low, middle, high = map(signed, one.requested_error_s)
        yield f"  actual - predicted (as asked): {middle} at the median, 10 to 90 %: {low} to {high}"
    yield f"  within the range: {100 * (one.within or 0):.0f} % of the jobs; {one.bias}"


def when(since_s: float | None) -> str:
    """A start from now on, for people.

    Examples
    --------
    >>> when(0.000002), when(59), when(3 * 3600 + 120), when(None)
    ('now', '59s', '3h02', 'never')
    """
    if since_s is None:
        return NEVER
    return "now" if since_s < 1 else short(since_s)


def short(seconds: float) -> str:
    """A time in at most six characters.

    Examples
    --------
    >>> short(42), short(125), short(7300), short(3 * 86_400 + 7200), short(400 * 86_400)
    ('42s', '2m05', '2h01', '3d02h', '400d')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}"
    days = whole // 86_400
    return f"{days}d{whole % 86_400 // 3600:02}h" if days < 100 else f"{days}d"


def signed(seconds: float) -> str:
    """A difference of times, for people: ``+2m05``."""
    return f"{'-' if seconds < 0 else '+'}{short(abs(seconds))}"
