"""Tables of files, checked by models: keys that are not known, missing or wrong are refused, the first of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from unrack.errors import ClusterError, InputError, first_fault, got_and_want

M = TypeVar("M")
Path = tuple[int | str, ...]
_OF_UNIONS = ("int", "float", "str")
"""In the path of a fault, which member of a union was tried; it is no key."""


class Strict(BaseModel):
    """A model that refuses keys it does not know and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, content: Any, where: str, whole: str = "the whole", nested: Sequence[str] = ()) -> Self:
        """The model of a table of keys, or what is one already.

        Parameters
        ----------
        content
            The table.
        where
            What errors begin with, before the key at fault: ``"generate, "``.
        whole
            What they name in place of a key where the table as a whole is at fault.
        nested
            The keys that tables inside of it have.

        Raises
        ------
        InputError
            A key is unknown, missing or has a value that cannot be; it names the first.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            fault = first_fault(error.errors())
            key = ".".join(str(part) for part in fault["loc"] if part != "[key]") or whole
            known = list(cls.model_fields) if len(fault["loc"]) == 1 else nested
            raise InputError(f"{where}{key}".rstrip(", ."), *got_and_want(fault, known)) from None


def validated(
    validate: Callable[[Any], M],
    content: Any,
    where: str,
    known: Iterable[str] | Callable[[Path], Iterable[str]] = (),
    error: type[InputError] = ClusterError,
) -> M:
    """What a model makes of a table.

    Parameters
    ----------
    where
        What errors begin with, and a ``", "`` or ``"."`` between it and the key at fault.
    known
        The keys that there are where one is unknown, or what tells them by its path.

    Raises
    ------
    InputError
        A key or a value is wrong, as an ``error``; it names the first.
    """
    try:
        return validate(content)
    except ValidationError as wrong:
        fault = first_fault(wrong.errors())
        key = ".".join(map(str, fault["loc"]))
        keys = list(known(fault["loc"]) if callable(known) else known)
        raise error(where + key if key else where.rstrip(", ."), *got_and_want(fault, keys)) from None


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
