"""What Slurm printed as a frame of text, a column for each field by our name: tables with any delimiter or aligned."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from unrack.slurm_text.values import moment_s, span_s
from unrack.workload.formats.quantities import MOST, shown
from unrack.workload.formats.source import Locator, Source, each, text_bytes

SAME = {
    "st": "state", "jobstate": "state", "time": "elapsed", "timeused": "elapsed", "runtime": "elapsed",
    "submittime": "submit", "eligibletime": "eligible", "starttime": "start", "endtime": "end",
    "nodes": "nnodes", "numnodes": "nnodes", "cpus": "ncpus", "numcpus": "ncpus",
    "minmemory": "minmemorynode", "name": "jobname", "username": "user", "userid": "user", "groupid": "group",
    "tres": "reqtres", "tresalloc": "alloctres", "trespernode": "gres", "nodelistreason": "nodelist",
    "licences": "licenses", "dependencies": "dependency", "features": "constraints", "gid": "group",
    "excnodelist": "excludednodes", "excnodes": "excludednodes", "requirednodes": "reqnodelist",
    "resvname": "reservation", "oversubscribe": "exclusive",
}  # fmt: skip
"""Another name → ours; all in small letters, with nothing but letters and digits."""

READ = frozenset({
    "jobid", "jobidraw", "submit", "eligible", "start", "end", "elapsed", "elapsedraw", "timelimit", "timelimitraw",
    "timeleft", "state", "nnodes", "allocnodes", "reqnodes", "ncpus", "alloccpus", "reqcpus", "ntasks", "reqmem",
    "minmemorynode", "minmemorycpu", "maxrss", "reqtres", "alloctres", "reqgres", "allocgres", "gres", "tresperjob",
    "user", "licenses", "deadline", "arrayjobid", "arraytaskid", "arraytaskthrottle", "numtasks", "network",
    "contiguous", "switches", "exclusive", "submitline",
})  # fmt: skip
"""Fields that are read; all others are carried along."""

ASKS = frozenset({"network", "contiguous", "switches", "exclusive"})
"""Fields with what jobs ask for and nothing honours."""

RENAMED = {
    "priority": "log_priority", "jobname": "job_name", "nodelist": "node_list", "exitcode": "exit_code",
    "constraints": "constraint", "reqnodelist": "req_nodes", "excludednodes": "exc_nodes",
}  # fmt: skip
"""Fields that are carried along under another name."""

GIVEAWAY = frozenset({
    "state", "st", "elapsed", "elapsedraw", "alloccpus", "alloctres", "ncpus", "reqcpus", "reqtres", "timelimit",
    "timelimitraw", "reqmem", "timeleft", "time", "cputime", "cputimeraw", "maxrss", "partition",
})  # fmt: skip
"""A list with a column ``JobID`` and one of these is Slurm's."""
_MOST_COLUMNS = 500
_DASHES = re.compile(r"\s*-+(?: +-+)*\s*")
ASK_FOR = "JobID,JobIDRaw,User,Submit,Start,End,ElapsedRaw,TimelimitRaw,State,AllocCPUS,NNodes,ReqMem,ReqTRES,AllocTRES"
"""What to ask of ``sacct``."""
COMMAND = f"the output of: sacct --allusers --parsable2 --format={ASK_FOR}"


class Listing(NamedTuple):
    """Rows of text."""

    frame: pl.DataFrame  # a column of text for each field, by our name; null = empty
    at: Locator  # where the rows are
    replaced: int = 0  # how many lines have bytes that are not UTF-8
    repeated: int = 0  # how many lines repeat the header
    cut: bool = False  # whether columns are aligned, so that what is too long ends in ``+``

    def columns(self, rows: pl.DataFrame) -> ListingColumns:
        """The columns of some rows, which have their places in the list in a column ``row``."""
        places = rows["row"]
        return ListingColumns(rows, Locator(self.at.source, lambda row: self.at.line_of(places[row])))

    def need(self, columns: Sequence[Sequence[str]], command: str) -> None:
        """Refuse a list that lacks all of some columns; ``command``: what prints a whole one."""
        for needed in columns:
            if not set(needed) & set(self.frame.columns):
                raise self.at.source.fault(None, f"column {' or '.join(needed)}", "no such column", command)


def heads_a_list(line: str) -> bool:
    """Whether a line is the header of such a table; one of unrack's own has a column ``run``.

    Examples
    --------
    >>> heads_a_list("JobID|State|Elapsed"), heads_a_list("  JOBID PARTITION  NAME  USER ST  TIME"), heads_a_list("a,b")
    (True, True, False)
    """
    names = {plain(name) for name in re.split(r"[^\w()]+", line)}
    return bool(names & {"jobid", "jobidraw", "arrayjobid"} and names & GIVEAWAY) and not {"submit", "run"} <= names


