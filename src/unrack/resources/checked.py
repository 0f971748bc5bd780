"""Tables of files, checked by models: keys that are not known, missing or wrong are refused, the first of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from unrack.errors import ClusterError, InputError, first_fault, got_and_want

M = TypeVar("M")
Path = tuple[int | str, ...]
_OF_UNIONS = ("int", "float", "str")
"""In the path of a fault, which member of a union was tried; it is no key."""


def parted(value: object) -> object:
    """A list as it is; of a text the names between its commas, but for those in brackets."""
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", value)] if isinstance(value, str) else value
    if not isinstance(parts, list) or "" in parts:
        raise ValueError("names in a list, or between commas as in 'n[1-4,7],m2'")
    return parts


Names = Annotated[list[str], BeforeValidator(parted)]
"""Names in a list, or as ``slurm.conf`` has them: ``"n[1-4,7],m2"``."""


class Strict(BaseModel):
    """A model that refuses keys it does not know and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, content: Any, where: str, whole: str = "the whole") -> Self:
        """The model of a table of keys, or what is one already.

        Parameters
        ----------
        content
            The table.
        where
            What errors begin with, before the key at fault: ``"generate, "``.
        whole
            What they name in place of a key where the table as a whole is at fault.

        Raises
        ------
        InputError
            A key is unknown, missing or has a value that cannot be; it names the first.
        """
        return validated(cls.model_validate, content, where, keys_of(cls), InputError, whole)


def keys_of(model: type[BaseModel]) -> Callable[[Path], Iterable[str]]:
    """Which keys there are beside one, by its path: those of the model, or of a table inside of it."""

    def known(path: Path) -> Iterable[str]:
        at = model
        for part in path[:-1]:
            field = at.model_fields.get(str(part))
            at = next(_models(field.annotation), at) if field is not None else at
        return at.model_fields

    return known


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def validated(
    validate: Callable[[Any], M],
    content: Any,
    where: str,
    known: Iterable[str] | Callable[[Path], Iterable[str]] = (),
    error: type[InputError] = ClusterError,
    whole: str = "",
) -> M:
    """What a model makes of a table.

    ``where``: what errors begin with, and a ``", "`` or ``"."`` between it and the key at fault; ``known``: the keys
    that there are where one is unknown, or what tells them by its path; ``whole``: what errors name in place of a key
    where the table as a whole is at fault. An InputError if a key or a value is wrong, as an ``error``; it names the
    first.
    """
    try:
        return validate(content)
    except ValidationError as wrong:
        fault = first_fault(wrong.errors())
        path: Path = fault["loc"]
        if fault["type"] != "extra_forbidden":
            path = tuple(part for part in path if part not in _OF_UNIONS and "[" not in str(part))
        key = ".".join(map(str, path)) or whole
        keys = list(known(path) if callable(known) else known)
        raise error(where + key if key else where.rstrip(", ."), *got_and_want(fault, keys)) from None
