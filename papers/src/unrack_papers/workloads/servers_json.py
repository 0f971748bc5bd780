"""Servers that ask for tiers of memory, in JSON: ``{"servers": [{"cores": 4, "mem": 8192, ...}, ...]}``.

The names of the fields are those of a table's columns, usual names included; so are their meanings. What else the file
holds (``pools``, ``clusters``) is about the data centre and not read here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import polars as pl

from unrack import Workload
from unrack.units import SECOND_US
from unrack.workload.formats import (
    Locator,
    Source,
    TableColumns,
    as_workload,
    find_aliases,
    load,
    make_format,
    mapped,
    memory_unit_mb,
    numbers,
    refuse,
    shown,
    text_bytes,
    time_option_us,
)
from unrack.workload.generate import BETWEEN
from unrack_papers.workloads.server_generator import FOREVER, FOREVER_S

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]')
_PAIR = ("group", "spread")
"""In a table they count only together, as logs have other groups; here always."""


def read_servers(
    path: str | os.PathLike[str] | Source, *, lifetime: float | str = FOREVER, memory_unit: str = "MB"
) -> Workload:
    """Read the servers of a JSON file, such as the one published with the paper.

    Parameters
    ----------
    path
        The file; it may be packed by gzip.
    lifetime
        How long servers stay that do not say so: s, text such as ``"2 h"``, or ``"forever"``. Those that do not say
        when they arrive do so at time 0.
    memory_unit
        As of :func:`unrack.workload.formats.table.read.read_table`.

    Raises
    ------
    TraceError
        Not JSON, no list of servers, a server without cores or memory, an id twice, or asks that cannot be; the error
        names the line on which the server begins, and the field.
    InputError
        An option has a value it cannot have.

    References
    ----------
    Farshin et al. (2021), as in :mod:`unrack.workload.tier_asks`: section 5.1.
    """
    forever = lifetime == FOREVER
    stays_us = 0 if forever else time_option_us("lifetime", lifetime, "a time such as '2 h', or 'forever'")
    lifetime_s = FOREVER_S if forever else stays_us / SECOND_US
    unit_mb = memory_unit_mb(memory_unit)
    source = load(path)
    entries, at = _servers(source)
    frame = _frame(entries, at)
    named = mapped(frame, {name: name for name in _PAIR if name in frame.columns}, at, {})
    other = find_aliases(frame.columns, named, at)
    named |= {ours: found.column for ours, found in other.items()}
    _complete(frame, named, at)
    table = TableColumns(
        frame,
        at,
        named,
        {"submit": 0, "run": lifetime_s},
        {},
        Fraction(SECOND_US),
        unit_mb,
        "task",
        {ours: found.factor for ours, found in other.items() if found.factor is not None},
        False,
    )
    return as_workload(table, "servers", other, "truncate")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name}, which is no number")


def _servers(source: Source) -> tuple[list[Mapping[str, Any]], Locator]:
    """The entries, and where they are."""
    try:
        text = text_bytes(source).decode()
        content = json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise source.fault(None, "", "text that is not UTF-8", "JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        raise source.fault(error.lineno, "", f"no JSON: {error.msg}", "a JSON object with 'servers'") from None
    except (ValueError, RecursionError) as error:
        raise source.fault(None, "", str(error)[:100], "a JSON object with 'servers'") from None
    if not isinstance(content, dict) or "servers" not in content:
        got = f"an object with {shown(', '.join(content))}" if isinstance(content, dict) else "no object"
        raise source.fault(None, "servers", got, "a JSON object with 'servers'")
    entries = content["servers"]
    if not isinstance(entries, list) or not entries:
        raise source.fault(None, "servers", "an empty list" if entries == [] else shown(entries), "a list of servers")
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise source.fault(None, f"servers[{place}]", shown(entry), 'an object such as {"cores": 2, "mem": 4096}')
    lines: list[int] = []  # found when they are first asked for

    def line_of(row: int) -> int:
        if not lines:
            lines.extend(_lines(text))
        return lines[row]

    return entries, Locator(source, line_of, apart=False)


def _lines(text: str) -> list[int]:
    """The line, from 1, on which each object of the list of servers begins."""
    starts: list[int] = []
    depth, before, key, inside = 0, "", "", False
    for token in _TOKEN.finditer(text):
        now = token[0]
        if now == ":" and depth == 1:
            key = json.loads(before)
        if now in "[{":
            depth += 1
            if depth == 2:
                inside = key == "servers"
                starts = [] if inside else starts
            elif depth == 3 and inside:
                starts.append(token.start())
        elif now in "]}":
            depth -= 1
        before = now
    lines, line, since = [], 1, 0
    for start in starts:
        line += text.count("\n", since, start)
        since = start
        lines.append(line)
    return lines


def _frame(entries: Sequence[Mapping[str, Any]], at: Locator) -> pl.DataFrame:
    """A column for each name, as in the file; null where an entry does not have it."""
    names = list(dict.fromkeys(name for entry in entries for name in entry))
    return pl.DataFrame([pl.Series(name, *_typed(name, [entry.get(name) for entry in entries], at)) for name in names])


def _typed(name: str, values: list[Any], at: Locator) -> tuple[list[Any], Any]:
    """The values of a column, and their type."""
    for row, value in enumerate(values):
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            values[row] = BETWEEN.join(value)
        elif isinstance(value, (list, dict)):
            raise at.fault(row, name, shown(value), "a number, text, or a list of names")
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise at.fault(row, name, "a number beyond 2**63", "a number that fits")
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int}:
        return values, pl.Int64
    if kinds <= {int, float}:
        return values, pl.Float64
    if kinds == {bool}:
        return values, pl.Boolean
    return [None if value is None else str(value) for value in values], pl.String


def _complete(frame: pl.DataFrame, named: Mapping[str, str], at: Locator) -> None:
    """Refuse servers without a size, and two of one id; the shared rules would drop or number them."""
    for ours, called, least in (("cores", "cores", 1), ("memory", "mem", 0)):
        if ours not in named:
            raise at.fault(0, called, "nothing", f"a number: servers have {', '.join(frame.columns) or 'nothing'}")
        values = numbers(frame[named[ours]], named[ours], at)
        refuse(values.is_null(), pl.Series(["nothing"]).new_from_index(0, len(values)), named[ours], at, "a number")
        refuse(values < least, values, named[ours], at, f"{least} or more")
    for ours in ("submit", "run"):
        if ours in named and (values := frame[named[ours]]).dtype.is_numeric():
            refuse(values < 0, values, named[ours], at, "0 or more")
    if "id" in named:
        ids = frame[named["id"]]
        refuse(ids.is_not_null() & ~ids.is_first_distinct(), ids, named["id"], at, "each id once")


FORMAT = make_format(
    read_servers,
    "JSON of servers that ask for tiers of memory",
    "memory request user app deadline priority devices tiers counted",
)
"""What unrack finds under the name ``servers``."""
