"""What the audit reads: the tables of a run as columns of whole numbers, times in µs.

Spans, attempts and jobs, in order and whole; and the tables of jobs and over time say what these add up to.
"""

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
from unrack.steps import spells, summed_at

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
    # by name, as ``docs/result-tables.md`` has them; those of what is held may be missing
    tables: Mapping[str, pl.DataFrame]
    # the models in force: quantities that one governs may be asked for beyond what is installed
    pace: Pace | None = None
    provisions: bool = False  # whether jobs may begin with less memory than they ask, as it follows what they use
    expects: str = "request_s"  # of jobs, for how long the policy expected each to run; none: that is not known

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

    @cached_property
    def ran_before(self) -> Bools:
        """bool[jobs]: of which the wait is not known, as they ran already when the run began."""
        if not {"on", "ran_s"} <= set(self["jobs"].columns):
            return np.zeros(self["jobs"].height, np.bool_)
        return (self["jobs"]["ran_s"].is_not_null() & self["jobs"]["wait_s"].is_null()).to_numpy()

    @cached_property
    def asked(self) -> Ints:
        """int64[quantities, jobs]: what jobs ask for of the resources of the cluster."""
        jobs, names = self["jobs"], {key: ".".join(key) for key in self.cluster.places.quantities}
        columns = {key: whole(jobs[name]) for key, name in names.items() if name in jobs.columns}
        return self.cluster.places.asked(columns, jobs.height)

    def name(self, row: int) -> str:
        """A job by its id."""
        return f"job {self['jobs']['job'][int(row)]}" if row >= 0 else "a job"


def first_of(t: Tables, own: Spans | Sums, wrong: Bools, what: str) -> Violation:
    """What is wrong with the first of some rows."""
    rows = np.flatnonzero(wrong)
    i = int(rows[np.argmin(own.start[rows])])
    return Violation(f"{t.name(own.job[i])}, attempt {own.attempt[i]}, {what}", int(own.start[i]))


def span_violation(t: Tables) -> Violation | None:
    """The first span that is out of order, overlaps another of its job, or does not hold the whole gang."""
    known = t.held.job >= 0
    if not known.all():
        repeated = t["jobs"]["job"].filter(pl.Series(t.repeated)).implode()  # ids that several jobs have
        if (~known & ~t["placements"]["job"].is_in(repeated).to_numpy()).any():
            return Violation("the placements name a job that the jobs table does not have")
    s = t.sums  # without jobs that share an id: of those only the places are looked at
    done = t.finished[s.row].astype(np.int64)
    if len(s.job) == 0:
        return _jobs(t, s, done)
    new_job = np.diff(s.job, prepend=-1) != 0
    new_attempt = new_job | (np.diff(s.attempt, prepend=0) != 0)
    before = np.append(0, s.end[:-1])
    rules: list[tuple[str, Bools]] = [
        ("has a span that ends before it starts", s.end < s.start),
        ("has rows of one span with different times or outcomes", s.odd),
        ("starts before it was submitted", s.start < t.submit[s.job]),
        (
            "has attempts that are not numbered 1, 2, 3 …",
            np.where(new_job, s.attempt != 1, _jumps(s.attempt, new_attempt)),
        ),
        ("has spans that are not numbered 1, 2, 3 …", np.where(new_attempt, s.span != 1, _jumps(s.span, ~new_attempt))),
        ("has spans of one attempt that overlap or leave a gap", ~new_attempt & (s.start != before)),
        ("has attempts that overlap", new_attempt & ~new_job & (s.start < before)),
        ("runs again after it has finished", new_attempt & ~new_job & (np.append(0, done[:-1]) > 0)),
        ("holds another number of tasks than it has", _other_size(t, s)),
    ]
    for what, wrong in rules:
        if wrong.any():
            return first_of(t, s, wrong, what)
    return _jobs(t, s, done)


def _other_size(t: Tables, s: Sums) -> Bools:
    """bool[spans]: which hold another number of tasks than their job asks, or can have."""
    least, most = ("least_tasks", "most_tasks") if "least_tasks" in t["jobs"].columns else ("tasks", "tasks")
    return np.asarray((s.tasks < whole(t["jobs"][least])[s.job]) | (s.tasks > whole(t["jobs"][most])[s.job]))


def _jumps(number: Ints, follows: Bools) -> Bools:
    """bool[spans]: a number that is not one more than the last where it follows, or changes where it does not."""
    step: Ints = np.diff(number, prepend=0)
    return np.asarray(np.where(follows, step != 1, step != 0))


def _jobs(t: Tables, s: Sums, done: Ints) -> Violation | None:
    """The first job with a row in the jobs table that is not what its spans say."""
    jobs, count = t["jobs"], t["jobs"].height
    start, end, restarts = micro(jobs["start_s"]), micro(jobs["end_s"]), whole(jobs["restarts"])
    finished = (jobs["state"] == "finished").to_numpy()
    since = micro(jobs["eligible_s"]) if "eligible_s" in jobs.columns else t.submit
    ran, began, ended = np.zeros(count, np.int64), np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    attempts, nodes, cores = (np.zeros(count, np.int64) for _ in range(3))
    core_us = np.zeros(count)
    np.maximum.at(attempts, s.job, s.attempt)
    np.maximum.at(ran, s.job, done)
    last = done > 0
    which, own = s.job[last], s.span[last] == 1
    began[which[own]] = s.start[last][own]
    np.maximum.at(ended, which, s.end[last])
    np.maximum.at(nodes, which, s.nodes[last])
    np.maximum.at(cores, which, s.cores[last])
    np.add.at(core_us, which, s.cores[last] * (s.end - s.start)[last].astype(np.float64))
    rules = [
        ("is finished, or not, against what its attempts say", (ran > 0) != finished),
        ("started at another time than its attempt that finished", start != began),
        ("ended at another time than its attempt that finished", end != ended),
        ("ended before it started", finished & (end < start)),
        ("has another number of restarts than of attempts that did not finish", restarts != attempts - ran),
        ("held another number of nodes", whole(jobs["nodes"]) != nodes),
        ("held another number of cores", whole(jobs["cores"]) != cores),
        ("held other core-seconds", ~np.isclose(jobs["core_s"].to_numpy() * 1e6, core_us, rtol=1e-9, atol=1.0)),
        ("waited for another time than from when it could be started to its start",
         finished & ~t.ran_before & (np.abs(jobs["wait_s"].fill_null(0).to_numpy() * 1e6 - (start - since)) > 1)),
        ("started before it could be", finished & ~t.ran_before & (start < since)),
    ]  # fmt: skip
    for what, wrong in rules:
        found = np.flatnonzero(wrong & ~t.repeated)
        if len(found):
            return Violation(f"{t.name(int(found[0]))} {what}, by the table of jobs", int(start[found[0]]))
    return None


