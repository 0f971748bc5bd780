"""Jobs of Slurm as jobs: what they ask, and what those that run hold.

A job of N nodes becomes N tasks, each with what it asks of a node: cores of whole tasks of Slurm, memory, GPUs. Where
Slurm may choose the number of nodes, it is the fewest on which the job fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from unrack.cluster.formats.described import counter
from unrack.cluster.spec import UNCOUNTED_MB, Cluster
from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import Lease
from unrack.live.driver.contract import Problem
from unrack.live.slurm.machines import SIZE, TYPE, gres
from unrack.live.slurm.orders import FEATURES
from unrack.live.slurm.reading import SHARD, SHARES, NodeShare, SlurmJob
from unrack.resources.gpus.columns import WHOLE
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.site.features import Where
from unrack.resources.site.installed import Site
from unrack.slurm_text.hostlists import compress
from unrack.units import SECOND_US
from unrack.workload.job import Demand, Job

GPUS, COUNT, MILLI, COUNTED, GPU = "gpus", "count", "milli", "counted", "gpu"
SHOWN = 80
"""Characters of a user's words that go into tables."""
LONGEST = 1000
"""Characters of words of which not all may be cut off."""
MOST_PRIORITY = 2**53


class JobReading(NamedTuple):
    """How jobs are read."""

    longest_us: int = 7 * 86_400 * SECOND_US  # how long a job without a limit is taken to run
    memory: bool = True  # whether the memory that jobs ask for counts; ``False``: Slurm does not look at it either
    # Whether a job of which something cannot be kept is one all the same, such as generic resources that the cluster
    # does not count. What it needs in amounts is kept.
    lenient: bool = False
    together: tuple[int, ...] = ()  # of each node, how many of its CPUs are given to jobs together; none: 1
    shares: tuple[tuple[str, int], ...] = ()  # kinds of shares of GPUs that jobs may ask for, and how many a GPU has


STRICT = JobReading()


def job_of(
    job: SlurmJob, cluster: Cluster, how: JobReading = STRICT, *, key: object = None, now_us: int = 0
) -> Job | Problem:
    """What a waiting job asks.

    Parameters
    ----------
    job
        As Slurm tells of it; of an array record, one of its members.
    cluster
        On which it is to run.
    how
        How it is read.
    key
        What it is called; default: its number.
    now_us
        When it came.

    Returns
    -------
    Job or Problem
        Or why it cannot be scheduled by us.
    """
    if how.lenient:
        found = None
    else:
        found = next(odd(job, cluster, how), None)
    if found is not None:
        return Problem(found)
    words = words_of(job, cluster)
    there = nodes_for(cluster, words)
    grain = max((one for one, is_there in zip(how.together, there, strict=False) if is_there), default=1)
    nodes = _nodes(job, cluster, there, grain, how.memory)
    if isinstance(nodes, Problem):
        return nodes
    if job.contiguous and nodes > 1:
        side_by_side = f"contiguous*{nodes}"
        words["constraint"] = f"({words['constraint']})&{side_by_side}" if words["constraint"] else side_by_side
    cores = _cores(job, cluster, nodes, there, grain)
    mb = _memory(job, cluster, cores, nodes, there) if how.memory else 0
    if size := _size(job, cluster, cores, mb, how):
        words["constraint"] = f"({words['constraint']})&{size}" if words["constraint"] else size
    demand = Demand(nodes, cores, mb, devices_of(job, nodes, cluster, how))
    return replace(made(job, demand, how, job.id if key is None else key, now_us), said=words)


def words_of(job: SlurmJob, cluster: Cluster) -> dict[str, str]:
    """What a job says of where it may run, by columns of tables of jobs; ``""``: nothing."""
    site = cluster.places.installed.get("site")
    kinds = [f"{TYPE}:{kind}" for kind in job.types]
    kinds = [kind for kind in kinds if isinstance(site, Site) and kind in site.features]
    features = "&".join([*([f"({job.features})" if kinds else job.features] if job.features else []), *kinds])
    without = [name for name in job.excluded_nodes if name in cluster.number_of]
    return {
        "partition": job.partition, "account": job.account, "qos": job.qos, "constraint": features,
        "req_nodes": compress(job.required_nodes), "exc_nodes": compress(without), "reservation": job.reservation,
        "nice": str(job.nice) if job.nice else "",
    }  # fmt: skip


