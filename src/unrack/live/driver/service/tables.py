"""The tables of a site file that say how the driver works as a service: every key with its bounds and default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from unrack.live.additions import Additions, checked
from unrack.live.driver.service.folders import WAKE
from unrack.live.driver.state.epoch import Spec
from unrack.live.watch.address import Address
from unrack.resources.checked import Strict
from unrack.slowdown.model import Model, make_models
from unrack.study.input.inputs import Document, PolicySpec, make_policy_spec
from unrack.study.world import RunTimes
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


Site = TypeVar("Site", bound=Strict)
SitePath = Annotated[Path, BeforeValidator(_path)]
Listens = Annotated[Address | None, BeforeValidator(_address)]


def path_of(document: Document, path: Path, *key: str) -> Path:
    """A path of a site file, from the folder of the file on; ``~`` is a home.

    Raises
    ------
    StudyError
        There is no such home.
    """
    try:
        return (document.folder or Path()) / path.expanduser()
    except RuntimeError:
        raise document.fault(key, f"'{path}'", "a path, of a home that there is where it begins with '~'") from None


def with_paths(site: Site, document: Document) -> Site:
    """A site with all paths that its own keys say as :func:`path_of` has them."""
    said = {key: value for key in type(site).model_fields if isinstance(value := getattr(site, key), Path)}
    return site.model_copy(update={key: path_of(document, path, key) for key, path in said.items()})


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


def spec_of(policy: PolicySpec) -> Spec:
    """A policy as a journal has it, which is read from other folders, too."""
    if not policy.file:
        return {"label": policy.label, "name": policy.name, **dict(policy.parameters)}
    path, colon, name = policy.file.rpartition(":")
    return {"label": policy.label, "file": f"{Path(path).absolute()}{colon}{name}"}


class ServiceTable(Strict):
    """What a site file says of the driver, whatever the orchestrator; made by :meth:`load`."""

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

    _policy: PolicySpec | None = PrivateAttr(default=None)
    _models: tuple[Model, ...] = PrivateAttr(default=())
    _additions: Additions = PrivateAttr(default_factory=lambda: Additions({}))

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

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and check a site file.

        Raises
        ------
        InputError
            It cannot be read, or a key or value is wrong; the message has file, line, key, what was got and wanted.
        """
        document = Document.read(path, "a site file")
        return cls.of(document.table, document)

    @classmethod
    def of(cls, table: Mapping[str, Any], document: Document | None = None) -> Self:
        """A site from the keys of a site file.

        Raises
        ------
        InputError
            As for :meth:`load`.
        """
        document = document or Document("site", None, table)
        site = with_paths(document.validated(cls, table), document)
        if site.wake is None:
            site = site.model_copy(update={"wake": site.state / WAKE})
        site._check(document)
        return site

    @property
    def policy_spec(self) -> PolicySpec:
        """How to make the policy; ``policy_spec.make()`` makes it."""
        assert self._policy is not None, "a site is made by load or of"
        return self._policy

    @property
    def spec(self) -> Spec:
        """The policy as a journal has it, which is read from other folders, too."""
        return spec_of(self.policy_spec)

    def _check(self, document: Document) -> None:
        """Refuse what no key shows by itself; takes the policy over."""
        raise NotImplementedError

    @property
    def performance_models(self) -> tuple[Model, ...]:
        """How fast jobs run on devices, as :func:`unrack.simulate` takes them."""
        return self._models

    @property
    def additions(self) -> Additions:
        """What the orchestrator does not know of the nodes."""
        return self._additions

    def _take_cluster(self, document: Document) -> None:
        """Take over what the orchestrator does not know of the nodes, and how fast jobs run on them."""
        self._additions = checked(self.cluster, document)
        with document.part("models"):
            self._models = make_models(self.models, document.folder)

    def _take_policy(self, document: Document, unkept: Collection[str], want: str) -> None:
        """Take the policy over; refuse a world, and parameters that are not kept: what is wanted in their place."""
        self._policy = make_policy_spec(self.policy, document, 0, ("policy",))
        if self._policy.world != RunTimes.STUDY:
            raise document.fault(("policy",), f"the world {str(self._policy.world)!r}", "no world: this one is real")
        if found := sorted(set(unkept) & dict(self._policy.parameters).keys()):
            raise document.fault(("policy",), f"the parameter {found[0]} in {self.policy!r}", want)
