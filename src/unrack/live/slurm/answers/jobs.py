"""Jobs, in the layouts of all versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from unrack.live.slurm.answers.allocation import gpus_of, held_nodes, holds_of, spread
from unrack.live.slurm.reading import SHARES, SlurmJob, SlurmNode
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.job_ids import HOLDING, JOB_STATES, WAITING, members
from unrack.slurm_text.tres import gres, licences, tres
from unrack.slurm_text.values import listed, number, small, table, text, words

BASE = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
     "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)  # fmt: skip
"""States that a job is in; all others are said besides."""
NO_SPEC = 0x7FFE
"""What 24.05 and later write for specialised threads that were not asked for."""
_WHOLE = re.compile(r"-?[0-9]{1,10}")
_COUNTS = re.compile(r"\*([0-9]{1,6})\b")
NOT_GRES = frozenset({"cpu", "mem", "node", "billing", "energy", "pages", "vmem"})
THREADS = 0x8000
"""In the number of specialised cores, that it is of threads."""


def jobs_of(answer: Any, nodes: Iterable[SlurmNode]) -> tuple[list[SlurmJob], list[str]]:
    """The jobs of an answer, in order of id, and what could not be understood.

    A record that makes no sense is left out; if it names nodes and does not say that it has ended, it stays as a job of
    which nothing is known but that it holds them.

    Raises
    ------
    ValueError
        There are no jobs in it.
    """
    records = table(answer).get("jobs")
    if records is None:
        raise ValueError("an answer without jobs")
    by_name = {node.name: node for node in nodes}
    jobs, unreadable = {}, []
    for place, record in enumerate(listed(records)):
        try:
            job = job_of(table(record), by_name)
        except ValueError as error:
            number_of = _number_or(record, -1 - place)
            unreadable.append(f"job {number_of if number_of > 0 else f'in place {place}'}: {error}")
            holder = _holder(record, number_of, by_name)
            if holder is not None:
                jobs[holder.id] = holder
        else:
            jobs[job.id] = job
    return [jobs[job_id] for job_id in sorted(jobs)], unreadable


def job_of(record: Mapping[str, Any], nodes: Mapping[str, SlurmNode]) -> SlurmJob:
    """A job.

    Raises
    ------
    ValueError
        It cannot be understood.
    """
    state, completing = _state(record)
    waits = state in WAITING
    tasks = max(number(record.get("tasks"), 1), 1)
    array, member = number(record.get("array_job_id")), number(record.get("array_task_id"), -1)
    waiting = text(record.get("array_task_string")).partition("%")[0].strip("[]") if array and member < 0 else ""
    limit_minutes = number(record.get("time_limit"), -1)
    # of one that waits, node_count is a guess: of ``-n 1 -c 4`` two nodes, where one was asked for
    wanted = tres(text(record.get("tres_req_str"))).nodes if waits else None
    nodes_min, nodes_max = max(wanted or number(record.get("node_count"), 1), 1), number(record.get("max_nodes"))
    features = text(record.get("features"))
    nodes_min = max(min(nodes_min, nodes_max or nodes_min), _counted_nodes(features))
    cpus = max(number(record.get("cpus"), 1), 1)
    if waits:  # it is said of each node; of a job that was placed, in all; of ``-N 2-4`` one CPU, which are two
        cpus = max(cpus, nodes_min * small(record.get("minimum_cpus_per_node"), 1))
    crowded = waits and cpus < tasks
    node_memory_mb, cpu_memory_mb = number(record.get("memory_per_node")), number(record.get("memory_per_cpu"))
    holds_now = state in HOLDING or completing
    each, beyond = _on_each_node(record)
    set_aside = max(
        (number(record.get(key)) & ~THREADS for key in ("core_spec", "thread_spec") if _is_said(record.get(key))),
        default=0,
    )
    return SlurmJob(
        id=_job_number(record),
        state=state,
        reason=_reason(record),
        array=array,
        tasks_waiting=members(waiting) if waiting else (),
        array_limit=number(record.get("array_max_tasks")),
        member=member if array else -1,
        het=number(record.get("het_job_id")),
        het_size=len(_numbers(record.get("het_job_id_set"))),
        component=number(record.get("het_job_offset")),
        name=text(record.get("name")),
        user=text(record.get("user_name")),
        account=text(record.get("account")),
        qos=text(record.get("qos")),
        partition=text(record.get("partition")),
        comment=text(record.get("comment")),
        admin_comment=text(record.get("admin_comment")),
        completing=completing,
        priority=number(record.get("priority")),
        submit_s=number(record.get("submit_time")),
        eligible_s=number(record.get("eligible_time")),
        start_s=number(record.get("start_time")),
        end_s=0 if waits or (holds_now and not completing) else number(record.get("end_time")),
        limit_s=None if limit_minutes < 0 else limit_minutes * 60,
        nodes_min=nodes_min,
        nodes_max=nodes_max,
        tasks=tasks,
        cpus=cpus,
        cpus_per_task=max(small(record.get("cpus_per_task"), 1), 1),
        node_memory_mb=node_memory_mb,
        cpu_memory_mb=0 if node_memory_mb else cpu_memory_mb,
        gres=each,
        gres_total=_total(record, tasks),
        gpu_cpus=_gres(record.get("cpus_per_tres")).get("gpu", 0),
        gpu_memory_mb=_gres(record.get("memory_per_tres")).get("gpu", 0),
        licences=licences(text(record.get("licenses"))),
        required_nodes=_names(record.get("required_nodes")),
        excluded_nodes=_names(record.get("excluded_nodes")),
        set_aside=set_aside,
        exclusive=set_aside > 0 or "NONE" in words(record.get("shared")) or "TRUE" in words(record.get("exclusive")),
        dependency=text(record.get("dependency")),
        tasks_per_node=small(record.get("tasks_per_node")),
        tasks_per_core=small(record.get("tasks_per_core")),
        threads_per_core=small(record.get("threads_per_core")),
        contiguous=bool(record.get("contiguous")),
        crowded=crowded,
        features=features,
        reservation=text(record.get("resv_name")),
        types=_types(record),
        beyond=beyond,
        holds=holds_of(record, nodes) if holds_now else {},
        gpus=gpus_of(record) if holds_now else {},
        restarts=number(record.get("restart_cnt")),
        nice=_nice(record.get("nice")),
    )


def _job_number(record: Mapping[str, Any]) -> int:
    found = number(record.get("job_id"))
    if not found:
        raise ValueError("a job without a number")
    return found


def _state(record: Mapping[str, Any]) -> tuple[str, bool]:
    """The state, and whether it is being cleared up."""
    said = words(record.get("job_state"))
    if not said or not all(word in JOB_STATES for word in said):
        raise ValueError(f"{repr(record.get('job_state'))[:60]} is not a state")
    completing = "COMPLETING" in said
    state = next((word for word in said if word in BASE), said[0])
    if completing and (state in WAITING or state == "RUNNING"):
        state = "COMPLETING"  # it was requeued, or it is not said yet how it ended
    return state, completing


def _reason(record: Mapping[str, Any]) -> str:
    """Why it waits, with what Slurm adds: ``ReqNodeNotAvail, UnavailableNodes:n3``."""
    reason, more = text(record.get("state_reason")), record.get("state_description")
    return more if reason and isinstance(more, str) and more.startswith(f"{reason},") else reason


def _gres(value: Any) -> dict[str, int]:
    return {name: count for name, count in gres(text(value)).gres.items() if name not in NOT_GRES}


def _on_each_node(record: Mapping[str, Any]) -> tuple[dict[str, int], tuple[str, ...]]:
    """What a job asks of generic resources on each node, and what it asks beyond all fields."""
    found, sockets = _gres(record.get("tres_per_node")), small(record.get("sockets_per_node"))
    for name, count in _gres(record.get("tres_per_socket")).items():
        found[name] = max(found.get(name, 0), count * sockets)
    beyond = ["burst buffer"] if _is_said(record.get("burst_buffer")) else []
    if _is_said(record.get("tres_per_socket")) and not sockets:
        beyond.append("resources a socket, and does not say of how many sockets")
    return found, tuple(dict.fromkeys(beyond))


def _types(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The types of generic resources that a job asks for."""
    said = ("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket")
    found = [gres(text(record.get(key))) for key in said]
    kinds = [f"{name}:{kind}" for one in found for name, kinds in one.types.items() for kind in kinds]
    return tuple(dict.fromkeys([*kinds, *(share for one in found for share in SHARES if one.gres.get(share, 0))]))


