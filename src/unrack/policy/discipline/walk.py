"""How far a pass over the queue has come: the numbers that it keeps while it is interrupted for a choice."""

from __future__ import annotations

(
    STAGE, AT, HEADS, COUNT, ROWS, CLAIMS, FREE_CORES, ASKING, FOUND, CLAIMS_FOUND, HELD_US, MOVES, OPENS, SECOND,
    JUDGING, TIME, RUN, ENDED, MOMENT, ANSWER, LOOKED_AT, CLOSES, TAKER, ALIKE, BACKFILL, DEPTH, WHOLE, FIT, EQUAL,
    TAKES,
) = range(30)  # fmt: skip
"""Entries of ``walk``, how far a pass has come.

STAGE: what comes next. AT: the place of the job that is looked at, in the order or, if SECOND is 1, in the order of
those behind a head. HEADS: how many heads there are. COUNT, ROWS, CLAIMS: how much of ``started``, ``out`` and
``new_claims`` is used. FREE_CORES: of all nodes. ASKING: the job about which a choice is to be made.
FOUND, CLAIMS_FOUND: the ends of its rows and claims (NO_PLACE, ASIDE: it has none); HELD_US: for how long it would hold
them; MOVES: whether others would end at another time, or its devices stay held after its end; OPENS: whether its start
may make a place for those that had none.
JUDGING: the head that is looked at. TIME, RUN, ENDED, MOMENT: how far the search for its time has come. ANSWER: of yes
and no; or the node of TAKER. LOOKED_AT: the job that is looked at. CLOSES: whether one was refused that time alone may
give a place. TAKER: the job that has taken devices, which are no longer as their columns say; -1: none has.
ALIKE: whether jobs of a kind go to the same places, however long they run. From BACKFILL to FIT: how the pass goes, a
:class:`unrack.policy.discipline.heads_kernel.PassRule`. EQUAL: whether every task asks one core and no memory, on
shared nodes, and no place is chosen: counting cores then says all. TAKES: whether the pass's own kernel starts jobs for
which it chooses devices."""
WALK = 30
PLACE, SHADOW, ROOM, BEHIND = range(4)
"""Columns of ``heads``: its place in the order; when it starts, µs (UNSEEN: not asked; NEVER: never); how many
tasks of it fit then; and how many behind it have been looked at."""
NO_PLACE, ASIDE = -1, -2
"""In place of FOUND: it has no place; and that for no other reason than a limit, so that it holds up no other."""
BEGIN, LOOK, PLACED, SEEK, SOUGHT, JUDGE, JUDGED = range(7)
"""Stages. PLACED: a place for the job was chosen, or refused. SOUGHT: ANSWER says whether the head has a place at TIME.
JUDGED: ANSWER says whether the head still has a place if the job starts; then it has been taken from what is free."""
UNSEEN, NEVER = -2, -1
REFUSED, NO_DEVICES, LATE, CLOSED = range(1, 5)
LIMITED = -1
"""Values of ``refused``, as rules for pools answer them below 0: there is too little room; no device; the job would be
late, as are all like it that run as long and are due before it would end; a deadline is in the way, its own or
another's. Time alone changes only the last two. LIMITED: a limit is full, which holds up no other."""
LATE_US, LATE_END, IN_KERNEL, IS_CLOSED, DELAYS_US = range(5)
"""Rows of ``late``, by kind: the run time of one that would be late, and when it would end at best, both µs; whether
the pass's own kernel places jobs of the kind; whether it refused one in this pass that time alone may give a place; and
the run time, µs, of the shortest that would have delayed a head since the last start: one as long would, too (0: none).
"""
DUE_US, DUE_END = range(2)
"""Rows of ``due``, by job: its deadline, µs (-1: none), and until when that counts, µs."""
