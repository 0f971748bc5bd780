"""The files of a finished study, as the report reads them."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.study.results.cluster_record import cluster_again
from unrack.study.results.keep import FAILED
from unrack.study.results.record import read_record, readable

Parameters = tuple[tuple[str, str], ...]
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
