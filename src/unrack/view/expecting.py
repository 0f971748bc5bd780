"""A view in which jobs are expected to run, and to end, as a prediction says."""

from __future__ import annotations

from unrack.kernels.arrays import Ints
from unrack.sealed import sealed
from unrack.units import NEVER_US
from unrack.view.view import View


class Expecting(View):
    """The state as policies see it, but for how long jobs are expected to run.

    Parameters
    ----------
    view
        All else is as here.
    asks
        int64[4, at least jobs]: as of :attr:`View.asks`.
    running, count
        int64[2, room]: as of :attr:`View.running`; the first ``count`` columns count.
    """

    def __init__(self, view: View, asks: Ints, running: Ints, count: int) -> None:
        super().__init__(view._state, view._store)
        self.contention, self.now = view.contention, view.now
        self._asks, self._running, self._count = sealed(asks), sealed(running), count

    @property
    def asks(self) -> Ints:
        """int64[4, jobs]: as of :attr:`View.asks`; expected run times are those given."""
        return self._asks[:, : self.jobs]

    @property
    def running(self) -> Ints:
        """int64[2, room]: expected end (µs) and job."""
        return self._running

    @property
    def running_count(self) -> int:
        """How many jobs run."""
        return self._count

    @property
    def first_end_us(self) -> int:
        """The first expected end of the running jobs, µs; a time after everything if none runs."""
        return int(self._running[0, 0]) if self._count else NEVER_US
