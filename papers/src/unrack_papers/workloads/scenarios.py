"""The papers' mixes of jobs, by name.

References
----------
A. Call, J. Polo, D. Carrera: Workload-aware placement strategies to leverage disaggregated resources in the data
center. IEEE Systems Journal 16(1), 2022. A. Call, thesis (UPC 2022): Tables 4.1, 4.2, 5.1-5.3 and section
4.4.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from unrack import Workload, generate
from unrack.errors import InputError
from unrack.workload.generate import Distribution, GeneratorSpec, Positive, Strict


class Mix(NamedTuple):
    """A mix of jobs by name: one line of words, and keys of a specification."""

    summary: str
    content: Mapping[str, Any]


_GB = 1024
_BANDWIDTH, _CAPACITY = "nvme.bandwidth_mb_s", "nvme.capacity_mb"

CLASSES: dict[str, dict[str, Any]] = {
    "smufin": {"run_s": 1600, "cores": 6, "devices": {_BANDWIDTH: 1800, _CAPACITY: 43 * _GB}},
    "fio": {"run_s": 900, "cores": 6, "devices": {_BANDWIDTH: 1800, _CAPACITY: 43 * _GB}},
    "capacity": {"run_s": 800, "cores": 6, "devices": {_BANDWIDTH: 160, _CAPACITY: 600 * _GB}},
    "compute": {"run_s": 900, "cores": 15},
    "yolo": {"run_s": 152, "cores": 2, "devices": {"gpu.bandwidth_mb_s": 1000, "gpu.memory_mb": 2 * _GB}},
}
"""Tables 4.1 and 5.1: name → keys of a class. ``smufin`` and ``fio`` are bandwidth-bound, ``yolo`` is GPU-bound."""

NVME = {_BANDWIDTH: 2000, _CAPACITY: 600 * _GB}
"""What one NVMe has, in the papers' data centre."""

GPU = {"gpu.bandwidth_mb_s": 4000, "gpu.memory_mb": 16 * _GB}
"""What its one GPU has."""


def _mix(summary: str, **weights: float) -> Mix:
    classes = [{"name": name, "weight": weight, **CLASSES[name]} for name, weight in weights.items()]
    return Mix(summary, {"jobs": 1500, "classes": classes, "urgent": {}})


SCENARIOS: dict[str, Mix] = {
    "nvme-s1": _mix(
        "high bandwidth (Table 4.2): 70 % SMUFIN, 10 % capacity-bound, 20 % compute-bound",
        smufin=70, capacity=10, compute=20,
    ),
    "nvme-s2": _mix(
        "high capacity (Table 4.2): 10 % SMUFIN, 70 % capacity-bound, 20 % compute-bound",
        smufin=10, capacity=70, compute=20,
    ),
    "nvme-s3": _mix(
        "high compute (Table 4.2): 20 % SMUFIN, 10 % capacity-bound, 70 % compute-bound",
        smufin=20, capacity=10, compute=70,
    ),
    "nvme-m1": _mix(
        "nvme-s1 with FIO in place of SMUFIN (section 4.4.6)",
        fio=70, capacity=10, compute=20,
    ),
    "nvme-m2": _mix(
        "nvme-s1 with 70 % FIO and 30 % SMUFIN as its bandwidth-bound jobs (section 4.4.6)",
        fio=49, smufin=21, capacity=10, compute=20,
    ),
    "nvme-m3": _mix(
        "nvme-s1 with half FIO and half SMUFIN as its bandwidth-bound jobs (section 4.4.6)",
        fio=35, smufin=35, capacity=10, compute=20,
    ),
    "vgpu-s1": _mix(
        "NVMe-intensive (Table 5.3): 50 % SMUFIN, 20 % capacity-bound, 10 % YOLO, 20 % compute-bound",
        smufin=50, capacity=20, yolo=10, compute=20,
    ),
    "vgpu-s2": _mix(
        "GPU-intensive (Table 5.3): 10 % SMUFIN, 80 % YOLO, 10 % compute-bound",
        smufin=10, yolo=80, compute=10,
    ),
    "vgpu-s3": _mix(
        "mixed (Table 5.3, which sums to 90 %): 20 SMUFIN, 20 capacity-bound, 40 YOLO, 10 compute-bound of 90",
        smufin=20, capacity=20, yolo=40, compute=10,
    ),
}  # fmt: skip
"""Name → the keys of a specification without ``arrivals``. 1500 jobs; 20 % of them urgent, with 1.2 run times to their
deadline; the others have 4."""


