"""The failures of a study: those that its file lists, and those that are drawn for every seed."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.sim.faults.fault import Fault, random_faults
from unrack.study.input.document import Document
from unrack.study.input.file import RandomFaultsTable, StudyTable
from unrack.workload.job import Workload

DAY_US = 86_400_000_000


def fixed_faults(table: StudyTable, document: Document, clusters: Sequence[Cluster]) -> tuple[Fault, ...]:
    """The failures that the study lists; a StudyError if one of the clusters does not have a domain."""
    fixed = tuple(Fault(fault.domain, fault.at, fault.repair_after) for fault in table.faults)
    for cluster in clusters:
        for i, fault in enumerate(fixed):
            with document.part("faults", i, "domain", kind=ClusterError):
                cluster.domain(fault.domain)
    return fixed


def random_levels(table: StudyTable, document: Document, clusters: Sequence[Cluster]) -> tuple[RandomFaultsTable, ...]:
    """The levels of failure domains at which the study draws failures.

    A StudyError if one of the clusters does not have a level, or a level is named twice.
    """
    found: list[RandomFaultsTable] = []
    single = not isinstance(document.table.get("random_faults"), list)
    for i, entry in enumerate(table.random_faults):
        at = ("random_faults",) if single else ("random_faults", i)
        level = document.validated(RandomFaultsTable, entry, at)
        if any(level.level == other.level for other in found):
            raise document.fault((*at, "level"), f"a second {level.level!r}", "every level once")
        for cluster in clusters:
            if level.level not in cluster.levels:
                want = f"a level of {cluster.name}: {', '.join(cluster.levels)}"
                raise document.fault((*at, "level"), repr(level.level), want)
        found.append(level)
    return tuple(found)


def drawn_faults(
    levels: Sequence[RandomFaultsTable], cluster: Cluster, workload: Workload, seed: int
) -> tuple[Fault, ...]:
    """Random failures up to twice the time of the last submission plus a day: later ones hardly matter."""
    until = 2 * int(workload.jobs.submit_us[-1]) + DAY_US
    drawn = [random_faults(cluster, level.mtbf, level.mttr, until, seed, level.level) for level in levels]
    return tuple(fault for faults in drawn for fault in faults)
