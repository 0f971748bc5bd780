"""A running system as a study file that begins now, with a table of its jobs beside it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import tomli_w

from unrack.errors import InputError
from unrack.workload.formats.source import Source
from unrack.workload.formats.table.read import read_table
from unrack.workload.job import Workload


def write_study(
    path: Path,
    cluster: Mapping[str, Any],
    jobs: pl.DataFrame,
    policy: Mapping[str, Any],
    system: str,
    at_s: float,
    notes: Sequence[str],
    spare: Mapping[str, Any] | None = None,
) -> Path:
    """Write a study file, and a CSV of the jobs beside it; returns the latter.

    Parameters
    ----------
    path
        Of the study.
    cluster, jobs, policy
        The keys of its cluster, its jobs, and the policy that is most like its own.
    system, at_s, notes
        What it is, when that was, s since 1970, and what was left out or changed.
    spare
        What else there is, of which no job asks for anything: keys of its cluster, for ``unrack what-if`` alone.

    Raises
    ------
    InputError
        They cannot be written.
    """
    table = path.with_suffix(".jobs.csv")
    study = {
        "name": path.stem,
        "question": "What happens from now on?",
        "clusters": [dict(cluster)],
        "workloads": [{"name": "now", "trace": table.name, "format": "csv"}],
        "policies": [dict(policy)],
        **({"spare": dict(spare)} if spare else {}),
    }
    first = f"# A running {system} at {at_s:.0f} s since 1970: begins with the jobs that run."
    try:
        table.write_text(jobs.write_csv(), encoding="utf-8")
        lines = "\n".join([first, *map(_comment, notes)])
        path.write_text(f"{lines}\n\n{tomli_w.dumps(study)}", encoding="utf-8")
    except OSError as error:
        raise InputError(str(error.filename), error.strerror or str(error), "a file that can be written") from None
    return table


def workload_of(table: pl.DataFrame) -> Workload:
    """The jobs of a table, without those that wait for something else.

    Raises
    ------
    TraceError
        There are none.
    """
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return read_table(Source("now", buffer.getvalue()))


def in_use(content: Mapping[str, Any], table: pl.DataFrame) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    """The keys of a cluster without devices and counters for which no job in the queue asks; their columns; the rest.

    A study is refused if none of its jobs asks for what there is. Jobs without ``submit`` are not in the queue.
    """
    there = table.filter(table["submit"].is_not_null())
    unused = [name for name in table.columns if "." in name and not there[name].sum()]
    asked = {name for name in table.columns if "." in name} - set(unused)
    reservations = content.get("site", {}).get("reservations", ())
    asked |= {f"counted.{name}" for one in reservations for name in one.get("licences", ())}
    kept, spare = dict(content), dict[str, Any]()
    if "gpus" in kept and "gpus.count" not in asked:
        spare["gpus"] = kept.pop("gpus")
    if counted := kept.pop("counted", None):
        here = [one for one in counted if f"counted.{one['name']}" in asked]
        more = [one for one in counted if f"counted.{one['name']}" not in asked]
        kept |= {"counted": here} if here else {}
        spare |= {"counted": more} if more else {}
    return kept, unused, spare


def _comment(note: str) -> str:
    return "# " + " ".join("".join(c if c.isprintable() else "?" for c in note).split())
