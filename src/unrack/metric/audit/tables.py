"""What the audit reads: the tables of a run as columns of whole numbers, times in µs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.pools.pool import Pace
from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.metric.holdings import SPAN

SECOND_US = 1e6


class Violation(NamedTuple):
    """Something in the tables that cannot be."""

    what: str  # what was found, and where, in words
    at_us: int = -1  # when; -1: at no one time

    def __str__(self) -> str:
        """As people read it."""
        return self.what if self.at_us < 0 else f"at {self.at_us / SECOND_US:.6f} s: {self.what}"


def micro(column: pl.Series) -> Ints:
    """int64[rows]: times of a table, µs; -1: none."""
    return np.rint(column.cast(pl.Float64).fill_null(-1 / SECOND_US).to_numpy() * SECOND_US).astype(np.int64)


def whole(column: pl.Series) -> Ints:
    """int64[rows]: a column of whole numbers."""
    return column.cast(pl.Int64).to_numpy()


class Spans(NamedTuple):
    """A column each of placements, of loans or of shares, int64[rows]; key: of the span, in order of (job, …, span)."""

    job: Ints
    attempt: Ints
    span: Ints
    start: Ints
    end: Ints

    @property
    def key(self) -> Ints:
        """int64[rows]: a number for every span; in order of job, attempt and span."""
        key: Ints = (self.job << 40) + (self.attempt.astype(np.int64) << 20)
        key += self.span
        return key


class Sums(NamedTuple):
    """The spans of a run, in order of job, attempt and span, int64[spans] each; amounts are of all their rows."""

    job: Ints
    attempt: Ints
    span: Ints
    start: Ints
    end: Ints
    nodes: Ints
    tasks: Ints
    cores: Ints
    mb: Ints
    row: Ints  # a row of the placements that is of the span
    odd: Bools  # bool: whether its rows have different times, or some are of an attempt that finished and some are not


_HELD: dict[str, dict[str, pl.DataType | type[pl.DataType]]] = {
    "loans": {"node": pl.Int32, "lender": pl.Int32, "mb": pl.Int64},
    "shares": {"kind": pl.String, "node": pl.Int32, "devices": pl.List(pl.Int32), "amounts": pl.List(pl.Int64)},
    "claims": {"resource": pl.String, "place": pl.String, "amount": pl.Int64},
}
"""Tables of holdings that a run may be without, and what is read of them."""


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a run, and what the cluster is."""

    cluster: Cluster  # what is installed
    # by name, as ``docs/file-formats.md`` has them; those of what is held may be missing
    tables: Mapping[str, pl.DataFrame]
    # the models in force: quantities that one governs may be asked for beyond what is installed
    pace: Pace | None = None
    provisions: bool = False  # whether jobs may begin with less memory than they ask, as it follows what they use

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name in _HELD and name not in self.tables:
            empty = pl.DataFrame(schema=_HELD[name])
            return self.tables["placements"].clear().select(SPAN).hstack(empty)
        return self.tables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.tables

    @cached_property
    def submit(self) -> Ints:
        """int64[jobs]: when each was submitted."""
        return micro(self["jobs"]["submit_s"])

    @cached_property
    def held(self) -> Spans:
        """The jobs and times of the placements."""
        return self.spans(self["placements"])

    @cached_property
    def repeated(self) -> Bools:
        """bool[jobs]: those with an id that another has, too."""
        ids = self["jobs"]["job"]
        if ids.dtype.is_integer() and ids.null_count() == 0 and bool((np.diff(ids.to_numpy()) > 0).all()):
            return np.zeros(len(ids), np.bool_)
        return ids.is_duplicated().to_numpy()

    @cached_property
    def finished(self) -> Bools:
        """bool[rows]: which placements are of an attempt that finished."""
        return (self["placements"]["outcome"] == "finished").to_numpy()

    @cached_property
    def sums(self) -> Sums:
        """The spans of the placements; jobs that share an id cannot be told apart and are left out."""
        own = self.held
        rows = None if (own.job >= 0).all() else np.flatnonzero(own.job >= 0)
        key = own.key if rows is None else own.key[rows]
        order = np.argsort(key, kind="stable")
        key = key[order]
        order = (order if rows is None else rows[order]).astype(np.int32)
        follows = np.zeros(len(key), np.bool_)
        np.equal(key[1:], key[:-1], out=follows[1:])
        del key
        first = np.flatnonzero(~follows)
        odd = np.zeros(len(order), np.bool_)
        for column in (own.start, own.end, self.finished):
            values = column[order]
            odd[1:] |= follows[1:] & (values[1:] != values[:-1])

        def total(name: str = "") -> Ints:
            count = self["placements"]["nodes"].to_numpy()[order].astype(np.int64)
            each = count * self["placements"][name].to_numpy()[order] if name else count
            return np.add.reduceat(each, first) if len(first) else each

        row = order[first]
        return Sums(
            own.job[row], own.attempt[row].astype(np.int64), own.span[row].astype(np.int64), own.start[row],
            own.end[row], total(), total("tasks_per_node"), total("cores_per_node"), total("memory_mb_per_node"), row,
            np.logical_or.reduceat(odd, first) if len(first) else odd,
        )  # fmt: skip

    @cached_property
    def lent(self) -> Spans:
        """The jobs and times of the loans."""
        return self.spans(self["loans"])

    @cached_property
    def shared(self) -> Spans:
        """The jobs and times of the shares."""
        return self.spans(self["shares"])

    @cached_property
    def claimed(self) -> Spans:
        """The jobs and times of the claims."""
        return self.spans(self["claims"])

    @cached_property
    def down(self) -> Ints:
        """int64[3, downs]: node, from when, until when: of every failure and each node of its domain."""
        if "failures" not in self or self["failures"].height == 0:
            return np.zeros((3, 0), np.int64)
        failures = self["failures"]
        nodes = [np.array(self.cluster.domain(name), np.int64) for name in failures["domain"].to_list()]
        count = [len(own) for own in nodes]
        at, until = (np.repeat(micro(failures[name]), count) for name in ("time_s", "repaired_s"))
        return np.stack([np.concatenate(nodes), at, until])

    def spans(self, frame: pl.DataFrame) -> Spans:
        """The jobs and times of the rows of a table; jobs by their row, -1 where an id is of several or none."""
        attempt, span = frame["attempt"].to_numpy(), frame["span"].to_numpy()  # as narrow as they are
        return Spans(self._rows(frame["job"]), attempt, span, micro(frame["start_s"]), micro(frame["end_s"]))

    def _rows(self, ids: pl.Series) -> Ints:
        known = self["jobs"]["job"]
        if known.dtype.is_integer() and known.null_count() == 0 and len(known):
            first, values = int(known.min()), known.to_numpy()  # type: ignore[arg-type]  # of integers
            room = int(known.max()) - first + 1  # type: ignore[arg-type]  # of integers
            if room <= 8 * len(known) + 1024:
                row = np.full(room + 1, -1, np.int64)
                row[values - first] = np.arange(len(known))
                row[np.flatnonzero(np.bincount(values - first, minlength=room) > 1)] = -1
                inside = ids.to_numpy() - first
                return row[np.where((inside >= 0) & (inside < room), inside, room)]
        one = self["jobs"].select("job", pl.int_range(pl.len(), dtype=pl.Int64).alias("row"))
        one = one.group_by("job").agg(pl.when(pl.len() == 1).then(pl.col("row").first()).otherwise(-1))
        rows = pl.DataFrame({"job": ids}).join(one, on="job", how="left", maintain_order="left")["row"]
        return whole(rows.fill_null(-1))

    def name(self, row: int) -> str:
        """A job by its id."""
        return f"job {self['jobs']['job'][int(row)]}" if row >= 0 else "a job"
