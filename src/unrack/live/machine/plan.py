"""What a command gets on one machine: GPUs, CPUs, variables; a decision without effects."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from unrack.live.machine.cores import choose_cores
from unrack.live.machine.pick import Choice, choose
from unrack.reasons import Code, Reason
from unrack.resources.gpus.machines.machine import Machine, text_of


class WantedGpus(NamedTuple):
    """What a command asks for: GPUs; CPUs (``None``: the share of its GPUs); the least utility, from 0 to 1."""

    gpus: int
    cores: int | None = None
    utility: float = 0.0


@dataclass(frozen=True)
class MachinePlan:
    """What it gets."""

    machine: Machine  # where
    choice: Choice  # which GPUs, how far apart they are, and how near the best as many GPUs would be
    cores: tuple[int, ...]  # which CPUs; none: it is not bound to any
    sockets: tuple[int, ...]  # of its GPUs, by number

    @property
    def environment(self) -> dict[str, str]:
        """The variables that show CUDA these GPUs alone, numbered as the tools of the system number them."""
        visible = ",".join(map(str, self.choice.gpus))
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}

    def as_json(self) -> dict[str, Any]:
        """For ``--json``: CPUs as a list such as ``0-7``."""
        return {
            "machine": self.machine.name,
            "gpus": list(self.choice.gpus),
            "distance": self.choice.distance,
            "least_distance": self.choice.least,
            "utility": round(self.choice.utility, 6),
            "sockets": list(self.sockets),
            "cores": text_of(self.cores),
            "environment": self.environment,
        }


def plan(
    machine: Machine,
    wanted: WantedGpus,
    held_gpus: Collection[int] = (),
    held_cores: Collection[int] = (),
    usable: Collection[int] | None = None,
) -> MachinePlan | Reason:
    """What a command gets now, or why it gets nothing now.

    Parameters
    ----------
    machine, wanted
        The machine, and what is asked for.
    held_gpus, held_cores
        What others hold.
    usable
        CPUs that may be used; default: all of the machine's.

    Raises
    ------
    InputError
        The machine has fewer GPUs than are wanted.
    """
    choice = choose(machine, wanted.gpus, held_gpus)
    if choice is None:
        free = sum(gpu not in held_gpus for gpu in range(len(machine.gpus)))
        return Reason(Code.NO_ROOM, "GPUs", wanted.gpus, free)
    if choice.utility < wanted.utility:
        gpus = ", ".join(map(str, choice.gpus))
        what = f"the nearest free GPUs ({gpus}) have utility {choice.utility:.3g}, wanted {wanted.utility:g}"
        return Reason(Code.NO_ROOM, what)
    cores = choose_cores(machine, choice.gpus, wanted.cores, held_cores, usable)
    if isinstance(cores, Reason):
        return cores
    return MachinePlan(machine, choice, cores, tuple(sorted({int(machine.socket[gpu]) for gpu in choice.gpus})))