def _total(record: Mapping[str, Any], tasks: int) -> dict[str, int]:
    total = _gres(record.get("tres_per_job"))
    for name, count in _gres(record.get("tres_per_task")).items():
        total[name] = total.get(name, 0) + tasks * count
    per_gpu = small(record.get("tasks_per_tres"))
    if per_gpu and not any(record.get(f"tres_per_{each}") for each in ("job", "node", "task", "socket")):
        total["gpu"] = -(-tasks // per_gpu)
    return total


def _counted_nodes(features: str) -> int:
    """How many nodes a job has at least by the numbers of its features, as in ``[a*2&b*1]``."""
    return 0 if "|" in features else sum(map(int, _COUNTS.findall(features)))


def _names(value: Any) -> tuple[str, ...]:
    """Names of nodes, as a list of hosts, or as a list of names."""
    if isinstance(value, list):
        return tuple(text(name) for name in value)
    names = text(value)
    return tuple(expand(names)) if names else ()


def _numbers(value: Any) -> tuple[int, ...]:
    """The numbers of a list such as ``4-6``, as those of members of arrays are written."""
    said = text(value)
    return members(said) if said else ()


def _is_said(value: Any) -> bool:
    if isinstance(value, Mapping):
        return number(value) > 0
    return value not in (None, "", 0, False, "(null)", NO_SPEC)


def _nice(value: Any) -> int:
    """What is taken off a priority; 22.05 writes one below 0 in 32 bits without a sign."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set", True) else None
    said = "0" if value in (None, "") else str(value)
    if _WHOLE.fullmatch(said) is None:
        raise ValueError(f"{said[:40]!r} is not how nice a job is")
    found = int(said)
    return found - 2**32 if found >= 2**31 else found


def _number_or(record: Any, otherwise: int) -> int:
    try:
        return number(record.get("job_id"), otherwise) if isinstance(record, Mapping) else otherwise
    except ValueError:
        return otherwise


def _holder(record: Any, job: int, nodes: Mapping[str, SlurmNode]) -> SlurmJob | None:
    """A job that holds nodes and of which nothing else is known; ``None`` if it holds none."""
    if not isinstance(record, Mapping):
        return None
    try:
        said = set(words(record.get("job_state")))
    except ValueError:
        said = set()
    if said & (BASE - {"RUNNING", "SUSPENDED"}) and not said & HOLDING:
        return None
    try:
        names = held_nodes(record)
        exact = holds_of(record, nodes)
    except ValueError:
        names, exact = [name for name in nodes if name in str(record.get("nodes"))], {}
    if not names:
        return None
    holds = exact or spread(record, names, nodes)
    return SlurmJob(id=job, state="RUNNING", beyond=("unreadable",), holds=holds)
