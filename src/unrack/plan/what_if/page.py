"""An answer as a page that needs nothing else, and as plain values for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unrack.facts import counted, memory_words, some
from unrack.plan.what_if.advice import NodeRoom
from unrack.plan.what_if.scene import Columns
from unrack.units import NEVER_US, SECOND_US, seconds_text

if TYPE_CHECKING:
    from unrack.plan.what_if.answer import Answer

MOST_BARS = 60
"""Jobs that are drawn."""
_OWN = ("id", "tasks", "cores", "memory", "request", "run", "submit", "priority")


def job_words(columns: Columns) -> str:
    """What a job asks for, in words.

    Examples
    --------
    >>> job_words({"id": "a", "tasks": 2, "cores": 8, "memory": 2048, "request": 3600.0, "partition": "gpu"})
    'a: 2 tasks of 8 cores, 2 GB, for 1 h; partition gpu'
    """
    tasks, cores = int(columns.get("tasks", 1)), int(columns.get("cores", 1))
    of = f"{tasks} tasks of " if tasks > 1 else ""
    memory = f", {memory_words(int(columns['memory']))}" if columns.get("memory") else ""
    more = "; ".join(f"{name} {value}" for name, value in columns.items() if name not in _OWN and value)
    asked = f"{of}{cores} core{'s' * (cores != 1)}{memory}"
    return f"{columns['id']}: {asked}, for {seconds_text(float(columns['request']))}" + (f"; {more}" if more else "")


def room_words(room: NodeRoom) -> str:
    """What the nodes have for one more task.

    Examples
    --------
    >>> import numpy as np
    >>> room_words(NodeRoom(9, 2, 3, {"cores": 4, "memory": 1}, np.ones(9, bool), np.zeros((2, 9), int)))
    '9: 2 have room for a task, 4 lack cores, 1 lack memory, on 3 it may not start'
    """
    said = [f"{room.with_room} have room for a task"] + [f"{count} lack {name}" for name, count in room.lacks.items()]
    said += [f"on {room.closed} it may not start"] if room.closed else []
    return f"{room.nodes}: {', '.join(said)}"


def as_table(found: Answer) -> dict[str, Any]:
    """The answer as plain values; times in s from now, ``null``: never."""
    look, room = found.look, None if found.look is None else found.look.room
    return {
        "policy": found.policy,
        "now_s": found.now_s,
        "running": found.runs,
        "waiting": found.waits,
        "changes": list(found.changes),
        "asked": [dict(columns) for columns in found.asked],
        "start_s": found.start_s,
        "first_start_s": found.first_s,
        "start_as_it_is_s": found.before_s,
        "start_range_s": list(found.spread_s) or None,
        "learnt_from": {"runs": found.learnt.runs, "source": found.learnt.source},
        "starts_now": found.start_s is not None and found.start_s < 1,
        "reason": None if look is None or look.reason is None else {**look.reason._asdict(), "words": str(look.reason)},
        "ahead": None if look is None else look.ahead,
        "nodes": None if room is None else {
            "all": room.nodes, "with_room": room.with_room, "closed": room.closed, "lack": room.lacks,
        },
        "others": {**found.others._asdict(), "moved": [one._asdict() for one in found.others.moved]},
        "lost_core_h": found.lost_core_h,
        "advice": {**found.advice._asdict(), "found": [one._asdict() for one in found.advice.found]},
        "notes": list(found.notes),
    }  # fmt: skip


def page(found: Answer, source: str) -> str:
    """A page of its own: the answer, the starts before and after as bars, and all tables."""
    from unrack.report.page import template

    facts = [("system", f"{source}: {found.runs} jobs run, {found.waits} wait"), ("policy", found.policy)]
    facts += [("if", "; ".join(found.changes))] * bool(found.changes)
    facts += [("job", job_words(columns)) for columns in found.asked[:20]]
    room = "" if found.look is None or found.look.room is None else room_words(found.look.room)
    return template("what_if.html.j2").render(
        found=found, facts=facts, room=room, when=_when, hours=lambda value: f"{value:,.1f} h", counted=counted,
        bars=_bars(found), never=some([f"{job} ({why})" for job, why in found.others.never.items()], 10),
    )  # fmt: skip


def _when(since_s: float | None) -> str:
    return "never" if since_s is None else "now" if since_s < 1 else f"in {seconds_text(since_s)}"


def _bars(found: Answer) -> dict[str, Any]:
    """Waits of the jobs that are asked about, and of those that move most, before and after, for a drawing."""
    before, after = (dict(zip(one.ids, one.start_us.tolist(), strict=True)) for one in (found.before, found.after))
    own = [str(columns["id"]) for columns in found.asked]
    names = [*own, *(one.job for one in found.others.moved)][:MOST_BARS]
    now_us = round(found.now_s * SECOND_US)
    rows: list[dict[str, Any]] = [
        {
            "job": name, "own": name in own,
            "before": None if before.get(name, NEVER_US) >= NEVER_US else (before[name] - now_us) / SECOND_US,
            "after": None if after.get(name, NEVER_US) >= NEVER_US else (after[name] - now_us) / SECOND_US,
        }
        for name in names
    ]  # fmt: skip
    waits = [float(one) for row in rows for one in (row["before"], row["after"]) if one is not None]
    longest = max([1.0, *waits])
    return {"rows": rows, "longest": longest, "words": seconds_text(longest)}