def usage_violation(t: Tables) -> Violation | None:
    """The first time at which the table of usage says something else than placements, loans and failures."""
    usage, lent = t["usage"], t.lent
    times = micro(usage["time_s"])
    if len(times) and (np.diff(times) <= 0).any():
        return Violation("the times of the table of usage do not rise")
    told_apart = bool((t.held.job >= 0).all())  # else jobs share ids, and rows are looked at in place of spans
    own: Spans | Sums = t.sums if told_apart else t.held
    held_at, lent_at = _places(times, own), _places(times, lent)
    for spans, at in ((own, held_at), (lent, lent_at)):
        for moments, found in zip((spans.start, spans.end), at, strict=True):
            known = times[np.minimum(found, len(times) - 1)] == moments
            if not known.all():
                what = "the table of usage has no row for a time at which something changed"
                return Violation(what, int(moments[~known].min()))
    loaned = whole(t["loans"]["mb"])
    p = t["placements"]
    rows = (whole(p["nodes"]) * whole(p[name]) for name in ("cores_per_node", "memory_mb_per_node"))
    held_cores, held_mb = (own.cores, own.mb) if isinstance(own, Sums) else rows
    cores, lent_mb = _level(times, held_at, held_cores), _level(times, lent_at, loaned)
    local_mb = _level(times, held_at, held_mb)
    wanted = {
        "cores_held": cores,
        "memory_mb_held": local_mb + lent_mb,
        "memory_mb_lent": lent_mb,
        "cores_online": t.cluster.total_cores - _down_cores(t, times),
    }
    if isinstance(own, Sums):
        wanted["running_jobs"] = _level(times, held_at, np.ones(len(own.start), np.int64))
        asked = own.tasks * whole(t["jobs"]["cores_per_task"])[own.job]
        wanted["cores_asked"] = _level(times, held_at, np.where(own.cores > 0, asked, 0))  # 0: it is suspended
    for name, column in wanted.items():
        if name in usage.columns and (wrong := np.flatnonzero(whole(usage[name]) != column)).size:
            i = int(wrong[0])
            return Violation(f"usage says {name} {usage[name][i]}, placements say {column[i]}", int(times[i]))
    for name in ("queued_jobs", "queued_cores"):
        if (wrong := np.flatnonzero(whole(usage[name]) < 0)).size:
            return Violation(f"usage says {name} {usage[name][int(wrong[0])]}", int(times[wrong[0]]))
    over = np.flatnonzero(cores > wanted["cores_online"])
    if over.size:
        return Violation(
            f"{cores[over[0]]} cores are held, and {wanted['cores_online'][over[0]]} online", int(times[over[0]])
        )
    return _tiers(t)


def _tiers(t: Tables) -> Violation | None:
    """What the table of tiers says is used is what placements and loans add up to."""
    tiers = t.cluster.tiers
    if tiers is None or "tiers" not in t:
        return None
    times = micro(t["tiers"]["time_s"])
    held_at, lent_at = _places(times, t.held), _places(times, t.lent)
    rows = whole(t["placements"]["nodes"]) * whole(t["placements"]["memory_mb_per_node"])
    near = tiers.tier[whole(t["placements"]["first_node"])]
    lender, mb = tiers.tier[whole(t["loans"]["lender"])], whole(t["loans"]["mb"])
    for index, name in enumerate(tiers.names):
        held = _level(times, held_at, rows * (near == index)) + _level(times, lent_at, mb * (lender == index))
        if (wrong := np.flatnonzero(whole(t["tiers"][f"used_mb_{name}"]) != held)).size:
            i = int(wrong[0])
            said = t["tiers"][f"used_mb_{name}"][i]
            return Violation(f"tiers says used_mb_{name} {said}, placements and loans say {held[i]}", int(times[i]))
    return None


def _places(times: Ints, spans: Spans | Sums) -> tuple[Ints, Ints]:
    """int64[spans], twice: the places of starts and of ends among the times."""
    return np.searchsorted(times, spans.start), np.searchsorted(times, spans.end)


def _level(times: Ints, at: tuple[Ints, Ints], amount: Ints) -> Ints:
    """int64[times]: what the spans, at these places, hold together from each time on."""
    return summed_at(len(times), (at[0], amount), (at[1], -amount))


def _down_cores(t: Tables, times: Ints) -> Ints:
    """int64[times]: cores of the nodes that are down, each counted once however many failures keep it down."""
    node, at, until = t.down[:, t.down[2] > t.down[1]]
    node, when, turns = spells(node, at, until)
    return summed_at(len(times), (np.searchsorted(times, when), turns * t.cluster.cores[node]))
