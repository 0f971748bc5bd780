"""What is wrong with a user's policy, as one error: the line, what happened, and what the policy was given."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from unrack.errors import FaultyPolicyError, PolicyError, check_choice
from unrack.ledger.lease import CORES as HELD_CORES
from unrack.ledger.lease import FIRST, LOCAL_MB, NODES, Lease
from unrack.ledger.lease import TASKS as HELD_TASKS
from unrack.plugins.code import OURS, FileLine, definition, frames, in_words, is_own, is_users, users_line
from unrack.policy.contract import Ability, Estimates, Traits
from unrack.view import View
from unrack.vocabulary import Need
from unrack.workload.job import CORES, ESTIMATE, MEMORY, TASKS

SHOWN = 3
"""So many waiting jobs, and rows of a lease, are told one by one."""


def seconds(us: int) -> str:
    """A time in seconds, exact where it is whole."""
    return f"{us // 1_000_000:,} s" if us % 1_000_000 == 0 else f"{us / 1e6:,.6g} s"


def job_in_words(view: View, job: int) -> str:
    """A job by its number, and what it asks for."""
    asks = view.asks[:, job]
    tasks, cores, mb = int(asks[TASKS]), int(asks[CORES]), int(asks[MEMORY])
    each = f"{tasks} task{'s' if tasks > 1 else ''} of {cores} core{'' if cores == 1 else 's'}"
    return f"job {job} ({each}{f' and {mb:,} MB' if mb else ''}, {seconds(int(asks[ESTIMATE]))})"


def glance(view: View, now: int) -> str:
    """The queue, the running jobs and what is free, in one sentence; ``now``: µs."""
    queue = view.queue[:SHOWN].tolist()
    first = ", ".join(job_in_words(view, job) for job in queue) + (" …" if view.waiting > len(queue) else "")
    waiting = f"{view.waiting} of {view.jobs} jobs so far wait: {first}"
    if not queue:
        waiting = f"none of {view.jobs} jobs so far waits"
    nodes = view.free.shape[1]
    roomy = int(np.count_nonzero(view.free[0] > 0))
    words = (
        f"at {seconds(now)}, {waiting}; {view.running_count} run; "
        f"{view.free_cores:,} cores free, on {roomy:,} of {nodes:,} nodes"
    )
    if view.devices is not None:
        for kind in view.devices.installed.kinds:
            free, there = len(view.devices.free(kind)), len(view.devices.installed.of_kind(kind))
            words += f"; {free} of {there} {kind} free"
    return words


def lease_in_words(lease: Lease) -> str:
    """What a lease would hold, its first rows one by one."""
    words = []
    for row in lease.rows[:SHOWN].tolist():
        first, count = row[FIRST], row[NODES]
        where = f"node {first}" if count == 1 else f"each of nodes {first} to {first + count - 1}"
        mb = f" and {row[LOCAL_MB]:,} MB" if row[LOCAL_MB] else ""
        words.append(f"{row[HELD_TASKS]} task(s) with {row[HELD_CORES]} cores{mb} on {where}")
    rest = " …" if len(lease.rows) > SHOWN else ""
    shares = "".join(f", {'+'.join(map(str, share.devices))} at node {share.node}" for share in lease.shares[:SHOWN])
    return (", ".join(words) or "nothing") + rest + (f"; devices{shares[1:]}" if shares else "")


POLICIES = OURS + "policy"
STATES = ("has not come", "waits", "runs", "has finished", "was rejected")
"""What a job of each :class:`unrack.ledger.state.Status` does."""
ASKING = OURS + "core/"
"""Where the code is that asks policies."""


class AskedPolicy(NamedTuple):
    """What a policy was asked when something was raised."""

    member: str  # which of its methods
    view: View | None  # what it was given; ``None``: not known
    now: int  # when, µs
    decision: Any  # the decision that was being carried out; ``None``: none was


def asked_in(trace: TracebackType | None) -> AskedPolicy | None:
    """What the policy was asked, from the frames of the code that asked it; ``None``: something else went on.

    Nothing is noted while a run goes well, so that rounds pay nothing for this.
    """
    stack = [frame for frame, _ in frames(trace)]
    asking = [i for i, frame in enumerate(stack) if frame.f_code.co_filename.startswith(ASKING)]
    if not asking:
        seeds = any(frame.f_code.co_name == "seeded" for frame in stack)
        return AskedPolicy("seeded", None, 0, None) if seeds else None
    last = asking[-1]
    core = stack[asking[0]].f_locals.get("self")
    known = [stack[i].f_locals for i in asking]
    now = next((int(names["now"]) for names in reversed(known) if "now" in names), 0)
    decision = next((names["decision"] for names in reversed(known) if names.get("decision") is not None), None)
    if last + 1 == len(stack):
        member = "decide"
    else:
        inner = stack[last + 1].f_code
        if not (is_users(inner.co_filename) or inner.co_filename.startswith(POLICIES)) and decision is None:
            return None
        member = inner.co_name
    return AskedPolicy(member, getattr(core, "view", None), now, decision)


def raised(policy: object, name: str, error: BaseException) -> FaultyPolicyError | None:
    """An exception of a policy as an error that names the user's line; ``None``: it did not come from a user's code."""
    asked, line = asked_in(error.__traceback__), users_line(error.__traceback__)
    if line is None and users_functions(policy):  # one that is installed, among the libraries
        line = users_line(error.__traceback__, installed=True)
    if asked is None or line is None or isinstance(error, FaultyPolicyError):
        return None
    return FaultyPolicyError(f"policy {name} failed in {asked.member}: {in_words(error)}\n  {line}{_given(asked)}")


def refused(policy: object, name: str, error: BaseException) -> str | None:
    """What more there is to say of a decision that was refused; ``None``: its policy was not written by a user."""
    authors = users_functions(policy)
    asked = asked_in(error.__traceback__)
    if not authors or asked is None:
        return None
    lines = [str(error)]
    lease = getattr(asked.decision, "lease", None)
    if isinstance(lease, Lease):
        lines.append(f"decided: {type(asked.decision).__name__} of job {lease.job}, {lease_in_words(lease)}")
        if asked.view is not None and 0 <= lease.job < asked.view.jobs:
            state = STATES[int(asked.view.status[lease.job])]
            lines.append(f"asked: {job_in_words(asked.view, lease.job)}, which {state}")
            lines += _room(asked.view, lease)
    elif asked.decision is not None:
        lines.append(f"decided: {asked.decision!r:.200}")
    lines += [f"by policy {name}: {place}" for place in map(definition, authors) if place is not None]
    return "\n  ".join(lines) + _given(asked)


def _room(view: View, lease: Lease) -> list[str]:
    """What the first nodes of a lease have free."""
    nodes = [node for node in lease.rows[:3, 0].tolist() if 0 <= node < view.free.shape[1]]
    needs_mb = bool(lease.rows[:, LOCAL_MB].any())
    words = [
        f"{int(view.free[0, node])} cores{f' and {int(view.free[1, node]):,} MB' if needs_mb else ''} on node {node}"
        for node in nodes
    ]
    return [f"free: {', '.join(words)}"] if words else []


def _given(asked: AskedPolicy) -> str:
    return "" if asked.view is None else f"\n  given: {glance(asked.view, asked.now)}"


def wrong(function: Any, called: str, got: str, want: str, view: View | None = None, now: int = 0) -> FaultyPolicyError:
    """An error about what a user's function has returned.

    Parameters
    ----------
    function
        The function; its definition is named.
    called
        What it is to the policy: ``"policy Mine, decide"``.
    got, want
        What it returned, and what it should have.
    view, now
        What it was given.
    """
    place = definition(function)
    text = f"{called} returned {got}, wanted {want}" + (f"\n  {place}" if place is not None else "")
    return FaultyPolicyError(text + ("" if view is None else f"\n  given: {glance(view, now)}"))


def users_functions(found: object) -> list[Any]:
    """The functions of a policy that a user has written: its parts, or else its ``decide``."""
    inner = getattr(found, "inner", found)
    parts = [part for name in ("place", "order", "backfill_order") if callable(part := getattr(inner, name, None))]
    own = [part for part in parts if is_own(part) and not hasattr(part, "__self__")]
    decide = getattr(inner, "decide", None)
    return ([decide] if decide is not None and is_own(decide) else []) + own[:1]


PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "begin": ("view",),
    "decide": ("view", "memory", "now"),
    "next_round": ("view", "memory", "now"),
    "why": ("view", "memory", "job", "now"),
    "adjust": ("view", "memory", "used", "now"),
    "reserves_mb": ("view", "memory", "job", "asked_mb"),
    "promised": ("view", "memory"),
    "extends": ("view", "memory", "job", "now"),
    "expected_end_us": ("view", "memory", "job", "now"),
    "possible": ("cluster", "jobs"),
    "seeded": ("seed",),
    "terms": ("cluster",),
}
"""Methods of a policy → what they are given, in this order."""
ORDER = ("view", "queue", "now")
"""What an order is given."""
PLACES: Mapping[str, tuple[str, ...]] = {"ListScheduler": ("free", "total", "job"), "Placed": ("view", "job", "now")}
"""Classes of ours that take a placement of a user's → what it is given."""
CLOSE = 0.88
"""A name that is so like one of those above is taken for it."""


