"""Licences, as tables or as ``scontrol -o show licenses`` prints them."""

from __future__ import annotations

from typing import Any

from unrack.live.slurm.reading import Licence
from unrack.slurm_text.records import records
from unrack.slurm_text.values import listed, number, table, text


def licences_of(answer: Any) -> tuple[dict[str, Licence], list[str]]:
    """The licences of an answer of the REST service, and what could not be understood."""
    found: dict[str, Licence] = {}
    unreadable = []
    for record in listed(table(answer).get("licenses")):
        try:
            fields = table(record)
            name = text(fields.get("LicenseName") or fields.get("name"))
            found[name] = Licence(
                number(fields.get("Total", fields.get("total"))), number(fields.get("Used", fields.get("used")))
            )
        except ValueError as error:
            unreadable.append(f"a licence: {error}")
    return found, unreadable


def licences_in(printed: str) -> tuple[dict[str, Licence], list[str]]:
    """The same of what ``scontrol -o show licenses`` printed.

    Examples
    --------
    >>> licences_in("LicenseName=matlab Total=4 Used=1 Free=3 Reserved=0 Remote=no")
    ({'matlab': Licence(total=4, used=1)}, [])
    """
    rows = [
        {"name": record.fields["LicenseName"], "total": record.fields.get("Total"), "used": record.fields.get("Used")}
        for record in records(printed, "LicenseName")
    ]
    return licences_of({"licenses": rows})
