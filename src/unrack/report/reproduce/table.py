"""Every reproduction, by name."""

from __future__ import annotations

from unrack.errors import InputError
from unrack.report.reproduce import (
    memory_designs,
    memory_overhead,
    memory_prediction,
    memory_published,
    memory_response,
    memory_throughput,
    memory_utilisation,
    nvme,
    nvme_figures,
    slo_price,
    slo_utilisation,
    slo_violations,
    torus_placement,
    torus_scaling,
    vgpu,
)
from unrack.report.reproduce.experiment import Reproduction
from unrack.study.document import nearest

REPRODUCTIONS: dict[str, Reproduction] = {
    one.name: one
    for one in (
        *nvme.REPRODUCTIONS,
        *nvme_figures.REPRODUCTIONS,
        *vgpu.REPRODUCTIONS,
        memory_throughput.REPRODUCTION,
        memory_response.REPRODUCTION,
        memory_utilisation.REPRODUCTION,
        *memory_designs.REPRODUCTIONS,
        memory_overhead.REPRODUCTION,
        memory_prediction.REPRODUCTION,
        memory_published.REPRODUCTION,
        slo_violations.REPRODUCTION,
        slo_price.REPRODUCTION,
        slo_utilisation.REPRODUCTION,
        torus_placement.REPRODUCTION,
        torus_scaling.REPRODUCTION,
    )
}


def find(name: str) -> Reproduction:
    """The reproduction of this name.

    Raises
    ------
    InputError
        There is none; the message suggests the nearest.
    """
    if name not in REPRODUCTIONS:
        raise InputError("reproduce", repr(name), nearest(name, REPRODUCTIONS))
    return REPRODUCTIONS[name]
