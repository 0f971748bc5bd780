"""Jobs that are under way when a run begins: where they run, and for how long they have."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from unrack.errors import InputError, TraceError
from unrack.kernels.arrays import Bools, Ints
from unrack.units import seconds_text

if TYPE_CHECKING:
    from unrack.workload.job import JobTable


@dataclass(frozen=True, eq=False)
class UnderWay:
    """Which jobs run when a run begins."""

    # pl.Series, String: The nodes that each has tasks on, by name or number, such as ``n[3-4]``; null: it waits, or
    # is still to come. As many different nodes as divide the tasks: each has as many. Otherwise a node for each task,
    # which may come several times.
    on: pl.Series
    ran_us: Ints  # int64[jobs]: how long each has run; 0 of all others
    # int64[jobs]: the line of the file that says so; 0: not known
    line: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    source: str = ""  # the file; ``""``: there is none
    way_out: str = ""  # what else can be done about what cannot be, for messages; ``""``: nothing

    @property
    def runs(self) -> Bools:
        """bool[jobs]: which run."""
        return self.on.is_not_null().to_numpy()

    def take(self, index: Ints) -> UnderWay:
        """The same of some of the jobs, in the order given."""
        return UnderWay(self.on.gather(index), self.ran_us[index], self._lines[index], self.source, self.way_out)

    def fault(self, row: int, job: object, column: str, got: str, want: str) -> InputError:
        """An error about a column of a job, with the file and the line where these are known."""
        line = int(self._lines[row])
        want += f", or {self.way_out}" if self.way_out else ""
        if self.source and line:
            return TraceError(self.source, line, column, got, want)
        return InputError(f"{self.source}: job {job}, {column}" if self.source else f"job {job}, {column}", got, want)

    def add_to(self, total: hashlib._Hash) -> None:
        """Add everything that can change a schedule to a digest."""
        total.update(b"under way" + self.ran_us.astype("<i8").tobytes())
        total.update("\x1f".join(self.on.fill_null("").to_list()).encode())

    @property
    def _lines(self) -> Ints:
        return self.line if len(self.line) else np.zeros(len(self.on), np.int64)


def check_under_way(jobs: JobTable) -> None:
    """Refuse jobs that run at the start and were submitted later than then, or have run for all their time."""
    found = jobs.standing
    runs, submit = found.runs, jobs.submit_us
    begin = int(submit.min()) if len(submit) else 0
    for wrong, column, values, want in (
        (runs & (submit > begin), "submit", submit, f"{_time(begin)}, when the run begins, as the job runs already"),
        (runs & (found.ran_us >= jobs.work_us), "ran", found.ran_us, "less than the job runs in all (run)"),
        (found.ran_us < 0, "ran", found.ran_us, "0 s or more"),
        (~runs & (found.ran_us > 0), "ran", found.ran_us, "nothing of a job that is on no node"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise found.fault(row, jobs.ids[row], column, _time(int(values[row])), want)


def _time(time_us: int) -> str:
    return seconds_text(time_us / 1e6)


def order_of(table: JobTable) -> Ints:
    """int64[jobs]: the rows in order of (submission, id); where a run begins with jobs, these first and others as said.

    A queue that is there when a run begins is of one moment, and its order is that of the rows.
    """
    runs = table.standing.runs
    keys = pl.DataFrame({"submit": table.submit_us, "waits": ~runs, "id": table.ids})
    by = ("submit", "waits") if runs.any() else ("submit", "id")
    order: Ints = keys.select(pl.arg_sort_by(*by, maintain_order=True)).to_series().cast(pl.Int64).to_numpy()
    return order
