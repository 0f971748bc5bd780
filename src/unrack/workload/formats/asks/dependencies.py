"""Which jobs a job waits for, in the words of a file, as ids of the jobs that are there.

What is kept is ``KIND:ID:ID,KIND:ID?KIND:ID``: all of what is between commas, of which one of what is between question
marks is enough. A kind is ``after`` (they began), or ``afterok``, ``afternotok`` or ``afterany`` (they ended well, not
well, or either); ``after:ID+M`` adds minutes; ``singleton`` stands for all earlier jobs of the same name and user.

References
----------
The option ``--dependency`` in the manual page sbatch(1) of Slurm; ``-W depend`` in qsub(1B) of OpenPBS and Torque.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import polars as pl

from unrack.slurm_text.job_ids import job_id

KINDS = ("after", "afterok", "afternotok", "afterany")
SINGLETON = "singleton"
_SAME = {"afterburstbuffer": "afterany", "aftercorr": "afterok", "afterstart": "after"}
_PART = re.compile(
    r"((?:after[a-z]*|before[a-z]*|expand|on|synccount|syncwith|runone)(?=:)|singleton)(?::(.*))?", re.IGNORECASE
)
_STATE = re.compile(r"\((?:un)?fulfilled\)|\(failed\)", re.IGNORECASE)
_SERVER = re.compile(r"@.*$|(?<=[\d\]])\.[A-Za-z][\w.@-]*$")
"""Of a name such as ``12.server`` or ``12[3].server@other``."""
_MINUTES = re.compile(r"(.+?)(\+[0-9]{1,9})")
_MEMBER = re.compile(r"([0-9]+)(?:_([0-9]+)|\[([0-9]+)\])")


class WaitClause(NamedTuple):
    """Jobs of which all are waited for, in one way."""

    kind: str  # as the file has it, in small letters
    ids: tuple[str, ...]


class AwaitedJobs(NamedTuple):
    """What jobs wait for, by ids of jobs that are there."""

    columns: dict[str, pl.Series]  # ``dependency``, ``preceding`` and ``think_s``, those that there are
    absent: pl.Series  # Boolean: some of it is not there
    unknown: pl.Series  # the first part of a kind that is not known; null = none


def parts_of(text: str) -> list[list[WaitClause]]:
    """What all is to be met, each in one of some ways; a list of ids alone stands for ``afterok``.

    Examples
    --------
    >>> parts_of("afterok:12:13(unfulfilled),afterany:14")
    [[WaitClause(kind='afterok', ids=('12', '13'))], [WaitClause(kind='afterany', ids=('14',))]]
    >>> parts_of("afterok:7:8?singleton")
    [[WaitClause(kind='afterok', ids=('7', '8')), WaitClause(kind='singleton', ids=())]]
    """
    text = _STATE.sub("", text.strip())
    if _PART.match(text) is None:
        listed = text[1:-1].replace("'", "").replace('"', "") if text[:1] == "[" and text[-1:] == "]" else text
        ids = tuple(re.findall(r"[^\s,;|]+", listed))
        return [[WaitClause("afterok", ids)]] if ids else []
    met = []
    for one in re.split(r",(?![^\[]*\])", text):
        ways = [_part(way.strip()) for way in one.split("?") if way.strip()]
        met += [ways] if ways else []
    return met


def _part(text: str) -> WaitClause:
    found = _PART.fullmatch(text)
    return (
        WaitClause(found[1].lower(), tuple(filter(None, (found[2] or "").split(":"))))
        if found
        else WaitClause(text, ())
    )


def waits_for(ids: pl.Series, said: Mapping[str, pl.Series]) -> AwaitedJobs | None:
    """What of dependencies is among some jobs; ``None``: they wait for nothing.

    What names an array or a heterogeneous job means all of it. ``said``: columns of the jobs, among them ``array``,
    ``het`` and ``job_id``, another name of a job such as ``101_7`` where the ids are numbers.
    """
    if "dependency" not in said and "preceding" not in said:
        return None
    known = _Known(ids, said.get("array"), said.get("het"), said.get("job_id"))
    columns = {}
    absent, unknown = pl.repeat(False, len(ids), eager=True), pl.repeat(None, len(ids), dtype=pl.String, eager=True)
    if "dependency" in said:
        texts, nothing = enumerate(said["dependency"].to_list()), (None, False, None)
        rows = [nothing if text is None else _row(text, known, known.member.get(row)) for row, text in texts]
        made = pl.DataFrame(rows, {"dependency": pl.String, "absent": pl.Boolean, "unknown": pl.String}, orient="row")
        columns["dependency"], absent, unknown = made.get_columns()
        if "job_name" not in said:
            alone = columns["dependency"].str.extract(f"({SINGLETON})")
            unknown = alone.zip_with(unknown.is_null(), unknown)
    if "preceding" in said:
        first, own = said["preceding"].cast(pl.String).to_list(), ids.cast(pl.String).to_list()
        there = [next(iter(known.found(name, None)), None) if name else None for name in first]
        names = [one if one != job else None for one, job in zip(there, own, strict=True)]
        columns["preceding"] = pl.Series(names, dtype=pl.String).cast(ids.dtype, strict=False)
        lacking = said["preceding"].is_not_null() & columns["preceding"].is_null()
        if "think_s" in said:
            columns["think_s"] = said["think_s"].set(columns["preceding"].is_null(), None)
        absent = absent | lacking
    return AwaitedJobs(columns, absent, unknown)


def first_circle(ids: pl.Series, said: Mapping[str, pl.Series]) -> list[str]:
    """Ids of jobs of which each waits for the next, and the last for the first; empty: there is no such circle."""
    waits: dict[str, tuple[str, ...]] = {}
    none = pl.repeat(None, len(ids), dtype=pl.String, eager=True)
    columns = (ids, said.get("dependency", none), said.get("preceding", none))
    for name, text, first in zip(*(column.cast(pl.String).to_list() for column in columns), strict=True):
        if text is not None or first is not None:
            listed = [_MINUTES.sub(r"\1", one) if ways[0].kind == "after" and one not in waits else one
                      for ways in parts_of(text or "") if len(ways) == 1 for one in ways[0].ids]  # fmt: skip
            waits[name] = (*waits.get(name, ()), *listed, *([first] if first is not None else []))
    done: set[str] = set()
    for begin in waits:
        path: dict[str, Iterator[str]] = {} if begin in done else {begin: iter(waits[begin])}
        while path:
            at = next(reversed(path))
            following = next(path[at], None)
            if following is None:
                done.add(at)
                del path[at]
            elif following in path:
                circle = list(path)
                return [*circle[circle.index(following) :], following]
            elif following in waits and following not in done:
                path[following] = iter(waits[following])
    return []


class _Known:
    """What jobs are called in dependencies → their ids, and which member of an array a row is."""

    def __init__(
        self, ids: pl.Series, arrays: pl.Series | None, hets: pl.Series | None, names: pl.Series | None
    ) -> None:
        own = ids.cast(pl.String).to_list()
        called = own if names is None else names.cast(pl.String).to_list()
        self.ids: dict[str, list[str]] = {name: [name] for name in own}
        self.member: dict[int, str] = {}
        for row, (name, one) in enumerate(zip(called, own, strict=True)):
            self.ids.setdefault(name, [one])
            if match := _MEMBER.fullmatch(name or ""):
                self.member[row] = match[2] or match[3]
        for groups in (hets, arrays):
            if groups is not None:
                of: dict[str, list[str]] = {}
                for group, one in zip(groups.cast(pl.String).to_list(), own, strict=True):
                    if group is not None:
                        of.setdefault(group, []).append(one)
                self.ids |= of

    def found(self, token: str, member: str | None) -> list[str]:
        """The jobs that a token stands for; ``member``: of the array, the one of this number alone."""
        bare = _SERVER.sub("", token)
        array = re.sub(r"_\*$|\[\]$", "", bare)
        if member is not None:
            named = (f"{array}_{member}", f"{array}[{member}]")
            return next((self.ids[name] for name in named if name in self.ids), [])
        for name in (token, bare, array, token.removesuffix(".0")):
            if name in self.ids:
                return self.ids[name]
        if "_[" in bare:
            try:
                said = job_id(bare)
            except ValueError:
                return []
            return [one for number in said.members for one in self.ids.get(f"{said.job}_{number}", [])]
        return []


def _row(text: str, known: _Known, member: str | None) -> tuple[str | None, bool, str | None]:
    absent, unknown, kept = False, None, []
    for ways in parts_of(text):
        words, lacking = [], False
        for part in ways:
            base = part.kind.removesuffix("array")
            kind = _SAME.get(base, base)
            if kind not in (*KINDS, SINGLETON) or (kind != SINGLETON and not part.ids):
                unknown = unknown or ":".join((part.kind, *part.ids)) + ":" * (kind in KINDS)
                continue
            ids: list[str] = []
            for token in part.ids:
                if token == "0" and token not in known.ids:
                    continue  # nothing
                found, more = known.found(token, member if part.kind == "aftercorr" else None), ""
                if not found and (match := _MINUTES.fullmatch(token)):
                    found, more = known.found(match[1], None), match[2] if kind == "after" else ""
                lacking |= not found
                ids += [f"{one}{more}" for one in found]
            if ids or kind == SINGLETON:
                words.append(":".join((kind, *dict.fromkeys(ids))))
        absent |= lacking
        if words and not (lacking and len(ways) > 1):  # what is not there has ended, which is one of the ways
            kept.append("?".join(words))
    return ",".join(kept) or None, absent, unknown
