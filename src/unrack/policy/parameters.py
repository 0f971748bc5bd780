"""Parameters of policies as users write them, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan
from typing import NamedTuple

from unrack.errors import MissingError
from unrack.extras import has_solvers
from unrack.policy.discipline.list_scheduler import UNLIMITED
from unrack.solver.min_cost_flow import SOLVERS
from unrack.units import time_us


class Parameter(NamedTuple):
    """A parameter of a policy, as the user writes it."""

    field: str  # the field of the policy that it sets
    read: Callable[[object], object]  # turns what the user wrote into the field's value; raises ValueError
    # default, words: for lists and documentation
    default: str
    words: str


def one_of(names: Mapping[str, object] | tuple[str, ...]) -> Callable[[object], object]:
    """One of some names. Raises ValueError."""

    def read(value: object) -> object:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return value

    return read


def flow_solver(value: object) -> object:
    """A solver of flows, which is installed. Raises ValueError, or MissingError."""
    name = one_of(SOLVERS)(value)
    if name == "ortools" and not has_solvers():
        raise MissingError("policy flow, solver 'ortools'", "ortools", "solvers")
    return name


def number(least: float, most: float, words: str, above: bool = False) -> Callable[[object], object]:
    """A reader of numbers from ``least`` to ``most``, or ``above`` it; what it refuses it answers with the words."""

    def read(value: object) -> object:
        try:
            found = float(str(value))
        except ValueError:
            found = nan
        if not least <= found <= most or (above and found == least):
            raise ValueError(words)
        return found

    return read


def time(least_us: int, words: str) -> Callable[[object], object]:
    """A reader of times of so many µs or more."""

    def read(value: object) -> object:
        try:
            found = time_us(value if isinstance(value, int | float) and not isinstance(value, bool) else str(value))
        except ValueError:
            found = least_us - 1
        if found < least_us:
            raise ValueError(words)
        return found

    return read


def _whole(value: object) -> int:
    """A whole number as it is written; 0: it is none."""
    try:
        return int(str(value))
    except ValueError:
        return 0


def count(value: object) -> object:
    """A whole number of 1 or more. Raises ValueError."""
    if (found := _whole(value)) < 1:
        raise ValueError("a whole number of 1 or more")
    return min(found, UNLIMITED)


def lending_group(value: object) -> object:
    """``all``, ``rack``, or a number of nodes. Raises ValueError."""
    if value not in ("all", "rack") and (value := _whole(value)) < 1:
        raise ValueError("all, rack, or how many nodes lend each other: 1 or more")
    return value


def yes(value: object) -> object:
    """Yes or no. Raises ValueError."""
    if value not in ("yes", "no", True, False):
        raise ValueError("yes or no")
    return value in ("yes", True)


duration = time(1, "a time above 0 such as '30 s'")
"""A time above 0, µs."""
interval = time(0, "a time such as '1 s', or 0")
"""A time of 0 or more, µs."""
cost_weight = number(0, 1_000_000, "a number above 0 such as 1", above=True)
"""A number above 0, to a million."""
node_share = number(0, 1, "a share of a node's memory, from 0 to 1")
"""A share of a node's memory, 0 to 1."""
load = number(0, 1000, "a load such as 0.7")
"""A load, 0 to 1000."""
