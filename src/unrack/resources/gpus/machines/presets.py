"""Machines that are often met, by name."""

from __future__ import annotations

from collections.abc import Callable

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.machine import Machine, tree

CUBE_MESH = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2, (0, 4): 2, (1, 5): 2,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2, (2, 6): 1, (3, 7): 1,
}  # fmt: skip
"""The hybrid cube mesh: the edges of a cube, and the diagonals of two of its faces (paper 001, ch. 4) → how many of the
six NVLinks of each V100 join the two."""

PRESETS: dict[str, tuple[str, Callable[[], Machine]]] = {
    "minsky": (
        "IBM S822LC, POWER8: two sockets with two P100 each, NVLink within a socket",
        lambda: tree("minsky", [[2], [2]], [(0, 1), (2, 3)], model="P100"),
    ),
    "dgx-1": (
        "NVIDIA DGX-1: eight V100 on four PCIe switches, hybrid cube mesh of NVLink",
        lambda: tree("dgx-1", [[2, 2], [2, 2]], CUBE_MESH, model="V100"),
    ),
    "dgx-2": (
        "NVIDIA DGX-2: sixteen V100, all joined by NVSwitch",
        lambda: tree("dgx-2", [[4, 4], [4, 4]], model="V100", nvswitch=True),
    ),
    "hgx-h100": (
        "HGX H100: eight H100, all joined by NVSwitch",
        lambda: tree("hgx-h100", [[2, 2], [2, 2]], model="H100", nvswitch=True),
    ),
    "hgx-h100-mig": (
        "HGX H100 with each GPU in eight slices of memory (MIG)",
        lambda: tree("hgx-h100-mig", [[2, 2], [2, 2]], model="H100", nvswitch=True, slices=8),
    ),
    "pcie-8": (
        "A server of two sockets with eight GPUs on four PCIe switches and no direct links",
        lambda: tree("pcie-8", [[2, 2], [2, 2]], model=""),
    ),
    "pcie-4": (
        "A server of two sockets with two GPUs each and no direct links",
        lambda: tree("pcie-4", [[2], [2]], model=""),
    ),
}
"""Name → one line of words, and how it is made."""


def preset(name: str, where: str = "machine") -> Machine:
    """The preset of that name.

    Raises
    ------
    ClusterError
        There is none.

    Examples
    --------
    >>> len(preset("minsky").gpus)
    4
    """
    if name not in PRESETS:
        raise ClusterError(where, repr(name), f"one of {', '.join(PRESETS)}")
    return PRESETS[name][1]()
