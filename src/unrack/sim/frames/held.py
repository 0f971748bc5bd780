"""Which job held what from when until when, as tables: a row for every holding of every span. Times in seconds.

The tables of placements, loans, shares and claims begin with the same columns, and are in order of (start, job).

Which cores of its nodes each attempt had is chosen by a rule of a plug-in. It changes neither which job runs where nor
for how long; so they are chosen after the run, start by start. unrack has no rule of its own: ``unrack-papers`` brings
three for cores on a torus.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, RunError
from unrack.kernels.arrays import Ints
from unrack.ledger.lease import BORROWER, CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS, Sizes
from unrack.plugins.code import blamed
from unrack.plugins.table import Table
from unrack.resources.gpus.machines.machine import text_of as ranges
from unrack.resources.places import AMOUNT, PLACE
from unrack.sim.log import RunLog
from unrack.sim.recorder import OUTCOME_NAMES, Outcome
from unrack.steps import each_of
from unrack.units import SECOND_US


def attempt_numbers(log: RunLog) -> NDArray[np.int32]:
    """int32[attempts]: which attempt of its job each is, from 1."""
    number = np.ones(len(log.attempt_job), np.int32)
    if log.attempt_outcome.any():
        seen: dict[int, int] = {}
        for i, job in enumerate(log.attempt_job.tolist()):
            number[i] = seen[job] = seen.get(job, 0) + 1
    return number


def span_order(log: RunLog) -> Ints:
    """int64[spans]: the spans in order of (start, job, attempt, span)."""
    number = attempt_numbers(log)[log.span_attempt]
    return np.lexsort((np.arange(len(number)), number, log.span_job, log.span_start_us))


def _in_order(log: RunLog, first: Ints) -> tuple[Ints, Ints, Ints]:
    """The spans in order, the rows of one after the other, and how many each has; ``first``: int64[spans + 1]."""
    spans = span_order(log)
    count = np.diff(first)[spans]
    return spans, each_of(first[:-1][spans], count)[1], count


def _first_rows(log: RunLog, of: Ints) -> Ints:
    """int64[spans + 1]: where the rows of each span begin, given the span of each row, which do not fall."""
    return np.searchsorted(of, np.arange(len(log.span_attempt) + 1))


def span_columns(log: RunLog, spans: Ints, count: Ints | None = None) -> dict[str, pl.Series]:
    """The columns that every table of spans begins with: job, attempt and span (both from 1), start_s, end_s.

    ``spans``: int64[k], which; ``count``: int64[k], how many rows each has; default: one.
    """
    attempt = log.span_attempt[spans]

    def column(values: NDArray[Any]) -> pl.Series:
        return pl.Series(values if count is None else np.repeat(values, count))

    return {
        "job": log.jobs.ids.gather(column(log.attempt_job[attempt])),
        "attempt": column(attempt_numbers(log)[attempt]),
        "span": column((spans - log.attempt_spans[attempt] + 1).astype(np.int32)),
        "start_s": column(log.span_start_us[spans] / SECOND_US),
        "end_s": column(log.span_end_us[spans] / SECOND_US),
    }


def placements_frame(log: RunLog) -> pl.DataFrame:
    """One row for every run of equal consecutive nodes.

    Columns: job, attempt, span, start_s, end_s, first_node, nodes; on each of these nodes tasks_per_node,
    cores_per_node and memory_mb_per_node (of its own memory); and outcome (of the attempt).
    """
    spans, at, count = _in_order(log, log.span_rows)
    rows = log.rows.take(at, axis=0)
    del at

    def column(which: int, number: type[np.integer[Any]] = np.int32) -> pl.Series:
        return pl.Series(rows[:, which].astype(number))

    outcome, names = log.attempt_outcome[log.span_attempt[spans]], pl.Series(OUTCOME_NAMES, dtype=pl.String)
    if outcome.any():
        outcomes = names.gather(pl.Series(np.repeat(outcome, count)))
    else:
        outcomes = names.new_from_index(0, len(rows))
    return pl.DataFrame(
        {
            **span_columns(log, spans, count),
            "first_node": column(FIRST),
            "nodes": column(NODES),
            "tasks_per_node": column(TASKS),
            "cores_per_node": column(CORES),
            "memory_mb_per_node": column(LOCAL_MB, np.int64),
            "outcome": outcomes,
        }
    )


def loans_frame(log: RunLog) -> pl.DataFrame:
    """One row for every loan; of one span as the policy made them.

    Columns: job, attempt, span, start_s, end_s, node (of the tasks that use the memory), lender (the node that it is
    in), mb.
    """
    spans, at, count = _in_order(log, log.span_loans)
    loans = log.loans[at]
    return pl.DataFrame(
        {
            **span_columns(log, spans, count),
            "node": loans[:, BORROWER].astype(np.int32),
            "lender": loans[:, LENDER].astype(np.int32),
            "mb": loans[:, LOAN_MB],
        }
    )


def claims_frame(log: RunLog) -> pl.DataFrame:
    """One row for every claim.

    Columns: job, attempt, span, start_s, end_s, resource (such as ``counted``), quantity, place, amount.
    """
    spans, at, count = _in_order(log, _first_rows(log, log.claim_span))
    claims = log.claims[at]
    of = [log.cluster.places.at(place) for place in claims[:, PLACE].tolist()]
    return pl.DataFrame(
        {
            **span_columns(log, spans, count),
            "resource": pl.Series([resource for resource, _ in of], dtype=pl.String),
            "quantity": pl.Series([place.quantity for _, place in of], dtype=pl.String),
            "place": pl.Series([place.name for _, place in of], dtype=pl.String),
            "amount": claims[:, AMOUNT].copy(),
        }
    )


def shares_frame(log: RunLog) -> pl.DataFrame:
    """One row for every share of devices.

    Columns: job, attempt, span, start_s, end_s, kind, pool, node, devices (their ids), composition (a number for one
    life of a composition or split device, from when it is made until its last job leaves), size (devices in it), parts
    (0: not split; n: one of n equal parts), amounts (what is held of each quantity of the kind, in its order).
    """
    devices = log.cluster.devices
    spans, at, count = _in_order(log, _first_rows(log, log.share_span))
    shares = [log.shares[i] for i in at.tolist()]
    first = np.array([share.devices[0] for share in shares], np.int64)
    kinds = pl.Series(devices.kinds, dtype=pl.String)
    pools = pl.Series([pool.name for pool in devices.pools], dtype=pl.String)
    return pl.DataFrame(
        {
            **span_columns(log, spans, count),
            "kind": kinds.gather(devices.kind[first]),
            "pool": pools.gather(devices.pool[first]),
            "node": pl.Series([share.node for share in shares], dtype=pl.Int32),
            "devices": _lists([share.devices for share in shares], pl.Int32),
            "composition": log.share_group[at].astype(np.int32),
            "size": pl.Series([len(share.devices) for share in shares], dtype=pl.Int32),
            "parts": pl.Series([share.parts for share in shares], dtype=pl.Int32),
            "amounts": _lists([share.amounts for share in shares], pl.Int64),
        }
    )


def _lists(rows: Sequence[Sequence[int]], number: type[pl.DataType]) -> pl.Series:
    """A column of lists, none of them empty; ten times as fast as ``pl.Series`` of Python's lists."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    flat = pl.Series(np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum())), dtype=number)
    numbered = pl.DataFrame({"row": np.repeat(np.arange(len(rows)), lengths), "list": flat})
    return numbered.group_by("row", maintain_order=True).agg("list")["list"]


