"""What a job of PBS asked for: ``select=2:ncpus=8:mem=4gb:ngpus=1``, ``nodes=2:ppn=8:gpus=1``, or totals."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kmgtp]?)([bw]?)", re.IGNORECASE)
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_COUNT = re.compile("[0-9]{1,9}")
_GPUS = ("ngpus", "gpus")
_KNOWN = {"ncpus", "ppn", "mem", "mpiprocs", "ompthreads", "vmem", *_GPUS}


class Request(NamedTuple):
    """Equal tasks."""

    tasks: int  # how many; 0 = not said
    # cores, gpus: of each
    cores: int
    gpus: int
    mb: int | None  # MB of each; ``None`` = not said
    unequal: bool = False  # whether parts of the job differ, of which each counts as the largest
    places: bool = False  # whether it names nodes or their features


def memory_mb(text: str) -> int:
    """MB in an amount such as ``4gb``, rounded up; a plain number is of bytes, ``w`` stands for words of eight.

    Raises
    ------
    ValueError
        It is none, or 4 EB or more.

    Examples
    --------
    >>> memory_mb("4gb"), memory_mb("1048577kb"), memory_mb("1mw"), memory_mb("5")
    (4096, 1025, 8, 1)
    """
    match = _AMOUNT.fullmatch(text.strip())
    mb = -1 if match is None else math.ceil(
        Decimal(match[1]) * _BYTES[match[2].lower()] * (8 if match[3].lower() == "w" else 1) / 2**20
    )  # fmt: skip
    if not 0 <= mb < 2**42:
        raise ValueError(f"{text!r} is not an amount of memory such as 4gb")
    return mb


def span_s(text: str) -> int:
    """Seconds in ``168:00:00``, ``30:00`` or a number of seconds.

    Raises
    ------
    ValueError
        It is none, or is over 68 years.

    Examples
    --------
    >>> span_s("168:00:00"), span_s("30:00"), span_s("90"), span_s("1:00:00:00")
    (604800, 1800, 90, 86400)
    """
    parts = text.strip().split(":")
    if len(parts) > 4 or not all(part.isascii() and part.isdigit() and len(part) < 11 for part in parts):
        raise ValueError(f"{text!r} is not a time such as 24:00:00")
    seconds = sum(int(part) * size for part, size in zip(reversed(parts), (1, 60, 3600, 86_400), strict=False))
    if seconds > 2**31:
        raise ValueError(f"{text!r} is not a time such as 24:00:00, up to 68 years")
    return seconds


def request(fields: Mapping[str, str]) -> Request:
    """What the keys ``Resource_List.…`` of a job say.

    Raises
    ------
    ValueError
        One of them is not what it should be.

    Examples
    --------
    >>> request({"Resource_List.select": "2:ncpus=8:mem=4gb:ngpus=1"})
    Request(tasks=2, cores=8, gpus=1, mb=4096, unequal=False, places=False)
    >>> request({"Resource_List.nodes": "2:ppn=8", "Resource_List.mem": "8gb"})
    Request(tasks=2, cores=8, gpus=0, mb=4096, unequal=False, places=False)
    >>> request({"Resource_List.ncpus": "16", "Resource_List.nodect": "2"}).cores
    8
    """
    asked = {key.removeprefix("Resource_List."): value for key, value in fields.items() if key.startswith("Resource_")}
    listed = asked.get("select") or asked.get("nodes") or asked.get("neednodes") or ""
    if listed:
        found = _parts(listed)
    elif "procs" in asked:
        found = Request(_count(asked["procs"]), 1, 0, None)
    elif "ncpus" in asked:
        nodes = max(_count(asked.get("nodect", "1")), 1)
        found = Request(nodes, -(-_count(asked["ncpus"]) // nodes), 0, None)
    else:
        found = Request(_count(asked.get("nodect", "0")), 1, 0, None)
    tasks = max(found.tasks, 1)
    if not found.gpus and (name := next((name for name in _GPUS if name in asked), None)):
        found = found._replace(gpus=-(-_count(asked[name]) // tasks))
    if found.mb is None:
        if "mem" in asked:
            found = found._replace(mb=-(-memory_mb(asked["mem"]) // tasks))
        elif "pmem" in asked:
            found = found._replace(mb=memory_mb(asked["pmem"]) * found.cores)
    return found


def _parts(text: str) -> Request:
    """Of ``2:ncpus=8:mem=4gb+1:ncpus=1``, or ``2:ppn=8:big+n7:ppn=4``."""
    parts = [_part(part) for part in re.split(r"\+", text.partition("#")[0])]
    sizes = {part[1:4] for part in parts}
    mb = [part.mb for part in parts if part.mb is not None]
    return Request(
        sum(part.tasks for part in parts),
        max(part.cores for part in parts),
        max(part.gpus for part in parts),
        max(mb) if mb else None,
        len(sizes) > 1,
        any(part.places for part in parts),
    )


def _part(text: str) -> Request:
    words = text.strip().split(":")
    counted = _COUNT.fullmatch(words[0]) is not None
    pairs = dict(word.partition("=")[::2] for word in (words[1:] if counted else words))
    if not text.strip() or (not counted and len(words) == 1 and "=" not in words[0] and not words[0][:1].isalpha()):
        raise ValueError(f"{text!r} is not a part of a request such as 2:ncpus=8:mem=4gb")
    cores = _count(pairs.get("ncpus", pairs.get("ppn", "1")))
    gpus = next((_count(pairs[name]) for name in _GPUS if pairs.get(name)), 0)
    mb = memory_mb(pairs["mem"]) if "mem" in pairs else None
    named = {key for key in pairs if key not in _KNOWN}
    return Request(_count(words[0]) if counted else 1, cores, gpus, mb, places=bool(named))


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)
