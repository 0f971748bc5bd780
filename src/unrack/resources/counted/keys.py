"""The keys of a ``[[counted]]`` table of a cluster file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from unrack.errors import ClusterError, first_fault, got_and_want
from unrack.units import quantity

Number = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]


class CounterFile(BaseModel):
    """A ``[[counted]]`` table: one thing that is counted.

    Attributes
    ----------
    name
        What jobs ask for as ``counted.NAME``. One that ends in ``_mb_s`` is a bandwidth (``"12.5 GB/s"``), one that
        ends in ``_mb`` a size (``"2 TB"``), any other a plain number.
    amount
        How much there is of it: of the whole cluster, or in each rack. Rounded down to a whole number.
    per
        ``"cluster"``, the default: one counter for all nodes. ``"rack"``: one in each rack, for tasks there.
    asked_by
        Who asks for the amount of the job's column: the whole ``"job"``, once (of a counter per rack: once in each rack
        where it runs), or every ``"task"``. Default: ``"job"`` per cluster, ``"task"`` per rack.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z]\w*$")
    amount: Number | str
    per: Literal["cluster", "rack"] = "cluster"
    asked_by: Literal["job", "task"] | None = None

    @model_validator(mode="after")
    def _an_amount(self) -> CounterFile:
        if self.units < 1:
            raise ValueError(f"an amount of 1 or more, not {self.amount!r}")
        return self

    @property
    def units(self) -> int:
        """The amount in whole units."""
        return quantity(self.name, self.amount, "down")

    @property
    def by_task(self) -> bool:
        """Whether every task asks for the amount."""
        return self.per == "rack" if self.asked_by is None else self.asked_by == "task"


COUNTERS: TypeAdapter[list[CounterFile]] = TypeAdapter(list[CounterFile])


def read_counters(table: Any, where: str) -> tuple[CounterFile, ...]:
    """The counters of a cluster file.

    Raises
    ------
    ClusterError
        A key or a value is wrong, or two have one name.
    """
    try:
        counters = COUNTERS.validate_python(table)
    except ValidationError as error:
        fault = first_fault(error.errors())
        key = ".".join(str(part) for part in fault["loc"] if part not in ("int", "float", "str"))
        known = tuple(CounterFile.model_fields)
        raise ClusterError(f"{where}.{key}" if key else where, *got_and_want(fault, known)) from None
    names = [counter.name for counter in counters]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ClusterError(f"{where}.{place}.name", repr(name), "a name that no other counter has")
    return tuple(counters)
