"""Events and decisions as plain values of JSON, and back: what a journal holds, and what two runs are compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from unrack.errors import InputError
from unrack.events import (
    Adopted,
    Drained,
    Event,
    Expected,
    Expired,
    Finished,
    Opened,
    Promised,
    Repaired,
    Round,
    Started,
    StartFailed,
    Submitted,
    Withdrawn,
)  # fmt: skip
from unrack.ledger.jobs import Promise
from unrack.ledger.lease import Lease, Share
from unrack.policy.contract import Decision, Extend, Hold, Reject, Requeue, Reshape, Resize, Resume, Start, Suspend
from unrack.reasons import Code, Reason
from unrack.resources.places import NO_CLAIMS
from unrack.workload.job import Demand, Job

Value = Any
"""What JSON can hold, without floats that are no numbers."""


def job_record(job: Job) -> dict[str, Value]:
    """A job; what is as by default is left out."""
    demand = job.demand
    found: dict[str, Value] = {
        "id": job.id, "submit": job.submit_us, "request": job.request_us, "tasks": demand.tasks,
        "cores": demand.cores, "mb": demand.memory_mb, "deadline": job.deadline_us, "priority": job.priority,
        "user": job.user, "app": job.app, "devices": {kind: dict(of) for kind, of in demand.devices.items()},
        "local": demand.local_mb, "ceiling": demand.ceiling_mb, "group": demand.group, "spread": demand.spread,
        "forbidden": list(demand.forbidden), "said": {name: text for name, text in job.said.items() if text},
        "components": list(map(job_record, job.components)),
    }  # fmt: skip
    return {key: value for key, value in found.items() if key in ("id", "submit", "request", "tasks") or value}


def job_of_record(record: Mapping[str, Value]) -> Job:
    """The job that :func:`job_record` wrote."""
    demand = Demand(
        record["tasks"], record.get("cores", 0), record.get("mb", 0), record.get("devices", {}),
        local_mb=record.get("local", 0), ceiling_mb=record.get("ceiling"), group=record.get("group", ""),
        spread=record.get("spread", ""), forbidden=tuple(record.get("forbidden", ())),
    )  # fmt: skip
    return Job(
        0, record["id"], record["submit"], record["request"], record.get("deadline"), record.get("priority", 0),
        record.get("user", ""), record.get("app", ""), demand, record.get("said", {}),
        tuple(map(job_of_record, record.get("components", ()))),
    )  # fmt: skip


def lease_record(lease: Lease) -> dict[str, Value]:
    """A lease by numbers of nodes, devices and places; parts that it does not have are left out."""
    found: dict[str, Value] = {"job": int(lease.job), "rows": lease.rows.tolist()}
    if len(lease.borrowed):
        found["borrowed"] = np.asarray(lease.borrowed).tolist()
    if lease.shares:
        found["shares"] = [
            [int(share.node), list(map(int, share.devices)), list(map(int, share.amounts)), int(share.parts)]
            for share in lease.shares
        ]
    if len(lease.claims):
        found["claims"] = lease.claims.tolist()
    if lease.parts:
        found["parts"] = list(map(lease_record, lease.parts))
    return found


def lease_of_record(record: Mapping[str, Value]) -> Lease:
    """The lease that :func:`lease_record` wrote."""
    shares = tuple(
        Share(node, tuple(devices), tuple(amounts), parts) for node, devices, amounts, parts in record.get("shares", ())
    )
    claims = record.get("claims")
    return Lease(
        record["job"], rows_of(record["rows"]), loans_of_record(record.get("borrowed", ())), shares,
        np.array(claims, np.int64).reshape(-1, 2) if claims else NO_CLAIMS,
        tuple(map(lease_of_record, record.get("parts", ()))),
    )  # fmt: skip


def rows_of(rows: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """int64[rows, 5]: as :attr:`unrack.ledger.lease.Lease.rows`."""
    return np.array(rows, np.int64).reshape(-1, 5)


def loans_of_record(loans: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """int64[loans, 3]: as :attr:`unrack.ledger.lease.Lease.borrowed`."""
    return np.array(loans, np.int64).reshape(-1, 3)


def reason_record(reason: Reason) -> list[Value]:
    """A reason."""
    return [reason.code.value, reason.what, int(reason.asked), int(reason.free)]


def reason_of_record(record: Sequence[Value]) -> Reason:
    """The reason that :func:`reason_record` wrote."""
    return Reason(Code(record[0]), *record[1:])


def decision_record(decision: Decision) -> list[Value]:
    """A decision, its kind first."""
    if isinstance(decision, Start):
        return ["start", lease_record(decision.lease), decision.rule]
    if isinstance(decision, Resize):
        return ["resize", lease_record(decision.lease), bool(decision.below)]
    if isinstance(decision, Reshape):
        return ["reshape", int(decision.job), int(decision.tasks)]
    if isinstance(decision, Requeue):
        return ["requeue", int(decision.job), reason_record(decision.reason), bool(decision.keep_work)]
    if isinstance(decision, Resume):
        return ["resume", int(decision.job)]
    if isinstance(decision, Extend):
        return ["extend", int(decision.job), int(decision.until_us)]
    assert isinstance(decision, Reject | Hold | Suspend)
    return [type(decision).__name__.lower(), int(decision.job), reason_record(decision.reason)]


def event_record(event: Event) -> list[Value]:
    """An event, its kind first.

    Raises
    ------
    TypeError
        It is one that only simulated worlds tell.
    """
    if isinstance(event, Submitted) and isinstance(event.job, Job):
        return ["submitted", job_record(event.job), event.work_us]
    if isinstance(event, Adopted) and isinstance(event.job, Job):
        more = [event.extended_us] if event.extended_us else []
        return ["adopted", job_record(event.job), lease_record(event.lease), event.left_us, *more]
    if isinstance(event, StartFailed | Withdrawn):
        kind = "start-failed" if isinstance(event, StartFailed) else "withdrawn"
        return [kind, event.job, reason_record(event.reason)]
    if isinstance(event, Started | Finished | Expired):
        return [type(event).__name__.lower(), event.job]
    if isinstance(event, Expected):
        return ["expected", event.job, event.end_us]
    if isinstance(event, Promised):
        start_us, turn, grain, lease = event.promise
        return ["promised", event.job, start_us, turn, grain, None if lease is None else lease_record(lease)]
    if isinstance(event, Drained | Repaired):
        return [type(event).__name__.lower(), list(event.nodes)]
    if isinstance(event, Round | Opened):
        return [type(event).__name__.lower(), *event]
    raise TypeError(f"{type(event).__name__} is no event of a live world")


READ: dict[str, Callable[[Sequence[Value]], Event]] = {
    "submitted": lambda r: Submitted(job_of_record(r[1]), r[2]),
    "adopted": lambda r: Adopted(job_of_record(r[1]), lease_of_record(r[2]), r[3], None, *r[4:]),
    "start-failed": lambda r: StartFailed(r[1], reason_of_record(r[2])),
    "withdrawn": lambda r: Withdrawn(r[1], reason_of_record(r[2])),
    "started": lambda r: Started(r[1]),
    "finished": lambda r: Finished(r[1]),
    "expired": lambda r: Expired(r[1]),
    "expected": lambda r: Expected(r[1], r[2]),
    "promised": lambda r: Promised(r[1], Promise(r[2], r[3], r[4], None if r[5] is None else lease_of_record(r[5]))),
    "drained": lambda r: Drained(tuple(r[1])),
    "repaired": lambda r: Repaired(tuple(r[1])),
    "round": lambda _: Round(),
    "opened": lambda r: Opened(*r[1:]),
}
"""Kind of event → what makes it of its record."""


def event_of_record(record: Sequence[Value], where: str = "journal") -> Event:
    """The event that :func:`event_record` wrote.

    Raises
    ------
    InputError
        It is none.
    """
    try:
        return READ[record[0]](record)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(where, f"{record!r:.80} ({error!r:.80})", "the record of an event") from None
