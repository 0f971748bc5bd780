"""What a job of Slurm asked for before it was placed: what the driver has put into it is not what it asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from unrack.ledger.lease import Lease
from unrack.live.driver.portable import Names
from unrack.live.driver.state.entry import Entry
from unrack.live.slurm.adapter.together import for_each
from unrack.live.slurm.reading import SlurmJob
from unrack.resources.site.installed import Site


class PlacedComponent(NamedTuple):
    """Where a component of a heterogeneous job was placed, and what it had asked for before that."""

    required: tuple[str, ...] = ()  # the nodes that it asked for by name
    excluded: tuple[str, ...] = ()  # those that it wanted not to have
    partition: str = ""  # the partitions that it asked for, if several
    inside: str = ""  # in which of them it was placed last


class Placing(NamedTuple):
    """Where a job was placed, and what it had asked for before that; kept in :attr:`Entry.own`."""

    # nodes_min, nodes_max: how many nodes it asked for; 0: not said
    nodes_min: int = 0
    nodes_max: int = 0
    wanted: tuple[str, ...] = ()  # the nodes that it asked for by name
    partition: str = ""  # the partitions that it asked for, if several
    inside: str = ""  # in which of them it was placed last
    pinned: bool = False  # whether Slurm has our place in it, perhaps, and not what its user asked for
    parts: tuple[PlacedComponent, ...] = ()  # of a heterogeneous job: its components
    reservation: str = ""  # in which of the reservations that it asks for, if several
    features: str = ""  # those that it asks for, if Slurm, which does not count them on named nodes, is told of none
    # when the controller began that was seen to have what its user asks for again, s since 1970; 0: none was
    booted_s: int = 0
    # whether it asks for more tasks than cores: told how many nodes it has, Slurm counts a core for each task
    crowded: bool = False


def asked_before(entry: Entry) -> Placing:
    """What is kept with a job; nothing yet: as by default."""
    own = entry.own
    return own if isinstance(own, Placing) else Placing()


def placing_of(record: Mapping[str, Any]) -> Placing:
    """What a record of the journal has of it."""
    found = Placing(**{name: record[name] for name in Placing._fields if name in record})
    parts = tuple(PlacedComponent(tuple(one[0]), tuple(one[1]), *one[2:]) for one in found.parts)
    return found._replace(wanted=tuple(found.wanted), parts=parts)


def asks_by_name(own: Placing) -> bool:
    """True if its user asked for something that Slurm has to be told again after a start that failed."""
    return bool(own.wanted or own.partition or own.parts or own.features)


def may_be_forgotten(own: Placing) -> bool:
    """True if a controller that is killed may forget what its user asked for and was given back."""
    return own.pinned and asks_by_name(own)


def as_asked(entry: Entry, job: SlurmJob) -> SlurmJob:
    """A job as it was before we placed it, and before it was given more time."""
    own, placed, known = asked_before(entry), entry.is_placed(job.required_nodes), entry.known
    if known.before_s is not None and job.waits and job.limit_s == known.raised_s:
        job = replace(for_each(job, lambda one: replace(one, limit_s=known.before_s)), limit_s=known.before_s)
    if placed:
        job = replace(job, nodes_min=own.nodes_min or job.nodes_min, nodes_max=own.nodes_max)
    narrowed = own.pinned and own.partition and job.partition == own.inside
    if placed or (own.pinned and not job.required_nodes and (narrowed or not own.partition)):
        job = replace(job, required_nodes=own.wanted, features=job.features or own.features)
    if own.pinned and job.components and len(own.parts) == len(job.components):
        return replace(job, components=tuple(map(_part_as_asked, job.components, own.parts)))
    return replace(job, partition=own.partition) if narrowed else job


def is_as_asked(entry: Entry, job: SlurmJob) -> bool:
    """True if Slurm has in a job what its user asked for by name, and not what the driver has put into it."""

    def by_name(job: SlurmJob) -> list[tuple[list[str], list[str], str, str]]:
        return [(sorted(it.required_nodes), sorted(it.excluded_nodes), it.partition, it.features) for it in job.every]

    return by_name(as_asked(entry, job)) == by_name(job)


def changed_since(entry: Entry, job: SlurmJob) -> Placing:
    """The same of a job that was let go, and that its user may have changed since: what has no place of ours in it."""
    own, placed = asked_before(entry), entry.is_placed(job.required_nodes)
    if job.components or not entry.nodes or (placed and sorted(job.required_nodes) != entry.nodes):
        return own  # a place of before: it is forgotten what was told since
    if not placed and job.required_nodes:
        own = own._replace(wanted=job.required_nodes)
    if own.partition and job.partition != own.inside:
        own = own._replace(partition=_several(job.partition))
    if job.nodes_min != len(entry.nodes):
        own = own._replace(nodes_min=job.nodes_min, nodes_max=job.nodes_max)
    return own


def noted(entry: Entry, job: SlurmJob) -> Placing:
    """What a job asks for that comes into the queue, before it is placed."""
    own = asked_before(entry)
    if not entry.placed:
        own = own._replace(nodes_min=job.nodes_min, nodes_max=job.nodes_max, crowded=job.crowded)
    asked = ((one.required_nodes, one.excluded_nodes, _several(one.partition)) for one in job.components)
    parts = tuple(PlacedComponent(*one) for one in asked)
    own = own._replace(reservation=job.reserved_in, parts=parts)
    features = job.features if job.counts_features else ""
    return own._replace(wanted=job.required_nodes, partition=_several(job.partition), features=features)


def placed(entry: Entry, lease: Lease | None, names: Names) -> Placing:
    """The same once it is placed, with the partitions that have its nodes."""
    own = asked_before(entry)._replace(pinned=True, booted_s=0)
    if lease is None:
        return own
    if lease.parts:
        asked = [entry.job, *entry.job["components"]]
        parts = [
            part._replace(inside=_partition(one, held, names)) if part.partition else part
            for part, one, held in zip(own.parts, asked, lease.parts, strict=True)
        ]
        return own._replace(parts=tuple(parts))
    return own._replace(inside=_partition(entry.job, lease, names)) if own.partition else own


def _partition(asked: Mapping[str, Any], lease: Lease, names: Names) -> str:
    """The first of the partitions of a job, or of a component of one, that has all of its nodes."""
    site = names.cluster.places.installed["site"]
    assert isinstance(site, Site)
    listed = asked["said"]["partition"].split(",")
    found = (name for name in listed if name in site.nodes_of and site.nodes_of[name][lease.nodes].all())
    return str(next(found))


def _several(partition: str) -> str:
    return partition if "," in partition else ""


def _part_as_asked(job: SlurmJob, own: PlacedComponent) -> SlurmJob:
    """A component as it was before we placed it."""
    job = replace(job, required_nodes=own.required, excluded_nodes=own.excluded)
    return replace(job, partition=own.partition) if own.partition and job.partition == own.inside else job