class _Options(Strict):
    load: Positive | None = None
    jobs: Any = 1500
    cores: Annotated[int, Field(ge=1, le=10**12)] = 125
    arrivals: dict[str, Any] = Field(default_factory=dict)
    urgent: dict[str, Any] = Field(default_factory=dict)
    deadline_factor: Distribution = Field(default=4, validate_default=True)
    load_of: Literal["cpu", "nvme"] = "cpu"
    nvme_devices: Annotated[int, Field(ge=1, le=10**6)] = 10
    users: Any = 0

    @model_validator(mode="after")
    def _some_rate(self) -> _Options:
        if (self.load is None) == self.arrivals.keys().isdisjoint({"rate_per_h", "mean_gap_s", "gap_s"}):
            raise ValueError("a load, or arrivals with rate_per_h, mean_gap_s or gap_s")
        return self


def scenario(name: str, load: float | None = None, **options: Any) -> GeneratorSpec:
    """The specification of one of :data:`SCENARIOS`.

    Parameters
    ----------
    name
        Which.
    load
        The load to make; needed unless ``arrivals`` gives a rate or a gap.
    jobs
        How many; default 1500.
    cores, nvme_devices
        Of the data centre that is loaded; default 125 and 10 (of :data:`NVME` each). It has one :data:`GPU`.
    arrivals
        Further keys of the arrivals, such as ``{"kind": "uniform"}`` or ``{"load_on": "fat-node"}``; default: Poisson.
    urgent
        Keys in place of ``{"share": 0.2, "priority": 1, "deadline_factor": 1.2}``.
    deadline_factor
        Of the other jobs; default 4.
    load_of
        ``"cpu"``: the load is that of the cores. ``"nvme"``: the larger of the NVMe's bandwidth load and capacity load.
    users
        As of a specification.

    Raises
    ------
    InputError
        There is no such scenario, or an option has a value it cannot have.

    Examples
    --------
    >>> spec = scenario("nvme-s2", 0.8, deadline_factor=3)
    >>> [(kind.name, kind.weight) for kind in spec.classes]
    [('smufin', 10.0), ('capacity', 70.0), ('compute', 20.0)]
    """
    if not isinstance(name, str) or name not in SCENARIOS:
        raise InputError("generate, scenario", repr(name), f"one of {', '.join(SCENARIOS)}")
    chosen = _Options.read({**({} if load is None else {"load": load}), **options}, "generate, ")
    return GeneratorSpec.read(_content(name, chosen), "generate, ")


def _content(name: str, options: _Options) -> dict[str, Any]:
    content = SCENARIOS[name].content
    arrivals = dict(options.arrivals)
    if options.load is not None:
        fat_node = {"cores": options.cores}
        fat_node |= {key: amount * options.nvme_devices for key, amount in NVME.items()}
        fat_node |= GPU if any(kind["name"] == "yolo" for kind in content["classes"]) else {}
        load_of = ["cores"] if options.load_of == "cpu" else list(NVME)
        arrivals = {"load": options.load, "fat_node": fat_node, "load_of": load_of, **arrivals}
    factor = options.deadline_factor.model_dump()
    return {
        **content,
        "jobs": options.jobs,
        "users": options.users,
        "urgent": {**content["urgent"], **options.urgent},
        "arrivals": arrivals,
        "classes": [{**kind, "deadline_factor": factor} for kind in content["classes"]],
    }


def generate_scenario(spec: Mapping[str, Any], seed: int, name: str | None) -> Workload:
    """Draw what the table ``generate = { scenario = "NAME", … }`` of a study says."""
    options = {str(key): value for key, value in spec.items() if key != "scenario"}
    return generate(scenario(spec["scenario"], **options), seed, name or str(spec["scenario"]))
