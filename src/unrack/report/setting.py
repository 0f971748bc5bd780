"""A finished study as the report reads it: its runs, and the settings that its policies are compared under."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.facts import counted
from unrack.metric.bootstrap import COLUMNS, Resampled, resampled
from unrack.metric.estimate import (
    LEVEL,
    ComparedRow,
    Estimate,
    Mark,
    MetricStanding,
    estimate,
    marks,
    served_less,
    standings,
    world_of,
)
from unrack.plots.series import six_digits
from unrack.study.notes import swept_labels
from unrack.study.results.keep import FAILED, cluster_again
from unrack.study.results.record import read_record, readable
from unrack.study.world import labelled
from unrack.units import SECOND_US

FRAMES = ("jobs", "usage", "placements")
_LOANS = {"start_s": pl.Float64, "end_s": pl.Float64, "node": pl.Int32, "lender": pl.Int32, "mb": pl.Int64}


@dataclass(frozen=True)
class RunFiles:
    """One run of a finished study."""

    folder: Path  # its directory, ``runs/<id>``
    record: dict[str, Any] = field(repr=False)  # what ``run.json`` holds

    @property
    def id(self) -> str:
        """The run's id, also the name of its folder."""
        return str(self.record["id"])

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        return str(self.record["cluster"]["name"])

    @property
    def workload(self) -> str:
        """Name of the workload."""
        return str(self.record["workload"]["name"])

    @property
    def label(self) -> str:
        """The policy as the user wrote it."""
        return str(self.record.get("policy_label") or self.policy)

    @property
    def policy(self) -> str:
        """The policy with all its parameters."""
        return str(self.record["policy"])

    @property
    def world(self) -> str:
        """In which world its jobs ran: ``"study"`` or ``"base"``."""
        return str(self.record.get("world", "study"))

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.record["seed"])

    @property
    def parameters(self) -> dict[str, Any]:
        """Swept key → value of this run; empty without a sweep."""
        return dict(self.record.get("parameters") or {})

    @property
    def metrics(self) -> dict[str, float | None]:
        """Metric → value; ``None`` where it is not defined."""
        return dict(self.record["metrics"])

    @cached_property
    def hardware(self) -> Cluster:
        """The cluster as it was."""
        return cluster_again(self.record["cluster"])

    @property
    def total_mb(self) -> int | None:
        """Installed memory; ``None``: not counted."""
        amount = self.record["cluster"].get("memory_mb")
        return int(amount) if amount else None

    @property
    def window(self) -> tuple[float, float]:
        """The window of measurement, s; infinite where the run does not say."""
        low, high = (self.metrics.get(f"window_{end}_s") for end in ("start", "end"))
        return -math.inf if low is None else low, math.inf if high is None else high

    @cached_property
    def span(self) -> tuple[float, float] | None:
        """From when until when the run lasted, s; ``None``: nothing happened."""
        times = self.frame("usage", ("time_s",))["time_s"]
        return (float(times[0]), float(times[-1])) if len(times) else None

    def has(self, name: str) -> bool:
        """Whether the run has kept a table."""
        return (self.folder / f"{name}.parquet").is_file()

    def rows(self, name: str) -> int:
        """How many rows one of the run's tables has."""
        return self.frame(name, ("job",)).height

    def jobs(self, columns: Sequence[str]) -> pl.DataFrame:
        """These columns of the jobs that its metrics are over: those submitted in the window, or all."""
        low, high = (time_us / SECOND_US for time_us in self.record.get("window_us") or (-math.inf, math.inf))
        every = self.frame("jobs", tuple(dict.fromkeys(("submit_s", *columns))))
        return every.filter(pl.col("submit_s").is_between(low, high))

    def loans(self) -> pl.DataFrame:
        """Columns start_s, end_s, node, lender, mb of the loans; empty where nothing was lent."""
        return self.frame("loans", tuple(_LOANS)) if self.has("loans") else pl.DataFrame(schema=_LOANS)

    def frame(self, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """One of the run's tables, or those of these columns that it has; an InputError if it cannot be read."""
        path = self.folder / f"{name}.parquet"
        with readable(path, "a Parquet table of a run"):
            scan = pl.scan_parquet(path)
            if columns is not None:
                there = set(scan.collect_schema().names())
                scan = scan.select([column for column in columns if column in there])
            return scan.collect()


@dataclass(frozen=True)
class FinishedStudy:
    """A study that has been run."""

    folder: Path  # its directory
    # text, table: ``study.toml`` as text and as a table
    text: str
    table: dict[str, Any] = field(repr=False)
    runs: tuple[RunFiles, ...]  # in the order of ``summary.csv``; one or more
    failed: tuple[tuple[str, int, str], ...] = ()  # policy, seed and error of each run that failed and is missing


def read_finished(directory: Path) -> FinishedStudy:
    """Read what a report needs of the directory of a finished study, tables of runs excepted.

    An InputError says which file is missing or what is wrong with it.
    """
    want = "the directory of a finished study (study.toml, summary.csv, runs/)"
    if not directory.is_dir():
        raise InputError(str(directory), "no such directory" if not directory.exists() else "a file", want)
    missing = [name for name in ("study.toml", "summary.csv", "runs") if not (directory / name).exists()]
    if missing:
        raise InputError(str(directory), f"a directory without {' and '.join(missing)}", want)
    text = _text(directory / "study.toml")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise InputError(str(directory / "study.toml"), f"broken TOML ({fault})", "the resolved study") from fault
    ids = _ids(directory / "summary.csv")
    runs = tuple(_run(directory / "runs" / name) for name in ids)
    return FinishedStudy(directory, text, table, runs, _failed(directory / "runs" / FAILED))


def _failed(path: Path) -> tuple[tuple[str, int, str], ...]:
    """The runs that failed; the file is there only if some did."""
    if not path.is_file():
        return ()
    with readable(path, "policy, seed and error a run"):
        return tuple((str(policy), int(seed), str(error)) for policy, seed, error in json.loads(_text(path)))


def _text(path: Path) -> str:
    with readable(path, "text in UTF-8"):
        return path.read_text(encoding="utf-8")


def _ids(path: Path) -> list[str]:
    with readable(path, "a row a run, column run first", "table"):
        ids = pl.read_csv(path, infer_schema=False)["run"].to_list()
    if not ids:
        raise InputError(str(path), "no runs", "one row or more: the study has not been run")
    return [str(name) for name in ids]


def _run(folder: Path) -> RunFiles:
    missing = [
        name for name in ("run.json", *(f"{frame}.parquet" for frame in FRAMES)) if not (folder / name).is_file()
    ]
    if missing:
        raise InputError(
            str(folder), f"no {', '.join(missing)}", "the files of every run in summary.csv: run the study again"
        )
    return RunFiles(folder, read_record(folder))


@dataclass(frozen=True)
class Setting:
    """Runs that differ in policy and seed alone."""

    # cluster, workload: their names
    cluster: str
    workload: str
    parameters: Mapping[str, Any]  # swept key → value
    runs: Mapping[str, tuple[RunFiles, ...]]  # policy → its runs, one a seed, in the study's order
    labels: Mapping[str, str] = field(default_factory=dict)  # swept key → words for it
    # policy → what it gives where the time of its one log is resampled; empty: that was not asked for
    drawn: Mapping[str, Resampled] = field(default_factory=dict, repr=False)

    @property
    def title(self) -> str:
        """Words for people: workload, cluster and swept values."""
        swept = (f"{self.label(key)} = {value}" for key, value in self.parameters.items())
        return " · ".join([f"{self.workload} on {self.cluster}", *swept])

    def label(self, key: str) -> str:
        """A swept key in words."""
        return self.labels.get(key, key)

    def value(self, policy: str, metric: str) -> Estimate | None:
        """The metric under a policy, over the seeds."""
        return self.rows[policy].estimate(metric)

    def values(self, metric: str) -> dict[str, Estimate]:
        """Policy → metric, for those policies where it is defined."""
        found = {policy: self.value(policy, metric) for policy in self.runs}
        return {policy: value for policy, value in found.items() if value is not None}

    @cached_property
    def rows(self) -> dict[str, ComparedRow]:
        """Policy → its runs, as rows that may be compared."""
        return {
            policy: ComparedRow(
                {run.seed: run.metrics for run in runs}, world_of(runs[0].record), self.drawn.get(policy)
            )
            for policy, runs in self.runs.items()
        }

    @cached_property
    def served_less(self) -> dict[str, float]:
        """Policy → the share of core-time that it served, for those that served less than the best of their world."""
        return served_less(self.rows)

    @property
    def seeds(self) -> int:
        """The most seeds that a policy has."""
        return max(map(len, self.runs.values()))

    @property
    def intervals(self) -> str:
        """What its intervals are, as every caption says it; ``""`` where it has none."""
        return interval_words((len(runs) for runs in self.runs.values()), self.drawn)

    @property
    def worlds(self) -> tuple[str, ...]:
        """The worlds that its rows ran in; policies of different ones are not compared."""
        return tuple(dict.fromkeys(row.world for row in self.rows.values()))

    def marks(self, metric: str, better: str) -> dict[str, Mark]:
        """Policy → its mark in the column of a metric; see :mod:`unrack.metric.estimate`."""
        return marks(self.rows, metric, better, self.served_less)

    def standings(self, metric: str, better: str) -> tuple[MetricStanding, ...]:
        """How the policies compare by a metric, a standing a world."""
        return standings(self.rows, metric, better, self.served_less)


def missed_bound(runs: Iterable[RunFiles]) -> float | None:
    """The share of missed deadlines that no policy could avoid, averaged over the seeds; ``None``: not known.

    Of every seed the least, which holds in every world: where some rows run without models, they have another bound.
    """
    least: dict[int, float] = {}
    for run in runs:
        share = run.metrics.get("bound_missed_deadlines")
        if share is not None:
            least[run.seed] = min(share, least.get(run.seed, share))
    found = estimate(least.values())
    return None if found is None else found.mean


def interval(value: Estimate, least: float, factor: float = 1.0, most: float = math.inf) -> tuple[float, float, float]:
    """The mean and the ends of its interval, times a factor, as charts take them, within ``least`` and ``most``."""
    ends = value.mean, max(value.mean - value.half, least), min(value.mean + value.half, most)
    mean, low, high = (six_digits(end * factor) for end in ends)
    return mean, low, high


def interval_words(seeds: Iterable[int], drawn: Mapping[str, Resampled]) -> str:
    """What the intervals of rows with so many seeds are: ``"95 % interval over 5 seeds"``; ``""`` without any.

    Examples
    --------
    >>> interval_words([5, 3, 5], {}), interval_words([1, 1], {})
    ('95 % interval over 3 to 5 seeds', '')
    """
    for own in drawn.values():
        return own.blocks.words
    several = sorted({count for count in seeds if count > 1})
    if not several:
        return ""
    low = f"{several[0]} to " if len(several) > 1 else ""
    return f"{100 * LEVEL:g} % interval over {low}{counted(several[-1], 'seed')}"


def resampled_runs(runs: Mapping[str, Sequence[RunFiles]], length_s: float) -> dict[str, Resampled]:
    """Policy → what it gives where the time of its one run is cut into blocks and resampled, the same for all.

    ``length_s``: of a block; ``BY_RULE``: see :func:`unrack.metric.bootstrap.blocks_of`. An InputError if a policy has
    several seeds, or the log is too short.
    """
    frames = {}
    for policy, own in runs.items():
        if len(own) > 1:
            got = f"{policy} has {len(own)} seeds"
            raise InputError("--bootstrap", got, "one run a policy: several seeds have intervals without it")
        frames[policy] = own[0].jobs(COLUMNS)
    return resampled(frames, length_s)


def settings_of(
    runs: Iterable[RunFiles], study: Mapping[str, Any] | None = None, bootstrap: float | None = None
) -> tuple[Setting, ...]:
    """Group runs into settings, both in the order in which they first appear.

    Policies go by the label the user gave them; where that would put two different policies of one setting under one
    name, by their full text, with the world where the same policy ran in several. ``study``, as a table, knows the
    names that swept keys are about; ``bootstrap``: resample the time of every log in blocks of so many seconds,
    ``BY_RULE``: of a length by rule.
    """
    runs = list(runs)
    labels = swept_labels(dict.fromkeys(key for run in runs for key in run.parameters), study)
    grouped: dict[str, list[RunFiles]] = {}
    for run in runs:
        key = json.dumps([run.cluster, run.workload, run.parameters], sort_keys=True)
        grouped.setdefault(key, []).append(run)
    settings = []
    for members in grouped.values():
        named: dict[str, list[RunFiles]] = {}
        for run in members:
            named.setdefault(_name(run, members), []).append(run)
        first = members[0]
        own_runs = {name: tuple(own) for name, own in named.items()}
        drawn = {} if bootstrap is None else resampled_runs(own_runs, bootstrap)
        settings.append(Setting(first.cluster, first.workload, first.parameters, own_runs, labels, drawn))
    return tuple(settings)


def _name(run: RunFiles, members: Iterable[RunFiles]) -> str:
    alike = {other.policy for other in members if other.label == run.label}
    return labelled(run.label if len(alike) == 1 else run.policy, run.world)


def told_apart(settings: Sequence[Setting]) -> list[str]:
    """What tells each setting from the others: its workload and cluster where they differ, and swept values."""
    many = [key for key in ("workload", "cluster") if len({getattr(own, key) for own in settings}) > 1]
    return [
        ", ".join([
            *(getattr(own, key) for key in many),
            *(f"{own.label(key)} {value}" for key, value in own.parameters.items()),
        ])
        for own in settings
    ]  # fmt: skip


def policies_of(settings: Iterable[Setting]) -> tuple[str, ...]:
    """Every policy of the settings, in order of first appearance."""
    return tuple(dict.fromkeys(policy for setting in settings for policy in setting.runs))
