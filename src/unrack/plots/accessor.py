"""The charts of one result, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unrack.facts import counted
from unrack.plots.gantt import MOST_RECTANGLES, gantt
from unrack.plots.lines import utilisation, wait_times

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray


class ResultPlots:
    """Charts of a result as Altair charts: they show in a notebook, and ``save`` to html, svg, png or pdf.

    They need Altair, and files other than html need vl-convert: ``pip install 'unrack[figures]'`` brings both. However
    many jobs there are, a chart stays under about 1 MB; what it leaves out or averages over is said below its title.

    Parameters
    ----------
    title
        What the charts are called.
    jobs, usage, placements
        Tables of the result.
    cores : int64[nodes]
        Of each node.
    total_mb
        Installed memory; ``None``: it is not counted.
    """

    def __init__(
        self,
        title: str,
        jobs: pl.DataFrame,
        usage: pl.DataFrame,
        placements: pl.DataFrame,
        cores: NDArray[np.int64],
        total_mb: int | None,
    ) -> None:
        self._title, self._jobs, self._usage, self._placements = title, jobs, usage, placements
        self._cores, self._total_mb = cores, total_mb

    def __repr__(self) -> str:
        return f"<charts of {self._title}, {counted(len(self._jobs), 'job')}: gantt(), utilisation(), waits()>"

    def gantt(self, *, colour: str = "job", most: int = MOST_RECTANGLES, width: int = 640, height: int = 300) -> Any:
        """Who held which nodes when: an :class:`altair.Chart`; parameters as of :func:`unrack.plots.gantt.gantt`.

        Raises
        ------
        InputError
            ``colour`` or ``most`` is wrong, or Altair is not installed.
        """
        return gantt(
            self._placements, self._jobs, self._cores, f"Nodes over time: {self._title}", colour=colour, most=most,
            width=width, height=height,
        )  # fmt: skip

    def utilisation(self, *, width: int = 640, height: int = 220) -> Any:
        """Shares of cores and of memory (where it is counted) in use over time: an :class:`altair.Chart`.

        Raises
        ------
        InputError
            Altair is not installed.
        """
        return utilisation(self._usage, self._total_mb, f"In use: {self._title}", width=width, height=height)

    def waits(self, *, width: int = 420, height: int = 220) -> Any:
        """The distribution of waits of finished jobs: an :class:`altair.Chart`.

        Raises
        ------
        InputError
            Altair is not installed.
        """
        return wait_times(self._jobs, f"Waits: {self._title}", width=width, height=height)
