"""Reservations of Slurm, as ``scontrol show reservation`` prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from unrack.cluster.formats.described import Described, counter
from unrack.cluster.formats.partitions import members_of
from unrack.cluster.formats.site import ALL, KEPT_CORES, Keys, Lost, SaidSite, lose, lower, once, parsed
from unrack.resources.checked import WEEK
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.tres import licences, tres
from unrack.slurm_text.values import BY_NODE, UNKNOWN, moment_s, records, span_s, week_day

SHOWN = re.compile(r"\s*(ReservationName=\S+\s[^#]*?\bStartTime=|No reservations in the system)", re.DOTALL)
"""What the first record looks like, or what is said where there is none."""
EVERY_S = {"HOURLY": 3_600, "DAILY": 86_400, "WEEKLY": 604_800, "WEEKDAY": 86_400, "WEEKEND": 86_400}
"""Flags of reservations that come again → after how long."""
DAYS = {"WEEKDAY": ["mon", "tue", "wed", "thu", "fri"], "WEEKEND": ["sat", "sun"]}
"""The same → on which days of the week alone."""
AHEAD_S = 28 * 86_400
"""For how long reservations that come again are said beforehand."""
_HARMLESS = frozenset({
    "ALL_NODES", "ANY_NODES", "IGNORE_JOBS", "MAINT", "NO_HOLD_JOBS_AFTER_END", "OVERLAP", "SPEC_NODES", "STATIC",
    "REPLACE", "REPLACE_DOWN", "FORCE_START", "PART_NODES", "FIRST_CORES", "FLEX", "LICENSE_ONLY",
})  # fmt: skip


def reservation_keys(
    fields: Mapping[str, str], at: str, lost: Lost, origin_s: float, ahead_s: float = AHEAD_S
) -> Keys | None:
    """The keys of a reservation but its name; ``None``: it is of no nodes or licences, or over.

    A ClusterError if it has a value that cannot be.

    Parameters
    ----------
    fields
        What it says, keys as Slurm writes them.
    at
        Where, for errors.
    lost
        Where to note what is not taken over.
    origin_s
        When the clock of the workload begins, s since 1970.
    ahead_s
        For how long after that or after its own begin one is said that comes again.
    """
    name = fields["ReservationName"]
    nodes = members_of(fields.get("Nodes", ""), at, {}, [ALL])
    seats = parsed(fields.get("Licenses", ""), f"{at}, Licenses", licences)
    if not nodes and not seats:
        lose(lost, "Reservations of something else than nodes and licences are not taken over", name)
        return None
    start_s = parsed(fields.get("StartTime", ""), f"{at}, StartTime", _moment)
    end_s = _end_s(fields, at, start_s, max(start_s, origin_s) + 10 * 366 * 86_400)
    flags = {re.split("[:=]", flag.lstrip("+"))[0] for flag in fields.get("Flags", "").upper().split(",")}
    flags -= {"", "(NULL)"}  # of PURGE_COMP=00:05:00 the name
    every_s = next((EVERY_S[flag] for flag in EVERY_S if flag in flags), 0)
    if end_s <= start_s:
        lose(lost, "Reservations that end before they begin are left out", name)
    if end_s <= start_s or (end_s <= origin_s and not every_s):
        return None
    found: Keys = {"nodes": nodes} if nodes else {}
    found |= {"start": start_s - origin_s, "duration": end_s - start_s}
    found |= {"licences": {counter(one): count for one, count in seats.items()}} if seats else {}
    found |= {"flex": True} if "FLEX" in flags else {}
    if every_s >= end_s - start_s:
        found |= {"every": every_s, "until": max(start_s - origin_s, 0) + ahead_s}
        lose(lost, f"Reservations that come again are said for {ahead_s / 86_400:g} days", name)
        for flag in DAYS.keys() & flags:
            found |= {"days": DAYS[flag], "start_day": WEEK[week_day(fields.get("StartTime", ""))]}
        flags -= EVERY_S.keys()
    for key, what in (("Groups", "groups of users"), ("BurstBuffer", "burst buffers"), ("Watts", "watts")):
        if (said := fields.get(key, "")).strip().lower() not in UNKNOWN:
            lose(lost, f"Reservations for {what} are taken over without these", name, said)
    if others := sorted(flags - _HARMLESS):
        lose(lost, "Flags of reservations are not taken over", name, ", ".join(others))
    if gres := parsed(fields.get("TRES", ""), f"{at}, TRES", tres).gres:
        lose(lost, "Generic resources of reservations are not kept", name, ", ".join(gres))
    if (cores := parsed(fields.get("CoreCnt", ""), f"{at}, CoreCnt", lambda _: _cores(fields, nodes))) is not None:
        found |= {KEPT_CORES: cores}
    for key, text in (("users", fields.get("Users", "")), ("accounts", fields.get("Accounts", ""))):
        if text.strip().lower() in UNKNOWN:
            continue
        names = [one.strip().lstrip("-") for one in text.split(",") if one.strip(" -")]
        found[f"denied_{key}" if text.startswith("-") else key] = lower(names) if key == "accounts" else names
    if "MAINT" in flags and found.get("users", ["root"]) == ["root"] and "accounts" not in found:
        found |= {"maintenance": True}
        for key in ("users", "flex", "denied_users", "denied_accounts"):
            found.pop(key, None)
    return found


def shown_reservations(text: str, where: str, name: str) -> Described:
    """Read what ``scontrol show reservation`` printed, in blocks or one on a line.

    The clock of the workload begins with the first of them. A ClusterError if a record has a value that cannot be.
    """
    every = [(record.fields, f"{where}, line {record.line}") for record in records(text, "ReservationName", BY_NODE)]
    starts = [parsed(fields.get("StartTime", ""), f"{at}, StartTime", _moment) for fields, at in every]
    lost, found = Lost(), dict[str, Keys]()
    if not every:
        return Described(where, name, ())
    for fields, at in every:
        if (keys := reservation_keys(fields, at, lost, min(starts))) is not None:
            found[once(fields["ReservationName"], found, at)] = keys
    first = min(zip(starts, (fields for fields, _ in every), strict=True), key=lambda one: one[0])[1]
    note = f"Reservations are on a clock that is 0 at {first['StartTime']}: change start to that of the jobs."
    return Described(where, name, (), notes=(note,), site=SaidSite(reservations=found, lost=lost))


def _cores(fields: Mapping[str, str], nodes: Sequence[str]) -> dict[str, int] | None:
    """How many cores, as jobs ask for them, a reservation has at most of each of its nodes; ``None``: not said.

    Which it has of which node Slurm says only while it lasts; at any time each has one or more.
    """
    count = fields.get("CoreCnt", "")
    if not count.isdecimal() or not int(count) or ALL in nodes:
        return None
    each = -(-(tres(fields.get("TRES", "")).cpus or int(count)) // int(count))
    names, ids = (fields.get(key, "").split() for key in BY_NODE)
    if names and len(names) == len(ids):
        return {name: each * len(expand(f"c[{own}]")) for name, own in zip(names, ids, strict=True)}
    return dict.fromkeys(nodes, each * (int(count) - len(nodes) + 1))


def _moment(text: str) -> float:
    found = moment_s(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time such as 2026-01-02T03:04:05")
    return found


def _end_s(fields: Mapping[str, str], at: str, start_s: float, latest_s: float) -> float:
    said = fields.get("EndTime", "")
    if said.strip().lower() not in UNKNOWN:
        return min(parsed(said, f"{at}, EndTime", _moment), latest_s)
    span = parsed(fields.get("Duration", ""), f"{at}, Duration", span_s)
    return latest_s if span is None else min(start_s + span, latest_s)
