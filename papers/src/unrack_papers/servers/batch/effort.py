"""Solvers under a time limit of the user's, and the work of a search that is counted where there is none."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from threading import Event, Thread
from typing import Any, TypedDict, TypeVar

from unrack_papers.clock import Clock

T = TypeVar("T")

COUNTED_S = 60.0
"""Work of a search, in seconds of an ordinary core: steps, iterations and nodes are counted."""
LOOK_S = 0.01
"""So often it is looked whether a solver that knows wall time only has used up what is left."""


def until_up(clock: Clock, solve: Callable[[float], T], known: Callable[[T], bool]) -> T | None:
    """What a solver finds before the time is up; ``None``: it was up.

    Parameters
    ----------
    solve
        Called with a limit of wall time, s, which is all that the solver knows; again if it was too short, as others
        had the machine.
    known
        Whether an answer is one, and not an end of time or work.
    """
    while not clock.over():
        allowed, before = clock.wall_s(), clock.took_s()
        found = solve(allowed)
        if known(found) or clock.took_s() - before < allowed:
            return found
    return None


def solved(solver: Any, model: Any, clock: Clock) -> Any:
    """The status of a CP-SAT solver, which is stopped when the time is up: its own limits are of wall time."""
    if clock.limit_s == inf:
        return solver.solve(model)
    done = Event()

    def watch() -> None:
        while not done.wait(LOOK_S):
            if clock.over():
                solver.stop_search()

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        return solver.solve(model)
    finally:
        done.set()
        watching.join()


class Part(TypedDict):
    """The arguments of a part of a search."""

    limit_s: Clock
    share: float


def efforts(clock: Clock, effort_s: float | None, share: float = 1.0) -> tuple[float, ...]:
    """The work that a search may do, in counted seconds: as asked; else as without a limit, then what more it allows.

    Examples
    --------
    >>> efforts(Clock(), None), efforts(Clock(15), None), efforts(Clock(100), None, share=0.5), efforts(Clock(9), 5)
    ((60.0,), (60.0,), (30.0, 20.0), (5,))
    """
    if effort_s is not None:
        return (effort_s,)
    more = share * (clock.limit_s - COUNTED_S) if COUNTED_S < clock.limit_s < inf else 0.0
    return (share * COUNTED_S, more) if more else (share * COUNTED_S,)
