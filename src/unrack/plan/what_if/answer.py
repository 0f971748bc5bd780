"""The answer to a question about a moment: when a job starts, why not at once, and which others pay for it.

It can be had as a page that needs nothing else, and as plain values for programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unrack.errors import InputError, nearest
from unrack.facts import counted, memory_words, some
from unrack.live.prediction.learnt import Learnt, past_of_jobs
from unrack.live.prediction.starts import QUANTILES, drawn_us
from unrack.plan.what_if.advice import Advice, Look, NodeRoom, advise, look
from unrack.plan.what_if.scene import (
    Change,
    Columns,
    Scene,
    StudySource,
    columns_of,
    read_set,
    state_at,
    stopped,
    with_jobs,
    without,
)
from unrack.plan.what_if.starts import Others, Starts, as_asked, drained, more_like, others_of, since_s, starts_of
from unrack.reasons import Code, Reason
from unrack.resources.site.installed import Site
from unrack.units import NEVER_US, SECOND_US, seconds_text

_OF_SITES = ("partition", "account", "qos", "constraint", "reservation", "req_nodes", "exc_nodes")
LEARNT_HERE = "runs of the study that were over by then"


@dataclass(frozen=True)
class Question:
    """What would happen if all of this were so; nothing said: what happens as it is."""

    submit: Sequence[Columns] = ()  # jobs that are submitted now
    job: str = ""  # or the job that is asked about
    asks: Columns | None = None  # and what it asks for in place of what it does
    at_us: int | None = None  # the time of a study's run, µs; ``None``: the moment with which the study begins
    end: Sequence[str] = ()  # jobs that are cancelled
    requeue: Sequence[str] = ()  # jobs that run, and are stopped and queued again
    drain: Sequence[str] = ()  # nodes on which nothing is started any more
    add: Sequence[str] = ()  # ``"4 like n1"``
    set: Sequence[str] = ()  # ``"KEY=VALUE"``, of the study


@dataclass(frozen=True)
class Answer:
    """What would happen."""

    policy: str
    now_s: float
    runs: int  # how many jobs run now, and wait
    waits: int
    asked: tuple[Columns, ...]  # the jobs that are asked about
    changes: tuple[str, ...]  # in words
    start_s: float | None  # when the last of them starts, s from now; ``None``: never, or no job was asked about
    first_s: float | None  # when the first of them does
    before_s: float | None  # of a job that waits: when it would without the changes
    look: Look | None
    spread_s: tuple[float | None, ...]  # the same over drawn run times: QUANTILES; empty: nothing was learnt
    learnt: Learnt
    others: Others
    lost_core_h: float  # work of jobs that are stopped
    advice: Advice
    notes: tuple[str, ...]
    before: Starts
    after: Starts

    @property
    def asks_less(self) -> bool:
        """Whether it is about a job that waits and asks for something else than it does, or under changes."""
        return self.before_s is not None and bool(self.changes)


def answer(
    source: StudySource,
    question: Question,
    *,
    learnt: Learnt | None = None,
    draws: int = 20,
    seed: int = 0,
    tries: int = 24,
    notes: Sequence[str] = (),
) -> Answer:
    """What would happen, by simulation; nothing is changed anywhere.

    Parameters
    ----------
    source
        The study.
    question
        What is to be so.
    learnt
        What runs of the past tell; ``None``: of the moment of a run what was over by then, else nothing.
    draws, seed
        How often run times are drawn, if something was learnt, and of the draws.
    tries
        How many changes that might help are simulated at most; 0: none.
    notes
        What was left out when the question was read.

    Raises
    ------
    InputError
        There is no such job, node or key, or what is asked for cannot be.
    """
    spare = any("." in name for columns in (*question.submit, question.asks or {}) for name in columns)
    base, over = _begun(source, question, spare)
    sets = [read_set(text) for text in question.set]
    keys: list[Change] = [*sets, *(more_like(base.cluster, text) for text in question.add)]
    keys += [drained(base.cluster, question.drain)] if question.drain else []
    changed = base
    if keys:
        other = as_asked(source.scene(keys, spare))
        moves = any(key.startswith("workloads") for key, _ in sets)
        if moves and question.at_us is not None:
            raise InputError("--set", "a key of the workload beside --at", "one of the cluster or the policies")
        changed = other if moves else replace(other, jobs=base.jobs, notes=base.notes)
    said = _notes(changed, question.submit, [*question.submit, *([question.asks] if question.asks else [])])
    changed, asked = _asked(changed, question)
    changed, lost = _moved(changed, question)
    ids = [str(columns["id"]) for columns in asked if not columns.get("waits_for")]
    numbers = [changed.number(one, "--job") for one in ids]
    before = starts_of(base)
    after = before if changed is base else starts_of(changed)
    if learnt is None:
        learnt = Learnt() if over is None else Learnt.of(past_of_jobs(over), LEARNT_HERE)
    waits = [str(columns["waits_for"]) for columns in asked if columns.get("waits_for")]
    seen = look(changed, numbers) if ids else None
    if waits:
        seen = Look(Reason(Code.DEPENDENCY, waits[0]), None, 0)
    starts = after.of(ids) if ids and not waits else []
    start_us = max(starts, default=None)
    advice, now_us = Advice(), base.now_us
    if seen is not None and tries and start_us is not None and start_us - now_us > SECOND_US:
        advice = advise(source, changed, asked, seen, after, keys, spare, tries)
    was = before.by_id.get(question.job, NEVER_US)
    return Answer(
        base.spec.label, now_us / SECOND_US, int(base.runs.sum()), base.queued - int(base.runs.sum()), tuple(asked),
        tuple(_words(question)), since_s(start_us, now_us), since_s(min(starts, default=None), now_us),
        since_s(was, now_us), seen, _spread(changed, numbers, learnt, draws, seed) if ids and learnt.runs else (),
        learnt, others_of(before, after, now_us, {*ids, *question.end}), lost, advice,
        (*notes, *base.notes, *said), before, after,
    )  # fmt: skip


def _begun(source: StudySource, question: Question, spare: bool) -> tuple[Scene, Any]:
    scene = source.scene((), spare)
    begun, over = (scene, None) if question.at_us is None else state_at(scene, question.at_us)
    return as_asked(begun), over


def _moved(scene: Scene, question: Question) -> tuple[Scene, float]:
    """The scene with jobs that are ended, or queued again behind all; and the work lost, h."""
    if question.job in question.end:
        raise InputError("--end", f"{question.job!r}, which is asked about", "another job")
    rows = list(dict.fromkeys(scene.number(job, "--end") for job in question.end))
    again = {scene.number(job, "--requeue"): job for job in question.requeue}
    for row, job in again.items():
        if not scene.runs[row]:
            raise InputError("--requeue", f"{job!r}, which does not run", "a job that runs")
        if row in rows:
            raise InputError("--requeue", f"{job!r}, which is to end", "another job")
    lost = sum(scene.lost_core_h(row) for row in (*rows, *again))
    return (stopped(scene, rows, list(again)), lost) if rows or again else (scene, 0.0)


def _asked(scene: Scene, question: Question) -> tuple[Scene, list[Columns]]:
    if question.submit:
        taken = set(map(str, scene.jobs.ids.to_list()))
        made = list[Columns]()
        for columns in question.submit:
            name, count = str(columns["id"]), 1
            while name in taken:
                count += 1
                name = f"{columns['id']}-{count}"
            taken.add(name)
            made.append({**_usual(scene, columns), "id": name})
        return with_jobs(scene, [one for one in made if not one.get("waits_for")]), made
    if not question.job:
        return scene, []
    row = scene.number(question.job, "--job")
    if scene.runs[row]:
        raise InputError("--job", f"{question.job!r}, which runs already", "a job that waits")
    columns = columns_of(scene.jobs, row)
    if not question.asks:
        return scene, [columns]
    wanted = {**columns, **question.asks, "id": question.job}
    return with_jobs(without(scene, [row]), [wanted], int(scene.jobs.submit_us[row])), [wanted]


def _usual(scene: Scene, columns: Columns) -> Columns:
    """What a new job is given that it does not say: the lowest priority of those that wait."""
    waiting = scene.jobs.priority[: scene.queued][~scene.runs[: scene.queued]]
    if "priority" in columns or not len(waiting) or not waiting.any():
        return columns
    return {**columns, "priority": int(waiting.min())}


def _notes(scene: Scene, asked: Sequence[Columns], given: Sequence[Columns]) -> list[str]:
    """What of the jobs that are asked about has no effect here; an InputError of a partition that there is not."""
    site, found = scene.cluster.places.installed.get("site"), []
    for columns in given:
        names = str(columns.get("partition") or "").split(",")
        if isinstance(site, Site) and site.partitions and names != [""] and not set(names) & site.partitions.keys():
            raise InputError("partition", repr(columns["partition"]), nearest(names[0], site.partitions))
        idle = [name for name in _OF_SITES if columns.get(name) and not isinstance(site, Site)]
        found += [f"This system knows nothing of its {', '.join(idle)}: it may run anywhere."] if idle else []
    if asked and scene.jobs.memory_mb.any() and not all(columns.get("memory") for columns in asked):
        found.append("Other jobs ask for memory, and this one for none: --memory says how much each task needs.")
    return found


def _spread(scene: Scene, rows: list[int], learnt: Learnt, draws: int, seed: int) -> tuple[float | None, ...]:
    """Quantiles of the start over drawn run times, s from now."""
    starts = []
    for draw in range(draws):
        drawn = replace(scene, jobs=replace(scene.jobs, work_us=drawn_us(scene.jobs, learnt, seed, draw)))
        starts.append(int(starts_of(drawn).start_us[rows].max()))
    spread = np.quantile(np.array(starts, np.int64), QUANTILES, method="inverted_cdf").tolist()
    return tuple(since_s(int(one), scene.now_us) for one in spread)


def _words(question: Question) -> list[str]:
    found = [f"{len(question.submit)} jobs submitted"] if len(question.submit) > 1 else []
    asks = ", ".join(f"{name} {value}" for name, value in (question.asks or {}).items())
    found += [f"job {question.job} asks for {asks}"] if asks else []
    found += [f"job {job} ended" for job in question.end] + [f"job {job} queued again" for job in question.requeue]
    found += [f"{nodes} drained" for nodes in question.drain] + [f"{text} more" for text in question.add]
    return found + list(question.set)


MOST_BARS = 60
"""Jobs that are drawn."""
_OWN = ("id", "tasks", "cores", "memory", "request", "run", "submit", "priority", "deadline")


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
    before, after = found.before.by_id, found.after.by_id
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
