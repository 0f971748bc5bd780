"""A service on servers, without the list of its instances: numbers that bear out what is said of them."""

from __future__ import annotations

from functools import cache

from unrack_papers.execution import execute
from unrack_papers.measured import Measured
from unrack_papers.reproduction import Numbers, Task
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.yang.fleets import APART, MONOLITHIC, changes

NAME = "flow-dlrm"


@cache
def pretended() -> Measured:
    """The reproduction with numbers by rule."""
    one = REPRODUCTIONS[NAME]
    return execute(one, one.defaults, solve=served)


def served(task: Task) -> list[Numbers]:
    """Monoliths strand most GPUs, roles apart most cores; the changes are the paper's."""
    before = _numbers(2000.0, 0.0, 0.4, 0.02)
    found = []
    for row in task.rows:
        own = before if row.cluster == MONOLITHIC else _numbers(220.0, 900.0, 0.292, 0.0094)
        own = _numbers(220.0, 1000.0, 0.01, 0.06) if row.cluster == APART else own
        found.append(own | changes(own, before))
    return found


def _numbers(gpu_servers: float, cpu_servers: float, gpus: float, cores: float) -> Numbers:
    return {
        "gpu_servers": gpu_servers, "cpu_servers": cpu_servers, "idle_gpus": gpus + 0.1, "idle_cores": cores + 0.1,
        "stranded_gpus": gpus, "stranded_cores": cores,
    }  # fmt: skip
