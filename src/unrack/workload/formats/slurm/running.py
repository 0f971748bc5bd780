"""Jobs that run when a system is looked at, on the nodes on which they run."""

from __future__ import annotations

import polars as pl

from unrack.slurm_text.hostlists import expand
from unrack.workload.formats.intake import RUNNING, Tally
from unrack.workload.formats.quantities import choice
from unrack.workload.formats.slurm.jobs import RAN, STATE
from unrack.workload.formats.slurm.parsing import Columns
from unrack.workload.formats.source import Locator

_HOSTS = "hosts"


def standing(ours: pl.DataFrame, nodes: pl.Series, at: Locator, tally: Tally, running: str) -> pl.DataFrame:
    """The jobs of a snapshot, those that run on the nodes that they have.

    Parameters
    ----------
    ours
        As of :func:`unrack.workload.formats.slurm.jobs.described`, with what is left of each run, and :data:`RAN` for
        how long those that run have: null of all others.
    nodes
        What is said of the nodes of each.
    at
        Where the rows are.
    running
        ``"kept"`` or ``"anew"``.

    Raises
    ------
    TraceError
        What is said of the nodes is no list of hosts.
    """
    choice("running", running, RUNNING)
    ran = pl.col(RAN)
    if running == "anew":
        return ours.drop(RAN)
    hosts = Columns(pl.DataFrame([nodes.alias("nodelist")]), at).column("nodelist", _host_count, pl.Int64)
    ours = ours.with_columns(nodes.alias("on"), hosts.alias(_HOSTS))
    ours = ours.with_columns(tasks=pl.when(pl.col(STATE) == "COMPLETING").then(_HOSTS).otherwise("tasks"))
    stands = ran.is_not_null() & (pl.col(_HOSTS) == pl.col("tasks")).fill_null(False)
    tally.change_where(ours, "place not known", ran.is_not_null() & ~stands)
    ran = pl.when(stands).then(ran).otherwise(0)
    whole = {name: pl.col(name) + ran for name in ("work_us", "request_us")}
    return ours.with_columns(on=pl.when(stands).then("on"), ran_us=ran, **whole).drop(RAN, _HOSTS)


def _host_count(entry: str) -> int | None:
    return None if entry.startswith("(") or "None assigned" in entry else len(expand(entry))
