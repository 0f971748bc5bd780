"""Partitions and reservations, as tables or as ``scontrol -o show`` prints them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from unrack.live.slurm.constraints import Partition, Reservation
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.records import records
from unrack.slurm_text.times import span_s
from unrack.slurm_text.values import listed, number, table, text, words

Made = TypeVar("Made", Partition, Reservation)


def partitions_of(answer: Any) -> tuple[dict[str, Partition], list[str]]:
    """The partitions of an answer of the REST service, by name, and what could not be understood."""
    found, unreadable = _each(answer, "partitions", "name", _partition)
    return {partition.name: partition for partition in found}, unreadable


def reservations_of(answer: Any) -> tuple[tuple[Reservation, ...], list[str]]:
    """The reservations of an answer of the REST service, and what could not be understood."""
    found, unreadable = _each(answer, "reservations", "name", _reservation)
    return tuple(found), unreadable


def partitions_in(printed: str) -> tuple[dict[str, Partition], list[str]]:
    """The partitions that ``scontrol -o show partitions`` printed.

    Examples
    --------
    >>> partitions_in("PartitionName=short MaxNodes=2 MaxTime=00:10:00 DefaultTime=NONE State=UP")[0]["short"].limit_s
    600
    """
    rows = [
        {
            "name": fields["PartitionName"],
            "state": fields.get("State"),
            "max_time_limit": _minutes(fields.get("MaxTime", "")),
            "default_time_limit": _minutes(fields.get("DefaultTime", "")),
            "min nodes per job": _count(fields.get("MinNodes", "")),
            "max_nodes_per_job": _count(fields.get("MaxNodes", "")),
            "maximum_cpus_per_node": _count(fields.get("MaxCPUsPerNode", "")),
            "said": fields,
        }
        for fields in (record.fields for record in records(printed, "PartitionName"))
    ]
    return partitions_of({"partitions": rows})


def reservations_in(printed: str) -> tuple[tuple[Reservation, ...], list[str]]:
    """The reservations that ``scontrol -o show reservations`` printed, with times in s since 1970.

    Examples
    --------
    >>> reservations_in("ReservationName=service StartTime=60 EndTime=120 Nodes=n[1-2] Licenses=(null)")[0]
    (Reservation(name='service', start_s=60, end_s=120, nodes=('n1', 'n2')),)
    """
    rows = [
        {
            "name": fields["ReservationName"],
            "start_time": fields.get("StartTime"),
            "end_time": fields.get("EndTime"),
            "node_list": fields.get("Nodes"),
        }
        for fields in (record.fields for record in records(printed, "ReservationName"))
    ]
    return reservations_of({"reservations": rows})


def _partition(record: Mapping[str, Any]) -> Partition:
    """A partition: flat in 22.05, in tables of maximums, minimums and defaults since."""
    most, least = table(record.get("maximums")), table(record.get("minimums"))
    limit = number(record.get("max_time_limit", most.get("time")), -1)
    default = number(record.get("default_time_limit", table(record.get("defaults")).get("time")), -1)
    state = words(record.get("state", table(record.get("partition")).get("state")))
    return Partition(
        name=text(record.get("name")),
        state=state[0] if state else "",
        limit_s=None if limit < 0 else 60 * limit,
        default_s=None if default < 0 else 60 * default,
        nodes_min=number(record.get("min nodes per job", record.get("min_nodes_per_job", least.get("nodes")))),
        nodes_max=number(record.get("max_nodes_per_job", record.get("maximum_nodes_per_job", most.get("nodes")))),
        node_cores_max=number(record.get("maximum_cpus_per_node", most.get("cpus_per_node"))),
        said=json.dumps(record.get("said", record), sort_keys=True, default=str),
    )


def _reservation(record: Mapping[str, Any]) -> Reservation:
    names = text(record.get("node_list"))
    return Reservation(
        name=text(record.get("name")),
        start_s=number(record.get("start_time")),
        end_s=number(record.get("end_time"), 2**40),
        nodes=tuple(expand(names)) if names else (),
    )


def _each(answer: Any, key: str, name: str, made: Callable[[Mapping[str, Any]], Made]) -> tuple[list[Made], list[str]]:
    found, unreadable = [], []
    for place, record in enumerate(listed(table(answer).get(key))):
        try:
            found.append(made(table(record)))
        except ValueError as error:
            said = record.get(name) if isinstance(record, Mapping) else None
            unreadable.append(
                f"{key[:-1]} {repr(said)[:60] if isinstance(said, str) else f'in place {place}'}: {error}"
            )
    return found, unreadable


def _minutes(said: str) -> int | str | None:
    """Whole minutes; what is no time is left as it is, for whoever reads the record to complain of."""
    try:
        seconds = span_s(said)
    except ValueError:
        return said
    return None if seconds is None else int(seconds) // 60


def _count(said: str) -> str | None:
    return None if said in ("", "UNLIMITED", "INFINITE", "N/A", "NONE") else said
