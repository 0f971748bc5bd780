"""A study file: what to run, checked key by key before anything runs. ``docs/study-files.md`` describes every key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, field_validator, model_validator

from unrack.cluster.domains import NODE
from unrack.resources.checked import Strict
from unrack.sim.world import Ties
from unrack.slowdown.combined import Together
from unrack.units import amount_of, time_us

_time = amount_of(time_us, "a time: seconds, or text such as '2 h', up to 285 years")


def _above_0(value: int) -> int:
    if value < 1:
        raise ValueError("a time above 0")
    return value


TimeUs = Annotated[int, BeforeValidator(_time)]
SomeTimeUs = Annotated[TimeUs, AfterValidator(_above_0)]


class WorkloadTable(Strict):
    """A ``[[workloads]]`` table: a trace or a generator, and filters (checked in ``workload/filters.py``)."""

    name: str | None = Field(default=None, min_length=1)
    trace: str | None = None
    format: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    generate: dict[str, Any] | None = None
    window: Any = None
    users: Any = None
    sizes: Any = None
    first: Any = None
    resample: Any = None
    scale_load: Any = None
    jitter: Any = None
    rebase: Any = None
    sessions: Any = None
    flexible: Any = None
    usage: Any = None
    overestimate: Any = None

    @model_validator(mode="after")
    def _one_source(self) -> WorkloadTable:
        if (self.trace is None) == (self.generate is None):
            raise ValueError("either trace or generate")
        if self.generate is not None and (self.format is not None or self.options):
            raise ValueError("format and options only beside a trace")
        if misplaced := sorted({"path", "format"} & set(self.options)):
            raise ValueError(f"options of the reader, without {misplaced[0]!r}: that goes beside options")
        return self


class MeasureTable(Strict):
    """The ``[measure]`` table: the window of the metrics, as times or from a load of the ideal fat node on."""

    start: TimeUs = Field(default=0, alias="from")
    end: TimeUs | None = Field(default=None, alias="to")
    ideal_load: Annotated[FiniteFloat, Field(gt=0, le=1000)] | None = None

    @model_validator(mode="after")
    def _forwards(self) -> MeasureTable:
        if (self.ideal_load is None) == (self.end is None):
            raise ValueError("either 'to' (with or without 'from'), or 'ideal_load'")
        if self.ideal_load is not None and "start" in self.model_fields_set:
            raise ValueError("'ideal_load' without 'from': the window begins when the load is first reached")
        if self.end is not None and self.start >= self.end:
            raise ValueError("a 'to' after 'from'")
        return self


class FaultTable(Strict):
    """A ``[[faults]]`` table: a domain that goes down once."""

    domain: str
    at: TimeUs
    repair_after: SomeTimeUs


class RandomFaultsTable(Strict):
    """A ``[random_faults]`` table: independent failures of the domains of a level, drawn anew for each seed."""

    level: str = NODE
    mtbf: SomeTimeUs
    mttr: SomeTimeUs


class StudyTable(Strict):
    """A whole study file."""

    name: str | None = Field(default=None, min_length=1)
    question: str = ""
    clusters: list[dict[str, Any]] = Field(min_length=1)
    workloads: list[WorkloadTable] = Field(min_length=1)
    policies: list[str | dict[str, Any]] = Field(min_length=1)
    plugins: list[str] = Field(default_factory=list)
    seeds: list[Annotated[int, Field(ge=0, lt=2**63)]] = Field(default=[0], min_length=1)
    models: list[str | dict[str, Any]] = Field(default_factory=list)
    contention: str | list[str] | dict[str, Any] | None = None
    slowdowns: Together | None = None
    memory_changes: dict[str, Any] | None = None
    ties: Ties = Ties.TOGETHER
    core_tiles: str | None = None
    measure: MeasureTable | None = None
    faults: list[FaultTable] = Field(default_factory=list)
    random_faults: list[dict[str, Any]] = Field(default_factory=list)
    sweep: dict[str, list[Any]] = Field(default_factory=dict)
    plan: dict[str, Any] | None = None
    spare: dict[str, Any] = Field(default_factory=dict)

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_of_seeds(cls, value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            if not 1 <= value <= 100_000:
                raise ValueError("a list of seeds, or how many (1 to 100000)")
            return list(range(value))
        return value

    @field_validator("seeds")
    @classmethod
    def _different_seeds(cls, value: list[int]) -> list[int]:
        if len(set(value)) != len(value):
            raise ValueError("every seed once")
        return value

    @field_validator("random_faults", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return [value] if isinstance(value, Mapping) else value

    @field_validator("sweep")
    @classmethod
    def _some_values(cls, value: Mapping[str, list[Any]]) -> Mapping[str, list[Any]]:
        for key, values in value.items():
            if not values:
                raise ValueError(f"at least one value for {key!r}")
            if key.split(".")[0] in ("sweep", "plan", "seeds", "name", "question"):
                raise ValueError(f"a key that changes a run, not {key!r}")
        return value