def tasks_held(log: RunLog) -> Ints:
    """int64[spans]: how many tasks ran."""
    rows = log.rows.astype(np.int64)
    return np.add.reduceat(rows[:, NODES] * rows[:, TASKS], log.span_rows[:-1]) if len(rows) else rows[:, 0]


def size_columns(log: RunLog, sizes: Mapping[int, Sizes]) -> list[pl.Series]:
    """Further columns of jobs.

    Columns: least_tasks and most_tasks (its smallest and its largest size), mean_tasks (of the attempt that finished,
    over its time; of one that took no time, those it began with), size_changes (while it ran), change_s_lost and
    core_s_lost_changing (for how long it stood still for these, and the cores that it then held times that).
    """
    count, held = len(log.jobs), tasks_held(log)
    least, most = log.jobs.tasks.copy(), log.jobs.tasks.copy()
    cost = np.zeros(count, np.int64)
    for job, own in sizes.items():
        least[job], most[job], cost[job] = own.tasks[0], own.tasks[-1], own.change_us
    mean = np.full(count, np.nan)
    done = np.flatnonzero(log.attempt_outcome == Outcome.FINISHED)
    length = (log.attempt_end_us - log.attempt_start_us)[done]
    whole, first = log.over_time(held)[done], held[log.attempt_spans[:-1]][done]
    mean[log.attempt_job[done]] = np.where(length > 0, whole / np.maximum(length, 1), first)
    changes, core_us = np.zeros(count, np.int64), np.zeros(count)
    later = np.flatnonzero((np.diff(log.span_attempt) == 0) & (np.diff(held) != 0)) + 1
    np.add.at(changes, log.span_job[later], 1)
    np.add.at(core_us, log.span_job[later], log.amounts[1][later] * cost[log.span_job[later]].astype(np.float64))
    return [
        pl.Series("least_tasks", least), pl.Series("most_tasks", most), pl.Series("mean_tasks", mean, nan_to_null=True),
        pl.Series("size_changes", changes), pl.Series("change_s_lost", changes * cost / SECOND_US),
        pl.Series("core_s_lost_changing", core_us / SECOND_US),
    ]  # fmt: skip


