"""The tables of a site file that say how the driver works as a service: every key with its bounds and default."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from unrack.live.watch.address import Address
from unrack.resources.checked import Strict
from unrack.units import SECOND_US, amount_of, memory_mb, seconds_text, time_us

MOST_PATH = 4000


class OnPolicyFault(StrEnum):
    """What happens when a policy raises an error or answers what is no answer."""

    FCFS = "fcfs"
    STOP = "stop"


def time_between(least_s: float, most_s: float) -> BeforeValidator:
    """A time in these bounds, as µs."""
    want = f"a time from {seconds_text(least_s)} to {seconds_text(most_s)}: seconds, or text such as '30 s'"
    return BeforeValidator(amount_of(time_us, want, least_s * SECOND_US, most_s * SECOND_US))


def _size_between(least_mb: int, most: str) -> BeforeValidator:
    want = f"a size from {least_mb} MB to {most}: MB, or text such as '64 MB'"
    return BeforeValidator(amount_of(partial(memory_mb, rounding="down"), want, least_mb, memory_mb(most)))


def _path(value: object) -> object:
    text = str(value) if isinstance(value, str | Path) else ""
    if not text or not text.isprintable() or len(text) > MOST_PATH:
        raise ValueError("a path, without control characters")
    return Path(text)


def _address(value: object) -> object:
    if isinstance(value, Address) or value == "":
        return value or None
    if not isinstance(value, str):
        raise ValueError("an address and a port such as '127.0.0.1:9641', or '' for none")
    return Address.of(value)


SitePath = Annotated[Path, BeforeValidator(_path)]
Listens = Annotated[Address | None, BeforeValidator(_address)]


class JournalTable(Strict):
    """The ``[journal]`` table."""

    # a snapshot is written, and a new file begun, after so many MB
    snapshot_every_mb: Annotated[int, _size_between(1, "100 GB")] = Field(default=64, alias="snapshot_every")
    # how many older files are kept beside the present one
    keep: Annotated[int, Field(ge=0, le=10_000, strict=True)] = 3


class MetricsTable(Strict):
    """The ``[metrics]`` table."""

    address: Listens = Address("127.0.0.1", 9641)  # where ``/metrics`` and ``/healthz`` are served; ``None``: nowhere
    allow_remote: Annotated[bool, Field(strict=True)] = False  # the address may be one that other machines reach
    # ``/healthz`` says that the scheduler is ill when its loop has not turned for so long
    stalled_after_us: Annotated[int, time_between(1, 86_400)] = Field(default=60 * SECOND_US, alias="stalled_after")

    @model_validator(mode="after")
    def _near(self) -> MetricsTable:
        if self.address is not None and not self.address.is_loopback and not self.allow_remote:
            raise ValueError("a loopback address such as '127.0.0.1:9641', or allow_remote = true")
        return self


class LogTable(Strict):
    """The ``[log]`` table."""

    level: Literal["debug", "info", "warning", "error"] = "info"  # the least that is logged
    # ``"json"``: a JSON object a line. ``"text"``: for people. ``"auto"``: text on a terminal, else JSON.
    form: Literal["auto", "json", "text"] = "auto"


class ServiceTable(Strict):
    """What a site file says of the driver, whatever the orchestrator."""

    policy: str | dict[str, Any] = "easy"  # as an entry of ``policies`` of a study
    # as in a study: how fast jobs run on the devices that they get
    models: list[str | dict[str, Any]] = Field(default_factory=list)
    state: SitePath = Path("/var/lib/unrack")  # the folder of the journal and the lock
    wake: SitePath | None = None  # a file that scripts write to when something happened, so that it looks at once
    on_policy_fault: OnPolicyFault = OnPolicyFault.FCFS  # see :class:`OnPolicyFault`
    # poll_us, poll_slowest_us: how often it looks whether anything changed: at first, and when nothing has for a
    # while
    poll_us: Annotated[int, time_between(0.05, 60)] = Field(default=SECOND_US // 5, alias="poll")
    poll_slowest_us: Annotated[int, time_between(0.05, 3600)] = Field(default=2 * SECOND_US, alias="poll_slowest")
    # a job that was released and has not started for so long is held again
    start_timeout_us: Annotated[int, time_between(1, 86_400)] = Field(default=120 * SECOND_US, alias="start_timeout")
    cluster: dict[str, Any] = Field(default_factory=dict)  # what the orchestrator does not know of the nodes
    # what attaches devices: ``kind``, and the keys of that kind
    fabric: dict[str, Any] = Field(default_factory=lambda: {"kind": "none"})
    # journal, metrics, log: see there
    journal: JournalTable = JournalTable()
    metrics: MetricsTable = MetricsTable()
    log: LogTable = LogTable()

    @field_validator("fabric")
    @classmethod
    def _of_a_kind(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(value.get("kind"), str) or not value["kind"]:
            raise ValueError("a table with kind = a name, such as 'none' or 'files'")
        return value

    @model_validator(mode="after")
    def _slower(self) -> ServiceTable:
        if self.poll_slowest_us < self.poll_us:
            raise ValueError("a poll_slowest of poll or more")
        return self
