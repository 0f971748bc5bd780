"""The nodes of a view in columns."""

from __future__ import annotations

from typing import NamedTuple

from unrack.kernels.arrays import Bools, Ints


class NodeColumns(NamedTuple):
    """The nodes in columns; all but ``online`` (bool) int64[nodes].

    Attributes
    ----------
    free_cores, free_mb
        Free cores and MB; offline nodes have nothing free.
    cores, memory_mb
        What is installed.
    online
        Which are in service.
    """

    free_cores: Ints
    free_mb: Ints
    cores: Ints
    memory_mb: Ints
    online: Bools
