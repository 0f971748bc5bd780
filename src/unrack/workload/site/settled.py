"""A cluster and jobs made ready for each other: what jobs say in words becomes numbers that the cluster knows.

Words of a job that a site cannot mean, as it knows not a single one of them, are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.kernels.arrays import Ints
from unrack.resources.contract import Nodes
from unrack.resources.counted.resource import Counters
from unrack.resources.places import Places, is_resource
from unrack.resources.site.binding import Binding
from unrack.resources.site.features import Said, Where, features_in, listed
from unrack.resources.site.installed import QUANTITIES, Site
from unrack.resources.site.keys import Bounded, SiteFile, UserFile
from unrack.resources.site.quotas import counted
from unrack.units import SECOND_US
from unrack.workload.job import CORES, MEMORY, TASKS, Job, JobTable
from unrack.workload.site.sessions import as_long_as_the_longest
from unrack.workload.store import one_row

MOST = 8
"""So many names are told at most."""
ALWAYS = ("reservation", "features")
"""What a site that has none of refuses, too."""


def said_in_vain(site: Site, said: Said) -> tuple[str, int, str] | None:
    """What all jobs that say it say in vain: a field of ``said``, the first such job, what was wanted; or nothing.

    A job that names what others do not is rejected by itself: logs of years name what is no more. Where all do, a file
    or a column is wrong.
    """
    file, queues = site.file, {name for one in site.file.queues for name in (one.name, *one.also)}
    named: dict[str, Iterable[str]] = {
        "partition": site.partitions, "qos": [one.name for one in file.qos], "features": site.features,
        "account": [one.name for one in file.accounts], "reservation": [one.name for one in file.reservations],
        "queue": queues | {name.rpartition("/")[2] for name in queues}, "nodes": [], "without": [],
    }  # fmt: skip
    parts: dict[str, Callable[[str], Iterable[str]]] = {
        "partition": lambda text: map(str.strip, text.split(",")), "features": features_in,
    }  # fmt: skip
    for what, names in named.items():
        there, texts = sorted(set(names)), list(dict.fromkeys(filter(None, getattr(said, what))))
        if what in ("nodes", "without"):  # a list that cannot be read is a fault of its job
            known, there = (any(listed(text, site.cluster_nodes)[::2]) for text in texts), ["the nodes of the cluster"]
        else:
            said_parts = (set(parts.get(what, _one)(text)) for text in texts)
            known = (not some or not some.isdisjoint(there) for some in said_parts)
        if texts and (there or what in ALWAYS) and not any(known):
            some = f"some of {', '.join(there[:MOST])}{' …' if len(there) > MOST else ''}"
            none = f"none: the site has no {what.removesuffix('s')}"
            return what, getattr(said, what).index(texts[0]), some if there else none
    return None


def named_in_vain(job: Job, cluster: Cluster) -> str:
    """The column of a job that names nothing of the site of a cluster; ``""``: none does."""
    site = cluster.places.installed.get("site")
    odd = said_in_vain(site, said_by(one_row(job, None), cluster)) if isinstance(site, Site) else None
    return "" if odd is None else next(name for name in COLUMNS[odd[0]] if job.said.get(name))


def _one(text: str) -> Iterable[str]:
    return [text]


COLUMNS = {
    "account": ("account",), "qos": ("qos",), "partition": ("partition", "queue"),
    "features": ("constraint", "constraints"), "nodes": ("req_nodes",), "without": ("exc_nodes",),
    "reservation": ("reservation",), "queue": ("queue",), "array": ("array",),
}  # fmt: skip
"""What a site looks at → the columns of jobs that may say it; the first that says anything counts."""
SAID = (
    *dict.fromkeys(name for columns in COLUMNS.values() for name in columns),
    "array_limit", "het", "dependency", "begin_s", "preceding", "follows", "think_s", "job_name", "status",
)  # fmt: skip
"""Columns of jobs that decide, on some cluster, where or when they may start."""
BEHIND = "site.behind"
"""A column that queues in order add: the number of the job that each has to let start first; -1: none."""
NOTHING = ("", "-1", "(null)", "None", "N/A")


def settled(cluster: Cluster, jobs: JobTable) -> tuple[Cluster, JobTable]:
    """The cluster as the jobs of a run see it, and the jobs as it sees them.

    On a cluster with a ``site``, jobs ask for where they may run and for what they count for; on any cluster, members
    of arrays count for the limits of these. Components of a heterogeneous job run as long as the longest. Elsewhere
    nothing changes. An InputError as of :func:`refuse_odd`.
    """
    jobs, site = as_long_as_the_longest(jobs), cluster.places.installed.get("site")
    limits = _numbers(jobs, "array_limit", 0)
    if ("site", QUANTITIES[0]) in jobs.devices or not (isinstance(site, Site) or limits.any()):
        return cluster, jobs
    if not isinstance(site, Site):
        site = Site({}, Nodes(cluster.cores, cluster.memory_mb, cluster.rack, cluster.rack_names), "site")
    said = said_by(jobs, cluster)
    _refuse_odd(site, said, jobs)
    binding = Binding(site, said)
    installed = {**cluster.places.installed, "site": binding.bound()}
    columns = binding.where, binding.counts, binding.whose
    asks = {("site", name): column for name, column in zip(QUANTITIES, columns, strict=True)}
    places = Places(installed, cluster.places.nodes)
    if binding.begin_us.any():
        jobs = replace(jobs, extra=_not_before(jobs, binding.begin_us))
    if any(queue.in_order for queue in site.file.queues):
        jobs = replace(jobs, extra=_in_order(jobs, binding))
    jobs = _on_whole_nodes(jobs, binding)
    return replace(cluster, places=places), replace(jobs, devices={**jobs.devices, **asks})


def numbered(cluster: Cluster, row: JobTable) -> JobTable:
    """A new job, as the site of a cluster numbers it, which notes what it has not had yet.

    Parameters
    ----------
    row
        The job, as of :func:`unrack.workload.store.one_row`. It counts for what reservations keep of licences, and for
        limits of a site that is open for that; elsewhere limits are those of jobs that are known when a run begins. One
        with a number keeps it.
    """
    site, key = cluster.places.installed.get("site"), ("site", QUANTITIES[0])
    if not isinstance(site, Site) or key in row.devices or not (row.extra.width or site.windows):
        return row
    binding = Binding(site, said_by(row, cluster), limits=site.open)
    (where,) = binding.wheres or (Where(),)
    number = np.array([site.number(where)], np.int64)
    count = np.array([counted(site, binding)], np.int64)
    owner = np.array([site.owner(one) for one in binding.owners] or [0], np.int64)
    own = {key: number, ("site", QUANTITIES[1]): count, ("site", QUANTITIES[2]): owner}
    return replace(row, devices={**row.devices, **own})


def _on_whole_nodes(jobs: JobTable, binding: Binding) -> JobTable:
    """The jobs as those ask that have nodes to themselves: a task a node, with what its own tasks ask of devices."""
    if (binding.cores == jobs.cores).all() and (binding.each == 1).all():
        return jobs
    asks = jobs.asks.copy()
    asks[TASKS], asks[CORES], asks[MEMORY] = binding.tasks, binding.cores, binding.mb
    devices = {
        key: amounts if is_resource(key[0]) and key[0] != "gpus" else amounts * binding.each
        for key, amounts in jobs.devices.items()
    }
    return replace(jobs, asks=asks, devices=devices)


def said_by(jobs: JobTable, cluster: Cluster) -> Said:
    """What jobs say that a site of a cluster looks at."""
    user = np.array([*jobs.user_names, ""], object)[jobs.user].tolist()
    site, columns_of = cluster.places.installed.get("site"), dict(COLUMNS)
    columns_of |= _by_queues(isinstance(site, Site) and bool(site.file.queues))
    text = {name: _text(jobs, columns) for name, columns in columns_of.items()}
    counters = cluster.places.installed.get("counted")
    once = counters.once if isinstance(counters, Counters) else ()
    totals = {
        f"{kind}.{name}": amounts if kind == "counted" and name in once else amounts * jobs.tasks
        for (kind, name), amounts in jobs.devices.items()
    }
    return Said(
        user, **text, array_limit=_numbers(jobs, "array_limit", 0), runs=jobs.standing.runs,
        submit_us=jobs.submit_us - jobs.standing.ran_us,
        nice=_numbers(jobs, "nice"), tasks=jobs.tasks,
        cores=jobs.cores, mb=jobs.memory_mb, request_us=jobs.request_us, totals=totals,
    )  # fmt: skip


def _by_queues(queues: bool) -> dict[str, tuple[str, ...]]:
    """Where a site has queues, the column ``queue`` names one of them, and elsewhere a partition."""
    return {"partition": ("partition",)} if queues else {"queue": ()}


def _not_before(jobs: JobTable, begin_us: Ints) -> pl.DataFrame:
    """The further columns of jobs that do not begin before a time, µs."""
    begin_s = pl.Series("begin_s", begin_us / SECOND_US)
    if "begin_s" in jobs.extra.columns:
        said = numbers_said(jobs, "begin_s")
        begin_s = pl.DataFrame([said.alias("a"), begin_s.alias("b")]).max_horizontal().alias("begin_s")
    return jobs.extra.with_columns(begin_s)


def _in_order(jobs: JobTable, binding: Binding) -> pl.DataFrame:
    """The further columns of jobs, and which job each has to let start first in its queue."""
    alone = np.zeros(len(jobs), np.bool_)
    for name in ("dependency", "begin_s", "follows"):
        alone |= np.array([bool(text) for text in _text(jobs, (name,))], np.bool_)
    behind, last = np.full(len(jobs), -1), dict[str, int]()
    for job in np.flatnonzero(~alone).tolist():
        queue = binding.queue_of(job)
        if queue is not None and queue.in_order:
            behind[job] = last.get(queue.name, -1)
            last[queue.name] = job
    return jobs.extra.hstack([pl.Series(BEHIND, behind)])


def idle(site: Site, jobs: JobTable) -> str:
    """Why a site can change nothing for these jobs, in words; ``""``: it can.

    That no job uses one of its partitions, features, qualities of service, accounts or limits is no reason.
    """
    file, said = site.file, {name for name, columns in COLUMNS.items() if _said(jobs, columns) is not None}
    rules = (
        file.limits,
        file.priority,
        file.partitions and ("partition" in said or any(one.default for one in file.partitions)),
        said & {"features", "nodes", "without"},
        file.reservations,
        file.qos and "qos" in said,
        file.queues and ("queue" in said or "account" in said or any(one.default for one in file.queues)),
        file.accounts and ("account" in said or jobs.user_names),
        ("site", QUANTITIES[0]) in jobs.devices,
    )
    over = "" if file.over_time is None else ", and none runs beyond its limit by more than over_time"
    return "" if any(rules) else f"no job names a partition, a feature, an account or a quality of service of it{over}"


def unused(site: Site, jobs: JobTable) -> Iterator[tuple[str, str]]:
    """What a site says and no job can meet, each with why, in words; :func:`idle` says whether all of it is so."""
    file = site.file
    bounds: list[SiteFile | Bounded | UserFile] = [file, *file.partitions, *file.qos, *file.accounts]
    bounds += [user for one in file.accounts for user in one.users]
    named = {name for one in bounds for limit in one.limits for name in limit.amounts}
    named |= {name for queue in file.queues for quota in queue.quotas for name in quota.nominal}
    asked = {".".join(key) for key, amounts in jobs.devices.items() if bool((amounts > 0).any())}
    for name in sorted(name for name in named if "." in name and name not in asked):
        yield f"limits and quotas of {name}", "no job asks for it"
    if file.preempt is None and any(
        [one.preempt_mode for one in file.partitions] + [one.preempt_mode for one in file.qos]
    ):
        yield "preempt_mode", "there is no table site.preempt"
    ranks = {"partition": file.partitions, "qos": file.qos, "quota": file.queues}
    if file.preempt is not None and not ranks[file.preempt.by]:
        yield "preempt", f"nothing of the site says which jobs are stopped by {file.preempt.by}"
    if (file.preempt is None or file.preempt.by != "quota") and any(
        one.reclaim != "never" or one.within != "never" for one in file.queues
    ):
        yield "reclaim and within of queues", "there is no table site.preempt with by = 'quota'"
    for one in file.reservations:
        if len(jobs) and all(end <= jobs.submit_us[0] for _, end in one.windows_us):
            yield f"reservation {one.name}", "it is over before the first job comes"


def _said(jobs: JobTable, columns: tuple[str, ...]) -> pl.Series | None:
    """The first column that says anything, ``""`` where it does not; ``None``: there is none."""
    for name in columns:
        if name in jobs.extra.columns:
            texts = [(text or "").strip() for text in jobs.extra[name].cast(pl.String).to_list()]
            if any(said := ["" if text in NOTHING else text for text in texts]):  # Polars takes 1 ms for each job alone
                return pl.Series(name, said)
    return None


def _text(jobs: JobTable, columns: tuple[str, ...]) -> list[str]:
    said = _said(jobs, columns)
    return [""] * len(jobs) if said is None else said.to_list()


def numbers_said(jobs: JobTable, name: str) -> pl.Series:
    """The numbers of a further column; 0: nothing is said.

    An InputError if something else is said, or one that is not finite; it names the first job.
    """
    said = _said(jobs, (name,))
    if said is None:
        return pl.Series(name, np.zeros(len(jobs)))
    found = said.cast(pl.Float64, strict=False)
    if (odd := (~found.is_finite().fill_null(False) & (said != "")).arg_true()).len():
        job = int(odd[0])
        raise InputError(f"job {jobs.ids[job]}, {name}", repr(said[job][:80]), "a number")
    return found.fill_null(0.0).clip(-(2.0**53), 2.0**53).alias(name)


def _numbers(jobs: JobTable, name: str, least: int = -(2**53)) -> Ints:
    found = numbers_said(jobs, name).to_numpy()
    if (odd := np.flatnonzero((found < least) | (found != np.floor(found)))).size:
        job = int(odd[0])
        wanted = "a whole number" + (f", {least} or more" if least > -(2**53) else "")
        raise InputError(f"job {jobs.ids[job]}, {name}", f"{found[job]:g}", wanted)
    return found.astype(np.int64)


def refuse_odd(cluster: Cluster, jobs: JobTable) -> None:
    """Refuse jobs of which all that name, say, a quality of service name none that the cluster has: an InputError."""
    site = cluster.places.installed.get("site")
    _numbers(jobs, "array_limit", 0)
    if isinstance(site, Site) and ("site", QUANTITIES[0]) not in jobs.devices:
        _refuse_odd(site, said_by(jobs, cluster), jobs)


def _refuse_odd(site: Site, said: Said, jobs: JobTable) -> None:
    if odd := said_in_vain(site, said):
        what, job, want = odd
        column = next(name for name in COLUMNS[what] if _said(jobs, (name,)) is not None)
        raise InputError(f"job {jobs.ids[job]}, {column}", repr(getattr(said, what)[job][:80]), want)