def listing(source: Source, delimiter: str | None = None) -> Listing:
    """Read a table with a header, and a delimiter (default: what the header has) or aligned columns."""
    data = text_bytes(source)
    text = data.decode("utf-8", "replace")
    replaced = 0 if "\N{REPLACEMENT CHARACTER}" not in text else sum("\ufffd" in line for line in text.split("\n"))
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise source.fault(None, "", "an empty list", COMMAND)
    first, header = lines[0]
    if not heads_a_list(header):
        raise source.fault(first, "header", shown(header.strip()), f"names of columns such as JobID|State; {COMMAND}")
    aligned = len(lines) > 1 and _DASHES.fullmatch(lines[1][1]) is not None and delimiter is None
    if aligned:
        spans = [match.span() for match in re.finditer("-+", lines[1][1])]
        names, rows = _cells(header, spans), [_cells(line, spans) for _, line in lines[2:]]
        numbers = [number for number, _ in lines[2:]]
    else:
        mark = delimiter or _delimiter(header)
        fields = header.count(mark)
        ended = mark != " " and all(line.rstrip().endswith(mark) and line.count(mark) > fields for _, line in lines[1:])
        if ended and not header.rstrip().endswith(mark):
            header += mark  # of --parsable, with a header from elsewhere
        names = _split(header, mark, None, source, first)
        rows = each(lines[1:], lambda line: _split(line[1], mark, names, source, line[0]))
        numbers = [number for number, _ in lines[1:]]
    if len(names) > _MOST_COLUMNS:
        raise source.fault(first, "header", f"{len(names)} columns", f"at most {_MOST_COLUMNS}")
    titles = [plain(name) for name in names]
    names = [ours(name) for name in names]
    kept = [
        place
        for place, row in enumerate(rows)
        if [plain(cell) for cell in row] != titles and not all(re.fullmatch("-+", cell) for cell in row)
    ]
    line_of = [numbers[place] for place in kept]
    columns = list(zip(*(rows[place] for place in kept), strict=True)) or [()] * len(names)
    if "reqnodes" in names:  # of sacct how many, of squeue which
        place = names.index("reqnodes")
        which = any(re.match(r"[A-Za-z]", cell.strip()) for cell in columns[place])
        names[place] = "reqnodelist" if which else "reqnodes"
    frame = pl.DataFrame(
        [
            pl.Series(name, column, pl.String).str.strip_chars().replace({"": None})
            for place, (name, column) in enumerate(zip(names, columns, strict=True))
            if name and name not in names[:place]
        ]
    )
    return Listing(frame, Locator(source, lambda row: line_of[row]), replaced, len(rows) - len(kept), aligned)


