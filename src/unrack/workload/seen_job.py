"""A job as a policy sees it at one moment: what the trace says, and what is known of it now."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from unrack.workload.job import Job

PROPERTIES = ("cores", "deadline_us", "slack_us", "tasks", "wait_us")
"""What a :class:`SeenJob` has beside its fields."""


class DeviceAsk:
    """What each task of a job asks of one kind of device, a quantity by its name; false if it asks for nothing.

    ``job``: the number of the job, for messages; ``kind``: ``"nvme"``, for example; ``amounts``: quantity → amount.

    Examples
    --------
    >>> ask = DeviceAsk(7, "nvme", {"bandwidth_mb_s": 1800, "capacity_mb": 0})
    >>> ask.bandwidth_mb_s, bool(ask)
    (1800, True)
    >>> ask.bandwidth
    Traceback (most recent call last):
        ...
    AttributeError: nvme of job 7 has no 'bandwidth'; it has bandwidth_mb_s, capacity_mb
    """

    __slots__ = ("amounts", "job", "kind")

    def __init__(self, job: int, kind: str, amounts: Mapping[str, int]) -> None:
        self.job, self.kind, self.amounts = job, kind, amounts

    def __getattr__(self, name: str) -> int:
        if name.startswith("__") or name in self.__slots__:
            raise AttributeError(name)
        if name in self.amounts:
            return self.amounts[name]
        raise AttributeError(f"{self.kind} of job {self.job} has no {name!r}; it has {', '.join(sorted(self.amounts))}")

    def __bool__(self) -> bool:
        return any(self.amounts.values())

    def __repr__(self) -> str:
        return f"DeviceAsk({', '.join(f'{name}={amount}' for name, amount in sorted(self.amounts.items()))})"


@dataclass(frozen=True, slots=True, eq=False)
class SeenJob(Job):
    """A job as a policy sees it at one moment.

    A kind of device by its name is what each task asks of it, ``job.nvme.bandwidth_mb_s``: 0 where it asks for nothing.

    Attributes
    ----------
    estimate_us
        How long it is expected to run at speed 1, µs: what it asks for, or what is left of it after a stop that kept
        its work, or the truth under a policy with exact estimates.
    memory_mb
        What each of its tasks is to be given when it starts.
    now_us
        The moment, µs.
    kinds
        The kinds of device of the cluster, and the names of their quantities.
    """

    estimate_us: int = 0
    memory_mb: int = 0
    now_us: int = 0
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        """How many tasks it has, which start and end together."""
        return self.demand.tasks

    @property
    def cores(self) -> int:
        """Cores per task."""
        return self.demand.cores

    @property
    def wait_us(self) -> int:
        """How long ago it was submitted, µs."""
        return self.now_us - self.submit_us

    @property
    def slack_us(self) -> int | None:
        """How long it could still wait and be on time if it ran as long as expected, µs; ``None``: no deadline."""
        return None if self.deadline_us is None else self.deadline_us - self.now_us - self.estimate_us

    def asks_of(self, kind: str) -> DeviceAsk:
        """What each task asks of a kind of device, for kinds with a name that is no word of Python."""
        names = dict.fromkeys(self.kinds.get(kind, ()), 0)
        return DeviceAsk(self.index, kind, {**names, **self.demand.devices.get(kind, {})})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        kinds = sorted({*self.kinds, *self.demand.devices})
        if name in kinds:
            return self.asks_of(name)
        there = sorted([*(each.name for each in fields(self) if each.name not in ("now_us", "kinds")), *PROPERTIES])
        near = difflib.get_close_matches(name, [*there, *kinds], 1)
        hint = f" ({near[0]!r} perhaps)" if near else ""
        devices = f", and of devices: {', '.join(kinds)}" if kinds else ""
        raise AttributeError(f"job {self.index} has no {name!r}{hint}; it has {', '.join(there)}{devices}")
