"""The keys of a cluster file that are a resource's, checked by its model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from unrack.errors import ClusterError, first_fault, got_and_want

M = TypeVar("M")
_OF_UNIONS = ("int", "float", "str")
"""In the path of a fault, which member of a union was tried; it is no key."""


def checked(validate: Callable[[Any], M], table: Any, where: str, known: Mapping[str, Iterable[str]]) -> M:
    """What a model makes of a table; ``known``: the keys of tables in it by their path, ``""`` of all others.

    Raises
    ------
    ClusterError
        A key or a value is wrong; it names the first.
    """
    try:
        return validate(table)
    except ValidationError as error:
        fault = first_fault(error.errors())
        path = [str(part) for part in fault["loc"]]
        key = ".".join(part for part in path if part not in _OF_UNIONS and "[" not in part)
        keys = tuple(known.get(key.rpartition(".")[0], known[""]))
        raise ClusterError(f"{where}.{key}" if key else where, *got_and_want(fault, keys)) from None
