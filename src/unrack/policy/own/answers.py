"""What a user's functions return, looked at before it is used: what was got, what was wanted, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import isasyncgen, iscoroutine, isgenerator
from operator import index
from typing import Any

import numpy as np

from unrack.facts import counted
from unrack.kernels.arrays import Ints
from unrack.ledger.candidate import Candidate, lease_on
from unrack.ledger.jobs import Promises
from unrack.ledger.lease import Lease, Loan, Share
from unrack.policy.contract import Decision, Hold, Reject, Requeue, Resize, Start
from unrack.policy.own.fault import wrong
from unrack.reasons import Reason
from unrack.view import View
from unrack.workload.job import Job

PAIR = "a pair: a list of decisions, memory"
DECISIONS = "Start(lease), Resize(lease), Requeue(job, reason), Reject(job, reason) or Hold(job, reason)"
PLACE = "a Lease, a candidate or several in the order in which tasks fill them, or None for not now"
INTEGER = int | np.integer
JOB = int | np.integer | Job


def shown(value: Any) -> str:
    """A value and what it is, in a few words."""
    if value is None or isinstance(value, bool | str):
        return f"{value!r:.100}"
    if isgenerator(value) or isasyncgen(value):
        return "a generator (there is a yield in it)"
    if iscoroutine(value):
        return "a coroutine (it is defined with async)"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}{list(value.shape)}"
    if isinstance(value, Start | Resize | Requeue | Reject | Hold | Lease | Share | Loan | Reason):
        return f"a {type(value).__name__}"
    if isinstance(value, list):
        kinds = " and ".join(sorted({type(each).__name__ for each in value}))
        return f"a list of {len(value)} {kinds}" if value else "an empty list"
    if isinstance(value, tuple):
        return f"({', '.join(shown(each) for each in value[:4])}{', …' if len(value) > 4 else ''})"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{value!r:.80} ({type(value).__name__})"


class Answers:
    """Looks at what a policy returns. ``policy``: what messages call it."""

    def __init__(self, policy: str) -> None:
        self.policy = policy

    def plan(self, function: Any, answer: Any, view: View, now: int) -> tuple[list[Decision], Any]:
        """What ``decide`` or ``adjust`` returned, with plain integers in its leases.

        A FaultyPolicyError if it is not a list of decisions and the memory.
        """
        called = f"policy {self.policy}: {getattr(function, '__name__', 'decide')}"
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], list)):
            raise wrong(function, called, _pair(answer), PAIR, view, now)
        decisions, memory = answer
        for i, decision in enumerate(decisions):
            fault = _fault(decision, view)
            if fault is not None:
                got, want = fault
                raise wrong(function, called, f"decisions[{i}] = {got}", want, view, now)
        return [_plain(decision) for decision in decisions], memory

    def time(self, function: Any, answer: Any, view: View, now: int) -> int | None:
        """What ``next_round`` returned. A FaultyPolicyError if it is no time in whole µs after now."""
        odd = isinstance(answer, bool) or not isinstance(answer, INTEGER) or answer <= now
        if answer is not None and odd:
            want = f"a time in whole µs, after {now}, or None"
            raise wrong(function, f"policy {self.policy}: next_round", shown(answer), want, view, now)
        return None if answer is None else int(answer)

    def reason(self, function: Any, answer: Any, view: View, now: int) -> Reason:
        """What ``why`` returned. A FaultyPolicyError if it is no reason."""
        if not isinstance(answer, Reason):
            raise wrong(function, f"policy {self.policy}: why", shown(answer), "a Reason(Code…, words)", view, now)
        return answer

    def promises(self, function: Any, answer: Any, view: View) -> Promises:
        """What ``promised`` returned. A FaultyPolicyError if it is something else than promises."""
        if not isinstance(answer, Promises):
            want = "Promises({job: Promise(start_us), …}) of unrack.ledger.memory_use"
            raise wrong(function, f"policy {self.policy}: promised", shown(answer), want, view, view.now)
        return answer

    def memory(self, function: Any, answer: Any, view: View) -> Any:
        """What ``begin`` returned: anything that is finished.

        A FaultyPolicyError if it is a generator or a coroutine.
        """
        if isgenerator(answer) or isasyncgen(answer) or iscoroutine(answer):
            raise wrong(function, f"policy {self.policy}: begin", shown(answer), "the memory itself", view, 0)
        return answer


def checked_order(function: Any, answer: Any, queue: Ints, view: View, now: int) -> Ints:
    """What an order of a user's returned: int64[waiting].

    A FaultyPolicyError if it does not hold the same jobs as the queue, each once.
    """
    called = f"order {getattr(function, '__name__', 'of jobs')}"
    want = f"the {len(queue)} job numbers of queue in another order (by_key(queue, key) sorts them)"
    if not isinstance(answer, np.ndarray | Sequence) or isinstance(answer, str):
        raise wrong(function, called, shown(answer), want, view, now)
    jobs = np.asarray(answer)
    if jobs.ndim != 1 or (jobs.size and not np.issubdtype(jobs.dtype, np.integer)):
        raise wrong(function, called, shown(answer), want, view, now)
    if len(jobs) != len(queue):
        raise wrong(function, called, f"{len(jobs)} jobs", want, view, now)
    if not np.array_equal(np.sort(jobs), np.sort(queue)):
        places = np.array_equal(np.sort(jobs), np.arange(len(queue)))
        hint = ": places in the queue perhaps, and queue[places] are jobs" if places else ""
        raise wrong(function, called, f"{jobs[:6].tolist()}{'…' if len(jobs) > 6 else ''}{hint}", want, view, now)
    return np.ascontiguousarray(jobs, np.int64)


def checked_key(function: Any, answer: Any, job: int, view: View, now: int, like: Any) -> float | tuple[float, ...]:
    """What a formula of a user's returned for a job: a number, or a tuple of numbers compared one after the other.

    A FaultyPolicyError if it is neither; a number cannot be compared (nan); or it is not of the same form as for
    another job.

    Parameters
    ----------
    like
        What it returned for another job, which must be of the same form; ``None``: there is none.
    """
    called = f"formula {getattr(function, '__name__', '')} for job {job}".replace("  ", " ")
    parts = answer if isinstance(answer, tuple) else (answer,)
    if not parts or not all(isinstance(part, int | float | np.number) and part == part for part in parts):
        raise wrong(function, called, shown(answer), "a number, or a tuple of numbers", view, now)
    if like is not None and _form(like) != _form(answer):
        raise wrong(function, called, shown(answer), f"{_form(like)}, as for the jobs before it", view, now)
    return answer  # type: ignore[no-any-return]  # integers stay exact


def _form(key: Any) -> str:
    return f"a tuple of {counted(len(key), 'number')}" if isinstance(key, tuple) else "a number"


def checked_lease(function: Callable[..., Any], answer: Any, job: int, view: View, now: int) -> Lease | None:
    """What a placement of a user's returned for a job, as a lease.

    Candidates make one: the tasks fill them in the order given, and ``None`` if they have too little room. A
    FaultyPolicyError if it is no lease, one for another job, or one that names what is not there.
    """
    if answer is None:
        return None
    if isinstance(answer, Candidate):
        answer = [answer]
    if isinstance(answer, Iterator | list) or type(answer) is tuple:
        answer = list(answer)
        if not all(isinstance(one, Candidate) for one in answer):
            got = f"a list with {shown(next(one for one in answer if not isinstance(one, Candidate)))}"
            raise wrong(function, f"place for job {job}", got, PLACE, view, now)
        if any(one.job != job for one in answer):
            raise wrong(function, f"place for job {job}", "candidates of another job", PLACE, view, now)
        answer = lease_on(answer)
        if answer is None:
            return None
    called = f"place {getattr(function, '__name__', '')} for job {job}".replace("  ", " ")
    if not isinstance(answer, Lease):
        raise wrong(function, called, shown(answer), PLACE, view, now)
    fault = _lease_fault(answer, view) or _outside(answer, view)
    if fault is not None:
        raise wrong(function, called, *fault, view, now)
    if index(answer.job) != job:
        raise wrong(function, called, f"a lease for job {answer.job}", f"one for job {job}", view, now)
    return _plain_lease(answer)


def _pair(answer: Any) -> str:
    if isinstance(answer, list):
        return f"{shown(answer)} without the memory"
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], list):
        return f"{shown(answer)}, the memory first"
    if isinstance(answer, tuple) and len(answer) == 2:
        return f"{shown(answer)}, the first part of which is no list"
    return shown(answer)


def _fault(decision: Any, view: View) -> tuple[str, str] | None:
    """What one decision is and what was wanted; ``None``: it may be looked at by the core."""
    if isinstance(decision, Start | Resize):
        name = type(decision).__name__
        if not isinstance(decision.lease, Lease):
            return f"{name}({shown(decision.lease)})", f"{name}(lease), its lease made by Lease.on(…) for instance"
        if isinstance(decision, Start) and not isinstance(decision.rule, str):
            return f"Start(…, rule={shown(decision.rule)})", "a text for the rule"
        return _lease_fault(decision.lease, view)
    if isinstance(decision, Requeue | Reject | Hold):
        name = type(decision).__name__
        if isinstance(decision.job, bool) or not isinstance(decision.job, JOB):
            return f"{name}(job={shown(decision.job)})", "the number of a job"
        if not isinstance(decision.reason, Reason):
            return f"{name}(reason={shown(decision.reason)})", "a Reason(Code.PREEMPTED, words) for instance"
        return None
    want = "Start(lease)" if isinstance(decision, Lease | int | np.integer) else DECISIONS
    return shown(decision), want


def _lease_fault(lease: Lease, view: View) -> tuple[str, str] | None:
    """What is wrong with the parts of a lease, whatever the state is."""
    if isinstance(lease.job, bool) or not isinstance(lease.job, JOB):
        return f"a lease for {shown(lease.job)}", "the number of a job, such as view.queue holds"
    for name, columns in (("rows", 5), ("borrowed", 3), ("claims", 2)):
        part = getattr(lease, name)
        whole = isinstance(part, np.ndarray) and part.dtype == np.int64
        if not whole or part.ndim != 2 or part.shape[1] != columns:
            return f"a lease for job {lease.job} with {name} = {shown(part)}", f"int64[{name}, {columns}]"
    if not (isinstance(lease.shares, tuple) and all(isinstance(share, Share) for share in lease.shares)):
        return f"a lease for job {lease.job} with shares = {shown(lease.shares)}", "a tuple of Share"
    if len(lease.rows) and (lease.rows[:, 2:] < 0).any():
        return f"a lease for job {lease.job} with amounts below 0: {lease.rows.tolist()[:3]}", "tasks, cores, MB ≥ 0"
    return None


def _outside(lease: Lease, view: View) -> tuple[str, str] | None:
    """A node of a lease that does not exist."""
    nodes, there = lease.nodes, view.free.shape[1]
    odd = nodes[(nodes < 0) | (nodes >= there)]
    return (f"a lease on node {odd[0]}", f"nodes 0 to {there - 1}") if len(odd) else None


def _plain(decision: Any) -> Decision:
    """The same decision with integers of Python in place of scalars of NumPy."""
    if isinstance(decision, Start | Resize):
        lease = decision.lease
        return decision if type(lease.job) is int else decision._replace(lease=_plain_lease(lease))
    return decision if type(decision.job) is int else decision._replace(job=index(decision.job))  # type: ignore[no-any-return]


def _plain_lease(lease: Lease) -> Lease:
    return lease if type(lease.job) is int else lease._replace(job=index(lease.job))
