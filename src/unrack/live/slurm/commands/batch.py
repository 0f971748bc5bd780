"""Orders as lines for ``scontrol``, and the order that each line of its complaints is about."""

from __future__ import annotations

import re
from collections.abc import Sequence

from unrack.errors import InputError
from unrack.live.slurm.orders import FEATURES, AskAgain, HoldBack, JobKey, Lengthen, Order, Place, Release
from unrack.slurm_text.hostlists import compress

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_PARTITIONS = re.compile(r"[\w.+@-]+(?:,[\w.+@-]+)*")
_MOST_NODES = 100_000
_UNREACHABLE = re.compile(
    r"Unable to contact|Socket timed out|Connection refused|Zero Bytes were transmitted|standby mode|"
    r"Unable to connect|Connection reset|Communication connection failure|Protocol authentication",
    re.IGNORECASE,
)


def commands_of(order: Order, nodes: Sequence[str] = ()) -> list[list[str]]:
    """The commands of ``scontrol`` that carry an order out; ``nodes``: the names of all nodes.

    Tried on 22.05: ``ReqNodeList`` of the first component of a heterogeneous job is refused by ``scontrol`` itself, and
    its number stands for all components in every other command. So each is placed by the nodes that it must not have.

    Raises
    ------
    InputError
        It names no job, or a node with an impossible name.
    """
    if not (isinstance(order, Place | AskAgain) and order.parts):
        return [words_of(order)]
    job = _job(order.job)
    again = _again(order) if isinstance(order, Place) else []
    found = [["update", f"JobId={job}", *again]] if again else []
    for number, (names, partition) in enumerate(order.parts):
        without = names if isinstance(order, AskAgain) else sorted(set(nodes).difference(_checked(job, names)))
        kept_out = f"ExcNodeList={compress(_checked(job, without))}"
        inside = _inside(order.job, partition, order.reservation if isinstance(order, Place) else "")
        found.append(["update", f"JobId={job}+{number}", kept_out, *inside])
    return found


def words_of(order: Order) -> list[str]:
    """The command of ``scontrol`` that carries an order out, of a job by itself.

    Raises
    ------
    InputError
        As of :func:`commands_of`.
    """
    job = _job(order.job)
    if isinstance(order, Place):
        if not order.nodes:
            raise InputError(f"the place of job {job}", "no nodes", "at least one")
        number = [f"NumNodes={len(order.nodes)}-{len(order.nodes)}"] * order.numbered
        inside = _inside(order.job, order.partition, order.reservation)
        return [*_update(job, order.nodes), *number, *inside, *["Features="] * order.anywhere, *_again(order)]
    if isinstance(order, AskAgain):
        nodes = _update(job, order.nodes) if order.nodes else ["update", f"JobId={job}"]
        return [*nodes, *_inside(order.job, order.partition, features=order.features)]
    if isinstance(order, Release):
        return ["release", job]
    if isinstance(order, Lengthen):
        return ["update", f"JobId={job}", f"TimeLimit={order.limit_s // 60}"]
    if isinstance(order, HoldBack) and order.together:
        return ["hold", job]
    if isinstance(order, HoldBack):
        # One command, begun by an empty list of nodes: Slurm refuses that as a whole for a job that runs. A list with
        # nodes, or a number of them, would take nodes away from it.
        again = [*_update(job, ()), "Priority=0"]
        if order.nodes_min > 0:
            again.append(f"NumNodes={order.nodes_min}" + (f"-{order.nodes_max}" if order.nodes_max > 0 else ""))
        return again
    # Incomplete: without it, a job that has ended meanwhile would be run again.
    return ["requeuehold", "Incomplete", job]


def attributed(complaints: str, marks: Sequence[str]) -> list[str | None]:
    """What ``scontrol`` complained of before each mark; ``""``: of nothing; ``None``: the mark never came."""
    found: list[str | None] = []
    lines = complaints.splitlines()
    at = 0
    for mark in marks:
        end = next((place for place in range(at, len(lines)) if lines[place].endswith(mark)), None)
        if end is None:
            return found + [None] * (len(marks) - len(found))
        found.append(problem_in(lines[at:end]))
        at = end + 1
    return found


def problem_in(lines: Sequence[str]) -> str:
    """The first complaint among lines, without what introduces it; ``""``: none."""
    for line in lines:
        said = re.sub(r"^(scontrol: )?(error: )?", "", line.strip())
        if said:
            return "".join(letter if letter.isprintable() else "?" for letter in said[:200])
    return ""


def is_unreachable(problem: str) -> bool:
    """True if a complaint means that Slurm was not there, so that nothing is known of the order."""
    return _UNREACHABLE.search(problem) is not None


def _update(job: str, nodes: Sequence[str]) -> list[str]:
    return ["update", f"JobId={job}", f"ReqNodeList={compress(_checked(job, nodes))}"]


def _checked(job: str, nodes: Sequence[str]) -> Sequence[str]:
    """Nodes by name, which may be written into a command."""
    if len(nodes) > _MOST_NODES:
        raise InputError(f"the place of job {job}", f"{len(nodes)} nodes", f"at most {_MOST_NODES}")
    for name in nodes:
        if _NODE.fullmatch(name) is None:
            raise InputError(f"the place of job {job}", repr(name)[:80], "names of nodes")
    return nodes


def _again(order: Place) -> list[str]:
    """What a job is to forget of its run before."""
    limit = [] if order.limit_s is None else [f"TimeLimit={order.limit_s // 60}"]
    return [*(["StartTime=now"] if order.at_once else []), *limit]


def _inside(job: JobKey, partition: str, reservation: str = "", features: str = "") -> list[str]:
    named = {"Partition": partition, "ReservationName": reservation, "Features": features}
    for key, names in named.items():
        if names and (FEATURES if key == "Features" else _PARTITIONS).fullmatch(names) is None:
            raise InputError(
                f"the place of job {job}", repr(names)[:80], "names of partitions, features or a reservation"
            )
    return [f"{key}={names}" for key, names in named.items() if names]


def _job(key: JobKey) -> str:
    if not 0 < key.id < 2**32 or key.member >= 2**32:
        raise InputError("an order", f"job {key.id}", "the number of a job")
    return str(key)