class Cores(Protocol):
    """The cores of one node that one job has."""

    ids: Ints  # int64[cores]: ascending, from 0
    dies: int  # on how many dies they are
    distance: int  # hops between them, summed over all pairs on one die
    least: int  # the lowest that many cores on each of those dies could have, or a bound below it
    apart: int  # pairs of them that are on different dies


class CoreChooser(Protocol):
    """The free cores of a cluster's nodes, all at first, and which ones the next job gets."""

    def knows(self, node: int) -> bool:
        """Whether the layout of a node's cores is known; of others, nothing is chosen."""

    def take(self, node: int, cores: int) -> Cores:
        """Choose so many free cores of a node, and take them."""

    def give(self, node: int, ids: Ints) -> None:
        """Free cores of a node."""


def _of_others(name: str, found: Any) -> Callable[[Cluster], CoreChooser]:
    if not callable(found):
        raise InputError(f"the rule for cores {name}", f"{found!r:.100}", "a function: make(cluster) -> CoreChooser")

    def make(cluster: Cluster) -> CoreChooser:
        with blamed(f"the rule for cores {name}"):
            chooser: CoreChooser = found(cluster)
            return chooser

    return make


CORE_RULES: Table[Callable[[Cluster], CoreChooser]] = Table("core_rules", {}, _of_others)
"""Name of a rule → what makes its chooser for a cluster."""


def core_chooser(rule: str, cluster: Cluster) -> CoreChooser:
    """The chooser of a rule. An InputError if there is no such rule, or it knows of no node's cores."""
    if rule not in CORE_RULES:
        raise InputError("rule for cores", repr(rule), CORE_RULES.missing(rule) or f"one of {', '.join(CORE_RULES)}")
    return CORE_RULES[rule](cluster)


SUMS = {"distance": "core_distance", "least": "core_distance_least", "apart": "cores_apart"}
"""Columns of the cores frame that are summed over the nodes of a job, and what the jobs frame calls the sums."""


