"""The keys of a ``spread`` table of a cluster file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unrack.errors import ClusterError, first_fault, got_and_want

MOST_PLACES = 20_000_000
"""Groups × nodes."""


class SpreadFile(BaseModel):
    """A ``spread`` table.

    Attributes
    ----------
    groups
        How many groups there may be: jobs name theirs by a number from 1 to this.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    groups: Annotated[int, Field(ge=1, le=MOST_PLACES, strict=True)]


def read_spread(table: Any, nodes: int, where: str) -> SpreadFile:
    """The table of a cluster of so many nodes with cores.

    Raises
    ------
    ClusterError
        A key or a value is wrong, or there are too many groups for so many nodes.
    """
    try:
        file = SpreadFile.model_validate(table)
    except ValidationError as error:
        fault = first_fault(error.errors())
        key = ".".join(map(str, fault["loc"]))
        raise ClusterError(
            f"{where}.{key}" if key else where, *got_and_want(fault, tuple(SpreadFile.model_fields))
        ) from (None)
    if file.groups * nodes > MOST_PLACES:
        want = f"at most {MOST_PLACES // nodes} of them on {nodes} nodes"
        raise ClusterError(f"{where}.groups", str(file.groups), want)
    return file
