"""The key ``gpus`` of a cluster file."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from pydantic import Field

from unrack.errors import ClusterError
from unrack.kernels.arrays import Ints
from unrack.resources.checked import Strict, validated
from unrack.resources.gpus.columns import MOST_GPUS, MOST_SOCKETS, GraphFile
from unrack.resources.gpus.machines.machine import Machine, tree
from unrack.resources.gpus.machines.reading.from_file import machine_from
from unrack.resources.gpus.machines.reading.read import read_machine


class MachineFile(Strict):
    """A machine in a few words: GPUs shared out over sockets and switches."""

    gpus: int = Field(strict=True, ge=1, le=MOST_GPUS)  # how many
    model: str = ""  # their model
    # per_socket, per_switch: GPUs at each socket (default: half of them, 4 at least), and at each PCIe switch
    # (default: no switches)
    per_socket: int | None = Field(None, strict=True, ge=1)
    per_switch: int | None = Field(None, strict=True, ge=1)
    # ``"none"``, ``"socket"`` (all GPUs of a socket have direct links) or ``"all"`` (all are joined by NVSwitch)
    nvlink: str = Field("none", pattern="^(none|socket|all)$")
    slices: int = Field(0, strict=True, ge=0, le=16)  # slices of memory of each GPU (MIG)


class GpuFile(Strict):
    """Some nodes and the machine that each of them is."""

    # a preset by name, a file, or a table: of :class:`MachineFile`, or all that a file says
    machine: str | dict[str, Any]
    # which nodes, such as ``"0-99"``; default: all that have cores
    nodes: str | None = Field(None, pattern=r"^\d+(-\d+)?$")


class FleetFile(Strict):
    """The table ``gpus`` in full: machines, and how applications get on with each other there."""

    machines: list[GpuFile]  # which nodes are which machines
    profiles: str = ""  # a name, or a file of measured times; default: no application slows another down
    # communication graphs beside ``GRAPHS``; jobs ask for them by the numbers that follow
    graphs: list[GraphFile] | None = None


OF_FLEET = ("profiles", "graphs")
KNOWN = (*FleetFile.model_fields, *GpuFile.model_fields, *GraphFile.model_fields, *MachineFile.model_fields)
"""Keys of all tables."""


def read_keys(table: Any, where: str) -> FleetFile:
    """The key in one form: a name of a machine, a table of one, a list of them, or all in full.

    A ClusterError if a key or a value is wrong.
    """
    content = table
    if isinstance(table, str):
        content = {"machines": [{"machine": table}]}
    elif isinstance(table, list):
        content = {"machines": table}
    elif isinstance(table, dict) and "machine" in table:
        rest = {key: value for key, value in table.items() if key in OF_FLEET}
        content = {"machines": [{key: value for key, value in table.items() if key not in OF_FLEET}], **rest}
    return validated(FleetFile.model_validate, content, f"{where}.", KNOWN)


def machine_of(given: str | dict[str, Any], where: str) -> Machine:
    """The machine that a key names or describes.

    A ClusterError if there is no such preset and no such file, or it has more GPUs or sockets than can be.
    """
    if isinstance(given, str):
        try:
            found = read_machine(given)
        except ClusterError as error:
            raise ClusterError(f"{where}, {error.where}", error.got, error.want) from None
        return _small_enough(found, where)
    if not isinstance(given.get("gpus"), int):
        return _small_enough(machine_from(given, where), where)
    return in_few_words(validated(MachineFile.model_validate, given, f"{where}.", KNOWN))


def _small_enough(machine: Machine, where: str) -> Machine:
    for what, count, most in (("GPUs", len(machine.gpus), MOST_GPUS), ("sockets", len(machine.sockets), MOST_SOCKETS)):
        if count > most:
            raise ClusterError(where, f"a machine of {count} {what}", f"{most} or fewer")
    return machine


def in_few_words(given: MachineFile) -> Machine:
    """A machine from numbers of GPUs."""
    each = given.per_socket or max(min(given.gpus, 4), -(-given.gpus // 2))
    at = [min(each, given.gpus - first) for first in range(0, given.gpus, each)]
    step = given.per_switch or max(at)
    sockets = [[min(step, n - first) for first in range(0, n, step)] for n in at]
    first = np.concatenate([[0], np.cumsum(at)])
    groups = [range(int(a), int(a) + n) for a, n in zip(first, at, strict=False)]
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    name = f"{given.gpus} x {given.model}" if given.model else f"{given.gpus} GPUs"
    return tree(
        name, sockets, pairs if given.nvlink == "socket" else (), model=given.model, nvswitch=given.nvlink == "all",
        slices=given.slices,
    )  # fmt: skip


def nodes_named(text: str | None, cores: Ints, where: str) -> Ints:
    """int64[k]: which nodes a key names. A ClusterError if there are no such nodes."""
    if text is None:
        return np.flatnonzero(cores > 0)
    first, _, last = text.partition("-")
    span = int(first), int(last or first)
    if not span[0] <= span[1] < len(cores):
        raise ClusterError(f"{where}.nodes", repr(text), f"nodes from 0 to {len(cores) - 1}")
    return np.arange(span[0], span[1] + 1)
