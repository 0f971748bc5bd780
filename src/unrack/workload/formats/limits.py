"""Jobs without a time limit of their own get that of their partition, or what an option says; never their run time."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from unrack.errors import InputError
from unrack.slurm_text.values import records, span_s
from unrack.workload.formats.intake import Tally
from unrack.workload.formats.quantities import time_option_us
from unrack.workload.formats.source import load, text_bytes

UNLIMITED = "7 d"
"""How long a job without a limit is taken to ask for by default."""


_MOST_US = 2**52


def limit_us(option: str, value: object) -> int:
    """A limit from an option, µs: a time of 1 s or more."""
    return time_option_us(option, value, "a time of 1 s or more, such as '7 d'", 1_000_000, _MOST_US)


def limits_us(limits: object) -> dict[str, int]:
    """Partition or queue → its limit, µs, from the option ``limits``: a table, or the path of a ``slurm.conf``.

    What ``scontrol show partition`` printed is read as well.
    """
    if isinstance(limits, Mapping):
        return {str(name): limit_us(f"limits.{name}", value) for name, value in limits.items()}
    if not isinstance(limits, str):
        want = "a table of partitions and times, such as { short = '4 h' }, or the path of a slurm.conf"
        raise InputError("option limits", repr(limits), want)
    found: dict[str, int] = {}
    usual: str | None = None
    for record in records(text_bytes(load(limits)).decode("utf-8", "replace"), "PartitionName"):
        said = {key.lower(): value for key, value in record.fields.items()}
        name, longest = said["partitionname"], said.get("maxtime", usual)
        if name.upper() == "DEFAULT":
            usual = longest
            continue
        try:
            seconds = span_s(longest or "")
        except ValueError as error:
            want = str(error).rpartition(" is not ")[2]
            raise InputError(f"{limits}, line {record.line}, MaxTime", repr(longest), want) from None
        if seconds:
            found[name] = round(seconds * 1e6)
    return found


def with_limits(
    jobs: pl.DataFrame,
    endless: pl.Series,
    partition: pl.Series,
    limits: Mapping[str, int],
    longest_us: int,
    tally: Tally,
) -> pl.DataFrame:
    """The jobs with a ``request_us`` where they have no limit of their own, and ``endless``: no run is cut there.

    ``endless``: Boolean, of which it is said that they have none. ``partition``: String, their partitions, which may be
    several with commas between them; the longest of their ``limits`` (µs) counts. Others get ``longest_us``.
    """
    known = {
        names: max(limits[name] for name in names.split(",") if name in limits)
        for names in partition.drop_nulls().unique().to_list()
        if any(name in limits for name in names.split(","))
    }
    found = partition.replace_strict(list(known), list(known.values()), default=None, return_dtype=pl.Int64)
    endless = endless.fill_null(False) & jobs["request_us"].is_null()
    of_partition = jobs["request_us"].is_null() & found.is_not_null()
    jobs = jobs.with_columns(endless=endless & ~of_partition, request_us=jobs["request_us"].fill_null(found))
    tally.change("limit of the partition", int(of_partition.sum()))
    tally.change_where(jobs, "limit not known", pl.col("endless"))
    return jobs.with_columns(request_us=pl.when("endless").then(longest_us).otherwise("request_us"))
