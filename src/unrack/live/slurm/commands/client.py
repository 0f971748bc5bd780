"""Slurm through its commands.

What holds a job, and which account may undo it (tried on 22.05; ``U``: its user, ``O``: an operator):

==================================================  ==============  ================  ==============  ===============
held by                                             reason          U: release        U: hold, uhold  U: priority 100
==================================================  ==============  ================  ==============  ===============
U: sbatch -H, hold, uhold, priority 0; O: uhold     JobHeldUser     released          stays           refused
O: hold, priority 0; HoldBack                       JobHeldAdmin    refused           stays           refused
a job_submit plugin that sets the priority to 0     JobHeldUser     released, unless  stays           refused
                                                                    the plugin's
                                                                    job_modify says
                                                                    no
requeuehold by U or O; RequeueHeld                  JobHeldUser     released          stays           refused
Slurm itself: it can never run as it was placed     BadConstraints  refused           reason is lost  refused
==================================================  ==============  ================  ==============  ===============

All of them have priority 0, and an operator's ``release`` undoes them all. An operator's ``hold`` of a job that its
user holds leaves the reason JobHeldUser, and with it the user's right to release it. (``scontrol`` shows another reason
for jobs that were requeued, job_requeued_in_held_state.) A running job can be held by ``scontrol hold``: it goes on,
and waits held if it is requeued. Jobs that wait for a time or for other jobs have a priority, and are not held.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unrack.cluster.formats.site import SaidSite
from unrack.errors import InputError
from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.used import Used
from unrack.live.slurm.answers.jobs import jobs_of
from unrack.live.slurm.answers.nodes import nodes_of
from unrack.live.slurm.answers.shown import hidden_in, licences_in, partitions_in, reservations_in
from unrack.live.slurm.commands.accounting import read_accounting, read_used
from unrack.live.slurm.commands.batch import attributed, commands_of, is_unreachable, problem_in
from unrack.live.slurm.commands.listing import (
    JOB_FIELDS,
    NODE_FIELDS,
    PLACED_FIELDS,
    as_records,
    excluded_command,
    jobs_command,
    nodes_command,
    rows,
    separator,
)
from unrack.live.slurm.commands.per_gpu import TasksPerGpu
from unrack.live.slurm.commands.run import Done, clean_environment, find_command, printed, run_all
from unrack.live.slurm.orders import AskAgain, Order, OrderAnswer, Place
from unrack.live.slurm.reading import Reading
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.job_ids import HOLDING
from unrack.slurm_text.scheduler import scheduler_of
from unrack.slurm_text.values import records

BATCH = 500
"""Orders that are given at a time at most."""
LANES, SIDE_BY_SIDE = 2, 50
"""How many ``scontrol`` share orders, and from how many orders on: while one waits, Slurm answers the other."""
SHOWN = ("licenses", "partitions", "reservations")
"""What ``scontrol`` is asked to show at each look."""
ACCOUNTING_S, MOST_WAIT_S = 60.0, 5.0
"""How long what accounting says is believed, ten times as long where it does not answer; and how long it may take."""
ORDER_S = 0.1
"""What each order of a batch adds to the time limit."""


class CommandClient:
    """A client that runs Slurm's commands. It needs no more rights than those of its orders: an operator's.

    Parameters
    ----------
    timeout_s
        How long a command may take.
    environment
        The environment of the commands, with ``PATH`` and perhaps ``SLURM_CONF``; ``None``: that of this process.

    Raises
    ------
    InputError
        The commands are not on the ``PATH``.
    """

    def __init__(self, timeout_s: float = 10.0, environment: Mapping[str, str] | None = None) -> None:
        self._timeout_s = timeout_s
        self._environment = clean_environment(environment)
        self._squeue, self._sinfo, self._scontrol = (
            find_command(name, self._environment) for name in ("squeue", "sinfo", "scontrol")
        )
        self._major = 0
        self._digest = b""
        self._between = separator()
        self._nodes: tuple[str, ...] = ()
        self._accounting: SaidSite | None = None
        self._used: Used | None = None
        self._whole_cores = self._buffers = True
        self._asked_s, self._unknown = -ACCOUNTING_S, ""
        self._per_gpu = TasksPerGpu(self._show)

    def changed(self) -> bool:
        """Whether anything may have changed since the last :meth:`read`, by short listings of all that matters."""
        return self._look()[0] != self._digest

    def read(self) -> Reading:
        """All that there is now; a change while it is read is a change after it."""
        at_s = time.time()
        if not self._major:
            self._major = self._version()
        self._between = separator()  # another one each time: users see in the list of processes what was used
        digest, listed, told = self._look()
        old = self._major < 23
        squeue = [self._squeue, "--all", "--states=all", "--json"]
        # 22.05 has JSON of nodes in sinfo alone, without the memory that is set aside; later, sinfo groups them.
        if old:
            commands = [squeue, [self._sinfo, "--all", "--json"], [self._scontrol, "--all", "-o", "show", "nodes"]]
        else:
            commands = [squeue, [self._scontrol, "--all", "--json", "show", "nodes"]]
        done = run_all(commands, self._environment, self._timeout_s)
        aside_mb = _set_aside_mb(printed(done[2], "scontrol")) if old else {}
        try:
            nodes, bad_nodes = nodes_of(_listing(_parsed(done[1], "the nodes"), "nodes", wanted=True), aside_mb)
        except ValueError as error:
            raise UnreachableError(f"Slurm's answer about nodes cannot be understood: {error}") from error
        self._ask_accounting(at_s)
        if not self._whole_cores:
            nodes = [replace(node, together=1) for node in nodes]
        spare = as_records(_rows(listed, JOB_FIELDS, self._between))
        try:
            answer = _listing(_parsed(done[0], "squeue --json"), "jobs", wanted=bool(spare["jobs"]))
            _fill(answer, spare, self._buffers)
            if old and any(node.gres.get("gpu", 0) for node in nodes):
                self._per_gpu.tell(answer)
            jobs, bad_jobs = jobs_of(answer, nodes)
        except ValueError as error:
            jobs, bad_jobs = jobs_of(spare, nodes)
            bad_jobs.insert(0, f"squeue --json: {error}; its plain listing was read in its place")
        licences, bad_licences = licences_in(told[0])
        partitions, bad_partitions = partitions_in(told[1])
        reservations, bad_reservations = reservations_in(told[2])
        self._digest, self._nodes = digest, tuple(node.name for node in nodes)
        hidden = hidden_in(partitions, self._nodes)
        bad = (*bad_nodes, *bad_jobs, *bad_licences, *bad_partitions, *bad_reservations, *hidden)
        bad = (*bad, self._unknown) if self._unknown else bad
        known = self._accounting, self._used
        return Reading(at_s, tuple(nodes), tuple(jobs), licences, partitions, reservations, bad, *known)

    def booted_s(self) -> int:
        """When the controller was started that answers now, s since 1970; 0: it does not say that."""
        match = re.search(r"^BOOT_TIME\s*=\s*(\d{1,18})\s*$", printed(self._config(), "scontrol"), re.MULTILINE)
        return int(match[1]) if match else 0

    def _show(self, *what: str) -> str:
        command = [self._scontrol, "--all", "-o", "show", *what]
        return printed(run_all([command], self._environment, self._timeout_s)[0], "scontrol")

    def _config(self) -> Done:
        return run_all([[self._scontrol, "show", "config"]], self._environment, self._timeout_s)[0]

    def _ask_accounting(self, at_s: float) -> None:
        """Ask for accounts and limits, once in a while; those that were known go on where there is no answer."""
        if at_s - self._asked_s < ACCOUNTING_S:
            return
        self._asked_s, self._unknown, timeout_s = at_s, "", min(self._timeout_s, MOST_WAIT_S)
        shown = self._config()
        try:
            scheduler = scheduler_of(config := printed(shown, "scontrol"))
            self._whole_cores = scheduler.whole_cores
            self._buffers = re.search(r"^BurstBufferType\s*=\s*burst_buffer/(?!none)", config, re.MULTILINE) is not None
            self._accounting = read_accounting(scheduler, timeout_s, self._environment)
            self._used = read_used(scheduler, timeout_s, self._environment)
        except (UnreachableError, InputError) as error:
            self._asked_s, self._unknown = at_s + 9 * ACCOUNTING_S, f"accounts and their limits: {error}"

    def carry_out(self, orders: Sequence[Order]) -> list[OrderAnswer]:
        """Give orders, one ``scontrol`` for many of them.

        A :class:`Place` or :class:`AskAgain` of a job that holds nodes is not given: Slurm would take those nodes away
        from it that are not named. Between looking and placing are some milliseconds, in which only another
        operator could start a job that is held.
        """
        words = [commands_of(order, self._nodes) for order in orders]
        problems: list[str] = [""] * len(orders)
        to_give = list(range(len(orders)))
        if any(isinstance(order, Place | AskAgain) for order in orders):
            settled = self._settled(orders)
            for place, problem in settled.items():
                problems[place] = problem
            to_give = [place for place in to_give if place not in settled]
        for first in range(0, len(to_give), BATCH):
            some = [(place, command) for place in to_give[first : first + BATCH] for command in words[place]]
            found = self._give([command for _, command in some], [orders[place].job.id for place, _ in some])
            for (place, _), problem in zip(some, found, strict=True):
                problems[place] = problems[place] or problem
        return [OrderAnswer(order, problem) for order, problem in zip(orders, problems, strict=True)]

    def _look(self) -> tuple[bytes, bytes, list[str]]:
        """A digest of short listings, the one of the jobs, and what was printed of each of :data:`SHOWN`."""
        between = self._between
        commands = [
            jobs_command(self._squeue, JOB_FIELDS, between),
            excluded_command(self._squeue),
            nodes_command(self._sinfo, between),
            *([self._scontrol, "--all", "-o", "show", name] for name in SHOWN),
        ]
        jobs, excluded, nodes, *others = run_all(commands, self._environment, self._timeout_s)
        for done, name in ((jobs, "squeue"), (excluded, "squeue"), (nodes, "sinfo")):
            printed(done, name)
        shown = [printed(done, "scontrol") for done in others]
        # sinfo goes through the partitions in any order.
        by_name = sorted(map(tuple, map(dict.values, _rows(nodes.out, NODE_FIELDS, between))))
        digest = hashlib.blake2b(jobs.out)
        for part in (excluded.out, repr(by_name).encode(), *(done.out for done in others)):
            digest.update(b"\0" + part)
        return digest.digest(), jobs.out, shown

    def _version(self) -> int:
        said = printed(run_all([[self._scontrol, "--version"]], self._environment, self._timeout_s)[0], "scontrol")
        match = re.search(r"([0-9]{2})\.[0-9]{2}", said)
        if match is None:
            raise UnreachableError(f"scontrol --version printed {said[:60]!r}, and no version")
        return int(match[1])

    def _settled(self, orders: Sequence[Order]) -> dict[int, str]:
        """Places among orders that must not be given: place in the list → ``""`` (it is so already), or why not."""
        between = separator()
        done = run_all([jobs_command(self._squeue, PLACED_FIELDS, between)], self._environment, self._timeout_s)[0]
        printed(done, "squeue")
        running = {}
        for row in _rows(done.out, PLACED_FIELDS, between):
            if row["state"] in HOLDING:
                running[row["jobid"]] = running[row["jobarrayid"]] = row
        settled = {}
        for place, order in enumerate(orders):
            if isinstance(order, Place | AskAgain) and str(order.job) in running:
                nodes = running[str(order.job)]["nodelist"]
                settled[place] = (
                    ""
                    if isinstance(order, AskAgain) or set(_hosts(nodes)) == set(order.nodes)
                    else f"it holds {nodes[:80]} already"
                )
        return settled

    def _give(self, commands: Sequence[Sequence[str]], jobs: Sequence[int]) -> list[str]:
        """What is complained of each command; those of a job are given in their order."""
        marks = [f"{separator()}{place}" for place in range(len(commands))]
        lanes = LANES if len(commands) >= SIDE_BY_SIDE else 1
        shares = [[place for place, job in enumerate(jobs) if job % lanes == lane] for lane in range(lanes)]
        # A word that scontrol does not know makes it complain of that word, between its complaints of the others.
        given = ["".join(f"{' '.join(commands[place])}\n{marks[place]}\n" for place in share) for share in shares]
        limit_s = self._timeout_s + ORDER_S * len(commands)
        every = run_all([[self._scontrol]] * lanes, self._environment, limit_s, [text.encode() for text in given])
        answers = [""] * len(commands)
        for share, done in zip(shares, every, strict=True):
            problems = attributed(done.err.decode("utf-8", "replace"), [marks[place] for place in share])
            for place, said in zip(share, problems, strict=True):
                answers[place] = self._alone(commands[place]) if said is None else said
        for said in answers:
            if is_unreachable(said):
                raise UnreachableError(f"scontrol: {said}")
        return answers

    def _alone(self, words: Sequence[str]) -> str:
        done = run_all([[self._scontrol, *words]], self._environment, self._timeout_s)[0]
        said = problem_in(done.err.decode("utf-8", "replace").splitlines())
        return (said or f"scontrol ended with {done.code}") if done.code else ""


def _rows(listed: bytes, fields: Sequence[str], between: str) -> list[dict[str, str]]:
    try:
        return rows(listed, fields, between)
    except ValueError as error:
        raise UnreachableError(f"squeue or sinfo printed {error}") from error


def _parsed(done: Done, what: str) -> dict[str, Any]:
    """JSON that a command printed; bytes that are no UTF-8, which 22.05 passes on from users, are replaced."""
    try:
        answer = json.loads(printed(done, what), strict=False)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not isinstance(answer, dict):
        raise ValueError("JSON that is no table")
    return answer


def _listing(answer: dict[str, Any], name: str, wanted: bool) -> dict[str, Any]:
    """An answer that is not empty only because something failed: such a command says so there, and ends with 0."""
    if wanted and not answer.get(name) and (said := _error_in(answer)):
        raise UnreachableError(f"Slurm told of no {name}: {said}")
    return answer


def _error_in(answer: Mapping[str, Any]) -> str:
    """The first of an answer's errors, in printable characters; ``""``: there is none. 22.05 then claims success."""
    errors = answer.get("errors")
    if not isinstance(errors, list) or not errors:
        return ""
    said = str(errors[0])
    if isinstance(errors[0], Mapping):
        said = " ".join(str(errors[0][key]) for key in ("error", "description") if errors[0].get(key))
    return "".join(letter if letter.isprintable() else "?" for letter in (said or "an error")[:200])


def _fill(answer: dict[str, Any], spare: Mapping[str, list[dict[str, Any]]], buffers: bool) -> None:
    """Give jobs what their version's JSON leaves out: 22.05 never says how many CPUs a task has.

    Burst buffers that jobs ask for say nothing where there are none.
    """
    known = {row["job_id"]: row for row in spare["jobs"]}
    jobs = answer.get("jobs")
    for job in jobs if isinstance(jobs, list) else ():
        if isinstance(job, dict) and not buffers:
            job["burst_buffer"] = ""
        if isinstance(job, dict) and job.get("cpus_per_task") is None:
            row = known.get(str(job.get("job_id")))
            if row is not None:
                job["cpus_per_task"] = row["cpus_per_task"]


def _set_aside_mb(shown: str) -> dict[str, int]:
    found = {}
    for record in records(shown, "NodeName"):
        aside = record.fields.get("MemSpecLimit", "")
        if aside.isascii() and aside.isdigit():
            found[record.fields["NodeName"]] = int(aside[:12])
    return found


def _hosts(listed: str) -> list[str]:
    try:
        return expand(listed) if listed else []
    except ValueError:
        return []
