"""What a study says of a workload drawn from a model of batch systems: ``generate = { model = "cirne", ... }``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from unrack.resources.checked import Strict
from unrack.units import memory_mb
from unrack.workload.formats.quantities import MOST, MOST_MB
from unrack.workload.generate.distributions import Distribution, Positive

MODELS = {
    "cirne": "arrivals by hour and weekday, sizes, requested times, accuracy and cancellations, fitted to a log "
    "(after Cirne and Berman 2001)",
    "lublin": "rigid batch jobs with the published constants (Lublin and Feitelson 2003)",
}
"""Model → one line of words."""

Count = Annotated[int, Field(ge=1, le=MOST)]


def _megabytes(value: Any) -> Any:
    try:
        return memory_mb(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("an amount in MB, or text such as '64 GB'") from None


class MeasuredApplication(Strict):
    """An application that was measured at one size."""

    # becomes the job's application
    id: Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]
    # nodes, run_s: its size and run time: what jobs are matched by
    nodes: Count
    run_s: Annotated[float, Field(ge=0, le=1e12)]
    memory_mb: Annotated[float, Field(ge=0, lt=MOST_MB)] = 0.0  # MB per node as measured; 0 = not known


SYNTHETIC = "synthetic"
SYNTHETIC_CORES = 32
"""The profiles that come with unrack, and the cores of the nodes that their memory is of."""


class BatchSpec(Strict):
    """A workload of jobs that take whole nodes."""

    model: Literal["cirne", "lublin"]  # a key of :data:`MODELS`
    # nodes, cores_per_node: the system: a job of n nodes is n tasks of all cores of a node
    nodes: Count
    cores_per_node: Count = 1
    # jobs, days: how many jobs, or for how many days they arrive
    jobs: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    days: Annotated[float, Field(gt=0, le=36_500)] | None = None
    # load, jobs_per_day: How close together: node-seconds asked for over those there are; or a rate. By default what
    # the parameters say.
    load: Positive | None = None
    jobs_per_day: Positive | None = None
    # ``cirne``: a name in ``PARAMETERS``, the path of a TOML file that ``unrack trace fit`` wrote, or a table of its
    # keys. ``lublin``: a table of constants in place of the published ones.
    parameters: str | dict[str, Any] | None = None
    # what becomes of jobs that are cancelled before they start: left out, or jobs without a run
    cancelled: Literal["leave-out", "zero-run"] = "leave-out"
    # MB per node: ``"table-5.5"`` by size, ``"profiles"`` as the application that matches, scaled to the cores of a
    # node, or a distribution
    memory: Literal["table-5.5", "profiles"] | Distribution | None = None
    # applications that jobs are matched with: a table each, or the path of a CSV file
    profiles: str | Annotated[list[MeasuredApplication], Field(min_length=1)] | None = None
    # cores of the nodes on which the memory of ``profiles`` was measured; ``None``: 4, of unrack's own profiles 32
    profile_cores: Count | None = None
    large_share: Annotated[float, Field(ge=0, le=1)] | None = None  # node-hours of large jobs over those of all jobs …
    # … where a job is large that needs more memory per node than this, in MB or as text
    normal_node: Annotated[int, Field(ge=1, lt=MOST_MB), BeforeValidator(_megabytes)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> BatchSpec:
        if (self.jobs is None) == (self.days is None):
            raise ValueError("either jobs or days")
        if self.load is not None and self.jobs_per_day is not None:
            raise ValueError("load or jobs_per_day, not both")
        if (self.large_share is None) != (self.normal_node is None):
            raise ValueError("large_share and normal_node go together")
        if self.large_share is not None and self.memory is None:
            raise ValueError("memory beside large_share")
        if self.large_share is not None and self.jobs is None:
            raise ValueError("jobs beside large_share")
        if self.memory == "profiles" and self.profiles is None:
            raise ValueError("profiles beside memory = 'profiles'")
        if self.model == "lublin" and isinstance(self.parameters, str):
            raise ValueError("parameters of lublin as a table")
        return self

    @property
    def measured_on(self) -> int:
        """Cores of the nodes on which the memory of the profiles was measured."""
        return self.profile_cores or (SYNTHETIC_CORES if self.profiles == SYNTHETIC else 4)