@lru_cache(maxsize=4096)
def _open(site: Site, *where: str) -> Bools:
    """bool[nodes]: those of a partition or some, with features, and so on, as of :class:`Where`."""
    partitions, features, nodes, without, reservation = where
    names = tuple(name for name in partitions.split(",") if name in site.partitions)
    there = reservation if reservation in site.owners else ""
    try:
        ways = site.ways_there(Where(names or None, features, nodes, without, there))
    except (ClusterError, ValueError):
        ways = ()
    return np.logical_or.reduce([way.nodes for way in ways]) if ways else site.computing


def nodes_for(cluster: Cluster, words: Mapping[str, str]) -> Bools:
    """bool[nodes]: on which a job may run that says this; all, if there are none."""
    site = cluster.places.installed.get("site")
    columns = ("partition", "constraint", "req_nodes", "exc_nodes", "reservation")
    return _open(site, *map(words.__getitem__, columns)) if isinstance(site, Site) else cluster.cores > 0


def lease_of(job: SlurmJob, node_of: Mapping[str, int], cluster: Cluster, how: JobReading = STRICT) -> Lease | None:
    """What a running job holds of the nodes of a cluster, at most what they have; ``None``: nothing.

    Each of its nodes is one task. Which GPUs it has is in the lease where these have shares and Slurm says so; licences
    are not.

    Parameters
    ----------
    node_of
        Name of a node → its number.
    """
    held = held_of(job, node_of, cluster)
    if not held:
        return None
    nodes = sorted(held)
    cores, mb = ([getattr(held[node], name) for node in nodes] for name in ("cores", "memory_mb"))
    lease = Lease.on(-1, nodes, [1] * len(nodes), cores, mb)
    return lease._replace(claims=_gpus_held(job, node_of, cluster, how)) if how.shares and job.gpus else lease


