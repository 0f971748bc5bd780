"""Licences, partitions and reservations, as ``scontrol -o show`` prints them, and what could not be understood."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from unrack.live.slurm.constraints import Partition, Reservation
from unrack.live.slurm.reading import Licence
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.values import BY_NODE, number, records, span_s, text

Made = TypeVar("Made")
_NO_LIMIT = frozenset({"", "UNLIMITED", "INFINITE", "N/A", "NONE"})


def licences_in(printed: str) -> tuple[dict[str, Licence], list[str]]:
    """The licences, by name.

    Examples
    --------
    >>> licences_in("LicenseName=matlab Total=4 Used=1 Free=3 Reserved=0 Remote=no")
    ({'matlab': Licence(total=4, used=1)}, [])
    """

    def made(_: str, fields: Mapping[str, str]) -> Licence:
        return Licence(number(fields.get("Total")), number(fields.get("Used")))

    return _read(printed, "licence", "LicenseName", made)


def partitions_in(printed: str) -> tuple[dict[str, Partition], list[str]]:
    """The partitions, by name.

    Examples
    --------
    >>> partitions_in("PartitionName=short MaxNodes=2 MaxTime=00:10:00 DefaultTime=NONE State=UP")[0]["short"].limit_s
    600
    """

    def made(name: str, fields: Mapping[str, str]) -> Partition:
        return Partition(
            name=name,
            state=text(fields.get("State")).upper(),
            limit_s=_whole_minutes_s(fields.get("MaxTime", "")),
            default_s=_whole_minutes_s(fields.get("DefaultTime", "")),
            nodes_min=_count(fields.get("MinNodes", "")),
            nodes_max=_count(fields.get("MaxNodes", "")),
            node_cores_max=_count(fields.get("MaxCPUsPerNode", "")),
            said=json.dumps(fields, sort_keys=True),
            fields=fields,
        )

    return _read(printed, "partition", "PartitionName", made)


def hidden_in(partitions: Mapping[str, Partition], nodes: Collection[str]) -> list[str]:
    """The partitions of which Slurm does not show some nodes, a sentence each.

    Examples
    --------
    >>> hidden_in(partitions_in("PartitionName=short Nodes=n[1-3]")[0], ["n1", "n2", "n3"])
    []
    >>> hidden_in(partitions_in("PartitionName=short Nodes=n[1-3]")[0], ["n1", "n2"])
    ['partition short: some nodes are not shown; those of a cloud that are powered down need PrivateData=cloud']
    """
    found = []
    for name, partition in sorted(partitions.items()):
        with contextlib.suppress(ValueError):
            listed = text(partition.fields.get("Nodes"))
            if listed and not set(expand(listed)) <= set(nodes):
                why = "some nodes are not shown; those of a cloud that are powered down need PrivateData=cloud"
                found.append(f"partition {repr(name)[1:-1][:60]}: {why}")
    return found


def reservations_in(printed: str) -> tuple[tuple[Reservation, ...], list[str]]:
    """The reservations, with times in s since 1970.

    Examples
    --------
    >>> found, _ = reservations_in("ReservationName=service StartTime=60 EndTime=120 Nodes=n[1-2] Users=ann")
    >>> found[0].nodes, found[0].fields["Users"]
    (('n1', 'n2'), 'ann')
    """

    def made(name: str, fields: Mapping[str, str]) -> Reservation:
        nodes = text(fields.get("Nodes"))
        start_s, end_s = number(fields.get("StartTime")), number(fields.get("EndTime"), 2**40)
        return Reservation(name, start_s, end_s, tuple(expand(nodes)) if nodes else (), fields)

    found, unreadable = _read(printed, "reservation", "ReservationName", made, BY_NODE)
    return tuple(found.values()), unreadable


def _read(
    printed: str, what: str, key: str, made: Callable[[str, Mapping[str, str]], Made], listed: Collection[str] = ()
) -> tuple[dict[str, Made], list[str]]:
    found, unreadable = {}, []
    for record in records(printed, key, listed):
        name = text(record.fields[key])
        try:
            found[name] = made(name, record.fields)
        except ValueError as error:
            unreadable.append(f"{what} {repr(name)[:60]}: {error}")
    return found, unreadable


def _whole_minutes_s(said: str) -> int | None:
    seconds = span_s(said)
    return None if seconds is None else int(seconds) // 60 * 60


def _count(said: str) -> int:
    return 0 if said in _NO_LIMIT else number(said)
