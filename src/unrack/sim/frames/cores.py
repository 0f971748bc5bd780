"""Which cores of its nodes each attempt had, chosen by a rule of a plug-in.

What the cores are changes neither which job runs where nor for how long; so they are chosen after the run, start by
start. unrack has no rule of its own: ``unrack-papers`` brings three for cores on a torus.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, RunError
from unrack.kernels.arrays import Ints
from unrack.plugins.code import blamed
from unrack.plugins.table import Table
from unrack.resources.gpus.machines.machine import text_of as ranges
from unrack.sim.frames.held import attempt_numbers, span_columns, span_order
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome


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
    """A chooser of a plug-in whose answers are looked at: a RunError names the rule if one cannot be."""

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
    """The nodes of a span, and the cores that it held of each."""
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]].tolist()
    return [(node, cores) for first, count, _, cores, _ in rows for node in range(first, first + count)]


def core_columns(log: RunLog, cores: pl.DataFrame) -> list[pl.Series]:
    """Sums over the nodes of each job that finished, of the attempt that did: how close together its cores were.

    Of a job with a lease that changed while it ran, those that it held last. ``cores``: what :func:`cores_frame` says
    of the run.
    """
    done = log.attempt_outcome == Outcome.FINISHED
    ended = pl.DataFrame(
        {"job": log.jobs.ids.gather(log.attempt_job[done]), "attempt": attempt_numbers(log)[done]},
    )
    last = cores.filter(pl.col("span") == pl.col("span").max().over("job", "attempt"))
    sums = last.group_by("job", "attempt").agg(pl.col(list(SUMS)).sum())
    of_job = ended.join(sums, on=["job", "attempt"], how="left")
    frame = pl.DataFrame({"job": log.jobs.ids}).join(of_job, on="job", how="left", maintain_order="left")
    return [frame[name].alias(called) for name, called in SUMS.items()]