def _gpus_held(job: SlurmJob, node_of: Mapping[str, int], cluster: Cluster, how: JobReading) -> Ints:
    """int64[claims, 2]: places of the GPUs that a job holds, and how much of each."""
    part = next(part for part in cluster.places.parts if part.name == GPUS)
    assert isinstance(part.installed, Fleet)
    first = part.first + part.installed.gpus.first
    of = next((of for kind, of in how.shares if _asked(job, kind)), how.shares[0][1])
    each = [
        (int(first[node_of[name]]) + number, count * (WHOLE // of) or WHOLE)
        for name, gpus in job.gpus.items() for number, count in gpus.items() if name in node_of
    ]  # fmt: skip
    return np.array(sorted(each), np.int64).reshape(-1, 2)


def stands(
    job: SlurmJob, node_of: Mapping[str, int], cluster: Cluster, how: JobReading = STRICT
) -> tuple[Job, Lease] | None:
    """A job that runs, started here or not: what it asks, which is what it holds, and its lease.

    ``None``: it holds nothing of these nodes.
    """
    lease = lease_of(job, node_of, cluster, how)
    if lease is None:
        return None
    devices = devices_of(job, len(job.holds), cluster, how)
    demand = Demand(len(lease.rows), max(int(lease.rows[:, 3].max()), 1), 0, devices)
    return replace(made(job, demand, how, job.id, 0), said=counted_by(job, cluster)), lease


def counted_by(job: SlurmJob, cluster: Cluster) -> dict[str, str]:
    """The words by which a job that runs counts for limits, where it does, and by which it has reserved licences."""
    site = cluster.places.installed.get("site")
    words = {"account": job.account, "qos": job.qos} if isinstance(site, Site) and site.open else {}
    return words | ({"reservation": job.reservation} if job.licences and job.reservation else {})


def held_of(job: SlurmJob, node_of: Mapping[str, int], cluster: Cluster) -> dict[int, NodeShare]:
    """Node → what a job holds of it, at most what it has."""
    found = {}
    for name, one in job.holds.items():
        if (node := node_of.get(name)) is not None:
            cores = min(one.cores, int(cluster.cores[node]))
            has_mb = int(cluster.memory_mb[node])
            found[node] = NodeShare(cores, 0 if has_mb >= UNCOUNTED_MB else min(one.memory_mb, has_mb))
    return found


def odd(job: SlurmJob, cluster: Cluster, how: JobReading = STRICT) -> Iterator[str]:
    """What of a job cannot be kept, a sentence each, of words of ours alone."""
    words = job.partition, job.account, job.qos, job.features, job.reservation
    if not all(len(word) <= LONGEST and word.isprintable() for word in words):
        yield "its partition, account, QOS, features or reservation are no words"
    if job.required_nodes and not set(job.required_nodes) <= cluster.number_of.keys():
        yield "it asks for nodes by name that are none of these"
    if job.counts_features and FEATURES.fullmatch(job.features) is None:
        yield "it asks for numbers of nodes with several features, in words that Slurm cannot be told again"
    if job.beyond:
        yield f"it asks for {', '.join(said(word) for word in job.beyond[:4])}"
    known = _counters(cluster)
    for kind in SHARES:
        name, each = kind + "s" * (kind == SHARD), dict(how.shares).get(kind, 0)
        if _asked(job, kind) and not each:
            yield f"it asks for {name} of GPUs, of which not all that have any have as many"
        elif job.gres.get(kind, 0) > each:
            yield f"it asks for {job.gres[kind]} {name}, which Slurm gives of one GPU, and each has {each}"
        elif _asked(job, kind) and job.exclusive and _several_gpus(cluster):
            yield f"it asks for {name} and for nodes to itself, of which Slurm gives all GPUs, and starts no such job"
    kinds = [kind for kind in sorted({*job.gres, *job.gres_total} - {GPU, *SHARES}) if gres(kind) not in known]
    if kinds:
        yield f"it asks for {len(kinds)} kind{'s' * (len(kinds) != 1)} of generic resources that no node counts"
    if (job.gres.get(GPU, 0) or job.gres_total.get(GPU, 0)) and GPUS not in cluster.places.installed:
        yield "it asks for GPUs, and no node has any"
    if any(counter(name) not in known for name in job.licences):
        yield "it asks for licences that there are none of"


def said(words: str) -> str:
    r"""A user's words for a table: printable, at most ``SHOWN`` characters.

    Examples
    --------
    >>> said("run\n1\x1b[31m")
    'run 1?[31m'
    """
    line = " ".join(words[: 4 * SHOWN].split())[:SHOWN]
    return "".join(character if character.isprintable() else "?" for character in line)


def limit_us(job: SlurmJob, how: JobReading) -> int:
    """How long a job may run, µs."""
    return how.longest_us if job.limit_s is None else max(job.limit_s, 1) * SECOND_US


# --- inside -----------------------------------------------------------------------------------------------------------


def made(job: SlurmJob, demand: Demand, how: JobReading, key: object, now_us: int) -> Job:
    """A job of Slurm that asks for this."""
    priority = min(max(job.priority, 0), MOST_PRIORITY)
    user, name = said(job.user), said(job.name)
    return Job(0, str(key), now_us, limit_us(job, how), None, priority, user, name, demand)


def _tasks(job: SlurmJob, grain: int) -> tuple[int, int]:
    """Its tasks, and the CPUs of each; those of a core that it leaves idle are not another's."""
    each = max(job.cpus_per_task, 1)
    tasks = max(-(-max(job.cpus, 1) // each), 1)
    if 0 < job.threads_per_core < grain:
        each = -(-each // job.threads_per_core) * grain
    if 0 < job.tasks_per_core < grain:
        least = -(-grain // job.tasks_per_core)
        each = -(-each // least) * least
    return tasks, each


def _nodes(job: SlurmJob, cluster: Cluster, there: Bools, grain: int, memory: bool) -> int | Problem:
    """How many nodes it is to have, of those there: the fewest that it says, or that hold its tasks."""
    tasks, each = _tasks(job, grain)
    fewest, most = max(job.nodes_min, len(job.required_nodes), 1), job.nodes_max or len(cluster)
    if job.tasks_per_node:
        fewest = max(fewest, min(-(-tasks // job.tasks_per_node), most))
    if fewest >= most:
        return fewest
    fewest = max(fewest, min(_nodes_of_gpus(job, cluster, there), most))
    rooms = np.maximum(cluster.cores[there] - job.set_aside * grain, 0) // each
    if memory and job.cpu_memory_mb:
        by_memory = np.minimum(rooms, cluster.memory_mb[there] // (each * job.cpu_memory_mb))
        rooms = by_memory if by_memory.any() else rooms
    room = int(rooms.max())
    if not room:
        return Problem(f"a task asks for {each} cores, and the largest node has {int(cluster.cores[there].max())}")
    nodes = max(fewest, -(-tasks // room))
    if nodes > max(most, fewest):
        return Problem(f"{tasks} tasks of {each} cores do not fit on {most} nodes")
    return nodes


def _nodes_of_gpus(job: SlurmJob, cluster: Cluster, there: Bools) -> int:
    """On how many nodes at least a job has the GPUs that it asks for in all, with what it wants with each of them."""
    fleet = cluster.places.installed.get(GPUS)
    if not job.gres_total.get(GPU, 0) or not isinstance(fleet, Fleet):
        return 1
    room = np.diff(fleet.gpus.first)[there]
    for each, has in ((job.gpu_cpus, cluster.cores), (job.gpu_memory_mb, cluster.memory_mb)):
        room = np.minimum(room, has[there] // each) if each else room
    return -(-job.gres_total[GPU] // max(int(room.max()), 1))


def _several_gpus(cluster: Cluster) -> bool:
    """True if all nodes with GPUs have several."""
    fleet = cluster.places.installed.get(GPUS)
    counts = np.diff(fleet.gpus.first) if isinstance(fleet, Fleet) else np.zeros(0, np.int64)
    return bool((counts > 0).any()) and bool((counts != 1).all())


def _asked(job: SlurmJob, kind: str) -> int:
    """How many generic resources of a kind it asks for, of each node or in all."""
    return max(job.gres.get(kind, 0), job.gres_total.get(kind, 0))


def _on_each(job: SlurmJob, kind: str, nodes: int) -> int:
    """How many generic resources of a kind it wants of each of so many nodes."""
    return max(job.gres.get(kind, 0), -(-job.gres_total.get(kind, 0) // max(nodes, 1)))


def _cores(job: SlurmJob, cluster: Cluster, nodes: int, there: Bools, grain: int) -> int:
    """Cores on each node, in whole tasks; where it wants nodes for itself, all of the smallest that are many enough."""
    tasks, each = _tasks(job, grain)
    cores = max(-(-tasks // nodes) * each, job.gpu_cpus * _on_each(job, GPU, nodes))
    cores = (-(-cores // grain) + job.set_aside) * grain
    if job.exclusive:
        return _least(cluster.cores[there & (cluster.cores >= cores)], nodes, cores)
    return cores


def _least(sizes: Ints, nodes: int, otherwise: int) -> int:
    """The smallest size that so many nodes have; if none has as many, the smallest of all."""
    found, counts = np.unique(sizes, return_counts=True)
    many = found[counts >= nodes]
    return int((many if len(many) else found)[0]) if len(found) else otherwise


def _size(job: SlurmJob, cluster: Cluster, cores: int, mb: int, how: JobReading) -> str:
    """The feature of nodes of one size, of which Slurm gives a job all, where not all are; ``""``: any will do."""
    site = cluster.places.installed.get("site")
    sizes = [name for name in site.features if name.startswith(f"{SIZE}:")] if isinstance(site, Site) else []
    whole_mb = how.memory and not (job.node_memory_mb or job.cpu_memory_mb or job.gpu_memory_mb)
    alike = [name for name in sizes if (not job.exclusive or name.startswith(f"{SIZE}:{cores}x"))]
    alike = [name for name in alike if not whole_mb or name.endswith(f"x{mb}")]
    return "" if len(alike) == len(sizes) else f"({'|'.join(alike)})"


def _memory(job: SlurmJob, cluster: Cluster, cores: int, nodes: int, there: Bools) -> int:
    """MB on each node; if it says nothing, all of the smallest nodes with the cores, which is what Slurm gives."""
    if job.node_memory_mb:
        return job.node_memory_mb
    if job.cpu_memory_mb:
        return job.cpu_memory_mb * cores
    if gpus_mb := job.gpu_memory_mb * _on_each(job, GPU, nodes):
        return gpus_mb
    counted = there & (cluster.cores >= max(cores, 1)) & (cluster.memory_mb < UNCOUNTED_MB)
    if job.exclusive:
        counted &= cluster.cores == cores
    return _least(cluster.memory_mb[counted], nodes, 0)


def devices_of(job: SlurmJob, nodes: int, cluster: Cluster, how: JobReading = STRICT) -> dict[str, dict[str, int]]:
    """What a job on so many nodes asks beside cores and memory: GPUs of each node, and what it claims of counters."""
    known = _counters(cluster)
    each = {kind: _on_each(job, kind, nodes) for kind in sorted({*job.gres, *job.gres_total})}
    gpus = each.pop(GPU, 0)
    milli = sum(each.get(kind, 0) * (WHOLE // of) for kind, of in how.shares)
    claims = {counter(name): count for name, count in sorted(job.licences.items()) if counter(name) in known and count}
    claims |= {gres(kind): count for kind, count in each.items() if gres(kind) in known and count}
    found = {GPUS: {COUNT: gpus}} if gpus and GPUS in cluster.places.installed else {}
    if milli:
        found = {GPUS: {COUNT: 1, MILLI: milli}}
    return found | ({COUNTED: claims} if claims else {})


def _counters(cluster: Cluster) -> frozenset[str]:
    installed = cluster.places.installed.get(COUNTED)
    return frozenset() if installed is None else frozenset(installed.quantities)
