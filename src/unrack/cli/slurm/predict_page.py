"""What ``unrack slurm predict`` prints for people: a table a policy, and how good earlier predictions were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unrack.facts import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from unrack.live.slurm.prediction.forecast import Forecast
    from unrack.live.slurm.prediction.hindsight import Hindsight
    from unrack.live.slurm.prediction.starts import Prediction, Start

WIDE = 100
"""Characters from which there is room for the names of jobs."""
NEVER = "never"


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
        listed = ", ".join(f"{one.job} ({one.waits_for})" for one in made.aside[:10])
        more = f" and {len(made.aside) - 10} more" if len(made.aside) > 10 else ""
        yield Text(f"Not predicted, as they wait for something else: {listed}{more}")
    for note in made.notes:
        yield Text(f"note: {note}")
    for one in looked_back or ():
        yield Text("")
        yield from (Text(escape(line)) for line in _hindsight(one))


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
        who = [escape(facts.user or "-"), *([escape(facts.name or "-")] if width >= WIDE else [])] if facts else ["-"]
        cores = f"{facts.tasks}x{facts.cores}" if facts else "-"
        waited = "-" if facts is None or facts.waited_s is None else short(facts.waited_s)
        spread = f"{when(start.early_s)}..{when(start.late_s)}" if made.learnt.runs > 1 else "-"
        median = when(start.middle_s) if made.learnt.runs else "-"
        table.add_row(
            escape(start.job), *who, cores, waited, when(start.requested_s), median, spread, _learnt(start, made)
        )
    return table


def _learnt(start: Start, made: Forecast) -> str:
    if not made.learnt.runs:
        return "-"
    return f"{start.runs} own" if start.of_user else f"{start.runs} all"


def _hindsight(one: Hindsight) -> Iterator[str]:
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
