"""A finished run as inputs again, from its own folder: the traces and the study file are not needed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError
from unrack.metric.holdings import holdings
from unrack.policy.around import RoundStory
from unrack.policy.contract import Policy
from unrack.policy.file import load_policy
from unrack.policy.table import make_policy
from unrack.resources.places import is_resource
from unrack.sim.explained.job import Story, explain, explain_round
from unrack.sim.faults import Fault
from unrack.sim.world import World
from unrack.slowdown.combined import Together, make_together
from unrack.slowdown.memory.settings import MemoryContention, make_contention
from unrack.slowdown.model import Model
from unrack.study.results.keep import CURVES, LISTED, PAST, PROFILES, ROUNDS, cluster_again
from unrack.study.results.record import RECORD, believed, read_record, readable
from unrack.units import SECOND_US
from unrack.workload.job import JobTable, job_table
from unrack.workload.site.graph import STATE_KEPT
from unrack.workload.tier_asks import NO_CEILING, TierAsks, tier_asks
from unrack.workload.under_way import UnderWay
from unrack.workload.usage.curves import curves_again


@dataclass(frozen=True, eq=False)
class Again:
    """What a finished run was made of."""

    folder: Path  # its folder
    record: dict[str, Any]  # its ``run.json``
    frame: pl.DataFrame  # its jobs

    def index(self, job: str) -> int:
        """The number of a job, by the trace's id; an InputError if there is none."""
        ids = self.frame["job"].cast(pl.String)
        found = (ids == job).arg_true()
        if len(found) == 0:
            near = f"{ids[0]} … {ids[-1]}" if len(ids) else "none"
            raise InputError("job", repr(job), f"the id of a job of this run ({len(ids)} jobs: {near})")
        return int(found[0])

    def story(self, job: str, policy_file: str | None = None) -> Story:
        """The life of a job: the run is simulated once more; ``policy_file`` says where the policy's file is now.

        An InputError if there is no such job, the policy's file is not where it was, or the run was not simulated from
        a study.
        """
        self._refuse_past()
        index = self.index(job)
        with believed(self.folder, [self.record]):
            return explain(self.cluster(), self.jobs(), self.policy(policy_file), index, self._seed, self._world())

    def round_story(self, from_us: int | None = None, policy_file: str | None = None) -> RoundStory:
        """The first round at or after a time (µs); the run is simulated once more up to it. Others as of :meth:`story`.

        ``None``: the round that started most jobs; of several that in which most took part, the first. A PolicyError if
        the policy tells no rounds, an InputError if there is no round then or later.
        """
        self._refuse_past()
        with believed(self.folder, [self.record]):
            policy = self.policy(policy_file)
            at_us = self._busiest_us() if from_us is None else from_us
            return explain_round(self.cluster(), self.jobs(), policy, at_us, self._seed, self._world())

    @property
    def _seed(self) -> int:
        return int(self.record["seed"])

    def _refuse_past(self) -> None:
        """To simulate it once more would tell what did not happen."""
        if PAST in self.record:
            got = "a run that was made of the journal of a driver"
            raise InputError(str(self.folder), got, "a run of a study; unrack explain --live JOB tells of the journal")

    def _busiest_us(self) -> int:
        """When most jobs started in a round; 0 where that is not known."""
        path = self.folder / f"{ROUNDS}.parquet"
        rounds = read_table(path) if path.is_file() else None
        if rounds is None or not rounds.height:
            return 0
        busiest = rounds.sort(["placed", "tried", "time_s"], descending=[True, True, False])
        return round(float(busiest["time_s"][0]) * SECOND_US)

    def _world(self) -> World:
        """How fast its jobs ran, what failed and what changes cost."""
        record = self.record
        return World(
            models=[Model(**{key: _tupled(value) for key, value in one.items()}) for one in record.get("models", ())],
            contention=self.contention(),
            slowdowns=self.slowdowns,
            faults=[Fault(*fault) for fault in record["faults"]],
            changes=record.get("memory_changes"),
            ties=record["ties"],
        )

    def holdings(self) -> pl.DataFrame:
        """All that jobs held, of the tables that were kept; see :func:`unrack.metric.holdings.holdings`."""
        paths = {name: self.folder / f"{name}.parquet" for name in ("placements", "loans", "shares", "claims")}
        there = {name: path for name, path in paths.items() if name == "placements" or path.is_file()}
        return holdings(self.cluster(), {name: read_table(path) for name, path in there.items()})

    def jobs(self) -> JobTable:
        """The jobs as they were given to the simulator."""
        frame = self.frame

        def micro(column: str) -> np.ndarray[Any, np.dtype[np.int64]]:
            values = (frame[column].fill_null(-1 / SECOND_US) * SECOND_US).round().cast(pl.Int64)
            return np.ascontiguousarray(values.to_numpy())

        return job_table(
            ids=frame["job"],
            submit_us=micro("submit_s"),
            work_us=micro("work_s"),
            request_us=micro("request_s"),
            deadline_us=micro("deadline_s"),
            tasks=frame["tasks"].to_numpy(),
            cores=frame["cores_per_task"].to_numpy(),
            memory_mb=frame["memory_mb_per_task"].to_numpy(),
            priority=frame["priority"].to_numpy(),
            user=frame["user"],
            app=frame["app"],
            devices={
                (kind, name): frame[f"{kind}.{name}"].to_numpy()
                for kind, names in self._quantities().items()
                for name in names
                if f"{kind}.{name}" in frame.columns
            },
            extra=_said(frame),
            slo=_asks(frame),
            under_way=_under_way(frame),
            usage=curves_again(read_table(path), len(frame)) if (path := self.folder / CURVES).is_file() else None,
        )

    def _quantities(self) -> dict[str, list[str]]:
        kept = self.record["cluster"].get("devices", {"kinds": [], "quantities": []})
        found = dict(zip(kept["kinds"], kept["quantities"], strict=True))
        for column in self.frame.columns:
            resource, dot, quantity = column.partition(".")
            if dot and is_resource(resource) and resource != "site":  # numbers that a run makes of what jobs say
                found.setdefault(resource, []).append(quantity)
        return found

    def cluster(self) -> Cluster:
        """The cluster, from the columns that were kept."""
        return cluster_again(self.record["cluster"])

    @property
    def slowdowns(self) -> Together | None:
        """How the speeds by devices and by memory combined; ``None``: not both set speeds."""
        kept = self.record.get("slowdowns")
        return None if kept is None else make_together(kept)

    def contention(self) -> MemoryContention | None:
        """How jobs slowed each other down through memory; ``None``: they did not.

        A TraceError if the profiles that were kept with the run are gone, or have been changed to something impossible.
        """
        kept = self.record.get("contention")
        if kept is None:
            return None
        settings = {key: value for key, value in kept.items() if key not in ("profiles", "note")}
        return make_contention({**settings, "profiles": self.folder / PROFILES})

    def policy(self, file: str | None = None) -> Policy[Any]:
        """The policy; ``file`` (``FILE.py:NAME``) says where to find one that came from a file.

        A PolicyError if it came from a file that is not in the working folder any more.
        """
        table = dict(self.record["policy_table"])
        label = table.pop("label")
        table.pop("world", None)  # its models and contention are those of the record
        if "file" in table:
            spec = str(file or table["file"])
            if file is None and not Path(spec.rpartition(":")[0]).is_file():
                raise PolicyError("policy file", f"{spec!r}, which is not in this folder", "--policy FILE.py:NAME")
            return load_policy(spec)
        if file is not None:
            raise PolicyError("--policy", repr(file), f"nothing: the run's policy is built in ({label})")
        return make_policy(table.pop("name"), table, label)


