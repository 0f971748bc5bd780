"""The key ``links`` of a cluster file."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from unrack.errors import ClusterError, first_fault, got_and_want
from unrack.units import bandwidth_mb_s

Number = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]


class UplinkFile(BaseModel):
    """The key ``racks``: an uplink of each rack.

    Attributes
    ----------
    mb_s
        What it carries, as of a node.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mb_s: Number | str

    @model_validator(mode="after")
    def _an_amount(self) -> UplinkFile:
        _units(self.mb_s)
        return self

    @property
    def units(self) -> int:
        """MB/s."""
        return _units(self.mb_s)


class LinksFile(BaseModel):
    """The table ``links``: one link of each node, and where racks have uplinks, one of each rack.

    Attributes
    ----------
    mb_s
        What the link of a node carries: MB/s, or text such as ``"10 Gb/s"``; rounded down.
    oversubscribe
        How many times as much jobs may claim of links and uplinks as these carry. Default: 1.
    profiles
        How network load slows applications down: ``"rodinia"``, a CSV file, or a table of an application and two shares
        of its run time in per cent: in the network alone, and beside a full link. Default: it slows nobody down.
    racks
        Uplinks, which devices of another rack use as well. Default: none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mb_s: Number | str
    oversubscribe: Annotated[FiniteFloat, Field(ge=1, le=1000)] = 1.0
    profiles: str | dict[str, tuple[FiniteFloat, FiniteFloat]] = ""
    racks: UplinkFile | None = None

    @model_validator(mode="after")
    def _an_amount(self) -> LinksFile:
        _units(self.mb_s)
        return self

    @property
    def units(self) -> int:
        """MB/s of a node's link."""
        return _units(self.mb_s)

    def held(self, units: int) -> int:
        """How much of a link of so many MB/s jobs may hold."""
        return int(units * Decimal(str(self.oversubscribe)))


def _units(amount: float | str) -> int:
    found = bandwidth_mb_s(amount, "down")
    if found < 1:
        raise ValueError(f"1 MB/s or more, not {amount!r}")
    return found


def read_keys(table: Any, where: str) -> LinksFile:
    """The key ``links``.

    Raises
    ------
    ClusterError
        A key or a value is wrong.
    """
    try:
        return LinksFile.model_validate(table)
    except ValidationError as error:
        fault = first_fault(error.errors())
        skipped = ("int", "float", "str", "dict[str,tuple[float, float]]")
        key = ".".join(str(part) for part in fault["loc"] if part not in skipped and "[" not in str(part))
        known = tuple(UplinkFile.model_fields if key.startswith("racks.") else LinksFile.model_fields)
        raise ClusterError(f"{where}.{key}" if key else where, *got_and_want(fault, known)) from None