def at(where: str, line: FileLine | None) -> str:
    """Where something is wrong: what was asked for, and the line."""
    return where if line is None else f"{where} ({line.file}, line {line.number})"


def has_decide(found: object, where: str) -> None:
    """Refuse what decides nothing.

    A PolicyError if it has no ``decide`` to call; a name that is nearly that is pointed out.
    """
    if callable(getattr(found, "decide", None)):
        return
    kind = found if isinstance(found, type) else type(found)
    near = difflib.get_close_matches("decide", _own_names(found), 1, 0.6)
    got = f"{found!r:.100}" if type(found).__module__ == "builtins" else f"a {kind.__name__} without a method decide"
    hint = f" (it has {near[0]!r})" if near else ""
    want = "an object with a method decide(view, memory, now)"
    raise PolicyError(at(where, definition(kind)), f"{got}{hint}", want)


def check_members(found: object, where: str) -> None:
    """Refuse members that are misspelt, take other parameters than they are given, or are of another kind.

    A refusal is a PolicyError; it names the line.
    """
    known = {*PARAMETERS, "rounds", "round_story"}
    for name in _own_names(found):
        if name in known or not callable(getattr(found, name)):
            continue
        near = difflib.get_close_matches(name, PARAMETERS, 1, CLOSE)
        if near and not hasattr(found, near[0]):
            line = definition(getattr(found, name))
            raise PolicyError(
                at(where, line), f"a method {name!r}, which is never called", f"{near[0]!r}, or another name"
            )
    for name, given in PARAMETERS.items():
        member = getattr(found, name, None)
        if member is not None and (callable(member) or name != Ability.TERMS):  # flow has a field of that name
            takes(member, given, f"{where}, {name}")
    own = getattr(found, "traits", None)
    if own is not None and not isinstance(own, Traits):
        raise PolicyError(f"{where}, traits", f"{own!r:.100}", "Traits(…)")
    estimates = getattr(found, "estimates", Estimates.REQUESTED)
    check_choice(f"{where}, estimates", estimates, Estimates, PolicyError)
    needs = getattr(found, "needs", ())
    if isinstance(needs, str) or not all(need in tuple(Need) for need in needs):
        raise PolicyError(f"{where}, needs", f"{needs!r:.100}", "a set of Need.DEADLINES, Need.USERS …")