def _cells(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The cells of an aligned line; the last runs to the end."""
    ends = [*(end for _, end in spans[:-1]), None]
    return [line[begin:end].strip() for (begin, _), end in zip(spans, ends, strict=True)]


def _delimiter(header: str) -> str:
    """What stands behind the first name; a blank stands for any number of blanks."""
    found = re.search(r"[^\w()\s.]|\t", header.strip())
    return found[0] if found else " "


def _split(line: str, mark: str, names: Sequence[str] | None, source: Source, number: int) -> list[str]:
    """The cells of a line; ``names`` of the header, where it is none itself."""
    cells = line.split() if mark == " " else line.split(mark)
    if names is None or len(cells) == len(names):
        return cells
    last = plain(names[-1])
    if len(cells) > len(names) and (last == "submitline" or (mark == " " and last in ("nodelistreason", "reason"))):
        return [*cells[: len(names) - 1], mark.join(cells[len(names) - 1 :])]
    want = f"{len(names)}, as in the header"
    if len(cells) > len(names):
        want += f" (is there {'a blank' if mark == ' ' else repr(mark)} in a name? leave JobName out)"
    raise source.fault(number, "", f"{len(cells)} field{'s' * (len(cells) != 1)}", want)


def plain(name: str) -> str:
    """A name in small letters, with nothing but letters and digits.

    Examples
    --------
    >>> plain("NODELIST(REASON)"), plain("TIME_LIMIT")
    ('nodelistreason', 'timelimit')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def ours(name: str) -> str:
    """Our name for a column or key.

    Examples
    --------
    >>> ours("TIME_LIMIT"), ours("JobID"), ours("ST")
    ('timelimit', 'jobid', 'state')
    """
    return SAME.get(plain(name), plain(name))


_STAMP = "%Y-%m-%dT%H:%M:%S"
_UNSAID = ("unknown", "n/a", "none", "(null)", "none assigned")


class ListingColumns:
    """The columns of a frame of text with rows at places ``at``, each made into something else entry by entry."""

    def __init__(self, frame: pl.DataFrame, at: Locator) -> None:
        self.frame, self.at = frame, at

    def __contains__(self, name: str) -> bool:
        return name in self.frame.columns

    def text(self, name: str) -> pl.Series:
        """A column of text; nulls where there is none or it says nothing."""
        if name not in self.frame.columns:
            return pl.Series(name, [None], pl.String).new_from_index(0, self.frame.height)
        values = self.frame[name]
        return values.set(values.str.to_lowercase().is_in(_UNSAID).fill_null(False), None)

    def made(self, name: str, parse: Callable[[str], Any]) -> dict[str, Any]:
        """Entry → what it says, of all different entries of a column.

        Where ``parse`` raises a ValueError the first line with such an entry is refused.
        """
        found: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        values = self.text(name)
        for entry in values.drop_nulls().unique().to_list():
            try:
                found[entry] = parse(entry)
            except ValueError as error:
                wrong[entry] = str(error)
        if wrong:
            rows = values.is_in(list(wrong)).fill_null(False).arg_true().to_list()
            entry = values[rows[0]]
            raise self.at.faults(rows, name, shown(entry), wrong[entry].rpartition(" is not ")[2])
        return found

    def column(self, name: str, parse: Callable[[str], Any], kind: type[pl.DataType] | pl.DataType) -> pl.Series:
        """A column of what its entries say; null = not said."""
        return self.looked_up(name, self.made(name, parse), kind)

    def looked_up(self, name: str, found: dict[str, Any], kind: type[pl.DataType] | pl.DataType) -> pl.Series:
        """A column of what its entries say, by a table of all entries."""
        said = {entry: value for entry, value in found.items() if value is not None}
        values = self.text(name)
        return values.replace_strict(list(said), list(said.values()), default=None, return_dtype=kind)

    def by_name(self, name: str, found: Mapping[str, Mapping[str, int]]) -> dict[str, pl.Series]:
        """Name → how many, where each entry says how many there are under some names."""
        names = sorted({one for said in found.values() for one in said})
        return {
            one: self.looked_up(name, {entry: said.get(one) for entry, said in found.items()}, pl.Int64)
            for one in names
        }

    def whole(self, name: str) -> pl.Series:
        """Int64: whole numbers, such as ``16`` or ``2K``, or the least of ``2-4``; 0 and null = not said."""
        values = self.column(name, _whole, pl.Int64)
        return values.set(values == 0, None)

    def moment_us(self, name: str) -> pl.Series:
        """Int64 µs since 1970."""
        values = self.text(name)
        stamps = values.str.to_datetime(_STAMP, strict=False, time_unit="us").dt.epoch("us")
        rest = ListingColumns(pl.DataFrame({name: values.set(stamps.is_not_null(), None)}), self.at)
        return stamps.fill_null(rest.column(name, moment_s, pl.Int64) * 1_000_000)

    def span_us(self, name: str) -> pl.Series:
        """Int64 µs of a span such as ``1-02:03:04``; null = not known or without end."""
        return (self.column(name, _span, pl.Float64) * 1e6).round().cast(pl.Int64)

    def seconds_us(self, name: str) -> pl.Series:
        """Int64 µs of a number of seconds."""
        return self.column(name, _seconds, pl.Int64) * 1_000_000


def first_said(*columns: pl.Series) -> pl.Series:
    """The values of the first of some columns that has one, row by row."""
    return pl.select(pl.coalesce(*columns)).to_series()


def _span(entry: str) -> float | None:
    span = span_s(entry)
    if span is not None and span > 2**31:
        raise ValueError("a time of up to 68 years")
    return span


def _seconds(entry: str) -> int:
    if not (entry.isascii() and entry.isdigit() and len(entry) < 11):
        raise ValueError("a whole number of seconds")
    return int(entry)


def _whole(entry: str) -> int:
    digits = entry.partition("-")[0]
    factor = {"K": 1000, "M": 1_000_000}.get(digits[-1:].upper(), 1)
    digits = digits if factor == 1 else digits[:-1]
    if not (digits.isascii() and digits.replace(".", "", factor > 1).isdigit() and len(digits) < 11):
        raise ValueError("a whole number")
    number = round(float(digits) * factor)
    if number > MOST:
        raise ValueError(f"up to {MOST}")
    return number
