"""What jobs ask for and nothing honours yet: columns that a reader names, which are counted and told, with an example.

A reader hands the columns that may hold such asks to :func:`unheeded`; :meth:`Tally.ignore
<unrack.workload.formats.intake.Tally.ignore>` counts them among the jobs that are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

UNHEEDED = "unheeded."
"""Prefix, in a frame, of what jobs ask for in vain: ``unheeded.RULE.WHAT``; null = nothing asked."""

COUNT_IF_DIFFERENT = frozenset({"queue ignored", "quality of service ignored"})
"""Rules about what every job has, which says nothing where it is the same for all."""

_NAMES = {
    "dependency ignored": "after dependency dependencies dependson depends depend precedingjob thinktime predecessor "
    "predecessors parent parents parentjob parentid waitfor",
    "place asked for": "constraint constraints feature features reqnodelist reqnodes excnodelist excludednodes "
    "nodeselector affinity topologyspreadconstraints nodeconstraint hostlist network contiguous switches",
    "model asked for": "gpumodels gpumodel gpuspec gputype gputypes gpusmodels",
    "queue ignored": "queue partition virtualcluster",
    "quality of service ignored": "qos",
    "reservation ignored": "reservation resvname",
    "begin ignored": "begin begintime notbefore earlieststart executiontime",
    "whole nodes ignored": "exclusive wholenode wholenodes",
    "rank ignored": "priorityclassname nice",
    "other devices": "gres licenses licences license licence",
}
_RULE = {name: rule for rule, names in _NAMES.items() for name in names.split()}
"""Name of a column, in small letters with nothing but letters and digits → the rule about it."""

_NOTHING = frozenset(
    {"", "-", "na", "n/a", "nan", "none", "null", "(null)", "nil", "false", "no", "unknown", "[]", "{}", "-1", "-2"}
)
_NO_FLAG = frozenset(
    {
        "begin ignored", "place asked for", "reservation ignored", "whole nodes ignored", "rank ignored",
        "memory ignored", "disk ignored", "other devices",
    }
)  # fmt: skip
"""Rules of columns in which 0 says that nothing is asked."""


def unheeded(columns: Iterable[pl.Series], rule: str | None = None) -> list[pl.Series]:
    """Of some columns, those that ask for what nothing honours, under names that :meth:`Tally.ignore` knows.

    Parameters
    ----------
    columns
        Columns of a file under the file's names.
    rule
        Which rule they fall under; by default what their names say, and those that say nothing are left out.

    Examples
    --------
    >>> [made.name for made in unheeded([pl.Series("After", [None, 7]), pl.Series("colour", ["red", "blue"])])]
    ['unheeded.dependency ignored.After']
    """
    found = []
    for values in columns:
        meant = rule or _RULE.get(re.sub(r"[^a-z0-9]", "", values.name.lower()))
        if meant is not None:
            text = values.cast(pl.String, strict=False).str.strip_chars()
            nothing = _NOTHING | {"0", "0.0"} if meant in _NO_FLAG else _NOTHING
            bare = text.set(text.str.to_lowercase().is_in(list(nothing)).fill_null(True), None)
            found.append(bare.alias(f"{UNHEEDED}{meant}.{values.name}"))
    return found


def rule_of(name: str) -> str:
    """The rule of a column of :func:`unheeded`."""
    return name.split(".", 2)[1]


def what_of(name: str) -> str:
    """What the file calls a column of :func:`unheeded`."""
    return name.split(".", 2)[2]
