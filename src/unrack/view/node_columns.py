"""The nodes of a view in columns."""

from __future__ import annotations

from typing import NamedTuple

from unrack.kernels.arrays import Bools, Ints


class NodeColumns(NamedTuple):
    """The nodes in columns; all but ``online`` (bool) int64[nodes]."""

    # free_cores, free_mb: free cores and MB; offline nodes have nothing free
    free_cores: Ints
    free_mb: Ints
    # cores, memory_mb: what is installed
    cores: Ints
    memory_mb: Ints
    online: Bools  # which are in service
