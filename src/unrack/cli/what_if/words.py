"""An answer for people: a few lines, and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unrack.cli.live.prediction import short, when
from unrack.cli.printed import grid
from unrack.facts import counted
from unrack.plan.what_if.page import job_words, room_words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unrack.plan.what_if.answer import Answer


def parts(found: Answer, source: str, most: int) -> Iterator[RenderableType]:
    """The parts of the page, top to bottom."""
    from rich.markup import escape
    from rich.text import Text

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
