"""A job script as Slurm reads it: the options behind ``#SBATCH``, as a job that waits."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, TraceError
from unrack.live.driver.contract import Problem
from unrack.live.slurm.jobs import JobReading, job_of, odd
from unrack.live.slurm.reading import SlurmJob
from unrack.slurm_text import tres
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.values import span_s
from unrack.workload.job import Job

SHORT = {
    "J": "job-name", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "t": "time", "p": "partition", "A": "account",
    "q": "qos", "C": "constraint", "w": "nodelist", "x": "exclude", "G": "gpus", "L": "licenses", "a": "array",
    "b": "begin", "d": "dependency", "H": "hold", "o": "output", "e": "error", "i": "input", "D": "chdir",
    "M": "clusters", "s": "oversubscribe", "Q": "quiet", "W": "wait", "k": "no-kill", "O": "overcommit", "v": "verbose",
}  # fmt: skip
FLAGS = frozenset({
    "hold", "requeue", "no-requeue", "quiet", "verbose", "wait", "oversubscribe", "share", "no-kill", "overcommit",
    "parsable", "exclusive", "test-only", "contiguous", "spread-job", "use-min-nodes", "reboot", "ignore-pbs",
    "kill-on-invalid-dep", "get-user-env", "propagate", "nice",
})  # fmt: skip
"""Options that may stand without a value."""
KEPT = frozenset({
    "job-name", "nodes", "ntasks", "cpus-per-task", "time", "partition", "account", "qos", "constraint", "nodelist",
    "exclude", "gpus", "licenses", "mem", "mem-per-cpu", "gres", "gpus-per-node", "gpus-per-task",
    "ntasks-per-node", "exclusive", "reservation", "nice", "cpus-per-gpu", "mem-per-gpu",
})  # fmt: skip
NO_PLACE = frozenset({
    "output", "error", "input", "chdir", "mail-type", "mail-user", "requeue", "no-requeue", "quiet", "verbose", "wait",
    "parsable", "export", "export-file", "signal", "open-mode", "comment", "wckey", "ignore-pbs", "get-user-env",
    "propagate", "no-kill", "kill-on-invalid-dep", "profile", "acctg-freq", "test-only",
})  # fmt: skip
"""Options that say nothing of when and where it runs."""
MOST_BYTES = 4_000_000


def asked_by_script(path: Path, cluster: Callable[[bool], Cluster], memory: bool) -> tuple[Job, tuple[str, ...]]:
    """What a script asks of a cluster, and what of it is not kept, a sentence each.

    ``cluster``: given whether devices or licences are asked for; ``memory``: whether memory counts there.

    Raises
    ------
    InputError
        As of :func:`read_script`, or no node could hold it.
    """
    job, left_out = read_script(path)
    there = cluster(bool(job.gres or job.gres_total or job.licences))
    made = job_of(job, there, JobReading(memory=memory, lenient=True), key=job.name, now_us=1)
    if isinstance(made, Problem):
        raise InputError(str(path), made.why, "a job that this system could hold")
    notes = [f"Not kept of {path.name}: --{name}." for name in left_out]
    notes += [f"Not kept of {path.name}: {words}." for words in odd(job, there)]
    if job.limit_s is None:
        notes.append(f"{path.name} says no time limit: it is taken to run for 7 days (--time).")
    return made, tuple(notes)


def read_script(path: Path) -> tuple[SlurmJob, tuple[str, ...]]:
    """The job of a script, and the options that are not kept.

    Raises
    ------
    TraceError
        It cannot be read, or an option has a value that it cannot have.
    """
    try:
        content = path.read_bytes()[:MOST_BYTES]
        text = content.decode("utf-8", "replace")
    except OSError as error:
        raise TraceError(str(path), None, "", error.strerror or str(error), "a job script") from None
    if not text.startswith("#!"):
        raise TraceError(str(path), 1, "", repr(text[:40].split("\n")[0]), "a job script, which begins with #!")
    said: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            break  # Slurm looks no further
        if re.match(r"#SBATCH\s", line):
            try:
                said |= {name: (value, number) for name, value in _options(line[7:])}
            except ValueError as error:
                raise TraceError(str(path), number, "", *str(error).split(" is not ", 1)) from None
    left_out = tuple(name for name in said if name not in KEPT | NO_PLACE)
    return _job(path, said), left_out


def _options(text: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        raise ValueError(f"{text.strip()[:60]!r} is not an option with its quotes closed") from None
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif re.fullmatch(r"-[A-Za-z].*", word):
            name, value = SHORT.get(word[1], ""), word[2:].removeprefix("=")
            equals = value
        else:
            raise ValueError(f"{word[:60]!r} is not an option of sbatch")
        if not name or (name not in KEPT | NO_PLACE | FLAGS and not re.fullmatch(r"[a-z][a-z0-9-]+", name)):
            raise ValueError(f"{word[:60]!r} is not an option of sbatch")
        if not equals and name not in FLAGS:
            if place >= len(words):
                raise ValueError(f"{word[:60]!r} without a value is not an option of sbatch")
            value = words[place]
            place += 1
        yield name, value


def _job(path: Path, said: dict[str, tuple[str, int]]) -> SlurmJob:
    def read(name: str, how: Any, otherwise: Any) -> Any:
        if name not in said:
            return otherwise
        value, line = said[name]
        try:
            return how(value)
        except ValueError as error:
            got, _, want = str(error).partition(" is not ")
            raise TraceError(str(path), line, f"--{name}", got, want or "another value") from None

    def text(name: str) -> str:
        return said.get(name, ("", 0))[0]

    each, tasks = read("cpus-per-task", _count, 1), read("ntasks", _count, 0)
    fewest, most = read("nodes", _nodes, (0, 0))
    per_node = read("ntasks-per-node", _count, 0)
    tasks = tasks or max(fewest, 1) * (per_node or 1)
    on_node = read("gres", tres.gres, tres.Tres())
    each_node = dict(on_node.gres)
    types = tuple(f"{kind}:{name}" for kind, of in on_node.types.items() for name in of)
    total: dict[str, int] = {}
    for name, times in (("gpus-per-node", 0), ("gpus-per-task", tasks), ("gpus", 1)):
        count, kind = read(name, _gpus, (0, ""))
        types += (f"gpu:{kind}",) if kind else ()
        if count and times:
            total["gpu"] = count * times
        elif count:
            each_node["gpu"] = count
    mem = read("mem", tres.memory, None)
    per_cpu, per_gpu = read("mem-per-cpu", tres.memory, None), read("mem-per-gpu", tres.memory, None)
    limit = read("time", span_s, None)
    return SlurmJob(
        id=0, state="PENDING", name=text("job-name") or path.name, partition=text("partition"),
        account=text("account"), qos=text("qos"), features=text("constraint"), reservation=text("reservation"),
        limit_s=60 * math.ceil(limit / 60) if limit else None, nodes_min=fewest, nodes_max=most, tasks=tasks,
        cpus=tasks * each, cpus_per_task=each, tasks_per_node=per_node,
        node_memory_mb=0 if mem is None else mem.mb, cpu_memory_mb=0 if per_cpu is None else per_cpu.mb,
        gres=each_node, gres_total=total, gpu_cpus=read("cpus-per-gpu", _count, 0),
        gpu_memory_mb=0 if per_gpu is None else per_gpu.mb, licences=read("licenses", tres.licences, {}), types=types,
        required_nodes=tuple(read("nodelist", expand, ())), excluded_nodes=tuple(read("exclude", expand, ())),
        exclusive="exclusive" in said and said["exclusive"][0] in ("", "yes"), nice=read("nice", _nice, 0),
    )  # fmt: skip


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
        raise ValueError(f"{text[:40]!r} is not a whole number from 1 on")
    return int(text)


def _nice(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,10}", text or "100"):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text or 100)


def _nodes(text: str) -> tuple[int, int]:
    """The fewest and the most nodes of ``2`` or ``2-4``."""
    first, dash, last = text.partition("-")
    fewest = _count(first)
    most = _count(last) if dash else fewest
    if most < fewest:
        raise ValueError(f"{text[:40]!r} is not a number of nodes such as 2 or 2-4")
    return fewest, most


def _gpus(text: str) -> tuple[int, str]:
    """How many GPUs, and of which kind, of ``a100:2``."""
    kind, colon, count = text.rpartition(":")
    return _count(count), kind if colon else ""
