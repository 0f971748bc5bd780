"""What a journal keeps of a driver that has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unrack.errors import InputError
from unrack.live.driver.state.table import Ended

VERSION = 1
"""Of the records that a driver writes."""


class KeptDriver(NamedTuple):
    """What a journal keeps of a driver that has ended: origin of time, last time, entries, jobs that are over."""

    origin_s: float
    now_us: int
    entries: dict[str, dict[str, Any]]
    ended: dict[str, Sequence[Any]]


def kept_of(records: Sequence[Mapping[str, Any]]) -> KeptDriver | None:
    """What the records of a journal say, the newest beginning first; ``None``: nothing yet.

    Raises
    ------
    InputError
        They are those of a later version.
    """
    kept: KeptDriver | None = None
    for record in records:
        if record.get("k") == "begin":
            if record.get("version") != VERSION:
                raise InputError("journal", f"version {json.dumps(record.get('version'))}", f"version {VERSION}")
            ended = dict(record.get("ended", {}))
            kept = KeptDriver(record["origin_s"], record["now"], dict(record["entries"]), ended)
        elif kept is not None and record.get("k") in ("turn", "did"):
            for key, entry in record["entries"].items():
                if entry is None:
                    kept.entries.pop(key, None)
                else:
                    kept.entries[key] = entry
            kept.ended.update(
                (over["key"], Ended.of_record(over)) for over in record.get("over", ()) if over.get("ours")
            )
            kept = kept._replace(now_us=max(kept.now_us, record["now"]))
    return kept
