"""Parameters of policies as users write them, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from unrack.errors import MissingError
from unrack.extras import has_solvers
from unrack.policy.discipline.list_scheduler import UNLIMITED
from unrack.solver.flow.solve import SOLVERS
from unrack.units import time_us


class Parameter(NamedTuple):
    """A parameter of a policy, as the user writes it.

    Attributes
    ----------
    field
        The field of the policy that it sets.
    read
        Turns what the user wrote into the field's value; raises ValueError.
    default, words
        For lists and documentation.
    """

    field: str
    read: Callable[[object], object]
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


def count(value: object) -> object:
    """A whole number of 1 or more. Raises ValueError."""
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("a whole number of 1 or more")
    return min(number, UNLIMITED)


def duration(value: object) -> object:
    """A time above 0, µs. Raises ValueError."""
    try:
        time = time_us(value if isinstance(value, int | float) and not isinstance(value, bool) else str(value))
    except ValueError:
        time = 0
    if time < 1:
        raise ValueError("a time above 0 such as '30 s'")
    return time


def interval(value: object) -> object:
    """A time of 0 or more, µs. Raises ValueError."""
    try:
        time = time_us(value if isinstance(value, int | float) and not isinstance(value, bool) else str(value))
    except ValueError:
        time = -1
    if time < 0:
        raise ValueError("a time such as '1 s', or 0")
    return time


def cost_weight(value: object) -> object:
    """A number above 0, to a million. Raises ValueError."""
    try:
        number = float(str(value))
    except ValueError:
        number = 0.0
    if not 0 < number <= 1_000_000:
        raise ValueError("a number above 0 such as 1")
    return number


def node_share(value: object) -> object:
    """A share of a node's memory, 0 to 1. Raises ValueError."""
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError("a share of a node's memory, from 0 to 1")
    return number


def lending_group(value: object) -> object:
    """``all``, ``rack``, or a number of nodes. Raises ValueError."""
    if value in ("all", "rack"):
        return value
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("all, rack, or how many nodes lend each other: 1 or more")
    return number


def yes(value: object) -> object:
    """Yes or no. Raises ValueError."""
    if value not in ("yes", "no", True, False):
        raise ValueError("yes or no")
    return value in ("yes", True)


def load(value: object) -> object:
    """A load, 0 to 1000. Raises ValueError."""
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1000:
        raise ValueError("a load such as 0.7")
    return number
