"""Every rule by which a reader, filter or generator drops or changes a job, in one sentence each.

The names are the keys of ``Intake.dropped``, ``Intake.changed`` and ``Intake.ignored``; ``docs/file-formats.md``,
``unrack trace info`` and the reports print the sentences from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unrack.facts import Fact, counted, some
from unrack.units import SECOND_US, seconds_text

if TYPE_CHECKING:
    from unrack.workload.job import JobTable, Workload

ASSUMED = ("request from run", "limit not known", "limit of the partition", "name cut off", "dependency not there")
"""Rules that change what jobs ask for in a way that policies notice."""
LEFT_OUT = ("bad row",)
"""Rules by which jobs are lost that the file has."""
RULES: dict[str, str] = {
    # dropped
    "partial execution": "Lines with status 2, 3 or 4 are parts of a job that another line sums up; they are dropped.",
    "submit missing": "A job without a submission time, or with a negative one, is dropped.",
    "cancelled before start": "A job with status 5 and no run time, or with no run time and no processors, never ran; "
    "it is dropped.",
    "run missing": "A job without a run time, or with a negative one, is dropped.",
    "size missing": "A job that gives neither requested nor allocated processors (or asks for 0 tasks or cores) is "
    "dropped.",
    "step": "A line about a step of a job (101.batch, 101.extern, 101.0) is no job of its own; what it used of memory "
    "counts for its job.",
    "run before a requeue": "Of several lines about one job, as after a requeue, the last counts.",
    "still waiting": "A job that was still waiting when the log was written has no run time; it is dropped (unfinished "
    "= drop).",
    "still running": "A job that was still running when the log was written has no end; it is dropped (unfinished = "
    "drop; now keeps it where it runs).",
    "never started": "A job that ended before it started, as one that was cancelled while it waited, is dropped.",
    "already over": "A job that is over is no part of a running system; it is dropped.",
    "held back": "A job that is held, or waits for a gate, or for jobs or a time that the list does not say, is left "
    "out (held = drop).",
    "no job of its own": "A record that only goes with others (queued, deleted, a licence), or does not say how a job "
    "ended, is no job.",
    "bad row": "A row that cannot be read is left out; with strict = true (--strict) the file is refused.",
    # changed
    "size from allocation": "Where the requested number of processors is missing, the allocated number is used.",
    "request from run": "Where the requested time is missing or 0, the job is taken to have asked for its run time: "
    "policies that look at requests know it exactly.",
    "run cut at request": "A run longer than the requested time ends at the requested time, as batch systems kill it "
    "there (overrun = truncate).",
    "request raised to run": "A requested time shorter than the run is raised to the run time (overrun = extend).",
    "run beyond request": "A run longer than the requested time is kept as it is (overrun = keep).",
    "id missing": "A job without an id gets the number of its row among the jobs, counted from 1.",
    "id repeated": "Jobs that share an id are all kept; their order in the file breaks ties.",
    "out of order": "Jobs that do not follow their predecessor in order of (submission, id) are sorted into place.",
    "extra fields": "What a line holds beyond its 18 fields is not read.",
    "size from node spec": "The node specification N:ppn=P gives N tasks of P cores in place of the number of "
    "processors (node_spec = true).",
    "size rounded up": "Processors that do not fill the last task of procs_per_task cores are rounded up to a whole "
    "task.",
    "size in whole nodes": "Processors that do not fill the last node are rounded up to a whole node (cores_per_node).",
    "time of the nearest size": "Where an application was not measured on as many GPUs as a job has, its time on the "
    "nearest number of GPUs is used.",
    "other clusters": "Jobs of other virtual clusters than the one asked for are left out (cluster).",
    "other roles": "Instances of other roles than those asked for are left out (roles).",
    "ends before it begins": "An instance that is deleted, or of which the window ends, before it is created and "
    "scheduled is dropped.",
    "joined to instances with GPUs": "An instance on CPU nodes is no job: the instances with GPUs of its app have its "
    "cores and memory (monolithic = true).",
    "from before the window": "An instance without a creation time was there before; it is submitted at 0.",
    "until the end of the window": "An instance without a deletion time runs until the end of the window (until).",
    "split over servers": "An instance that needs more cores than a server has becomes several jobs, each with its "
    "GPUs (server_cores).",
    "run until the limit": "A job that was still waiting or running is taken to run for its time limit (unfinished = "
    "limit).",
    "nodes not said": "Where the number of nodes is not said, a job has a task for each core, or one for all where it "
    "has GPUs.",
    "cores rounded up": "Cores that do not come out even over the tasks of a job are rounded up on each.",
    "a task a GPU": "Where GPUs do not come out even over the nodes of a job, it has a task for each GPU.",
    "devices rounded up": "Devices that do not come out even over the tasks of a job are rounded up on each.",
    "licences ignored": "Licences are not asked for (licences = false).",
    "member of an array": "Each member of an array that is listed in one line becomes a job.",
    "parts not equal": "The parts of a job that asks for unequal ones each count as the largest of them.",
    "name cut off": "A name that was cut off in an aligned table is kept as it is.",
    "header repeated": "Lines that repeat the header are passed over.",
    "bytes that are no text": "Bytes that are not UTF-8 are replaced by a sign that says so.",
    "holds from the start": "A job that runs when the system is looked at is there from the start, for the time it "
    "has left.",
    "place not known": "A job that runs, and of which nothing says on which nodes or how its tasks are shared out over "
    "them, is placed as if it came now.",
    "on a node not in use": "A pod that runs on a node which the same list has as cordoned, not ready or of the "
    "control plane is left out, as the node is.",
    "being ended": "A job that is being ended (COMPLETING, or a pod with a time of deletion) has its place for 1 s "
    "more, or until then.",
    "limit of the partition": "A job without a time limit of its own has that of its partition (limits).",
    "limit not known": "A job without a time limit is taken to ask for as long as the option unlimited says; if it ran "
    "longer, it still does.",
    "past its limit": "A job that runs though its time is over is taken to run for one second more.",
    "dependency not there": "What a job is to wait for and the list does not have, as it was cut, is taken to be over: "
    "it is left out of the dependency.",
    "preceding job not followed": "A job that its log did not submit its think time (to 2 s) after the end of the job "
    "before it (fields 17 and 18) is not tied to that job.",
    # ignored
    "dependency ignored": "A part of a dependency that is neither after, afterok, afternotok, afterany nor singleton "
    "(expand, on, before …), or singleton where jobs have no names (job_name), is not honoured.",
    "place asked for": "Features of nodes, and nodes wanted or not wanted by name (columns constraint, req_nodes, "
    "exc_nodes), are honoured on a cluster with a table site in its file, and on no other.",
    "place ignored": "Switches, networks, contiguous nodes, selectors, affinities and spreads of pods, and nodes by "
    "resources of the site that jobs ask for are not honoured.",
    "model asked for": "Models of GPUs that a job asks for are not honoured: it is given any GPU.",
    "queue asked for": "Queues and partitions are honoured, as the columns partition or queue have them, on a cluster "
    "with a table site in its file; on any other a job may run on any node, without the limits and the priority of its "
    "queue.",
    "quality of service asked for": "Qualities of service (column qos) are honoured on a cluster with a "
    "table site in its file; on any other all jobs are treated alike.",
    "reservation ignored": "Reservations (column reservation) are honoured on a cluster with reservations in its site; "
    "on any other a job that has one may run anywhere, and others on its nodes.",
    "begin ignored": "A column called begin may say when a job began, or when it may: it is not honoured unless it is "
    "said to be the latter (columns = { begin_s = … }).",
    "whole nodes ignored": "A job that is to have its nodes to itself may share them (unless the policy has nodes = "
    "whole).",
    "rank ignored": "A class of priority that comes without the priority itself is not honoured, and a nice value "
    "(column nice) only by policies that look at it.",
    "components missing": "Of a heterogeneous job the file does not have all components, submitted at one time: those "
    "that it has start together, and one that is alone is a job of its own.",
    "other devices": "Resources that are neither cores, memory nor GPUs are not asked for, unless an option (gres, or "
    "columns of a table) says as what.",
    "memory ignored": "The log gives memory, and it is not used unless the option memory says how.",
    "disk ignored": "The list says what instances ask of a disk, and it is not asked for unless the option disk says "
    "how.",
    # filters
    "outside window": "Jobs submitted outside the time window are left out.",
    "after the first": "Jobs after the first n are left out.",
    "other users": "Jobs of users that were not asked for are left out.",
    "other sizes": "Jobs with fewer or more cores than asked for are left out.",
    "drawn again": "Jobs are drawn from the list with replacement until they ask for so much; some come several times, "
    "some never.",
    "arrivals by sessions": "The job comes when another has ended and its user has thought, as long as in the log.",
    "arrivals scaled": "The times between submissions are divided by the load factor; run times stay.",
    "arrivals jittered": "Each submission is moved by a time drawn evenly up to a limit either way; run times stay.",
    "times rebased": "All submissions are moved together so that the first is at the time asked for.",
}
BY_SITES = {
    "queue asked for": "partitions", "quality of service asked for": "qos", "reservation ignored": "reservations",
    "place asked for": "",
}  # fmt: skip
"""Rules under ``ignored`` that a cluster with a table ``site`` heeds, and the key that the table has to have for it."""


def heeded(rule: str, site: Mapping[str, Any] | None) -> bool:
    """Whether a cluster honours what jobs ask for by a rule under ``ignored``; ``site``: its table, if it has one."""
    return site is not None and rule in BY_SITES and (not BY_SITES[rule] or bool(site.get(BY_SITES[rule])))


def intake_notes(name: str, intake: Mapping[str, Any], site: Mapping[str, Any] | None = None) -> list[str]:
    """A sentence for each rule that a user has to know before the results.

    Parameters
    ----------
    name
        Of the workload.
    intake
        Its :class:`unrack.workload.formats.rules.Intake`, as a table; one that an earlier version wrote may lack keys.
    site
        The table ``site`` of the cluster, if it has one: what that honours is no news.

    Examples
    --------
    >>> intake_notes("log", {"ignored": {"disk ignored": 2}, "examples": {"disk ignored": "job 7: disk 9"}})[0][:62]
    'log: disk ignored, 2 jobs, such as job 7: disk 9. The list say'
    """
    examples = intake.get("examples") or {}
    found = []
    for key, rules, noun in (("dropped", LEFT_OUT, "row"), ("ignored", None, "job"), ("changed", ASSUMED, "job")):
        for rule, count in (intake.get(key) or {}).items():
            if (rules is None or rule in rules) and not heeded(rule, site):
                example = f", such as {examples[rule]}" if rule in examples else ""
                found.append(f"{name}: {rule}, {counted(count, noun)}{example}. {RULES.get(rule, '')}".rstrip())
    return found


@dataclass(frozen=True)
class Intake:
    """What a reader found in its input, and what it did about it.

    Attributes
    ----------
    source
        The file or generator.
    format
        The name of the reader.
    read, kept
        How many job lines were there, and how many became jobs.
    dropped, changed
        Rule → how many lines it dropped or changed. The rules are described in ``RULES`` of
        ``workload/formats/rules.py``.
    missing
        Field → in how many of the kept jobs the input does not give it.
    header
        What the input says about itself (for SWF: the header comments).
    ignored
        Rule → how many of the kept jobs ask for what the rule names, which nothing honours.
    examples
        Rule → the first case of it, in words; of the rules under ``ignored``, and of rows that cannot be read.
    """

    source: str
    format: str
    read: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    header: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)


def job_facts(jobs: JobTable) -> list[Fact]:
    """How many jobs over what time, and what they ask for."""
    found = [Fact("jobs", f"{len(jobs):,}", counted(len(jobs), "job"))]
    if not len(jobs):
        return found
    span = seconds_text(int(jobs.submit_us[-1] - jobs.submit_us[0]) / SECOND_US)
    found.append(Fact("submitted over", span, f"submitted over {span}"))
    hours = float((jobs.cores * (jobs.work_us / SECOND_US)).sum()) / 3600
    words = f"{hours:,.0f} core-hours" if hours >= 10 else f"{hours:.3g} core-hours"
    found.append(Fact("work", words, words))
    found.append(Fact("largest job", counted(int(jobs.cores.max()), "core")))
    if jobs.user_names:
        found.append(Fact("users", f"{len(jobs.user_names):,}"))
    if jobs.app_names:
        found.append(Fact("applications", some(list(jobs.app_names))))
    if jobs.devices:
        kinds = some(list(dict.fromkeys(kind for kind, _ in jobs.devices)))
        found.append(Fact("devices asked for", kinds, f"asks for {kinds}"))
    due = int((jobs.deadline_us >= 0).sum())
    if due:
        found.append(Fact("deadlines", counted(due, "job"), f"{due:,} with deadlines"))
    return found


def workload_facts(workload: Workload) -> list[Fact]:
    """Those of its jobs, and where they came from."""
    intake = workload.intake
    lost = intake.read - intake.kept
    dropped = [Fact("dropped", f"{lost:,} of {counted(intake.read, 'line')}", f"{lost:,} dropped")] if lost > 0 else []
    source = [Fact("source", intake.source)] if intake.source else []
    return [*job_facts(workload.jobs), *dropped, *source]