def _under_way(frame: pl.DataFrame) -> UnderWay | None:
    if not {"on", "ran_s"} <= set(frame.columns) or frame["on"].dtype != pl.String:
        return None
    ran_us = (frame["ran_s"].fill_null(0) * SECOND_US).round().cast(pl.Int64)
    return UnderWay(frame["on"], ran_us.to_numpy())


def _asks(frame: pl.DataFrame) -> TierAsks | None:
    if "local_asked_mb" not in frame.columns:
        return None
    replicas = {"group", "spread"} <= set(frame.columns)  # one of them alone is of the trace
    return tier_asks(
        frame["local_asked_mb"].to_numpy(),
        frame["ceiling_mb"].fill_null(NO_CEILING).to_numpy(),
        group=frame["group"] if replicas else None,
        spread=frame["spread"] if replicas else None,
        forbidden=frame["forbidden"] if "forbidden" in frame.columns else None,
    )


def _said(frame: pl.DataFrame) -> pl.DataFrame:
    """All columns, as any may be one of the trace; ``state`` is that of the trace, if it had one."""
    kept = frame.drop("state")
    return kept.with_columns(frame[STATE_KEPT].alias("state")) if STATE_KEPT in frame.columns else kept


def _tupled(value: Any) -> Any:
    return tuple(_tupled(part) for part in value) if isinstance(value, list) else value


def finished_run(directory: Path, chosen: str | None) -> Again:
    """A finished run of a directory that ``unrack run`` wrote; an InputError if there is none, or not one.

    ``chosen``: its id or the start of it, or its policy's label; may be left out if there is only one run.
    """
    folders = [path.parent for path in _records(directory)]
    if not folders:
        raise InputError(str(directory), "no finished runs", "a directory that 'unrack run' wrote")
    records = {folder: read_record(folder) for folder in folders}
    matching = [
        folder for folder in folders
        if chosen is None or folder.name.startswith(chosen) or records[folder]["policy_label"] == chosen
    ]  # fmt: skip
    if len(matching) != 1:
        listed = ", ".join(f"{records[folder]['policy_label']} ({folder.name})" for folder in matching or folders)
        got = "no choice" if chosen is None else f"{chosen!r}, which is {'none' if not matching else 'several'} of them"
        raise InputError("--run", got, f"one of: {listed}")
    folder = matching[0]
    return Again(folder, records[folder], read_table(folder / "jobs.parquet"))


def read_table(path: Path) -> pl.DataFrame:
    """A table of a run; an InputError if it is gone, or cannot be read."""
    with readable(path):
        return pl.read_parquet(path)


def _records(directory: Path) -> list[Path]:
    """The records of the finished runs of the study that used the directory last, by id."""
    found = sorted((directory / "runs").glob(f"*/{RECORD}"))
    summary, listed = directory / "summary.csv", directory / "runs" / LISTED
    path = summary if summary.is_file() else listed
    if not path.is_file():
        return found
    with readable(path):
        ids = pl.read_csv(path, infer_schema=False)["run"] if path == summary else json.loads(path.read_text("utf-8"))
        of_study = set(map(str, ids))
    return [path for path in found if path.parent.name in of_study]
