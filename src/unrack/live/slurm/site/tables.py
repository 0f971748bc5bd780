"""The tables of a site file: every key with its bounds and default."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator, model_validator

from unrack.live.asks.amounts import MOST_PRIORITY
from unrack.live.driver.service.tables import ServiceTable, time_between
from unrack.live.slurm.adapter.seen import Take
from unrack.units import SECOND_US

PARTITION = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


class MemoryUse(StrEnum):
    """Whether the memory that jobs ask of Slurm counts."""

    REQUESTED = "requested"
    IGNORE = "ignore"


def _partition(value: object) -> object:
    if not isinstance(value, str) or PARTITION.fullmatch(value) is None:
        raise ValueError("the name of a partition: letters, digits and any of _ . + -")
    return value


PartitionName = Annotated[str, BeforeValidator(_partition)]


class SiteTable(ServiceTable):
    """A whole site file."""

    # the partitions that it schedules; of jobs in others it sees what they hold, and touches nothing
    partitions: list[PartitionName] = Field(min_length=1, max_length=1000)
    take: Take = Take.BY_ADMIN  # which held jobs: see :class:`unrack.live.slurm.adapter.seen.Take`
    memory: MemoryUse = MemoryUse.REQUESTED  # see :class:`MemoryUse`
    # the highest priority that users may ask for in comments
    user_priority_most: Annotated[int, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY, strict=True)] = 0
    # a command that takes longer is ended, and Slurm counts as unreachable
    command_timeout_us: Annotated[int, time_between(0.1, 600)] = Field(default=20 * SECOND_US, alias="command_timeout")

    @field_validator("partitions")
    @classmethod
    def _different(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("every partition once")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> SiteTable:
        if self.metrics.stalled_after_us < 2 * self.command_timeout_us:
            raise ValueError("metrics.stalled_after of twice command_timeout or more: commands may take so long")
        return self
