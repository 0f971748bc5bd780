"""How far a pass over the queue has come: the numbers that it keeps while it is interrupted for a choice."""

from __future__ import annotations

(
    STAGE, AT, HEADS, COUNT, ROWS, CLAIMS, FREE_CORES, ASKING, FOUND, CLAIMS_FOUND, HELD_US, MOVES, OPENS, SECOND,
    JUDGING, TIME, RUN, ENDED, MOMENT, ANSWER, LOOKED_AT,
) = range(21)  # fmt: skip
"""Entries of ``walk``, how far a pass has come.

STAGE: what comes next. AT: the place of the job that is looked at, in the order or, if SECOND is 1, in the order of
those behind a head. HEADS: how many heads there are. COUNT, ROWS, CLAIMS: how much of ``started``, ``out`` and
``new_claims`` is used. FREE_CORES: of all nodes. ASKING: the job about which a choice is to be made.
FOUND, CLAIMS_FOUND: the ends of its rows and claims (NO_PLACE, ASIDE: it has none); HELD_US: for how long it would hold
them; MOVES: whether others would end at another time, or its devices stay held after its end; OPENS: whether its start
may make a place for those that had none.
JUDGING: the head that is looked at. TIME, RUN, ENDED, MOMENT: how far the search for its time has come. ANSWER: of yes
and no. LOOKED_AT: the job that is looked at."""
WALK = 21
PLACE, SHADOW, ROOM, BEHIND = range(4)
"""Columns of ``heads``: its place in the order; when it starts, µs (UNSEEN: not asked; NEVER: never); how many
tasks of it fit then; and how many behind it have been looked at."""
NO_PLACE, ASIDE = -1, -2
"""In place of FOUND: it has no place; and that for no other reason than a limit, so that it holds up no other."""
BEGIN, LOOK, PLACED, SEEK, SOUGHT, JUDGE, JUDGED = range(7)
"""Stages. PLACED: a place for the job was chosen, or refused. SOUGHT: ANSWER says whether the head has a place at TIME.
JUDGED: ANSWER says whether the head still has a place if the job starts; then it has been taken from what is free."""
UNSEEN, NEVER = -2, -1
