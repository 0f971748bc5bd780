"""The text of a Standard Workload Format file: header comments, and job lines as columns of numbers."""

from __future__ import annotations

import io
import re
from fractions import Fraction

import polars as pl

from unrack.workload.formats.quantities import MOST, numbers, refuse, times_us, whole
from unrack.workload.formats.source import Locator

FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
_TIMES = ("submit time", "wait time", "run time", "requested time")
_FRACTIONS = ("average CPU time", "used memory", "requested memory", "think time")
SECOND = Fraction(1_000_000)
_KEY = re.compile(r";\s{0,4}([A-Za-z][A-Za-z0-9_]*):(?:\s+(.*))?")
_NODE_SPEC = r" (\d{1,9}):ppn=(\d{1,9})(?:[:+# ]|$)"


def header(text: bytes) -> dict[str, str]:
    """The header comments ``; Key: value`` of an SWF text; values of a repeated key and further lines are joined."""
    found: dict[str, str] = {}
    key = ""
    for raw in io.BytesIO(text):
        line = raw.strip()
        if not line.startswith(b";"):
            if line:
                break
            continue
        try:
            words = line.decode("utf-8")
        except UnicodeDecodeError:
            words = line.decode("latin-1")
        if match := _KEY.fullmatch(words):
            key, value = match[1], (match[2] or "").strip()
        else:
            value = words[1:].strip()
        if key and value:
            found[key] = f"{found[key]}\n{value}" if key in found else value
    return found


def normal_lines(text: bytes) -> bytes:
    """The job lines with single blanks between the fields and none around them; comments are left in."""
    blank = text.translate(bytes.maketrans(b"\t\v\f", b"   "))
    blank = blank.replace(b"     ", b" ")  # long runs first: fewer passes
    while b"  " in blank:
        blank = blank.replace(b"  ", b" ")
    blank = (b"\n" + blank + b"\n").replace(b"\n ", b"\n").replace(b" \n", b"\n")
    while b"\n\n" in blank:
        blank = blank.replace(b"\n\n", b"\n")
    return blank.decode("utf-8", "replace").encode() if not blank.isascii() else blank


def job_lines(text: bytes) -> list[int]:
    """The lines, from 1, of the job lines."""
    return [
        number
        for number, line in enumerate(text.split(b"\n"), 1)
        if (stripped := line.strip()) and not stripped.startswith(b";")
    ]


def field_columns(lines: bytes, at: Locator) -> pl.DataFrame:
    """One row a job line: the 18 :data:`FIELDS`, times in µs; ``more`` is null where a line ends there.

    Raises
    ------
    TraceError
        A line has fewer than 18 fields, or a field is not a number in range.
    """
    head = " ".join(f"field{k}" for k in range(1, 20)).encode()
    text = pl.read_csv(
        head + lines,
        separator=" ",
        quote_char=None,
        comment_prefix=";",
        truncate_ragged_lines=True,
        infer_schema=False,
    )
    text.columns = [*FIELDS, "more"]
    last = text[FIELDS[-1]]
    if last.null_count():
        short = last.is_null().arg_true().to_list()
        held = sum(value is not None for value in text.row(short[0])[:18])
        raise at.faults(short, "", f"{held} field{'s' * (held != 1)}", "18 numbers (see docs/file-formats.md)")
    columns = []
    for name in FIELDS:
        values = numbers(text[name], name, at)
        if name in _TIMES:
            values = times_us(values, name, at, SECOND)
        elif name not in _FRACTIONS:
            values = whole(values, name, at, most=2**53 if name == "job number" else MOST)
        columns.append(values.alias(name))
    return pl.DataFrame([*columns, text["more"]])


def with_node_spec(raw: pl.DataFrame, lines: bytes, at: Locator) -> pl.DataFrame:
    """The columns and ``spec tasks``, ``spec cores`` of the node specifications; null where a line has none."""
    found = (
        pl.Series("line", [line for line in lines.decode().split("\n") if line and not line.startswith(";")], pl.String)
        .str.extract_groups(_NODE_SPEC)
        .struct.unnest()
    )
    nodes, cores = (found.to_series(k).cast(pl.Int64, strict=False) for k in (0, 1))
    for name, values in (("nodes", nodes), ("ppn", cores)):
        refuse((values < 1) | (values > MOST), values, f"node specification, {name}", at, f"a number from 1 to {MOST}")
    return raw.with_columns(nodes.alias("spec tasks"), cores.alias("spec cores"))
