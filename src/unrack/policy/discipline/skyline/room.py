"""Room for a plan: its columns as they are at first, and larger ones."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import grown, grown_rows
from unrack.ledger.nodes import SIZE
from unrack.policy.discipline.skyline.columns import (
    CLAIMABLE,
    CURSOR,
    HEADS,
    LEASES,
    LEDGER,
    MOMENTS,
    SHORT,
    STARTS,
    TURNS,
    PlanColumns,
)
from unrack.policy.discipline.walk import WALK


def steps_to_look_at(steps: int) -> Ints:
    """``looked`` of so many steps."""
    return np.stack([np.arange(steps), np.zeros(steps, np.int64)])


def more_room(c: PlanColumns, jobs: int, running: int) -> dict[str, Ints]:
    """Larger columns for what the kernel had too little room for, with what so many jobs need at least."""
    short, width, slots = int(c.cursor[SHORT]), c.total.shape[2], len(c.place_of)
    if short in (MOMENTS, CLAIMABLE):
        steps = len(c.times) if short == CLAIMABLE else max(2 * len(c.times), running + 4 * jobs + 8)
        slots += (16 + slots // 4) * (short == CLAIMABLE)
        level, low = np.zeros((steps, 2, width + slots), np.int64), np.zeros((2, 2, width + slots), np.int64)
        left = np.zeros((len(c.left), 1, slots), np.int64)
        left[:, :, : len(c.place_of)] = c.left
        place_of = grown(c.place_of, slots)
        times, at, was = np.zeros(steps, np.int64), np.zeros(steps, np.int64), grown(c.was, steps)
        by_step = {"times": times, "at": at, "looked": steps_to_look_at(steps), "level": level, "was": was}
        return {**by_step, "low": low, "place_of": place_of, "left": left}
    if short == HEADS:
        more = 2 * len(c.heads)
        then, left = np.zeros((more, *c.then.shape[1:]), np.int64), np.zeros((1 + more, *c.left.shape[1:]), np.int64)
        then[: len(c.then)], left[: len(c.left)] = c.then, c.left
        return {"heads": grown_rows(c.heads, more), "then": then, "left": left}
    if short == TURNS:
        return {"turn": np.zeros((6, 2 * jobs), np.int64)}
    if short == STARTS:
        nodes = c.now.shape[1]
        return {
            "out": grown_rows(c.out, len(c.out) + jobs + nodes),
            "started": grown(c.started, 2 * c.started.shape[1]),
        }
    return room_for_reserved(c, short, 2 * len(c.rows if short == LEASES else c.claims) + jobs)


def room_for_reserved(c: PlanColumns, what: int, count: int) -> dict[str, Ints]:
    """Columns with room for so many rows (LEASES) or claims of reservations; none if they have it.

    What is kept has as much room as what is made anew at least, which the kernel copies there.
    """
    made, kept = ("new_rows", "rows") if what == LEASES else ("new_claims", "claims")
    if count <= len(getattr(c, made)):
        return {}
    larger = grown_rows(getattr(c, made), count)
    return {made: larger, kept: grown_rows(getattr(c, kept), len(larger))}


def columns_for(ledger: tuple[Ints, ...], nodes: int, jobs: int) -> PlanColumns:
    """Columns of a plan in which nothing is reserved, with the least room."""
    places = len(ledger[LEDGER.index("free_places")])
    slots = 16 if places else 0
    blocks = -(-nodes // SIZE)
    none, two = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    return PlanColumns(
        **dict(zip(LEDGER, ledger, strict=True)), installed=np.zeros((1, 2, nodes), np.int64),
        spans=np.array([[0, nodes]]), stays=np.zeros(1, np.int64),
        set_free=np.zeros(1, np.int64),
        set_owner=np.zeros(1, np.int64), windows=np.zeros((0, 7), np.int64), window_claims=two,
        window_rows=np.zeros((0, 5), np.int64), window_groups=np.zeros((0, 5), np.int64),
        kept=np.zeros((0, 6), np.int64), kept_at=np.zeros((0, nodes), np.int64), kept_of=np.zeros(jobs, np.int64),
        beside=np.zeros((2, nodes), np.int64), back=np.zeros(places, np.int64),
        usable=np.zeros((2, nodes), np.int64), of=none, total=np.zeros((1, 2, 0), np.int64),
        group_spans=np.zeros((1, 2), np.int64), rank=none, named=none,
        may_lend=none, times=none, at=none, looked=steps_to_look_at(0), level=np.zeros((0, 2, 0), np.int64),
        low=np.zeros((2, 2, 0), np.int64),
        slot=np.full(places, -1, np.int64), place_of=np.zeros(slots, np.int64),
        start=np.full(jobs, -1, np.int64), where=np.zeros((5, jobs), np.int64),
        rows=np.zeros((0, 5), np.int64), claims=two,
        wants=np.zeros(jobs, np.int64), fixed_at=np.zeros((2, jobs), np.int64), fixed=two,
        turn=np.zeros((6, 0), np.int64), new_rows=np.zeros((0, 5), np.int64), new_claims=two,
        started=np.zeros((6, 64), np.int64), out=np.zeros((256, 5), np.int64), cursor=np.zeros(CURSOR, np.int64),
        held=np.full((5, jobs), -1, np.int64), was=none, grown=np.zeros((2, 1 + places), np.int64),
        kind=np.full(jobs, -1, np.int64), refused=np.zeros(16, np.int64), due=np.full((2, jobs), -1, np.int64),
        late=np.zeros((4, 16), np.int64),
        now=np.zeros((2, nodes), np.int64), heads=np.zeros((1, 4), np.int64),
        meets=np.ones((1, 1), np.int64), aside=np.zeros(2, np.int64), then=np.zeros((1, 2, nodes), np.int64),
        most=np.zeros(blocks - (-blocks // SIZE), np.int64),
        left=np.zeros((2, 1, slots), np.int64), moments=none, walk=np.zeros(WALK, np.int64),
    )  # fmt: skip