def cores_frame(log: RunLog, rule: str) -> pl.DataFrame:
    """One row for every node of every span, in order of (start, job); nodes of unknown layout are left out.

    A job gives its cores back when its lease changes, and cores are chosen anew for what it holds then. An InputError
    if there is no such rule, or no node's layout is known.

    Columns: job, attempt, span, start_s, end_s, node, cores (how many), core_ids (text, such as ``"0-3,7"``), dies,
    distance, least, apart; the last four as of :class:`Cores`.
    """
    tiles = _Checked(rule, log.cluster)
    running: list[tuple[int, int]] = []
    held: dict[int, list[tuple[int, Cores]]] = {}
    which: list[int] = []
    at: list[int] = []
    sets: list[Cores] = []
    for span in span_order(log).tolist():
        start_us = int(log.span_start_us[span])
        while running and running[0][0] <= start_us:
            for node, cores in held.pop(heapq.heappop(running)[1]):
                tiles.give(node, cores.ids)
        mine = [(node, tiles.take(node, count)) for node, count in _nodes(log, span) if tiles.knows(node)]
        held[span] = mine
        heapq.heappush(running, (int(log.span_end_us[span]), span))
        which += [span] * len(mine)
        at += [node for node, _ in mine]
        sets += [cores for _, cores in mine]
    return pl.DataFrame(
        {
            **span_columns(log, np.array(which, np.int64)),
            "node": np.array(at, np.int32),
            "cores": np.array([len(cores.ids) for cores in sets], np.int32),
            "core_ids": pl.Series([ranges(cores.ids.tolist()) for cores in sets], dtype=pl.String),
            **{name: np.array([getattr(cores, name) for cores in sets], np.int64) for name in ("dies", *SUMS)},
        }
    )


class _Checked:
    """A chooser of a plug-in. Its answers are looked at: if one cannot be, a RunError names the rule."""

    def __init__(self, rule: str, cluster: Cluster) -> None:
        self.what = f"the rule for cores {rule}"
        self.chooser = core_chooser(rule, cluster)
        self.cores = cluster.cores
        self.busy: dict[int, set[int]] = {}
        self.knows = self.chooser.knows

    def take(self, node: int, count: int) -> Cores:
        with blamed(self.what):
            found = self.chooser.take(node, count)
            ids = set(found.ids.tolist())
        busy, last = self.busy.setdefault(node, set()), int(self.cores[node]) - 1
        if len(ids) != count or min(ids) < 0 or max(ids) > last or ids & busy:
            want = f"{count} different free cores from 0 to {last}"
            raise RunError(f"{self.what} chose {found.ids.tolist()} of node {node}: wanted {want}")
        busy |= ids
        return found

    def give(self, node: int, ids: Ints) -> None:
        with blamed(self.what):
            self.chooser.give(node, ids)
        self.busy[node] -= set(ids.tolist())


def _nodes(log: RunLog, span: int) -> list[tuple[int, int]]:
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]].tolist()
    return [(node, cores) for first, count, _, cores, _ in rows for node in range(first, first + count)]


def core_columns(log: RunLog, cores: pl.DataFrame) -> list[pl.Series]:
    """Sums over the nodes of each job that finished, of the attempt that did: how close together its cores were.

    Of a job with a lease that changed while it ran, those that it held last. ``cores``: what :func:`cores_frame` says
    of the run.
    """
    done = log.attempt_outcome == Outcome.FINISHED
    ended = pl.DataFrame({"job": log.jobs.ids.gather(log.attempt_job[done]), "attempt": attempt_numbers(log)[done]})
    last = cores.filter(pl.col("span") == pl.col("span").max().over("job", "attempt"))
    sums = last.group_by("job", "attempt").agg(pl.col(list(SUMS)).sum())
    of_job = ended.join(sums, on=["job", "attempt"], how="left")
    frame = pl.DataFrame({"job": log.jobs.ids}).join(of_job, on="job", how="left", maintain_order="left")
    return [frame[name].alias(called) for name, called in SUMS.items()]
