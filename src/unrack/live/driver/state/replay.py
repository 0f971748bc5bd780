"""The decisions of a journal again, from nothing but what was told: the same, or where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from unrack.errors import InputError
from unrack.live.driver.state.epoch import Beginning, Epoch, replayed


class Difference(NamedTuple):
    """A turn that was decided otherwise."""

    turn: int  # which, from 1
    now_us: int  # when, by the driver's clock
    # was, now: records of the decisions then and now; or what went wrong
    was: Any
    now: Any


class Replay(NamedTuple):
    """What came of playing a journal again."""

    # turns, decisions, epochs: how many there were
    turns: int
    decisions: int
    epochs: int
    # turns that were decided otherwise; the epoch goes on as the driver did only where there are none
    differences: list[Difference]


def replay(records: Iterable[Mapping[str, Any]], policy: str | None = None) -> Replay:
    """Play the records of a journal again.

    Parameters
    ----------
    records
        From a beginning on.
    policy
        Another policy than that of the journal: what it would have decided in the first turn where it differs, of each
        epoch; behind that turn the epoch is no longer played.

    Raises
    ------
    InputError
        They do not begin with a beginning, or hold what is none of the driver's.
    """
    epoch: Epoch | None = None
    turns = decisions = epochs = 0
    lost = False
    differences: list[Difference] = []
    for record in records:
        kind = record.get("k")
        if kind == "begin":
            beginning = Beginning.of_record(record["beginning"])
            epoch = Epoch(beginning if policy is None else beginning._replace(policy=policy))
            epochs, lost = epochs + 1, False
            replayed(epoch, record["told"], record["now"])
            epoch.begun()
            continue
        if kind != "turn":
            continue
        if epoch is None:
            raise InputError("journal", "a turn", "a beginning first")
        turns += 1
        decisions += len(record["decided"])
        if lost:
            continue
        found, fault = replayed(epoch, record["told"], record["now"])
        if node_by_node(found) != node_by_node(record["decided"]) or bool(fault) != bool(record.get("fault")):
            was = record.get("fault") or record["decided"]
            differences.append(Difference(turns, record["now"], was, fault or found))
            lost = True
    if epoch is None:
        raise InputError("journal", "no record of a beginning", "the journal of a driver")
    return Replay(turns, decisions, epochs, differences)


def node_by_node(decided: list[Any]) -> list[Any]:
    """Decisions as records, with a row for each node: equal nodes in a row may be one row or several.

    Examples
    --------
    >>> node_by_node([["start", {"job": 3, "rows": [[1, 2, 1, 4, 0]]}, "first-fit"]])
    [['start', {'job': 3, 'rows': [[1, 1, 1, 4, 0], [2, 1, 1, 4, 0]]}, 'first-fit']]
    """

    def spread(part: Any) -> Any:
        if not isinstance(part, dict) or "rows" not in part:
            return part
        rows = [[node, 1, *held] for first, nodes, *held in part["rows"] for node in range(first, first + nodes)]
        return {**part, "rows": rows}

    return [[spread(part) for part in decision] for decision in decided]