def check_parts(found: object, where: str) -> None:
    """Refuse functions of a user's that a policy of ours calls with other parameters than they take.

    A refusal is a PolicyError; it names the line.
    """
    ours = {kind.__name__ for kind in type(found).__mro__ if not is_own(kind)} - {"object"}
    parts: dict[str, tuple[str, ...]] = {"order": ORDER, "backfill_order": ORDER} if ours else {}
    for name in sorted(ours & set(PLACES)):
        parts["place"] = PLACES[name]
    for part, given in parts.items():
        function = getattr(found, part, None)
        if callable(function) and is_own(function):
            takes(function, given, f"{where}, {part}")


def takes(function: Any, given: tuple[str, ...], where: str) -> None:
    """Refuse a function that cannot be called with so many arguments. A refusal is a PolicyError; it names the line."""
    if not callable(function):
        raise PolicyError(where, f"{function!r:.100}", f"a method ({', '.join(given)})")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of code that is not written in Python nothing is known
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        got = f"{name}{_names(signature)}: {error}"
        raise PolicyError(at(where, definition(function)), got, f"{name}({', '.join(given)})") from None


def _names(signature: inspect.Signature) -> str:
    return f"({', '.join(str(one.replace(annotation=one.empty)) for one in signature.parameters.values())})"


def _own_names(found: object) -> list[str]:
    """The public names of an object that are not from a class of ours."""
    kinds = [kind for kind in type(found).__mro__ if is_own(kind) and kind is not object]
    names = {name for kind in kinds for name in vars(kind)} | set(getattr(found, "__dict__", {}))
    return sorted(name for name in names if not name.startswith("_"))
